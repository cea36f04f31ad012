/* TLS contexts by upstream: files are read at a start or reload, or at the first need after it, not for every
 * origin. */
#include <stdlib.h>

#include "../base/check.h"
#include "registry.h"

struct known_context {
	struct list link;
	const struct upstream_def *upstream; /* only its address is looked at: a reload empties the cache */
	struct tls_context *tls;             /* owns a reference */
};

struct tls_context *tls_cache_get(struct registry *registry, const struct upstream_def *upstream, char *error,
				  size_t error_capacity)
{
	LIST_EACH(link, &registry->tls_contexts) {
		struct known_context *known = LIST_ENTRY_OF(link, struct known_context, link);
		if (known->upstream == upstream)
			return known->tls;
	}
	struct tls_context *tls = tls_context_get(&upstream->tls, error, error_capacity);
	if (!tls)
		return NULL;
	struct known_context *known = xcalloc(1, sizeof(*known));
	known->upstream = upstream;
	known->tls = tls;
	list_prepend(&registry->tls_contexts, &known->link);
	return tls;
}

void tls_cache_fill(struct registry *registry, const struct config *config)
{
	char error[256];
	for (size_t i = 0; i < config->n_upstreams; i++)
		if (config->upstreams[i].tls.originate)
			tls_cache_get(registry, &config->upstreams[i], error, sizeof(error));
}

void tls_cache_clear(struct registry *registry)
{
	LIST_EACH_SAFE(link, after, &registry->tls_contexts) {
		struct known_context *known = LIST_ENTRY_OF(link, struct known_context, link);
		list_remove(&known->link);
		tls_context_unref(&known->tls);
		free(known);
	}
}
