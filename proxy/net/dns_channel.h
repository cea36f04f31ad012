/*
 * c-ares on the loop: one question (a name and a family) in, one answer out, over the servers of one configuration.
 * Private to this room; lookup.c and resolve.c build resolving on it.
 */
#ifndef EVENKEEL_NET_DNS_CHANNEL_H
#define EVENKEEL_NET_DNS_CHANNEL_H

#include "resolve.h"

enum dns_answer_status {
	DNS_ANSWER_ADDRESSES,
	DNS_ANSWER_NO_DATA, /* the name exists, but not with this family */
	DNS_ANSWER_NO_NAME, /* NXDOMAIN */
	DNS_ANSWER_FAILED,  /* SERVFAIL, REFUSED, nonsense, no server listening */
	DNS_ANSWER_TIMEOUT,
};

struct dns_answer {
	enum dns_answer_status status;
	size_t n;
	int64_t ttl_ms; /* the least of them, CNAMEs on the way included */
	struct address items[RESOLVE_MAX_ADDRESSES];
};

/* May come from within dns_channel_ask. Must not free the channel. */
typedef void (*dns_answer_fn)(void *owner, const struct dns_answer *answer);

struct dns_channel;
struct dns_question;

struct dns_channel *dns_channel_new(struct loop *loop, const struct dns_rule *rule);
void dns_channel_free(struct dns_channel **channel); /* open questions are forgotten, not answered */

/* Sets *question while the answer is out; it is nulled before the callback. name is taken as it is: no search list. */
void dns_channel_ask(struct dns_channel *channel, const char *name, int family, struct dns_question **question,
		     dns_answer_fn done, void *owner);
void dns_question_drop(struct dns_question **question); /* its answer will be ignored; NULL is fine */

/* Stands for servers and search list: equal when a changed configuration would ask the same. */
uint64_t dns_channel_signature(const struct dns_channel *channel);

/*
 * The i-th name to ask for host (resolv.conf's search and ndots): false when there is no such one; out is empty
 * when it would be too long for a name. A host that ends in a dot has itself only.
 */
bool dns_channel_candidate(const struct dns_channel *channel, const char *host, size_t i, char *out, size_t capacity);

#endif
