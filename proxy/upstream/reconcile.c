/* After a reload: which origins go on under the new config, with what they have, and which don't. */
#include <string.h>

#include "../policy/match.h"
#include "registry.h"

static const struct upstream_def *upstream_named(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_upstreams; i++)
		if (strcmp(config->upstreams[i].name, name) == 0)
			return &config->upstreams[i];
	return strcmp(config->unmatched.name, name) == 0 ? &config->unmatched : NULL;
}

static bool leads_to(const struct config *config, const struct upstream_def *upstream, const char *host, uint16_t port)
{
	return match_upstream(config, slice_of(host), port) == upstream;
}

/*
 * Does the host still belong to the upstream? The port that a client names may differ from the one that is dialed
 * (origination, `port:`) and one origin may serve several, so any port that may have led here will do: the upstream's
 * own, the one dialed, the default ones.
 */
static bool still_belongs(const struct origin *origin, const struct upstream_def *upstream, const struct config *config)
{
	for (size_t i = 0; i < upstream->n_ports; i++)
		if (leads_to(config, upstream, origin->host, upstream->ports[i]))
			return true;
	return leads_to(config, upstream, origin->host, origin->port) || leads_to(config, upstream, origin->host, 80) ||
	       leads_to(config, upstream, origin->host, 443);
}

static bool has_same_tls(const struct origin *origin, const struct upstream_def *upstream)
{
	if (!origin->is_tls)
		return true;
	char error[256];
	const struct tls_context *tls = tls_cache_get(origin->registry, upstream, error, sizeof(error));
	return tls && origin_has_identity(origin, upstream, tls);
}

static void reconcile_origin(struct origin *origin, const struct config *config)
{
	const struct upstream_def *upstream = upstream_named(config, origin->upstream_name);
	if (!upstream || !still_belongs(origin, upstream, config) || !has_same_tls(origin, upstream)) {
		origin_retire(origin);
		return;
	}
	origin->known = upstream;
	origin->limits = upstream->policy.pool;
	idle_trim(origin);
	idle_timer_update(origin);
	pool_serve_soon(origin); /* there may be more seats now */
}

void registry_reconcile(struct registry *registry, const struct config *config)
{
	tls_cache_clear(registry);
	tls_cache_fill(registry, config);
	for (size_t i = 0; i < registry->n_buckets; i++) {
		LIST_EACH_SAFE(link, after, &registry->buckets[i])
			reconcile_origin(LIST_ENTRY_OF(link, struct origin, link), config);
	}
	registry->max_connections = config->global.limits.upstream_connections;
	share_trim(registry);
	share_serve_soon(registry);
}
