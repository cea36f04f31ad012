#include "resolve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "hosts.h"
#include "lookup.h"
#include "name_cache.h"
#include "special_name.h"

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
	struct resolve_answer answer = { 0 };
	if (special_name_find(name, &answer.status, &answer.addresses) || answer_from_cache(resolver, name, &answer))
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
