/* Values that are texts, alone or in a list: names, hosts, methods, paths, pins. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "hosts.h"
#include "paths.h"
#include "value_reader.h"

/* Takes one node; returns the text as it is kept, or NULL after a fault. */
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
	const char *text = value_scalar(reader, node);

	if (!text)
		return NULL;
	for (const char *c = text; *c; c++) {
		if (isalnum((unsigned char)*c) || strchr("-_.:/[]", *c))
			continue;
		value_reject(reader, node, "%s: a name has letters, digits and -_.:/[] only", fault_quote(text));
		return NULL;
	}
	if (strlen(text) <= 100 && *text)
		return arena_strdup(reader->arena, text);
	value_reject(reader, node, *text ? "a name has at most 100 characters" : "the name is empty");
	return NULL;
}

/* Fields that frame the message or belong to one hop are not the policy's to write. */
bool value_is_reserved_field(const char *name)
{
	static const char *const reserved[] = {"connection", "content-length", "host", "keep-alive", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade", "via"};

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (!strcasecmp(name, reserved[i]))
			return true;
	return false;
}

static const char *text_field_name(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node);

	if (!text)
		return NULL;
	if (!value_is_token(text))
		value_reject(reader, node, "%s is not the name of a header field", fault_quote(text));
	else if (reader->key->type == KEY_FIELD_NAMES && value_is_reserved_field(text))
		value_reject(reader, node, "%s is not the policy's to remove", fault_quote(text));
	else if (reader->key->type == KEY_FIELD_NAME && (!strcmp(text, "on") || !strcmp(text, "true")))
		value_reject(reader, node, "write the name of the header field, not %s", text);
	else
		return arena_strdup(reader->arena, text);
	return NULL;
}

static const char *text_file(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node);

	if (text && *text)
		return arena_strdup(reader->arena, text);
	if (text)
		value_reject(reader, node, "the path is empty");
	return NULL;
}

static const char *text_host(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node), *why = NULL, *host;

	if (!text)
		return NULL;
	host = reader->key->type == KEY_HOST_PATTERNS ? host_parse_pattern(reader->arena, text, &why)
						      : host_parse_name(reader->arena, text, &why);
	if (!host)
		value_reject(reader, node, "%s", why);
	return host;
}

static const char *text_server(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node), *why = NULL, *server = NULL;

	if (text && !(server = server_parse(reader->arena, text, &why)))
		value_reject(reader, node, "%s", why);
	return server;
}

static const char *text_method(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node);

	if (text && value_is_token(text))
		return arena_strdup(reader->arena, text);
	if (text && strpbrk(text, ", "))
		value_reject(reader, node, "%s: write several methods as a list", fault_quote(text));
	else if (text)
		value_reject(reader, node, "%s is not a method", fault_quote(text));
	return NULL;
}

static const char *text_media_type(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node), *slash;
	char *type, *subtype;

	if (!text)
		return NULL;
	type = arena_strdup(reader->arena, text);
	for (char *c = type; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	slash = strchr(type, '/');
	subtype = slash ? type + (slash - type) + 1 : NULL;
	if (subtype && value_is_token(subtype) &&
		value_is_token(arena_strndup(reader->arena, type, (size_t)(slash - type))) && !strchr(type, '*'))
		return type;
	value_reject(reader, node,
		strchr(text, ';')   ? "%s: write the media type without its parameters"
		: strchr(text, '*') ? "%s: media types are compared whole, * is not known here"
				    : "%s is not a media type such as text/event-stream",
		fault_quote(text));
	return NULL;
}

/* `..` behind a star would take away something unknown, so the pattern has no normal form. */
static bool has_star_before_dots(const char *path)
{
	const char *star = strchr(path, '*');
	const char *dots = star ? strstr(star, "/..") : NULL;

	return dots && (dots[3] == '\0' || dots[3] == '/');
}

/* A blank is written as it is in the file, but never in a request. */
static const char *normal_path(struct arena *arena, const char *text)
{
	char *path = arena_alloc(arena, 3 * strlen(text) + 1), *out = path;

	for (const char *c = text; *c; c++) {
		if (*c == ' ')
			out = stpcpy(out, "%20");
		else
			*out++ = *c;
	}
	path[path_normalise(path, (size_t)(out - path), path)] = '\0';
	return path;
}

static const char *text_path(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node);

	if (!text)
		return NULL;
	if (strstr(text, "://"))
		value_reject(reader, node, "%s is a URL: write the path only", fault_quote(text));
	else if (strpbrk(text, "?#"))
		value_reject(reader, node, "%s: paths are matched without the query, so this can never match",
			fault_quote(text));
	else if (text[0] != '/' && text[0] != '*')
		value_reject(reader, node, "%s: a path begins with / (or *): write \"/%s\"", fault_quote(text), text);
	else if (has_star_before_dots(text))
		value_reject(reader, node, "%s: /.. can't stand behind a *", fault_quote(text));
	else
		return normal_path(reader->arena, text);
	return NULL;
}

/* "sha256/" and the 32 bytes of a SHA-256 in base64: 43 digits and one "=". */
static const char *text_pin(const struct reader *reader, const struct node *node)
{
	const char *text = value_scalar(reader, node);
	const char *digits = text && !strncmp(text, "sha256/", 7) ? text + 7 : NULL;

	if (digits && strlen(digits) == 44 && digits[43] == '=' && strchr("AEIMQUYcgkosw048", digits[42]) &&
		strspn(digits, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") == 43)
		return arena_strdup(reader->arena, text);
	if (text)
		value_reject(reader, node, "%s is not sha256/ and the base64 of 32 bytes", fault_quote(text));
	return NULL;
}

static read_text_fn text_reader(enum key_type type)
{
	switch (type) {
	case KEY_NAME:
		return text_name;
	case KEY_FIELD_NAME:
	case KEY_FIELD_NAMES:
		return text_field_name;
	case KEY_FILE:
		return text_file;
	case KEY_SERVER_NAME:
	case KEY_HOST_PATTERNS:
	case KEY_HOST_NAMES:
		return text_host;
	case KEY_SERVERS:
		return text_server;
	case KEY_METHODS:
		return text_method;
	case KEY_MEDIA_TYPES:
		return text_media_type;
	case KEY_PATHS:
		return text_path;
	case KEY_PINS:
		return text_pin;
	default:
		return NULL;
	}
}

bool value_read_text(const struct reader *reader)
{
	const struct key *key = reader->key;
	const struct node *node = reader->node;
	const char *text = NULL;
	bool is_null = (key->flags & KEY_MAY_BE_EMPTY) && node_is_null(node);

	if (key->words && node->kind == NODE_SCALAR && !strcmp(node->text, key->words[0]))
		is_null = true;
	if ((key->flags & KEY_MAY_BE_OFF) && node->kind == NODE_SCALAR && value_is_off(node->text))
		is_null = true;
	if (!is_null && !(text = text_reader(key->type)(reader, node)))
		return false;
	memcpy(reader->member, &text, sizeof(text));
	return true;
}

bool value_read_texts(const struct reader *reader)
{
	read_text_fn read_one = text_reader(reader->key->type);
	const struct node *node = reader->node;
	struct string_list list = {NULL, 0};
	const char **items;
	bool is_good = true;

	if (reader->key->words && node->kind == NODE_SCALAR && !strcmp(node->text, reader->key->words[0]))
		goto done;
	if (!value_is_list(reader))
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
