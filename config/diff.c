#include "diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "keys.h"

void change_list_clear(struct change_list *changes)
{
	for (size_t i = 0; i < changes->n; i++) {
		free(changes->items[i].scope);
		free(changes->items[i].key);
		free(changes->items[i].before);
		free(changes->items[i].after);
	}
	free(changes->items);
	*changes = (struct change_list){0};
}

static char *copy(const char *text)
{
	char *result = config_realloc(NULL, strlen(text) + 1);

	return strcpy(result, text);
}

static char *value_text(const struct key *key, const void *owner)
{
	size_t length = key_format_value(key, owner, NULL, 0);
	char *text = config_realloc(NULL, length + 1);

	key_format_value(key, owner, text, length + 1);
	return text;
}

static struct change *add(struct change_list *changes, enum change_kind kind, const char *scope)
{
	if (changes->n >= MAX_CHANGES) {
		changes->n_left_out++;
		return NULL;
	}
	if (changes->n == changes->capacity) {
		changes->capacity = changes->capacity ? changes->capacity * 2 : 16;
		changes->items = config_realloc(changes->items, changes->capacity * sizeof(*changes->items));
	}
	changes->items[changes->n] = (struct change){.kind = kind, .scope = copy(scope)};
	return &changes->items[changes->n++];
}

/* One struct in both configs; above_*: the policies that they inherit from, NULL for none. */
struct pair {
	const char *scope;
	const void *before, *after;
	const void *above_before, *above_after;
};

static bool is_inherited(const struct key *key, const struct pair *pair)
{
	return pair->above_before && key_is_equal(key, pair->before, pair->above_before) &&
	       key_is_equal(key, pair->after, pair->above_after);
}

static void compare(struct change_list *changes, unsigned scope, const struct pair *pair)
{
	for (size_t i = 0; i < n_keys; i++) {
		const struct key *key = &keys[i];
		struct change *change;

		if (!(key->scope & scope) || !key_has_value(key) || key_is_equal(key, pair->before, pair->after) ||
			is_inherited(key, pair))
			continue;
		change = add(changes, CHANGE_CHANGED, pair->scope);
		if (!change)
			continue;
		change->key = copy(key->path);
		change->before = value_text(key, pair->before);
		change->after = value_text(key, pair->after);
	}
}

static void compare_routes(struct change_list *changes, const char *scope, const struct upstream_def *before,
	const struct upstream_def *after)
{
	size_t n = before->n_routes > after->n_routes ? before->n_routes : after->n_routes;
	char route_scope[512];

	for (size_t i = 0; i < n; i++) {
		const struct route *old = &before->routes[i], *new = &after->routes[i];

		snprintf(route_scope, sizeof(route_scope), "%s.routes[%zu]", scope, i);
		if (i >= before->n_routes || i >= after->n_routes) {
			add(changes, i < after->n_routes ? CHANGE_ADDED : CHANGE_REMOVED, route_scope);
			continue;
		}
		compare(changes, KEY_ROUTE, &(struct pair){route_scope, old, new, NULL, NULL});
		compare(changes, KEY_POLICY,
			&(struct pair){route_scope, &old->policy, &new->policy, &before->policy, &after->policy});
	}
}

/* Upstreams of one config by name. */
struct by_name {
	const struct upstream_def **items;
	size_t n;
};

static int compare_names(const void *left, const void *right)
{
	return strcmp(
		(*(const struct upstream_def *const *)left)->name, (*(const struct upstream_def *const *)right)->name);
}

static struct by_name sort_by_name(const struct config *config)
{
	struct by_name sorted = {
		config_realloc(NULL, config->n_upstreams * sizeof(*sorted.items)), config->n_upstreams};

	for (size_t i = 0; i < sorted.n; i++)
		sorted.items[i] = &config->upstreams[i];
	if (sorted.n)
		qsort(sorted.items, sorted.n, sizeof(*sorted.items), compare_names);
	return sorted;
}

static const struct upstream_def *find(const struct by_name *sorted, const struct upstream_def *wanted)
{
	const struct upstream_def *const *found =
		sorted->n ? bsearch(&wanted, sorted->items, sorted->n, sizeof(*sorted->items), compare_names) : NULL;

	return found ? *found : NULL;
}

static void compare_upstream(const struct config *before, const struct config *after, struct change_list *changes,
	const struct upstream_def *old, const struct upstream_def *new)
{
	char scope[256];

	snprintf(scope, sizeof(scope), "upstreams[%s]", new->name);
	if (!old) {
		add(changes, CHANGE_ADDED, scope);
		return;
	}
	compare(changes, KEY_UPSTREAM, &(struct pair){scope, old, new, NULL, NULL});
	compare(changes, KEY_POLICY,
		&(struct pair){scope, &old->policy, &new->policy, &before->defaults, &after->defaults});
	compare_routes(changes, scope, old, new);
}

void config_diff(const struct config *before, const struct config *after, struct change_list *changes)
{
	struct by_name old = sort_by_name(before), new = sort_by_name(after);
	char scope[256];

	compare(changes, KEY_GLOBAL, &(struct pair){"", &before->global, &after->global, NULL, NULL});
	compare(changes, KEY_POLICY, &(struct pair){"defaults", &before->defaults, &after->defaults, NULL, NULL});
	for (size_t i = 0; i < before->n_upstreams; i++) {
		if (find(&new, &before->upstreams[i]))
			continue;
		snprintf(scope, sizeof(scope), "upstreams[%s]", before->upstreams[i].name);
		add(changes, CHANGE_REMOVED, scope);
	}
	for (size_t i = 0; i < after->n_upstreams; i++)
		compare_upstream(before, after, changes, find(&old, &after->upstreams[i]), &after->upstreams[i]);
	free(old.items);
	free(new.items);
}
