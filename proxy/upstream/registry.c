#include "registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"

#define FIRST_N_BUCKETS 64
#define DEFAULT_MAX_CONNECTIONS 1000 /* limits.upstream_connections, until a config says otherwise */
#define SWEEP_MS (ORIGIN_IDLE_MS / 4)
/* An origin whose breaker is not closed is remembered for longer, or a pause would be as good as a recovery. */
#define TRIPPED_IDLE_MS (ORIGIN_IDLE_MS * 10)

/* --- the table ----------------------------------------------------------------------------------------------- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	do
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	while (*text++);
	return hash;
}

static uint64_t hash_key(const struct registry *registry, const char *name, bool is_tls, const char *host,
			 uint16_t port)
{
	uint64_t hash = hash_text(hash_text(registry->hash_seed, name), host);
	hash = (hash ^ (port * 2u + is_tls)) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 32);
}

static struct list *bucket_of(const struct registry *registry, const char *name, bool is_tls, const char *host,
			      uint16_t port)
{
	return &registry->buckets[hash_key(registry, name, is_tls, host, port) & (registry->n_buckets - 1)];
}

static struct list *buckets_new(size_t n)
{
	struct list *buckets = xcalloc(n, sizeof(*buckets));
	for (size_t i = 0; i < n; i++)
		list_init(&buckets[i]);
	return buckets;
}

static void link_origin(struct registry *registry, struct origin *origin)
{
	list_prepend(bucket_of(registry, origin->upstream_name, origin->is_tls, origin->host, origin->port), &origin->link);
}

static void grow(struct registry *registry)
{
	struct list *old = registry->buckets;
	size_t n_old = registry->n_buckets;
	registry->n_buckets *= 2;
	registry->buckets = buckets_new(registry->n_buckets);
	for (size_t i = 0; i < n_old; i++) {
		LIST_EACH_SAFE(link, after, &old[i]) {
			list_remove(link);
			link_origin(registry, LIST_ENTRY_OF(link, struct origin, link));
		}
	}
	free(old);
}

void registry_unlink(struct origin *origin)
{
	struct registry *registry = origin->registry;
	list_remove(&origin->link);
	list_append(&registry->retired, &origin->link);
	registry->n_origins--;
}

/* --- forgetting ---------------------------------------------------------------------------------------------- */

static bool is_forgettable(const struct origin *origin, struct mono now)
{
	int64_t keep_ms = origin->breaker.state == BREAKER_CLOSED ? ORIGIN_IDLE_MS : TRIPPED_IDLE_MS;
	return origin_n_connections(origin) == 0 && mono_reached(mono_add_ms(origin->last_used, keep_ms), now) &&
	       mono_reached(origin->quiet_until, now);
}

static void sweep(void *owner)
{
	struct registry *registry = owner;
	struct mono now = clock_now();
	LIST_EACH_SAFE(link, after, &registry->unused) {
		struct origin *origin = LIST_ENTRY_OF(link, struct origin, unused_link);
		if (!mono_reached(mono_add_ms(origin->last_used, ORIGIN_IDLE_MS), now))
			break; /* and so all behind it */
		if (is_forgettable(origin, now))
			origin_retire(origin);
	}
	timer_set(&registry->sweep_timer, list_is_empty(&registry->unused) ? MONO_NEVER : mono_add_ms(now, SWEEP_MS));
}

void registry_note_unused(struct origin *origin)
{
	struct registry *registry = origin->registry;
	list_append(&registry->unused, &origin->unused_link);
	if (mono_is_never(registry->sweep_timer.due))
		timer_set(&registry->sweep_timer, mono_add_ms(origin->last_used, ORIGIN_IDLE_MS));
}

static bool make_room(struct registry *registry)
{
	if (registry->n_origins < REGISTRY_MAX_ORIGINS)
		return true;
	if (list_is_empty(&registry->unused))
		return false;
	origin_retire(LIST_ENTRY_OF(registry->unused.next, struct origin, unused_link));
	return true;
}

/* --- get or make --------------------------------------------------------------------------------------------- */

/* tls NULL: those that the definition is known to fit, without a look at its TLS rule. */
static struct origin *find(const struct registry *registry, const struct origin_key *key, const struct tls_context *tls)
{
	const struct upstream_def *upstream = key->upstream;
	struct list *bucket = bucket_of(registry, upstream->name, key->is_tls, key->host, key->port);
	LIST_EACH(link, bucket) {
		struct origin *origin = LIST_ENTRY_OF(link, struct origin, link);
		if (origin->port != key->port || origin->is_tls != key->is_tls || strcmp(origin->host, key->host) != 0 ||
		    strcmp(origin->upstream_name, upstream->name) != 0)
			continue;
		if (origin->known == upstream || !key->is_tls || (tls && origin_has_identity(origin, upstream, tls)))
			return origin;
	}
	return NULL;
}

static struct origin *make(struct registry *registry, const struct origin_key *key, struct tls_context *tls)
{
	if (registry->n_origins >= registry->n_buckets)
		grow(registry);
	struct origin *origin = origin_new(registry, key, tls);
	link_origin(registry, origin);
	registry->n_origins++;
	return origin;
}

static struct origin *find_or_make(struct registry *registry, const struct origin_key *key, enum outcome *refused,
				   char *error, size_t error_capacity)
{
	struct origin *origin = find(registry, key, NULL);
	if (origin)
		return origin;
	struct tls_context *tls = NULL;
	if (key->is_tls) {
		*refused = OUTCOME_TLS_FAILURE;
		tls = tls_cache_get(registry, key->upstream, error, error_capacity);
		if (!tls)
			return NULL;
		origin = find(registry, key, tls);
		if (origin)
			return origin;
	}
	if (!make_room(registry)) {
		*refused = OUTCOME_MAX_PENDING;
		snprintf(error, error_capacity, "requests to %d different origins are under way already", REGISTRY_MAX_ORIGINS);
		return NULL;
	}
	return make(registry, key, tls);
}

struct origin *registry_get(struct registry *registry, const struct upstream_def *upstream, bool is_tls,
			    const char *host, uint16_t port, enum outcome *refused, char *error, size_t error_capacity)
{
	struct origin_key key = { upstream, is_tls, host, port };
	struct origin *origin = find_or_make(registry, &key, refused, error, error_capacity);
	return origin ? origin_ref(origin) : NULL;
}

/* --- as a whole ---------------------------------------------------------------------------------------------- */

struct registry *registry_new(struct loop *loop, struct resolver *resolver)
{
	struct registry *registry = xcalloc(1, sizeof(*registry));
	registry->loop = loop;
	registry->resolver = resolver;
	registry->n_buckets = FIRST_N_BUCKETS;
	registry->buckets = buckets_new(registry->n_buckets);
	registry->hash_seed = rng_u64(&loop->rng);
	registry->max_connections = DEFAULT_MAX_CONNECTIONS;
	list_init(&registry->retired);
	list_init(&registry->unused);
	list_init(&registry->idle);
	list_init(&registry->tls_contexts);
	share_init(registry);
	timer_init(&registry->sweep_timer, loop, sweep, registry);
	return registry;
}

void registry_free(struct registry **registry_pointer)
{
	struct registry *registry = *registry_pointer;
	if (!registry)
		return;
	*registry_pointer = NULL;
	for (size_t i = 0; i < registry->n_buckets; i++) {
		LIST_EACH_SAFE(link, after, &registry->buckets[i])
			origin_retire(LIST_ENTRY_OF(link, struct origin, link));
	}
	LIST_EACH_SAFE(link, after, &registry->retired)
		origin_free_now(LIST_ENTRY_OF(link, struct origin, link));
	tls_cache_clear(registry);
	deferred_cancel(&registry->serve_starved);
	timer_clear(&registry->sweep_timer);
	free(registry->buckets);
	free(registry);
}

void registry_close_idle(struct registry *registry)
{
	while (!list_is_empty(&registry->idle))
		conn_close(LIST_ENTRY_OF(registry->idle.next, struct conn, idle_link), false);
}

void registry_each(const struct registry *registry, origin_visit_fn visit, void *owner)
{
	for (size_t i = 0; i < registry->n_buckets; i++) {
		LIST_EACH(link, &registry->buckets[i])
			visit(owner, LIST_ENTRY_OF(link, struct origin, link));
	}
	LIST_EACH(link, &registry->retired)
		visit(owner, LIST_ENTRY_OF(link, struct origin, link));
}

size_t registry_n_connections(const struct registry *registry)
{
	return registry->n_connections;
}
