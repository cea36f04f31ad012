#include "document.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "environment.h"
#include "yaml_hints.h"

struct anchor {
	const char *name;
	struct node *node;
};

struct frame {
	struct node *node;
	struct node *key; /* of a map: read, its value is still to come */
	bool wants_value;
};

struct builder {
	struct arena *arena;
	struct fault_list *faults;
	yaml_parser_t parser;
	struct frame stack[DOCUMENT_MAX_DEPTH];
	size_t depth;
	struct anchor *anchors;
	size_t n_anchors, max_anchors;
	size_t weight; /* nodes so far, aliases counted as what they stand for */
	struct node *root;
	struct node *last_scalar;
	size_t n_lines;
	bool has_document;
	bool is_over; /* a bound was passed, or the YAML is broken: read no further */
};

static struct place place_of(yaml_mark_t mark)
{
	return (struct place){(unsigned)mark.line + 1, (unsigned)mark.column + 1, 0};
}

#define ERROR_AT(builder, place, ...) fault_add((builder)->faults, FAULT_ERROR, place, __VA_ARGS__)

bool node_is_null(const struct node *node)
{
	return node->kind == NODE_SCALAR && node->is_plain &&
	       (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

const char *node_kind_word(const struct node *node)
{
	if (node->kind == NODE_LIST)
		return "a list";
	if (node->kind == NODE_MAP)
		return "a map";
	return node_is_null(node) ? "nothing" : "text";
}

const struct node *node_get(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	for (size_t i = 0; i < map->n; i++)
		if (!strcmp(map->entries[i].key->text, key))
			return map->entries[i].value;
	return NULL;
}

/* False when the file has now grown past its bound. */
static bool add_weight(struct builder *builder, size_t weight, struct place place)
{
	builder->weight += weight;
	if (builder->weight <= DOCUMENT_MAX_NODES)
		return true;
	if (!builder->is_over)
		ERROR_AT(builder, place,
			"the file holds more than %d values, counting each alias as what it stands for",
			DOCUMENT_MAX_NODES);
	builder->is_over = true;
	return false;
}

static struct node *new_node(struct builder *builder, enum node_kind kind, yaml_mark_t mark)
{
	struct node *node = arena_alloc(builder->arena, sizeof(*node));

	node->kind = kind;
	node->line = place_of(mark).line;
	node->column = place_of(mark).column;
	node->weight = 1;
	return node;
}

static void add_entry(struct builder *builder, struct node *parent, struct node *key, struct node *value)
{
	if (parent->n == parent->capacity) {
		size_t capacity = parent->capacity ? parent->capacity * 2 : 4;
		struct node_entry *entries = arena_alloc(builder->arena, capacity * sizeof(*entries));

		if (parent->n)
			memcpy(entries, parent->entries, parent->n * sizeof(*entries));
		parent->entries = entries;
		parent->capacity = capacity;
	}
	parent->entries[parent->n++] = (struct node_entry){key, value};
	parent->weight += value->weight + (key ? 1 : 0);
}

/* ---- keys: duplicates and merges ---- */

struct sorted_key {
	const char *text;
	size_t index;
};

static int compare_keys(const void *left, const void *right)
{
	const struct sorted_key *a = left, *b = right;
	int order = strcmp(a->text, b->text);

	return order ? order : (a->index < b->index ? -1 : a->index > b->index);
}

static struct sorted_key *sort_keys(struct builder *builder, const struct node *map)
{
	struct sorted_key *keys = arena_alloc(builder->arena, (map->n + 1) * sizeof(*keys));

	for (size_t i = 0; i < map->n; i++)
		keys[i] = (struct sorted_key){map->entries[i].key->text, i};
	qsort(keys, map->n, sizeof(*keys), compare_keys);
	return keys;
}

static void report_duplicates(struct builder *builder, const struct node *map, const struct sorted_key *keys)
{
	for (size_t i = 1, first = 0; i < map->n; i++) {
		const struct node *again = map->entries[keys[i].index].key;
		const struct node *before = map->entries[keys[first].index].key;
		struct place place = {again->line, again->column, before->line};

		if (strcmp(keys[i].text, keys[first].text) != 0) {
			first = i;
			continue;
		}
		if (!strcmp(again->text, "<<"))
			ERROR_AT(builder, place, "duplicate key \"<<\": merge several with a list, <<: [*a, *b]");
		else
			ERROR_AT(builder, place, "duplicate key %s: it is on line %u already", fault_quote(again->text),
				before->line);
	}
}

static bool has_key(const struct sorted_key *keys, size_t n, const char *text)
{
	while (n > 0) {
		size_t middle = n / 2;
		int order = strcmp(text, keys[middle].text);

		if (order == 0)
			return true;
		if (order > 0) {
			keys += middle + 1;
			n -= middle + 1;
		} else {
			n = middle;
		}
	}
	return false;
}

/* Takes over the entries of source that map doesn't have; those are shared with it, place and all. */
static void merge_map(struct builder *builder, struct node *map, const struct node *source, struct place place)
{
	const struct sorted_key *keys;
	size_t n = map->n;

	if (source->is_faulty)
		return;
	if (source->kind != NODE_MAP) {
		ERROR_AT(builder, place, "<< merges a map, or a list of maps; found %s", node_kind_word(source));
		return;
	}
	if (!add_weight(builder, source->weight, place))
		return;
	keys = sort_keys(builder, map);
	for (size_t i = 0; i < source->n; i++)
		if (!has_key(keys, n, source->entries[i].key->text))
			add_entry(builder, map, source->entries[i].key, source->entries[i].value);
}

static void remove_entry(struct node *map, size_t index)
{
	memmove(map->entries + index, map->entries + index + 1, (map->n - index - 1) * sizeof(*map->entries));
	map->n--;
}

static void finish_map(struct builder *builder, struct node *map)
{
	report_duplicates(builder, map, sort_keys(builder, map));
	for (size_t i = 0; i < map->n; i++) {
		const struct node *key = map->entries[i].key, *source = map->entries[i].value;

		if (!key->is_plain || strcmp(key->text, "<<") != 0)
			continue;
		remove_entry(map, i--);
		if (source->kind != NODE_LIST)
			merge_map(builder, map, source, node_place(key));
		for (size_t j = 0; source->kind == NODE_LIST && j < source->n; j++)
			merge_map(builder, map, source->entries[j].value, node_place(key));
	}
}

/* ---- events ---- */

static void attach(struct builder *builder, struct node *node)
{
	struct frame *frame;

	if (builder->depth == 0) {
		builder->root = node;
		return;
	}
	frame = &builder->stack[builder->depth - 1];
	if (frame->node->kind == NODE_LIST) {
		add_entry(builder, frame->node, NULL, node);
		return;
	}
	if (frame->wants_value) {
		if (frame->key)
			add_entry(builder, frame->node, frame->key, node);
		frame->wants_value = false;
		return;
	}
	frame->wants_value = true;
	frame->key = node->kind == NODE_SCALAR && *node->text ? node : NULL;
	if (!frame->key)
		ERROR_AT(builder, node_place(node), "a key must be a word; found %s%s", node_kind_word(node),
			node->kind == NODE_MAP ? " (a ${...} or {{...}} here must be quoted)" : "");
}

static bool is_key_next(const struct builder *builder)
{
	const struct frame *frame = builder->depth ? &builder->stack[builder->depth - 1] : NULL;

	return frame && frame->node->kind == NODE_MAP && !frame->wants_value;
}

static void set_anchor(struct builder *builder, const yaml_char_t *name, struct node *node)
{
	if (!name)
		return;
	if (builder->n_anchors == DOCUMENT_MAX_ANCHORS) { /* they are looked for one by one */
		ERROR_AT(builder, node_place(node), "more than %d anchors", DOCUMENT_MAX_ANCHORS);
		builder->is_over = true;
		return;
	}
	if (builder->n_anchors == builder->max_anchors) {
		builder->max_anchors = builder->max_anchors ? builder->max_anchors * 2 : 8;
		builder->anchors = config_realloc(builder->anchors, builder->max_anchors * sizeof(*builder->anchors));
	}
	builder->anchors[builder->n_anchors++] =
		(struct anchor){arena_strdup(builder->arena, (const char *)name), node};
}

/* The latest wins, as YAML says. */
static struct node *find_anchor(const struct builder *builder, const char *name)
{
	for (size_t i = builder->n_anchors; i-- > 0;)
		if (!strcmp(builder->anchors[i].name, name))
			return builder->anchors[i].node;
	return NULL;
}

static void on_alias(struct builder *builder, const yaml_event_t *event)
{
	const char *name = (const char *)event->data.alias.anchor;
	struct place place = place_of(event->start_mark);
	struct node *node = find_anchor(builder, name);

	if (node && node->is_open) {
		ERROR_AT(builder, place, "the alias *%s stands inside what it stands for", name);
		node = NULL;
	} else if (!node) {
		ERROR_AT(builder, place,
			"the alias *%s has no anchor &%s before it; quote the value if a literal * is meant", name,
			name);
	}
	if (!node) { /* something must take its place, so that what follows is read right */
		node = new_node(builder, NODE_SCALAR, event->start_mark);
		node->text = "";
		node->is_faulty = true;
	}
	if (add_weight(builder, node->weight, place))
		attach(builder, node);
}

static void check_tag(struct builder *builder, const yaml_char_t *tag, yaml_mark_t mark)
{
	static const char yaml_prefix[] = "tag:yaml.org,2002:";
	const char *text = (const char *)tag;
	bool is_yaml = tag && !strncmp(text, yaml_prefix, sizeof(yaml_prefix) - 1);

	if (tag && strcmp(text, "!") != 0)
		ERROR_AT(builder, place_of(mark), "YAML tags have no meaning here: remove %s%s", is_yaml ? "!!" : "",
			is_yaml ? text + sizeof(yaml_prefix) - 1 : fault_quote(text));
}

static bool has_control_bytes(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return true;
	return false;
}

static void expand(struct builder *builder, struct node *node)
{
	const char *why = NULL, *expanded = environment_expand(builder->arena, node->text, &why);

	if (!expanded) {
		ERROR_AT(builder, node_place(node), "%s", why);
		expanded = "";
		node->is_faulty = true;
	}
	if (expanded == node->text)
		return;
	node->source = node->text;
	node->text = expanded;
}

static void on_scalar(struct builder *builder, const yaml_event_t *event)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	struct node *node = new_node(builder, NODE_SCALAR, event->start_mark);

	node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	node->text = arena_strndup(builder->arena, value, length);
	if (!is_key_next(builder))
		expand(builder, node);
	node->has_control = memchr(value, '\0', length) || has_control_bytes(node->text, strlen(node->text));
	builder->last_scalar = node;
	check_tag(builder, event->data.scalar.tag, event->start_mark);
	set_anchor(builder, event->data.scalar.anchor, node);
	if (add_weight(builder, 1, node_place(node)))
		attach(builder, node);
}

static void on_start(struct builder *builder, enum node_kind kind, const yaml_event_t *event)
{
	bool is_list = kind == NODE_LIST;
	struct node *node = new_node(builder, kind, event->start_mark);

	if (builder->depth == DOCUMENT_MAX_DEPTH) {
		ERROR_AT(builder, node_place(node), "nested deeper than %d levels", DOCUMENT_MAX_DEPTH);
		builder->is_over = true;
		return;
	}
	check_tag(builder, is_list ? event->data.sequence_start.tag : event->data.mapping_start.tag, event->start_mark);
	set_anchor(builder, is_list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor, node);
	node->is_open = true;
	builder->stack[builder->depth++] = (struct frame){node, NULL, false};
	add_weight(builder, 1, node_place(node));
}

static void on_end(struct builder *builder)
{
	struct node *node = builder->stack[--builder->depth].node;

	node->is_open = false;
	if (node->kind == NODE_MAP)
		finish_map(builder, node);
	attach(builder, node);
}

static void on_document(struct builder *builder, const yaml_event_t *event)
{
	if (builder->has_document) {
		ERROR_AT(builder, place_of(event->start_mark), "a policy file is one YAML document: remove this ---");
		builder->is_over = true;
	}
	builder->has_document = true;
}

static void on_event(struct builder *builder, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		on_document(builder, event);
		break;
	case YAML_ALIAS_EVENT:
		on_alias(builder, event);
		break;
	case YAML_SCALAR_EVENT:
		on_scalar(builder, event);
		break;
	case YAML_SEQUENCE_START_EVENT:
		on_start(builder, NODE_LIST, event);
		break;
	case YAML_MAPPING_START_EVENT:
		on_start(builder, NODE_MAP, event);
		break;
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		on_end(builder);
		break;
	default:
		break;
	}
}

static void report_syntax(struct builder *builder, const char *text, size_t length)
{
	const yaml_parser_t *parser = &builder->parser;
	struct place place = place_of(parser->problem_mark);
	const char *problem = parser->problem ? parser->problem : "broken off";

	if (parser->context && (strstr(parser->context, "quoted scalar") || strstr(parser->context, "an alias")))
		place = place_of(parser->context_mark); /* where the quote or * is, not where it went wrong */
	else if (parser->context && parser->problem_mark.line >= builder->n_lines)
		place = place_of(parser->context_mark); /* what isn't closed, rather than the end of the file */
	else if (parser->context && parser->context_mark.line + 1 < place.line)
		place.related_line = (unsigned)parser->context_mark.line + 1;
	if (builder->last_scalar && builder->last_scalar->is_plain && !strcmp(builder->last_scalar->text, "$"))
		builder->last_scalar->is_faulty = true; /* the $ of an unquoted ${NAME} in {} or [] */
	ERROR_AT(builder, place, "%s", yaml_hint(builder->arena, problem, parser->context, text, length, &place));
}

static void read_events(struct builder *builder, const char *text, size_t length)
{
	bool is_end = false;

	while (!is_end && !builder->is_over) {
		yaml_event_t event;

		if (!yaml_parser_parse(&builder->parser, &event)) {
			report_syntax(builder, text, length);
			builder->is_over = true;
			return;
		}
		is_end = event.type == YAML_STREAM_END_EVENT;
		on_event(builder, &event);
		yaml_event_delete(&event);
	}
}

/* What was read before the YAML broke off is still judged: close what is open. */
static void close_open_nodes(struct builder *builder)
{
	while (builder->depth > 0)
		on_end(builder);
}

void document_parse(
	struct arena *arena, const char *text, size_t length, struct fault_list *faults, struct document *document)
{
	struct builder builder = {.arena = arena, .faults = faults};

	*document = (struct document){NULL, false};
	if (!yaml_parser_initialize(&builder.parser)) {
		fault_add(faults, FAULT_ERROR, (struct place){0, 0, 0}, "out of memory");
		return;
	}
	for (const char *c = text; c < text + length; c++)
		builder.n_lines += *c == '\n';
	yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text, length);
	read_events(&builder, text, length);
	document->is_whole = !builder.is_over;
	close_open_nodes(&builder);
	document->root = builder.root;
	yaml_parser_delete(&builder.parser);
	free(builder.anchors);
}
