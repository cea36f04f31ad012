/* Indexes of a complete config: where each value came from, and the hosts in order. */
#include <stdlib.h>
#include <string.h>

#include "private.h"

struct spot *origins_add(
	struct config *config, const void *owner, const struct spot *inherited, const struct node *self)
{
	struct config_private *private = config->private;
	struct spot *spots = arena_alloc(&private->arena, n_keys * sizeof(*spots));
	struct spot place = {self ? self->line : 0, self ? self->column : 0};

	if (inherited)
		memcpy(spots, inherited, n_keys * sizeof(*spots));
	if (private->n_origins == private->max_origins) {
		private->max_origins = private->max_origins ? private->max_origins * 2 : 16;
		private->origins = config_realloc(private->origins, private->max_origins * sizeof(*private->origins));
	}
	private->origins[private->n_origins++] = (struct origins){owner, spots, place, false};
	return spots;
}

static int compare_origins(const void *left, const void *right)
{
	uintptr_t a = (uintptr_t)((const struct origins *)left)->owner;
	uintptr_t b = (uintptr_t)((const struct origins *)right)->owner;

	return a < b ? -1 : a > b;
}

void origins_sort(struct config *config)
{
	qsort(config->private->origins, config->private->n_origins, sizeof(*config->private->origins), compare_origins);
}

const struct origins *origins_find(const struct config *config, const void *owner)
{
	static const struct spot nowhere[256];
	static const struct origins none = {NULL, nowhere, {0, 0}, false};
	const struct origins wanted = {.owner = owner};
	const struct origins *found =
		bsearch(&wanted, config->private->origins, config->private->n_origins, sizeof(wanted), compare_origins);

	return found ? found : &none;
}

struct spot origins_spot(const struct config *config, const void *owner, const char *path)
{
	const struct origins *origins = origins_find(config, owner);
	const struct key *key = key_find(path, KEY_GLOBAL | KEY_POLICY);

	return key ? origins->spots[key_index(key)] : (struct spot){0, 0};
}

struct config_origin config_origin(const struct config *config, const void *owner, const struct key *key)
{
	return (struct config_origin){origins_find(config, owner)->spots[key_index(key)].line};
}

static int compare_hosts(const void *left, const void *right)
{
	const struct host_entry *a = left, *b = right;
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	order = shorter ? memcmp(a->text, b->text, shorter) : 0;
	if (order)
		return order;
	return a->length < b->length ? -1 : a->length > b->length;
}

static int compare_hosts_and_upstreams(const void *left, const void *right)
{
	const struct host_entry *a = left, *b = right;
	int order = compare_hosts(a, b);

	return order ? order : (a->upstream < b->upstream ? -1 : a->upstream > b->upstream);
}

static struct host_entry host_entry_of(const char *pattern, const struct upstream_def *upstream)
{
	if (!strcmp(pattern, "*"))
		return (struct host_entry){HOST_ANY, "", 0, upstream};
	if (pattern[0] == '*')
		return (struct host_entry){HOST_SUFFIX, pattern + 1, strlen(pattern + 1), upstream};
	return (struct host_entry){HOST_EXACT, pattern, strlen(pattern), upstream};
}

void hosts_index(struct config *config)
{
	struct config_private *private = config->private;
	size_t n = 0;

	for (size_t i = 0; i < config->n_upstreams; i++)
		n += config->upstreams[i].hosts.n;
	private->hosts = arena_alloc(&private->arena, n * sizeof(*private->hosts));
	for (size_t i = 0; i < config->n_upstreams; i++)
		for (size_t j = 0; j < config->upstreams[i].hosts.n; j++)
			private->hosts[private->n_hosts++] =
				host_entry_of(config->upstreams[i].hosts.items[j], &config->upstreams[i]);
	qsort(private->hosts, n, sizeof(*private->hosts), compare_hosts_and_upstreams);
}
