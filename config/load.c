#include "load.h"

#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "private.h"
#include "source.h"
#include "yaml_hints.h"

/* The bit numbers of enum key_scope. */
enum { SLOT_GLOBAL, SLOT_POLICY, SLOT_UPSTREAM, SLOT_ROUTE };

struct loader {
	struct config *config;
	struct fault_list *faults;
	struct spot *defaults_spots;
	size_t n_items; /* upstreams and routes so far */
};

#define MAX_ITEMS 10000 /* each takes some KiB, and several rules go over all of them */

static struct config *config_new(const char *path)
{
	struct config *config = config_realloc(NULL, sizeof(*config));

	*config = (struct config){.references = 1};
	config->private = config_realloc(NULL, sizeof(*config->private));
	*config->private = (struct config_private){.n_origins = 0};
	config->path = path ? arena_strdup(&config->private->arena, path) : NULL;
	apply_built_in(config, KEY_GLOBAL, &config->global);
	apply_built_in(config, KEY_POLICY, &config->defaults);
	return config;
}

struct config *config_ref(struct config *config)
{
	config->references++;
	return config;
}

void config_unref(struct config **config)
{
	struct config *gone = *config;

	*config = NULL;
	if (!gone || --gone->references > 0)
		return;
	arena_clear(&gone->private->arena);
	free(gone->private->origins);
	free(gone->private);
	free(gone);
}

/* A map, or nothing at all; false after a fault. */
static bool expect_map(struct loader *loader, const struct node *node, const char *what)
{
	if (node->kind == NODE_MAP)
		return true;
	if (!node->is_faulty)
		fault_add(loader->faults, FAULT_ERROR, node_place(node), "%s: expected a map of keys; found %s", what,
			node->kind == NODE_SCALAR && !node_is_null(node) ? fault_quote(node->text)
									 : node_kind_word(node));
	return false;
}

/* A list; an absent or empty one has no items. */
static const struct node *expect_list(struct loader *loader, const struct node *map, const char *name)
{
	const struct node *node = node_get(map, name);

	if (!node || node->is_faulty || node_is_null(node))
		return NULL;
	if (node->kind == NODE_LIST) {
		loader->n_items += node->n;
		if (loader->n_items <= MAX_ITEMS)
			return node;
		fault_add(loader->faults, FAULT_ERROR, node_place(node),
			"%s: a file holds at most %d upstreams and routes", name, MAX_ITEMS);
		return NULL;
	}
	fault_add(loader->faults, FAULT_ERROR, node_place(node),
		"%s: expected a list, each item beginning with \"- \"; found %s", name,
		node->kind == NODE_SCALAR ? fault_quote(node->text) : node_kind_word(node));
	return NULL;
}

static void load_global(struct loader *loader, const struct node *root)
{
	struct target target = {
		.config = loader->config, .faults = loader->faults, .scopes = KEY_GLOBAL, .where = "at the top level"};

	target.owners[SLOT_GLOBAL] = &loader->config->global;
	target.spots[SLOT_GLOBAL] = origins_add(loader->config, &loader->config->global, NULL, root);
	if (root)
		apply_map(&target, root);
}

static void load_defaults(struct loader *loader, const struct node *root)
{
	const struct node *node = root ? node_get(root, "defaults") : NULL;
	struct target target = {
		.config = loader->config, .faults = loader->faults, .scopes = KEY_POLICY, .where = "in defaults"};

	target.owners[SLOT_POLICY] = &loader->config->defaults;
	target.spots[SLOT_POLICY] = origins_add(loader->config, &loader->config->defaults, NULL, node);
	loader->defaults_spots = target.spots[SLOT_POLICY];
	if (node && !node_is_null(node) && expect_map(loader, node, "defaults"))
		apply_map(&target, node);
}

static void load_route(struct loader *loader, const struct upstream_def *upstream, const struct spot *inherited,
	struct route *route, const struct node *node)
{
	struct target target = {.config = loader->config,
		.faults = loader->faults,
		.scopes = KEY_ROUTE | KEY_POLICY,
		.is_route = true,
		.where = "in a route"};
	size_t n_errors = loader->faults->n_errors, self = loader->config->private->n_origins;

	route->line = node->line;
	route->policy = upstream->policy; /* all else is zero: a route's built-in values are empty */
	target.owners[SLOT_ROUTE] = route;
	target.owners[SLOT_POLICY] = &route->policy;
	target.spots[SLOT_ROUTE] = origins_add(loader->config, route, NULL, node);
	target.spots[SLOT_POLICY] = origins_add(loader->config, &route->policy, inherited, node);
	if (expect_map(loader, node, "routes"))
		apply_map(&target, node);
	loader->config->private->origins[self].is_faulty = loader->faults->n_errors > n_errors;
	if (!route->text)
		route->text = arena_printf(&loader->config->private->arena, "routes[%zu]", route->index);
}

static void load_routes(
	struct loader *loader, struct upstream_def *upstream, const struct spot *inherited, const struct node *map)
{
	const struct node *list = map->kind == NODE_MAP ? expect_list(loader, map, "routes") : NULL;

	if (!list)
		return;
	upstream->routes = arena_alloc(&loader->config->private->arena, list->n * sizeof(*upstream->routes));
	upstream->n_routes = list->n;
	for (size_t i = 0; i < list->n; i++) {
		upstream->routes[i].index = i;
		load_route(loader, upstream, inherited, &upstream->routes[i], list->entries[i].value);
	}
}

static void require_keys(struct loader *loader, const struct upstream_def *upstream, const struct node *map)
{
	const struct node *match = node_get(map, "match");

	if (!node_get(map, "name"))
		fault_add(loader->faults, FAULT_ERROR, node_place(map), "an upstream needs a name");
	if (!node_get(match, "hosts"))
		fault_add(loader->faults, FAULT_ERROR, node_place(map),
			"upstream %s needs match.hosts, such as match: {hosts: "
			"[api.example.com]}",
			fault_quote(upstream->name));
}

static void load_upstream(
	struct loader *loader, struct upstream_def *upstream, size_t index, const struct node *node, bool is_whole)
{
	struct target target = {.config = loader->config,
		.faults = loader->faults,
		.scopes = KEY_UPSTREAM | KEY_POLICY,
		.where = "in an upstream"};

	*upstream = loader->config->unmatched; /* built-in values and defaults */
	upstream->name = NULL;
	upstream->index = index;
	upstream->line = node->line;
	target.owners[SLOT_UPSTREAM] = upstream;
	target.owners[SLOT_POLICY] = &upstream->policy;
	target.spots[SLOT_UPSTREAM] = origins_add(loader->config, upstream, NULL, node);
	target.spots[SLOT_POLICY] = origins_add(loader->config, &upstream->policy, loader->defaults_spots, node);
	if (expect_map(loader, node, "upstreams"))
		apply_map(&target, node);
	if (!upstream->name)
		upstream->name = arena_printf(&loader->config->private->arena, "upstreams[%zu]", upstream->index);
	if (is_whole && node->kind == NODE_MAP)
		require_keys(loader, upstream, node);
	load_routes(loader, upstream, target.spots[SLOT_POLICY], node);
}

static void load_upstreams(struct loader *loader, const struct node *root, bool is_whole)
{
	struct config *config = loader->config;
	const struct node *list = root ? expect_list(loader, root, "upstreams") : NULL;
	size_t n = list ? list->n : 0;

	config->upstreams = arena_alloc(&config->private->arena, n * sizeof(*config->upstreams));
	config->n_upstreams = n;
	for (size_t i = 0; i < n; i++)
		load_upstream(loader, &config->upstreams[i], i, list->entries[i].value, is_whole);
}

static void make_unmatched(struct loader *loader)
{
	struct config *config = loader->config;

	apply_built_in(config, KEY_UPSTREAM, &config->unmatched);
	config->unmatched.name = "default";
	config->unmatched.index = SIZE_MAX;
	config->unmatched.policy = config->defaults;
	origins_add(config, &config->unmatched, NULL, NULL);
	origins_add(config, &config->unmatched.policy, loader->defaults_spots, NULL);
}

static void load_root(struct loader *loader, const struct node *root, bool is_whole)
{
	load_global(loader, root);
	load_defaults(loader, root);
	make_unmatched(loader);
	load_upstreams(loader, root, is_whole);
	origins_sort(loader->config);
	hosts_index(loader->config);
	if (is_whole)
		validate_config(loader->config, loader->faults);
}

static const char *skip_byte_order_mark(const char *text, size_t *length)
{
	if (*length < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0)
		return text;
	*length -= 3;
	return text + 3;
}

/* The faults decide: NULL when there is an error among them. */
static struct config *load_text(const char *path, struct fault_list *faults)
{
	struct arena scratch = {NULL};
	struct document document;
	struct loader loader = {.faults = faults};

	if (!yaml_check_bytes(faults->text, faults->text_length, faults))
		return NULL;
	loader.config = config_new(path);
	document_parse(&scratch, faults->text, faults->text_length, faults, &document);
	if (document.root && document.root->kind != NODE_MAP && !node_is_null(document.root)) {
		expect_map(&loader, document.root, "the policy file");
		document.is_whole = false;
	}
	load_root(&loader, document.root && document.root->kind == NODE_MAP ? document.root : NULL, document.is_whole);
	arena_clear(&scratch);
	fault_list_sort(faults);
	if (faults->n_errors > 0)
		config_unref(&loader.config);
	return loader.config;
}

struct config *config_load_text(const char *name, const char *text, size_t length, struct fault_list *faults)
{
	if (length > DOCUMENT_MAX_BYTES) {
		fault_list_open(faults, name, NULL, 0);
		fault_add(faults, FAULT_ERROR, (struct place){0, 0, 0}, "can't be read: it is larger than 1 MiB");
		return NULL;
	}
	text = skip_byte_order_mark(text, &length);
	fault_list_open(faults, name, text, length);
	return load_text(name, faults);
}

struct config *config_load(const char *path, struct fault_list *faults)
{
	struct config *config;
	size_t length = 0;
	char *text;

	if (!path) {
		struct loader loader = {.config = config_new(NULL), .faults = faults};

		load_root(&loader, NULL, true);
		return loader.config;
	}
	fault_list_open(faults, path, NULL, 0);
	text = source_read(path, &length, faults);
	if (!text)
		return NULL;
	config = config_load_text(path, text, length, faults);
	free(text);
	return config;
}
