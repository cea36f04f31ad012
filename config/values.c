#include "values.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hosts.h"
#include "paths.h"
#include "suggest.h"
#include "units.h"

struct reader {
	struct arena *arena;
	struct fault_list *faults;
	const struct key *key;
	const struct node *node;
	char *member; /* owner + offset */
};

/* ---- faults ---- */

static bool reject_at(const struct reader *reader, const struct node *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool reject_at(const struct reader *reader, const struct node *node, const char *format, ...)
{
	va_list arguments;
	char *reason;
	int length;

	va_start(arguments, format);
	length = vasprintf(&reason, format, arguments);
	va_end(arguments);
	if (length < 0)
		return false;
	if (node->source)
		fault_add(reader->faults, FAULT_ERROR, node_place(node), "%s: %s (from %s)", reader->key->path, reason,
			  fault_quote(node->source));
	else
		fault_add(reader->faults, FAULT_ERROR, node_place(node), "%s: %s", reader->key->path, reason);
	free(reason);
	return false;
}

#define REJECT(reader, ...) reject_at(reader, (reader)->node, __VA_ARGS__)

static const char *off_clause(const struct key *key)
{
	return key->flags & KEY_MAY_BE_OFF ? ", or off" : "";
}

const char *value_type_words(const struct key *key)
{
	static const char *const words[N_KEY_TYPES] = {
		[KEY_SECTION] = "a map of keys",
		[KEY_SWITCH] = "a map of keys, on or off",
		[KEY_DURATION] = "a duration such as 250ms, 2s or 1m30s",
		[KEY_SIZE] = "a size such as 64KiB, 10MB or 4096",
		[KEY_COUNT] = "a whole number",
		[KEY_RATIO] = "a ratio such as 20% or 0.2",
		[KEY_NUMBER] = "a number",
		[KEY_BOOL] = "on or off",
		[KEY_WORD] = "a word",
		[KEY_NAME] = "a name",
		[KEY_FIELD_NAME] = "the name of a header field",
		[KEY_FILE] = "the path of a file",
		[KEY_SERVER_NAME] = "a host name, or auto",
		[KEY_PORT] = "a port number",
		[KEY_METHODS] = "a list of methods such as [GET, HEAD]",
		[KEY_MEDIA_TYPES] = "a list of media types such as [text/event-stream]",
		[KEY_HOST_PATTERNS] = "a list of hosts such as [api.example.com, \"*.example.com\"]",
		[KEY_HOST_NAMES] = "a list of host names",
		[KEY_PATHS] = "a list of paths such as [/v1/charges, \"/v1/*\"]",
		[KEY_PINS] = "a list of pins such as [sha256/BASE64]",
		[KEY_FIELD_NAMES] = "a list of header field names",
		[KEY_SERVERS] = "system, or a list of addresses",
		[KEY_PORTS] = "a list of ports such as [80, 443]",
		[KEY_CIDRS] = "a list of addresses or ranges such as [10.0.0.0/8]",
		[KEY_FIELDS] = "a map of header field names to values",
		[KEY_CONNECT_PORTS] = "a list of ports, or any",
		[KEY_RETRY_ON] = "a list of failure kinds and statuses such as [reset, 503]",
		[KEY_JITTER] = "full, equal, decorrelated, none or a fraction",
		[KEY_LISTEN] = "an address such as 127.0.0.1:3128, or a list of them",
		[KEY_ADMIN] = "an address such as 127.0.0.1:9128, or off",
	};
	return words[key->type] ? words[key->type] : "a map";
}

static bool reject_kind(const struct reader *reader, const struct node *node)
{
	return reject_at(reader, node, "expected %s%s; found %s", value_type_words(reader->key),
			 reader->key->type == KEY_ADMIN || reader->key->type == KEY_SWITCH ? "" : off_clause(reader->key),
			 node_kind_word(node));
}

/* The text of a scalar that may be used; NULL after a fault. */
static const char *scalar(const struct reader *reader, const struct node *node)
{
	if (node->is_faulty)
		return NULL;
	if (node->kind != NODE_SCALAR) {
		reject_kind(reader, node);
		return NULL;
	}
	if (node_is_null(node)) {
		reject_at(reader, node, "the value is missing; expected %s%s", value_type_words(reader->key),
			  off_clause(reader->key));
		return NULL;
	}
	if (node->has_control) {
		reject_at(reader, node, "a line break or control character can't be part of the value");
		return NULL;
	}
	return node->text;
}

/* "off", and what YAML 1.1 tools write for it. */
static bool is_off(const char *text)
{
	return !strcmp(text, "off") || !strcmp(text, "false");
}

static bool reject_off_trap(const struct reader *reader, const char *text)
{
	static const char *const traps[] = { "no", "none", "never", "disabled", "unlimited", "infinite", "-1", "Off", "OFF" };

	for (size_t i = 0; i < sizeof(traps) / sizeof(traps[0]); i++)
		if (!strcmp(text, traps[i]))
			return !REJECT(reader, "%s: to switch the limit off, write off", fault_quote(text));
	return false;
}

static bool reject_word(const struct reader *reader, const struct node *node, const char *const *words, const char *also)
{
	struct suggestion near = suggestion_for(node->text);
	char list[200] = "";

	for (size_t i = 0; words[i]; i++) {
		suggestion_consider(&near, words[i]);
		strcat(list, i ? ", " : "");
		strcat(list, words[i]);
	}
	if (near.best)
		return reject_at(reader, node, "unknown value %s; did you mean %s? Known are %s%s", fault_quote(node->text),
				 near.best, list, also);
	return reject_at(reader, node, "unknown value %s; known are %s%s", fault_quote(node->text), list, also);
}

static int find_word(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	return -1;
}

/* ---- numbers ---- */

static void format_bound(const struct key *key, double bound, char out[static UNITS_TEXT_BYTES])
{
	if (key->type == KEY_DURATION)
		units_format_duration((int64_t)bound, out);
	else if (key->type == KEY_SIZE)
		units_format_size((int64_t)bound, out);
	else if (key->type == KEY_RATIO)
		units_format_ratio(bound, out);
	else
		units_format_number(bound, out);
}

static bool check_range(const struct reader *reader, double value)
{
	const struct key *key = reader->key;
	char bound[UNITS_TEXT_BYTES];

	if (value < key->min) {
		format_bound(key, key->min, bound);
		return REJECT(reader, "%s is below %s, the least allowed%s", fault_quote(reader->node->text), bound,
			      value == 0 && (key->flags & KEY_MAY_BE_OFF) ? "; off switches the limit off" : "");
	}
	if (value > key->max) {
		format_bound(key, key->max, bound);
		return REJECT(reader, "%s is over %s, the most allowed%s", fault_quote(reader->node->text), bound,
			      key->flags & KEY_MAY_BE_OFF ? "; off switches the limit off" : "");
	}
	return true;
}

static bool read_integer(const struct reader *reader)
{
	const char *text = scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	int64_t value = LIMIT_OFF;
	bool is_good;

	if (!text)
		return false;
	if (!((reader->key->flags & KEY_MAY_BE_OFF) && is_off(text))) {
		if ((reader->key->flags & KEY_MAY_BE_OFF) && reject_off_trap(reader, text))
			return false;
		if (is_off(text))
			return REJECT(reader, "this limit can't be switched off; expected %s",
				      value_type_words(reader->key));
		is_good = reader->key->type == KEY_DURATION ? units_parse_duration(text, &value, why) :
			  reader->key->type == KEY_SIZE	    ? units_parse_size(text, &value, why) :
							      units_parse_count(text, &value, why);
		if (!is_good)
			return REJECT(reader, "%s", why);
		if (!check_range(reader, (double)value))
			return false;
	}
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_fraction(const struct reader *reader)
{
	const char *text = scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	double value = LIMIT_OFF;

	if (!text)
		return false;
	if (!((reader->key->flags & KEY_MAY_BE_OFF) && is_off(text))) {
		if (!(reader->key->type == KEY_RATIO ? units_parse_ratio(text, &value, why) :
						       units_parse_number(text, &value, why)))
			return REJECT(reader, "%s", why);
		if (!check_range(reader, value))
			return false;
	}
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_port(const struct reader *reader, const struct node *node, uint16_t *port)
{
	const char *text = scalar(reader, node);
	char why[UNITS_WHY_BYTES];
	int64_t value;

	if (!text)
		return false;
	if (!units_parse_count(text, &value, why))
		return reject_at(reader, node, "%s; expected a port from 1 to 65535", why);
	if (value < 1 || value > 65535)
		return reject_at(reader, node, "%s is not a port: ports go from 1 to 65535", fault_quote(text));
	*port = (uint16_t)value;
	return true;
}

/* ---- words ---- */

/* What other spellings of on and off mean; NULL when it is none. */
static const char *guess_bool(const char *text)
{
	static const char *const spellings[][2] = {
		{ "yes", "on" }, { "y", "on" }, { "on", "on" }, { "true", "on" }, { "1", "on" }, { "enabled", "on" },
		{ "always", "on" }, { "no", "off" }, { "n", "off" }, { "off", "off" }, { "false", "off" }, { "0", "off" },
		{ "disabled", "off" }, { "never", "off" }, { "none", "off" },
	};

	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (!strcasecmp(text, spellings[i][0]))
			return spellings[i][1];
	return NULL;
}

static bool read_bool(const struct reader *reader)
{
	static const char *const off_on[] = { "off", "on", NULL };
	const char *const *words = reader->key->words ? reader->key->words : off_on;
	const char *text = scalar(reader, reader->node);
	int index;
	bool value;

	if (!text)
		return false;
	index = find_word(words, text);
	if (index < 0 && !reader->key->words) /* what YAML 1.1 tools write for on and off */
		index = !strcmp(text, "true") ? 1 : !strcmp(text, "false") ? 0 : -1;
	if (index < 0 && !reader->key->words && guess_bool(text))
		return REJECT(reader, "%s: write %s", fault_quote(text), guess_bool(text));
	if (index < 0)
		return reject_word(reader, reader->node, words, "");
	value = index == 1;
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_word(const struct reader *reader)
{
	const char *text = scalar(reader, reader->node);
	unsigned value;
	int index;

	if (!text)
		return false;
	index = find_word(reader->key->words, (reader->key->flags & KEY_MAY_BE_OFF) && is_off(text) ? "off" : text);
	if (index < 0)
		return reject_word(reader, reader->node, reader->key->words, "");
	value = (unsigned)index;
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

/* The map form of a switch is the walker's; here only on and off. */
static bool read_switch(const struct reader *reader)
{
	const char *text = scalar(reader, reader->node);
	bool value;

	if (!text)
		return false;
	if (!is_off(text) && strcmp(text, "on") != 0 && strcmp(text, "true") != 0)
		return REJECT(reader, "%s is not a map of keys, on or off", fault_quote(text));
	value = !is_off(text);
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_jitter(const struct reader *reader)
{
	struct backoff_rule *rule = (struct backoff_rule *)(void *)reader->member;
	const char *text = scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	int index;

	if (!text)
		return false;
	index = find_word(key_jitter_words, is_off(text) ? "none" : text);
	if (index < 0 && !isdigit((unsigned char)text[0]))
		return reject_word(reader, reader->node, key_jitter_words, " and fractions such as 0.2");
	if (index < 0 && !units_parse_ratio(text, &rule->jitter_fraction, why))
		return REJECT(reader, "%s", why);
	if (index >= 0)
		rule->jitter_fraction = 0;
	rule->jitter = index < 0 ? JITTER_FRACTION : (enum jitter)index;
	return true;
}

/* ---- texts: each takes one node, returns the text as kept, or NULL after a fault ---- */

typedef const char *(*read_text_fn)(const struct reader *reader, const struct node *node);

bool value_is_token(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c))
			return false;
	return *text != '\0';
}

static const char *text_name(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);

	if (!text)
		return NULL;
	for (const char *c = text; *c; c++) {
		if (isalnum((unsigned char)*c) || strchr("-_.:/[]", *c))
			continue;
		reject_at(reader, node, "%s: a name has letters, digits and -_.:/[] only", fault_quote(text));
		return NULL;
	}
	if (strlen(text) <= 100 && *text)
		return arena_strdup(reader->arena, text);
	reject_at(reader, node, *text ? "a name has at most 100 characters" : "the name is empty");
	return NULL;
}

static const char *text_field_name(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);

	if (text && value_is_token(text))
		return arena_strdup(reader->arena, text);
	if (text)
		reject_at(reader, node, "%s is not the name of a header field", fault_quote(text));
	return NULL;
}

static const char *text_file(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);

	if (text && *text)
		return arena_strdup(reader->arena, text);
	if (text)
		reject_at(reader, node, "the path is empty");
	return NULL;
}

static const char *text_host(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node), *why = NULL, *host;

	if (!text)
		return NULL;
	host = reader->key->type == KEY_HOST_PATTERNS ? host_parse_pattern(reader->arena, text, &why) :
							host_parse_name(reader->arena, text, &why);
	if (!host)
		reject_at(reader, node, "%s", why);
	return host;
}

static const char *text_server(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node), *why = NULL, *server = NULL;

	if (text && !(server = server_parse(reader->arena, text, &why)))
		reject_at(reader, node, "%s", why);
	return server;
}

static const char *text_method(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);

	if (text && value_is_token(text))
		return arena_strdup(reader->arena, text);
	if (text && strpbrk(text, ", "))
		reject_at(reader, node, "%s: write several methods as a list", fault_quote(text));
	else if (text)
		reject_at(reader, node, "%s is not a method", fault_quote(text));
	return NULL;
}

static const char *text_media_type(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node), *slash;
	char *type, *subtype;

	if (!text)
		return NULL;
	type = arena_strdup(reader->arena, text);
	for (char *c = type; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	slash = strchr(type, '/');
	subtype = slash ? type + (slash - type) + 1 : NULL;
	if (subtype && value_is_token(subtype) && value_is_token(arena_strndup(reader->arena, type, (size_t)(slash - type))) &&
	    !strchr(type, '*'))
		return type;
	reject_at(reader, node, strchr(text, ';') ? "%s: write the media type without its parameters" :
		  strchr(text, '*') ? "%s: media types are compared whole, * is not known here" :
		  "%s is not a media type such as text/event-stream", fault_quote(text));
	return NULL;
}

/* `..` behind a star would take away something unknown, so the pattern has no normal form. */
static bool has_star_before_dots(const char *path)
{
	const char *star = strchr(path, '*');
	const char *dots = star ? strstr(star, "/..") : NULL;

	return dots && (dots[3] == '\0' || dots[3] == '/');
}

static const char *text_path(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);
	char *path;

	if (!text)
		return NULL;
	if (strstr(text, "://"))
		reject_at(reader, node, "%s is a URL: write the path only", fault_quote(text));
	else if (strpbrk(text, "?#"))
		reject_at(reader, node, "%s: paths are matched without the query, so this can never match", fault_quote(text));
	else if (text[0] != '/' && text[0] != '*')
		reject_at(reader, node, "%s: a path begins with / (or *): write \"/%s\"", fault_quote(text), text);
	else if (has_star_before_dots(text))
		reject_at(reader, node, "%s: /.. can't stand behind a *", fault_quote(text));
	else {
		path = arena_strdup(reader->arena, text);
		path[path_normalise(text, strlen(text), path)] = '\0';
		return path;
	}
	return NULL;
}

/* "sha256/" and the 32 bytes of a SHA-256 in base64: 43 digits and one "=". */
static const char *text_pin(const struct reader *reader, const struct node *node)
{
	const char *text = scalar(reader, node);
	const char *digits = text && !strncmp(text, "sha256/", 7) ? text + 7 : NULL;

	if (digits && strlen(digits) == 44 && digits[43] == '=' && strchr("AEIMQUYcgkosw048", digits[42]) &&
	    strspn(digits, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") == 43)
		return arena_strdup(reader->arena, text);
	if (text)
		reject_at(reader, node, "%s is not sha256/ and the base64 of 32 bytes", fault_quote(text));
	return NULL;
}

static read_text_fn text_reader(enum key_type type)
{
	switch (type) {
	case KEY_NAME: return text_name;
	case KEY_FIELD_NAME: case KEY_FIELD_NAMES: return text_field_name;
	case KEY_FILE: return text_file;
	case KEY_SERVER_NAME: case KEY_HOST_PATTERNS: case KEY_HOST_NAMES: return text_host;
	case KEY_SERVERS: return text_server;
	case KEY_METHODS: return text_method;
	case KEY_MEDIA_TYPES: return text_media_type;
	case KEY_PATHS: return text_path;
	case KEY_PINS: return text_pin;
	default: return NULL;
	}
}

static bool read_text(const struct reader *reader)
{
	const struct key *key = reader->key;
	const struct node *node = reader->node;
	const char *text = NULL;
	bool is_null = (key->flags & KEY_MAY_BE_EMPTY) && node_is_null(node);

	if (key->words && node->kind == NODE_SCALAR && !strcmp(node->text, key->words[0]))
		is_null = true;
	if ((key->flags & KEY_MAY_BE_OFF) && node->kind == NODE_SCALAR && is_off(node->text))
		is_null = true;
	if (!is_null && !(text = text_reader(key->type)(reader, node)))
		return false;
	memcpy(reader->member, &text, sizeof(text));
	return true;
}

/* ---- lists ---- */

static bool is_list(const struct reader *reader)
{
	const struct node *node = reader->node;

	if (node->is_faulty)
		return false;
	if (node->kind == NODE_LIST)
		return true;
	if (node->kind == NODE_SCALAR && !node_is_null(node))
		return REJECT(reader, "expected %s; found the text %s", value_type_words(reader->key), fault_quote(node->text));
	return reject_kind(reader, node);
}

static bool read_texts(const struct reader *reader)
{
	read_text_fn read_one = text_reader(reader->key->type);
	const struct node *node = reader->node;
	struct string_list list = { NULL, 0 };
	const char **items;
	bool is_good = true;

	if (reader->key->words && node->kind == NODE_SCALAR && !strcmp(node->text, reader->key->words[0]))
		goto done;
	if (!is_list(reader))
		return false;
	items = arena_alloc(reader->arena, node->n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++) {
		items[list.n] = read_one(reader, node->entries[i].value);
		if (items[list.n])
			list.n++;
		else
			is_good = false;
	}
	list.items = items;
done:
	if (is_good)
		memcpy(reader->member, &list, sizeof(list));
	return is_good;
}

static bool read_ports(const struct reader *reader, const uint16_t **ports, size_t *n)
{
	const struct node *node = reader->node;
	uint16_t *items;
	bool is_good = true;

	if (!is_list(reader))
		return false;
	items = arena_alloc(reader->arena, node->n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++)
		is_good &= read_port(reader, node->entries[i].value, &items[i]);
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

static void store_array(const struct reader *reader, const void *items, size_t n)
{
	memcpy(reader->member, &items, sizeof(items));
	memcpy(reader->member + sizeof(items), &n, sizeof(n));
}

static bool read_plain_ports(const struct reader *reader)
{
	const uint16_t *ports;
	size_t n;

	if (!read_ports(reader, &ports, &n))
		return false;
	store_array(reader, ports, n);
	return true;
}

static bool read_connect_ports(const struct reader *reader)
{
	struct egress_rule *egress = (struct egress_rule *)(void *)reader->member;
	const struct node *node = reader->node;

	if (node->kind == NODE_SCALAR && !strcmp(node->text, "any")) {
		egress->connect_any_port = true;
		egress->connect_ports = NULL;
		egress->n_connect_ports = 0;
		return true;
	}
	if (!read_ports(reader, &egress->connect_ports, &egress->n_connect_ports))
		return false;
	egress->connect_any_port = false;
	return true;
}

static bool read_cidrs(const struct reader *reader)
{
	const struct node *node = reader->node;
	struct cidr *items;
	bool is_good = true;

	if (!is_list(reader))
		return false;
	items = arena_alloc(reader->arena, node->n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++) {
		const char *text = scalar(reader, node->entries[i].value), *why = NULL;

		if (!text || !cidr_parse(reader->arena, text, &items[i], &why)) {
			is_good = false;
			if (text)
				reject_at(reader, node->entries[i].value, "%s", why);
		}
	}
	if (is_good)
		store_array(reader, items, node->n);
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
		return reject_word(reader, node, key_retry_kind_words, ", 4xx, 5xx and statuses of three digits");
	}
	if (first < 400 || first > 599)
		return reject_at(reader, node, "%s: only statuses from 400 to 599 can be retried", fault_quote(text));
	for (int status = first; status <= last; status++)
		on->statuses[(status - 400) / 64] |= 1ull << ((status - 400) % 64);
	return true;
}

static bool read_retry_on(const struct reader *reader)
{
	const struct node *node = reader->node;
	struct retry_on on = { 0 };
	bool is_good = true;

	if (!is_list(reader))
		return false;
	for (size_t i = 0; i < node->n; i++) {
		const char *text = scalar(reader, node->entries[i].value);
		int kind = text ? find_word(key_retry_kind_words, text) : -1;

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
	const char *text = scalar(reader, node), *why = NULL;

	if (!text)
		return false;
	if (!listen_parse(reader->arena, text, address, &why))
		return reject_at(reader, node, "%s", why);
	address->line = node->line;
	return true;
}

static bool read_listen(const struct reader *reader)
{
	const struct node *node = reader->node;
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	struct listen_address *items = arena_alloc(reader->arena, n * sizeof(*items));
	struct listen_list list = { items, n };
	bool is_good = true;

	for (size_t i = 0; i < n; i++)
		is_good &= read_address(reader, node->kind == NODE_LIST ? node->entries[i].value : node, &items[i]);
	if (is_good)
		memcpy(reader->member, &list, sizeof(list));
	return is_good;
}

static bool read_admin(const struct reader *reader)
{
	struct global_rule *global = (struct global_rule *)(void *)(reader->member - reader->key->offset);
	struct listen_address address = { 0 };
	bool is_on = !(reader->node->kind == NODE_SCALAR && is_off(reader->node->text));

	if (is_on && !read_address(reader, reader->node, &address))
		return false;
	global->admin_is_on = is_on;
	global->admin = address;
	return true;
}

/* ---- header fields ---- */

/* Fields that frame the message or belong to one hop are not the policy's to write. */
static bool is_reserved_field(const char *name)
{
	static const char *const reserved[] = { "connection", "content-length", "host", "keep-alive", "proxy-connection",
						"te", "trailer", "transfer-encoding", "upgrade", "via" };

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (!strcasecmp(name, reserved[i]))
			return true;
	return false;
}

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
	items[at] = (struct header_field){ name, value };
	return at < n ? n : n + 1;
}

#define MAX_FIELDS 256

static bool read_fields(const struct reader *reader)
{
	const struct node *node = reader->node;
	const struct header_field *inherited;
	struct header_field *items;
	size_t n;
	bool is_good = true;

	if (node->kind != NODE_MAP)
		return !node->is_faulty && reject_kind(reader, node);
	memcpy(&inherited, reader->member, sizeof(inherited));
	memcpy(&n, reader->member + sizeof(inherited), sizeof(n));
	if (n + node->n > MAX_FIELDS)
		return REJECT(reader, "more than %d header fields", MAX_FIELDS);
	items = arena_alloc(reader->arena, (n + node->n) * sizeof(*items));
	if (n)
		memcpy(items, inherited, n * sizeof(*items));
	for (size_t i = 0; i < node->n; i++) {
		const struct node *key = node->entries[i].key, *value = node->entries[i].value;
		bool is_null = node_is_null(value);
		const char *text = is_null ? NULL : scalar(reader, value);

		if (!value_is_token(key->text) || is_reserved_field(key->text))
			is_good = reject_at(reader, key, value_is_token(key->text) ? "%s is not the policy's to set" :
					    "%s is not the name of a header field", fault_quote(key->text));
		else if (!is_null && !text)
			is_good = false;
		else
			n = put_field(items, n, arena_strdup(reader->arena, key->text),
				      text ? arena_strdup(reader->arena, text) : NULL);
	}
	if (is_good)
		store_array(reader, items, n);
	return is_good;
}

static bool read_single_port(const struct reader *reader)
{
	uint16_t port = 0;

	if (!node_is_null(reader->node) && !read_port(reader, reader->node, &port))
		return false;
	memcpy(reader->member, &port, sizeof(port));
	return true;
}

bool value_read(struct arena *arena, struct fault_list *faults, const struct key *key, const struct node *node,
		void *owner)
{
	const struct reader reader = { arena, faults, key, node, (char *)owner + key->offset };

	switch (key->type) {
	case KEY_STRUCTURE: case KEY_SECTION: case N_KEY_TYPES: return true;
	case KEY_SWITCH: return read_switch(&reader);
	case KEY_DURATION: case KEY_SIZE: case KEY_COUNT: return read_integer(&reader);
	case KEY_RATIO: case KEY_NUMBER: return read_fraction(&reader);
	case KEY_BOOL: return read_bool(&reader);
	case KEY_WORD: return read_word(&reader);
	case KEY_NAME: case KEY_FIELD_NAME: case KEY_FILE: case KEY_SERVER_NAME: return read_text(&reader);
	case KEY_PORT: return read_single_port(&reader);
	case KEY_METHODS: case KEY_MEDIA_TYPES: case KEY_HOST_PATTERNS: case KEY_HOST_NAMES: case KEY_PATHS: case KEY_PINS:
	case KEY_FIELD_NAMES: case KEY_SERVERS: return read_texts(&reader);
	case KEY_PORTS: return read_plain_ports(&reader);
	case KEY_CIDRS: return read_cidrs(&reader);
	case KEY_FIELDS: return read_fields(&reader);
	case KEY_CONNECT_PORTS: return read_connect_ports(&reader);
	case KEY_RETRY_ON: return read_retry_on(&reader);
	case KEY_JITTER: return read_jitter(&reader);
	case KEY_LISTEN: return read_listen(&reader);
	case KEY_ADMIN: return read_admin(&reader);
	}
	return true;
}
