#include "resolve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "hosts.h"
#include "lookup.h"
#include "name_cache.h"

#define HOSTS_PATH "/etc/hosts"
#define RESOLV_CONF_PATH "/etc/resolv.conf"
/* The hosts file is read again after so long. */
#define HOSTS_TTL_MS 5000
#define MAX_WAITERS 65536
#define MAX_LOOKUPS 4096

struct resolver {
	struct loop *loop;
	struct dns_rule rule; /* .servers: our own copy */
	struct dns_channel *channel;
	struct name_cache *cache;
	struct list lookups;
	struct lookup *finishing; /* its waiters are being told */
	size_t n_lookups, n_waiters;
	struct timespec resolv_conf_time;
	ino_t resolv_conf_inode;
};

struct resolve_query {
	struct list link; /* lookup->waiters; on none while its callback runs */
	struct resolver *resolver;
	resolve_done_fn done;
	void *owner;
	bool is_running;
};

static void servers_copy(struct string_list *to, const struct string_list *from)
{
	const char **items = xcalloc(from->n + 1, sizeof(*items));
	for (size_t i = 0; i < from->n; i++)
		items[i] = xstrdup(from->items[i]);
	to->items = items;
	to->n = from->n;
}

static void servers_free(struct string_list *servers)
{
	for (size_t i = 0; i < servers->n; i++)
		free((char *)servers->items[i]);
	free((void *)servers->items);
	servers->items = NULL;
	servers->n = 0;
}

/* True when resolv.conf is another than when this was last asked. */
static bool resolv_conf_changed(struct resolver *resolver)
{
	struct stat now;
	if (stat(RESOLV_CONF_PATH, &now) != 0)
		return false; /* perhaps being replaced: what is known still serves */
	if (now.st_ino == resolver->resolv_conf_inode && now.st_mtim.tv_sec == resolver->resolv_conf_time.tv_sec &&
	    now.st_mtim.tv_nsec == resolver->resolv_conf_time.tv_nsec)
		return false;
	resolver->resolv_conf_inode = now.st_ino;
	resolver->resolv_conf_time = now.st_mtim;
	return true;
}

struct resolver *resolver_new(struct loop *loop, const struct dns_rule *rule)
{
	struct resolver *resolver = xcalloc(1, sizeof(*resolver));
	resolver->loop = loop;
	resolver->rule = *rule;
	servers_copy(&resolver->rule.servers, &rule->servers);
	list_init(&resolver->lookups);
	resolver->cache = name_cache_new(&loop->rng);
	resolv_conf_changed(resolver);
	resolver->channel = dns_channel_new(loop, &resolver->rule);
	return resolver;
}

/* What is being looked up is asked for anew at the new servers. */
static void channel_rebuild(struct resolver *resolver)
{
	struct dns_channel *old = resolver->channel;
	LIST_EACH(link, &resolver->lookups)
		lookup_detach(LIST_ENTRY_OF(link, struct lookup, link));
	resolver->channel = dns_channel_new(resolver->loop, &resolver->rule);
	LIST_EACH(link, &resolver->lookups)
		lookup_restart(LIST_ENTRY_OF(link, struct lookup, link), resolver->channel);
	if (dns_channel_signature(old) != dns_channel_signature(resolver->channel))
		name_cache_empty(resolver->cache);
	dns_channel_free(&old);
}

void resolver_configure(struct resolver *resolver, const struct dns_rule *rule)
{
	struct string_list servers;
	servers_copy(&servers, &rule->servers);
	servers_free(&resolver->rule.servers);
	resolver->rule = *rule;
	resolver->rule.servers = servers;
	resolv_conf_changed(resolver);
	channel_rebuild(resolver);
}

static void drop_waiters(struct resolver *resolver, struct lookup *lookup)
{
	while (!list_is_empty(&lookup->waiters)) {
		struct resolve_query *query = LIST_ENTRY_OF(lookup->waiters.next, struct resolve_query, link);
		list_remove(&query->link);
		resolver->n_waiters--;
		free(query);
	}
}

void resolver_free(struct resolver **resolver)
{
	struct resolver *gone = *resolver;
	if (gone == NULL)
		return;
	*resolver = NULL;
	if (gone->finishing != NULL) {
		drop_waiters(gone, gone->finishing);
		gone->finishing->owner = NULL;
	}
	while (!list_is_empty(&gone->lookups)) {
		struct lookup *lookup = LIST_ENTRY_OF(gone->lookups.next, struct lookup, link);
		drop_waiters(gone, lookup);
		lookup_free(&lookup);
	}
	dns_channel_free(&gone->channel);
	name_cache_free(&gone->cache);
	servers_free(&gone->rule.servers);
	free(gone);
}

static void remember(struct resolver *resolver, const char *name, enum resolve_status status,
		     struct address_list *addresses)
{
	struct mono now = clock_now();
	if (status == RESOLVE_OK && mono_before(now, addresses->expires))
		name_cache_put(resolver->cache, name, addresses, addresses->expires);
	else if (status == RESOLVE_NO_NAME && resolver->rule.negative_ttl_ms > 0)
		name_cache_put(resolver->cache, name, NULL, mono_add_ms(now, resolver->rule.negative_ttl_ms));
}

/* Each waiter may cancel others, look up anew or free the resolver: so only the lookup itself is held on to. */
static void on_lookup_done(void *owner, struct lookup *lookup, enum resolve_status status,
			   struct address_list *addresses)
{
	struct resolver *resolver = owner;
	list_remove(&lookup->link);
	resolver->n_lookups--;
	remember(resolver, lookup->name, status, addresses);
	resolver->finishing = lookup;
	while (!list_is_empty(&lookup->waiters)) {
		struct resolve_query *query = LIST_ENTRY_OF(lookup->waiters.next, struct resolve_query, link);
		list_remove(&query->link);
		resolver->n_waiters--;
		query->is_running = true;
		query->done(query->owner, status, addresses);
		free(query);
	}
	if (lookup->owner != NULL) /* nulled by resolver_free */
		resolver->finishing = NULL;
	lookup_free(&lookup);
}

static struct resolve_answer answer_with(enum resolve_status status, struct address_list *addresses)
{
	return (struct resolve_answer){ .status = status, .addresses = addresses };
}

/* RFC 6761 6.3: never asked for, always the loopback. */
static bool is_localhost(const char *host, size_t length)
{
	static const char name[] = "localhost";
	const size_t n = sizeof(name) - 1;
	if (length > 0 && host[length - 1] == '.')
		length--;
	return length >= n && memcmp(host + length - n, name, n) == 0 && (length == n || host[length - n - 1] == '.');
}

static struct address_list *loopback(void)
{
	struct address both[2];
	CHECK(address_parse("::1", &both[0]) && address_parse("127.0.0.1", &both[1]));
	return address_list_new(both, 2, MONO_NEVER);
}

static bool label_is_number(const char *label, size_t length)
{
	bool is_hex = length >= 2 && label[0] == '0' && (label[1] | 0x20) == 'x';
	for (size_t i = is_hex ? 2 : 0; i < length; i++) {
		char c = (char)(label[i] | 0x20);
		if (!(label[i] >= '0' && label[i] <= '9') && !(is_hex && c >= 'a' && c <= 'f'))
			return false;
	}
	return length > 0;
}

/*
 * Spellings of an IPv4 address that inet_aton would take (2130706433, 0x7f.1, 0177.0.0.1): not canonical, so no address
 * here, and no name that DNS could hold either (RFC 1123 2.1). Nobody gets round a host rule by them.
 */
static bool is_odd_number(const char *host)
{
	const char *label = host;
	for (;;) {
		size_t length = strcspn(label, ".");
		if (!label_is_number(label, length))
			return false;
		label += length;
		if (label[0] == '\0' || label[1] == '\0')
			return true;
		label++;
	}
}

/* Letters, digits, hyphens and, since they are met, underscores; no empty label. A dot at the end is fine. */
static bool is_name(const char *host, size_t length)
{
	if (length == 0 || length >= LOOKUP_MAX_NAME - 1 || host[0] == '.')
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = (char)(host[i] | 0x20);
		bool is_alphanumeric = (c >= 'a' && c <= 'z') || (host[i] >= '0' && host[i] <= '9');
		if (host[i] == '.' && host[i + 1] == '.')
			return false;
		if (!is_alphanumeric && host[i] != '-' && host[i] != '_' && host[i] != '.')
			return false;
	}
	return true;
}

/* RFC 7686: never asked for in DNS. */
static bool is_onion(const char *host, size_t length)
{
	if (length > 0 && host[length - 1] == '.')
		length--;
	return length >= 6 && memcmp(host + length - 6, ".onion", 6) == 0;
}

/* What is known without a server and without the cache. */
static bool answer_at_once(const char *host, struct resolve_answer *answer)
{
	struct address literal;
	size_t length = strlen(host);
	if (address_parse(host, &literal))
		*answer = answer_with(RESOLVE_OK, address_list_new(&literal, 1, MONO_NEVER));
	else if (!is_name(host, length) || is_odd_number(host) || is_onion(host, length))
		*answer = answer_with(RESOLVE_NO_NAME, NULL);
	else if (is_localhost(host, length))
		*answer = answer_with(RESOLVE_OK, loopback());
	else
		return false;
	return true;
}

static bool answer_from_cache(struct resolver *resolver, const char *name, struct resolve_answer *answer)
{
	struct address_list *addresses;
	if (!name_cache_get(resolver->cache, name, clock_now(), &addresses))
		return false;
	*answer = answer_with(addresses != NULL ? RESOLVE_OK : RESOLVE_NO_NAME, addresses);
	return true;
}

static bool answer_from_hosts(struct resolver *resolver, const char *name, struct resolve_answer *answer)
{
	struct address found[RESOLVE_MAX_ADDRESSES];
	size_t n = hosts_find(HOSTS_PATH, name, found, RESOLVE_MAX_ADDRESSES);
	if (n == 0)
		return false;
	int64_t max_ttl_ms = resolver->rule.max_ttl_ms;
	int64_t ttl_ms = max_ttl_ms >= 0 && max_ttl_ms < HOSTS_TTL_MS ? max_ttl_ms : HOSTS_TTL_MS;
	*answer = answer_with(RESOLVE_OK, address_list_new(found, n, mono_add_ms(clock_now(), ttl_ms)));
	remember(resolver, name, RESOLVE_OK, answer->addresses);
	return true;
}

static struct lookup *lookup_of(struct resolver *resolver, const char *name)
{
	LIST_EACH(link, &resolver->lookups) {
		struct lookup *lookup = LIST_ENTRY_OF(link, struct lookup, link);
		if (strcmp(lookup->name, name) == 0)
			return lookup;
	}
	return NULL;
}

static struct lookup *lookup_new(struct resolver *resolver, const char *name)
{
	if (resolver->n_lookups >= MAX_LOOKUPS)
		return NULL;
	if (resolver->rule.servers.n == 0 && resolv_conf_changed(resolver))
		channel_rebuild(resolver);
	struct lookup *lookup = lookup_start(resolver->loop, resolver->channel, name, &resolver->rule, on_lookup_done,
					     resolver);
	list_append(&resolver->lookups, &lookup->link);
	resolver->n_lookups++;
	return lookup;
}

static struct resolve_answer wait_for(struct resolver *resolver, struct lookup *lookup, resolve_done_fn done,
				      void *owner)
{
	struct resolve_query *query = xcalloc(1, sizeof(*query));
	query->resolver = resolver;
	query->done = done;
	query->owner = owner;
	list_init(&query->link);
	list_append(&lookup->waiters, &query->link);
	resolver->n_waiters++;
	return (struct resolve_answer){ .is_pending = true, .query = query };
}

struct resolve_answer resolver_lookup(struct resolver *resolver, const char *host, resolve_done_fn done, void *owner)
{
	char name[LOOKUP_MAX_NAME];
	size_t length = strnlen(host, sizeof(name));
	if (length >= sizeof(name))
		return answer_with(RESOLVE_NO_NAME, NULL);
	for (size_t i = 0; i <= length; i++)
		name[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] | 0x20 : host[i]);
	struct resolve_answer answer;
	if (answer_at_once(name, &answer) || answer_from_cache(resolver, name, &answer))
		return answer;
	struct lookup *lookup = lookup_of(resolver, name);
	if (lookup == NULL && answer_from_hosts(resolver, name, &answer))
		return answer;
	if (lookup == NULL)
		lookup = lookup_new(resolver, name);
	if (lookup == NULL || resolver->n_waiters >= MAX_WAITERS)
		return answer_with(RESOLVE_FAILED, NULL);
	return wait_for(resolver, lookup, done, owner);
}

void resolve_cancel(struct resolve_query **query)
{
	struct resolve_query *gone = *query;
	*query = NULL;
	if (gone == NULL || gone->is_running)
		return; /* running: its own callback is on the stack, which frees it */
	list_remove(&gone->link);
	gone->resolver->n_waiters--;
	free(gone); /* the lookup goes on: its answer is worth having in the cache */
}
