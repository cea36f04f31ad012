/* Walks the maps of a policy file along the key table: known keys are read, unknown ones get a suggestion. */
#include <stdio.h>
#include <string.h>

#include "private.h"
#include "suggest.h"
#include "values.h"

#define MAX_SUGGESTED_FAULTS 1000 /* looking for the nearest key costs; a file this broken needs no more hints */

static size_t scope_slot(unsigned scope)
{
	return (size_t)__builtin_ctz(scope);
}

static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

static const char *scope_words(unsigned scopes)
{
	if (scopes & KEY_GLOBAL)
		return "to the top level";
	if (scopes & KEY_POLICY)
		return "to defaults, an upstream or a route";
	return scopes & KEY_UPSTREAM ? "to an upstream" : "to a route";
}

/* A key that exists, but elsewhere: under another section, or in another kind of map. */
static const struct key *find_elsewhere(const struct target *target, const char *name)
{
	for (int is_here = 1; is_here >= 0; is_here--)
		for (size_t i = 0; i < n_keys; i++)
			if (!strcmp(last_part(keys[i].path), name) &&
				is_here == ((keys[i].scope & target->scopes) != 0))
				return &keys[i];
	return NULL;
}

/* The nearest key: a sibling, else one that is deeper in the same map; NULL when none is near. *is_slip: one letter
 * off. */
static const char *find_near(const struct target *target, const char *name, const char *prefix, bool *is_slip)
{
	struct suggestion near = suggestion_for(name), deeper = suggestion_for(name);
	const char *path = NULL;

	for (size_t i = 0; i < n_keys; i++) {
		const char *best = deeper.best;

		if (!(keys[i].scope & target->scopes))
			continue;
		if (key_is_child(&keys[i], prefix))
			suggestion_consider(&near, last_part(keys[i].path));
		suggestion_consider(&deeper, last_part(keys[i].path));
		if (deeper.best != best)
			path = keys[i].path;
	}
	*is_slip = near.best && near.distance == 1;
	return near.best ? near.best : path;
}

/* "; did you mean ...?" or whatever else helps; empty when nothing does. */
static void write_hint(char *out, size_t size, const struct target *target, const char *name, const char *prefix)
{
	const struct key *dotted = strchr(name, '.') ? key_find(name, target->scopes) : NULL;
	const struct key *elsewhere = find_elsewhere(target, name);
	bool is_slip;
	const char *near = find_near(target, name, prefix, &is_slip);

	out[0] = '\0';
	if (dotted)
		snprintf(out, size, "; keys are nested, not dotted: write %.*s: {%s: ...}",
			(int)(strrchr(name, '.') - name), name, last_part(name));
	else if (elsewhere && (elsewhere->scope & target->scopes))
		snprintf(out, size, "; did you mean %s?", elsewhere->path);
	else if (elsewhere && !is_slip)
		snprintf(out, size, "; %s belongs %s", elsewhere->path, scope_words(elsewhere->scope));
	else if (near)
		snprintf(out, size, "; did you mean %s?", near);
}

static void report_unknown(const struct target *target, const struct node *key, const char *prefix)
{
	char where[KEY_MAX_PATH_BYTES + 4], hint[3 * KEY_MAX_PATH_BYTES] = "";

	snprintf(where, sizeof(where), "in %.*s", *prefix ? (int)strlen(prefix) - 1 : 0, prefix);
	if (!*prefix)
		snprintf(where, sizeof(where), "%s", target->where);
	if (target->faults->n < MAX_SUGGESTED_FAULTS)
		write_hint(hint, sizeof(hint), target, key->text, prefix);
	fault_add(target->faults, FAULT_ERROR, node_place(key), "unknown key %s %s%s", fault_quote(key->text), where,
		hint);
}

static void apply_section(const struct target *target, const struct key *key, const struct node *node);

static void apply_value(
	const struct target *target, const struct key *key, const struct node *key_node, const struct node *node)
{
	size_t slot = scope_slot(key->scope);
	bool is_good;

	if (target->is_route && (key->flags & KEY_NOT_IN_ROUTES)) {
		fault_add(target->faults, FAULT_ERROR, node_place(key_node),
			"%s belongs to an origin as a whole: a route can't change it, set it in the upstream",
			key->path);
		return;
	}
	if (key->type == KEY_SWITCH && node->kind == NODE_MAP) {
		*(bool *)((char *)target->owners[slot] + key->offset) = true;
		is_good = true;
		apply_section(target, key, node);
	} else {
		is_good = value_read(&target->config->private->arena, target->faults, key, node, target->owners[slot]);
	}
	if (!is_good)
		return;
	target->spots[slot][key_index(key)] = (struct spot){key_node->line, key_node->column};
}

static void apply_entry(const struct target *target, const struct node_entry *entry, const char *prefix)
{
	char path[KEY_MAX_PATH_BYTES];
	const struct key *key = NULL;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", prefix, entry->key->text) < sizeof(path) &&
		!strchr(entry->key->text, '.'))
		key = key_find(path, target->scopes);
	if (!key) {
		if (!((target->scopes & KEY_GLOBAL) && !*prefix && !strncmp(entry->key->text, "x-", 2)))
			report_unknown(target, entry->key, prefix);
	} else if (key->type == KEY_SECTION) {
		apply_section(target, key, entry->value);
	} else if (key->type != KEY_STRUCTURE) {
		apply_value(target, key, entry->key, entry->value);
	}
}

/* "total:5s": YAML takes it for one text. */
static bool is_blank_missing(const struct node *node)
{
	const char *colon = node->kind == NODE_SCALAR ? strchr(node->text, ':') : NULL;

	return colon && colon[1] && colon[1] != ' ' && node->is_plain;
}

static void apply_section(const struct target *target, const struct key *key, const struct node *node)
{
	char prefix[KEY_MAX_PATH_BYTES + 1];

	if (node->is_faulty || node_is_null(node))
		return; /* "timeouts:" with every line below it commented out */
	if (node->kind != NODE_MAP) {
		fault_add(target->faults, FAULT_ERROR, node_place(node), "%s: expected %s; found %s%s", key->path,
			value_type_words(key),
			node->kind == NODE_SCALAR ? fault_quote(node->text) : node_kind_word(node),
			is_blank_missing(node) ? " (a blank belongs behind the colon)" : "");
		return;
	}
	snprintf(prefix, sizeof(prefix), "%s.", key->path);
	for (size_t i = 0; i < node->n; i++)
		apply_entry(target, &node->entries[i], prefix);
}

void apply_map(const struct target *target, const struct node *map)
{
	for (size_t i = 0; i < map->n; i++)
		apply_entry(target, &map->entries[i], "");
}

/* The table's own texts go the way of any value, so what `schema` and the docs show is what is in force. */
void apply_built_in(struct config *config, unsigned scope, void *owner)
{
	struct arena scratch = {NULL};
	struct fault_list faults;

	fault_list_init(&faults);
	for (size_t i = 0; i < n_keys; i++) {
		struct document document;

		if (!(keys[i].scope & scope) || !keys[i].built_in || !*keys[i].built_in)
			continue;
		document_parse(&scratch, keys[i].built_in, strlen(keys[i].built_in), &faults, &document);
		if (!document.root)
			continue;
		document.root->line = 0; /* not a line of the user's file */
		value_read(&config->private->arena, &faults, &keys[i], document.root, owner);
	}
	fault_list_clear(&faults);
	arena_clear(&scratch);
}
