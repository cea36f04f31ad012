/* Values that are lists or maps of something other than texts: ports, ranges, statuses, addresses, header fields. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hosts.h"
#include "value_reader.h"

static bool read_port_list(const struct reader *reader, const uint16_t **ports, size_t *n)
{
	const struct node *node = reader->node;
	uint16_t *items;
	bool is_good = true;

	if (!value_is_list(reader))
		return false;
	items = arena_alloc(reader->arena, node->n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++)
		is_good &= value_read_port(reader, node->entries[i].value, &items[i]);
	if (is_good) {
		*ports = items;
		*n = node->n;
	}
	return is_good;
}

_Static_assert(offsetof(struct upstream_def, n_ports) == offsetof(struct upstream_def, ports) + sizeof(void *),
	"KEY_PORTS writes the number behind the pointer");
_Static_assert(offsetof(struct egress_rule, n_deny) == offsetof(struct egress_rule, deny) + sizeof(void *),
	"KEY_CIDRS writes the number behind the pointer");
_Static_assert(offsetof(struct header_edit, n_set) == offsetof(struct header_edit, set) + sizeof(void *),
	"KEY_FIELDS writes the number behind the pointer");

bool value_read_ports(const struct reader *reader)
{
	const uint16_t *ports;
	size_t n;

	if (!read_port_list(reader, &ports, &n))
		return false;
	value_store_array(reader, ports, n);
	return true;
}

bool value_read_connect_ports(const struct reader *reader)
{
	struct egress_rule *egress = (struct egress_rule *)(void *)reader->member;
	const struct node *node = reader->node;

	if (node->kind == NODE_SCALAR && !strcmp(node->text, "any")) {
		egress->connect_any_port = true;
		egress->connect_ports = NULL;
		egress->n_connect_ports = 0;
		return true;
	}
	if (!read_port_list(reader, &egress->connect_ports, &egress->n_connect_ports))
		return false;
	egress->connect_any_port = false;
	return true;
}

bool value_read_cidrs(const struct reader *reader)
{
	const struct node *node = reader->node;
	struct cidr *items;
	bool is_good = true;

	if (!value_is_list(reader))
		return false;
	items = arena_alloc(reader->arena, node->n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++) {
		const char *text = value_scalar(reader, node->entries[i].value), *why = NULL;

		if (!text || !cidr_parse(reader->arena, text, &items[i], &why)) {
			is_good = false;
			if (text)
				value_reject(reader, node->entries[i].value, "%s", why);
		}
	}
	if (is_good)
		value_store_array(reader, items, node->n);
	return is_good;
}

/* ---- retry.on ---- */

static bool add_status(const struct reader *reader, const struct node *node, struct retry_on *on)
{
	const char *text = node->text;
	int first, last;

	if (!strcmp(text, "4xx") || !strcmp(text, "5xx")) {
		first = text[0] == '4' ? 400 : 500;
		last = first + 99;
	} else if (strlen(text) == 3 && strspn(text, "0123456789") == 3) {
		first = last = atoi(text);
	} else {
		return value_reject_word(reader, node, key_retry_kind_words, ", 4xx, 5xx and statuses of three digits");
	}
	if (first < 400 || first > 599)
		return value_reject(
			reader, node, "%s: only statuses from 400 to 599 can be retried", fault_quote(text));
	for (int status = first; status <= last; status++)
		on->statuses[(status - 400) / 64] |= 1ull << ((status - 400) % 64);
	return true;
}

bool value_read_retry_on(const struct reader *reader)
{
	const struct node *node = reader->node;
	struct retry_on on = {0};
	bool is_good = true;

	if (!value_is_list(reader))
		return false;
	for (size_t i = 0; i < node->n; i++) {
		const char *text = value_scalar(reader, node->entries[i].value);
		int kind = text ? value_find_word(key_retry_kind_words, text) : -1;

		if (kind >= 0)
			on.kinds |= 1u << kind;
		else
			is_good &= text && add_status(reader, node->entries[i].value, &on);
	}
	if (is_good)
		memcpy(reader->member, &on, sizeof(on));
	return is_good;
}

/* ---- addresses ---- */

static bool read_address(const struct reader *reader, const struct node *node, struct listen_address *address)
{
	const char *text = value_scalar(reader, node), *why = NULL;

	if (!text)
		return false;
	if (!listen_parse(reader->arena, text, address, &why))
		return value_reject(reader, node, "%s", why);
	address->line = node->line;
	return true;
}

bool value_read_listen(const struct reader *reader)
{
	const struct node *node = reader->node;
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	struct listen_address *items = arena_alloc(reader->arena, n * sizeof(*items));
	struct listen_list list = {items, n};
	bool is_good = true;

	for (size_t i = 0; i < n; i++)
		is_good &= read_address(reader, node->kind == NODE_LIST ? node->entries[i].value : node, &items[i]);
	if (is_good)
		memcpy(reader->member, &list, sizeof(list));
	return is_good;
}

bool value_read_admin(const struct reader *reader)
{
	struct global_rule *global = (struct global_rule *)(void *)(reader->member - reader->key->offset);
	struct listen_address address = {0};
	bool is_on = !(reader->node->kind == NODE_SCALAR && value_is_off(reader->node->text));

	if (is_on && !read_address(reader, reader->node, &address))
		return false;
	global->admin_is_on = is_on;
	global->admin = address;
	return true;
}

/* ---- header fields ---- */

/* Places name in the list: over the entry of that name, else behind the last. An empty value takes the entry out. */
static size_t put_field(struct header_field *items, size_t n, const char *name, const char *value)
{
	size_t at = 0;

	while (at < n && strcasecmp(items[at].name, name) != 0)
		at++;
	if (!value) {
		if (at < n)
			memmove(items + at, items + at + 1, (n - at - 1) * sizeof(*items));
		return at < n ? n - 1 : n;
	}
	items[at] = (struct header_field){name, value};
	return at < n ? n : n + 1;
}

/* Names compare whatever their case, so YAML doesn't see that two keys are one. */
static bool is_field_repeated(const struct node *map, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (!strcasecmp(map->entries[i].key->text, map->entries[index].key->text))
			return true;
	return false;
}

/* Why the field may not be set, to be said after its name; NULL when it may. */
static const char *field_fault(const struct node *map, size_t index)
{
	const char *name = map->entries[index].key->text;

	if (!value_is_token(name))
		return " is not the name of a header field";
	if (value_is_reserved_field(name))
		return " is not the policy's to set";
	return is_field_repeated(map, index) ? " is set twice" : NULL;
}

#define MAX_FIELDS 256

/* Inherited ones stay, unless they are set anew or taken back. */
bool value_read_fields(const struct reader *reader)
{
	const struct node *node = reader->node;
	const struct header_field *inherited;
	struct header_field *items;
	bool is_good = true;
	size_t n;

	if (node->kind != NODE_MAP)
		return !node->is_faulty && value_reject_kind(reader, node);
	memcpy(&inherited, reader->member, sizeof(inherited));
	memcpy(&n, reader->member + sizeof(inherited), sizeof(n));
	if (n + node->n > MAX_FIELDS)
		return REJECT(reader, "more than %d header fields", MAX_FIELDS);
	items = arena_alloc(reader->arena, (n + node->n) * sizeof(*items));
	if (n)
		memcpy(items, inherited, n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++) {
		const struct node *key = node->entries[i].key, *value = node->entries[i].value;
		const char *fault = field_fault(node, i),
			   *text = node_is_null(value) ? NULL : value_scalar(reader, value);

		if (fault)
			is_good = value_reject(reader, key, "%s%s", fault_quote(key->text), fault);
		else if (!text && !node_is_null(value))
			is_good = false;
		else
			n = put_field(items, n, arena_strdup(reader->arena, key->text),
				text ? arena_strdup(reader->arena, text) : NULL);
	}
	if (is_good)
		value_store_array(reader, items, n);
	return is_good;
}
