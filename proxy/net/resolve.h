/*
 * Names to addresses by c-ares: A and AAAA asked at the same time, all addresses kept, a TTL cache that honours
 * dns.max_ttl, a negative cache for "no such name" (failures and time-outs aren't cached), /etc/hosts, IP literals
 * (and only canonical ones: what inet_pton takes; decimal, octal and hex spellings are names and get no address).
 * Nothing here retries beyond what one query to the configured servers means within dns.timeout.
 */
#ifndef EVENKEEL_NET_RESOLVE_H
#define EVENKEEL_NET_RESOLVE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "../../config/policy.h"
#include "loop.h"

#define RESOLVE_MAX_ADDRESSES 32

enum resolve_status { RESOLVE_OK, RESOLVE_NO_NAME, RESOLVE_FAILED, RESOLVE_TIMEOUT };

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} socket; /* port 0 */
};

struct address_list { /* shared; the addresses never change */
	unsigned references;
	unsigned n_dials; /* so far: addresses of equal worth take turns at being the first */
	size_t n;
	struct mono expires;
	struct address items[];
};

struct address_list *address_list_ref(struct address_list *list);
void address_list_unref(struct address_list **list);
bool address_list_has(const struct address_list *list, const struct address *address);
bool address_equals(const struct address *a, const struct address *b);
size_t address_format(const struct address *address, char *out, size_t capacity); /* "192.0.2.1", "2001:db8::1" */
bool address_parse(const char *text, struct address *address); /* canonical literals only, as inet_pton; no zone */
int address_precedence(const struct address *address); /* RFC 6724 2.1; more is better */
/* One reference; copies at most RESOLVE_MAX_ADDRESSES items, doubles left out, in order of precedence. */
struct address_list *address_list_new(const struct address *items, size_t n, struct mono expires);

struct resolver;
struct resolve_query; /* one who waits; several may share a lookup */

/* addresses: NULL unless RESOLVE_OK; borrowed until the callback returns (ref it to keep). */
typedef void (*resolve_done_fn)(void *owner, enum resolve_status status, struct address_list *addresses);

struct resolver *resolver_new(struct loop *loop, const struct dns_rule *rule); /* copies what it needs */
/* Reload: servers and limits. The cache stays unless the servers changed; what is under way is asked for anew. */
void resolver_configure(struct resolver *resolver, const struct dns_rule *rule);
void resolver_free(struct resolver **resolver);

/*
 * Answers at once (from the cache, the hosts file, for literals; RESOLVE_FAILED when too many lookups are under way) or
 * starts a lookup: then query is set, and done is called exactly once from the loop, unless resolve_cancel comes first.
 * Once done is called the query is gone (resolve_cancel is still fine in there); so it is after resolver_free.
 */
struct resolve_answer {
	bool is_pending;
	enum resolve_status status;
	struct address_list *addresses; /* the caller's reference */
	struct resolve_query *query;    /* is_pending: to cancel */
};
struct resolve_answer resolver_lookup(struct resolver *resolver, const char *host, resolve_done_fn done, void *owner);
void resolve_cancel(struct resolve_query **query);

#endif
