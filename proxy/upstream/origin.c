#include "origin.h"

#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "registry.h"

static int64_t *breaker_gauge(const struct origin *origin, enum breaker_state state)
{
	switch (state) {
	case BREAKER_OPEN: return &origin->metrics->breaker_open;
	case BREAKER_HALF_OPEN: return &origin->metrics->breaker_half_open;
	case BREAKER_CLOSED: break;
	}
	return &origin->metrics->breaker_closed;
}

void origin_sync_breaker(struct origin *origin)
{
	if (origin->is_retired || origin->breaker.state == origin->counted_breaker)
		return;
	--*breaker_gauge(origin, origin->counted_breaker);
	++*breaker_gauge(origin, origin->breaker.state);
	origin->counted_breaker = origin->breaker.state;
}

static void free_due(struct deferred *item)
{
	origin_free_now(LIST_ENTRY_OF(item, struct origin, free_later));
}

static void init_pool(struct origin *origin)
{
	list_init(&origin->idle);
	list_init(&origin->leased);
	list_init(&origin->connecting);
	list_init(&origin->waiters);
	timer_init(&origin->idle_timer, origin->registry->loop, idle_timer_due, origin);
	deferred_init(&origin->serve, pool_serve_due);
	deferred_init(&origin->free_later, free_due);
}

struct origin *origin_new(struct registry *registry, const struct origin_key *key, struct tls_context *tls)
{
	const struct upstream_def *upstream = key->upstream;
	struct origin *origin = xcalloc(1, sizeof(*origin));
	list_init(&origin->link);
	list_init(&origin->unused_link);
	list_init(&origin->starved_link);
	origin->registry = registry;
	origin->upstream_name = xstrdup(upstream->name);
	origin->host = xstrdup(key->host);
	origin->port = key->port;
	origin->is_tls = key->is_tls;
	if (key->is_tls) {
		origin->tls = tls_context_ref(tls);
		origin->server_name = upstream->tls.server_name ? xstrdup(upstream->tls.server_name) : NULL;
	}
	origin->known = upstream;
	origin->last_used = clock_now();
	origin->limits = upstream->policy.pool;
	budget_init(&origin->budget);
	breaker_init(&origin->breaker);
	rate_init(&origin->rate);
	origin->metrics = metrics_upstream(upstream->name);
	origin->counted_breaker = origin->breaker.state;
	++*breaker_gauge(origin, origin->counted_breaker);
	init_pool(origin);
	return origin;
}

static bool text_equals(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool origin_has_identity(const struct origin *origin, const struct upstream_def *upstream, const struct tls_context *tls)
{
	return tls_context_identity(origin->tls) == tls_context_identity(tls) &&
	       text_equals(origin->server_name, upstream->tls.server_name);
}

struct origin *origin_ref(struct origin *origin)
{
	origin->n_users++;
	list_remove(&origin->unused_link);
	return origin;
}

void origin_unref(struct origin **origin_pointer)
{
	struct origin *origin = *origin_pointer;
	if (!origin)
		return;
	*origin_pointer = NULL;
	CHECK(origin->n_users > 0);
	if (--origin->n_users > 0)
		return;
	origin->last_used = clock_now();
	if (origin->is_retired)
		loop_defer(origin->registry->loop, &origin->free_later);
	else
		registry_note_unused(origin);
}

void origin_retire(struct origin *origin)
{
	if (origin->is_retired)
		return;
	origin_sync_breaker(origin);
	--*breaker_gauge(origin, origin->counted_breaker);
	origin->is_retired = true;
	registry_unlink(origin);
	list_remove(&origin->unused_link);
	resolve_cancel(&origin->refresh);
	idle_close_all(origin);
	timer_set(&origin->idle_timer, MONO_NEVER);
	if (origin->n_users == 0)
		loop_defer(origin->registry->loop, &origin->free_later);
}

void origin_free_now(struct origin *origin)
{
	CHECK(origin->is_retired && origin->n_users == 0);
	CHECK(origin_n_connections(origin) == 0 && origin->n_waiting == 0 && origin->n_seats == 0);
	list_remove(&origin->link);
	list_remove(&origin->starved_link);
	deferred_cancel(&origin->serve);
	deferred_cancel(&origin->free_later);
	timer_clear(&origin->idle_timer);
	addresses_forget(origin);
	latency_merge(&origin->metrics->latency, &origin->latency);
	latency_clear(&origin->latency);
	tls_context_unref(&origin->tls);
	free(origin->upstream_name);
	free(origin->host);
	free(origin->server_name);
	free(origin);
}
