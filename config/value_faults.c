/* How a value is refused: what was expected, what was found, what was perhaps meant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "value_reader.h"

bool value_reject(const struct reader *reader, const struct node *node, const char *format, ...)
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

static const char *off_clause(const struct key *key)
{
	bool is_said = key->type == KEY_SWITCH || key->type == KEY_ADMIN || key->type == KEY_WORD;

	return (key->flags & KEY_MAY_BE_OFF) && !is_said ? ", or off" : "";
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

bool value_reject_kind(const struct reader *reader, const struct node *node)
{
	return value_reject(reader, node, "expected %s%s; found %s", value_type_words(reader->key),
		off_clause(reader->key), node_kind_word(node));
}

/* The text of a scalar that may be used; NULL after a fault. */
const char *value_scalar(const struct reader *reader, const struct node *node)
{
	if (node->is_faulty)
		return NULL;
	if (node->kind != NODE_SCALAR && node != reader->node) { /* an item of a list, or a field's value */
		value_reject(reader, node,
			"expected a text here; found %s (a text that begins with [ or { must be quoted)",
			node_kind_word(node));
		return NULL;
	}
	if (node->kind != NODE_SCALAR) {
		value_reject_kind(reader, node);
		return NULL;
	}
	if (node_is_null(node) && node != reader->node) {
		value_reject(reader, node, "an item is missing");
		return NULL;
	}
	if (node_is_null(node)) {
		value_reject(reader, node, "the value is missing; expected %s%s", value_type_words(reader->key),
			off_clause(reader->key));
		return NULL;
	}
	if (node->has_control) {
		value_reject(reader, node, "a line break or control character can't be part of the value");
		return NULL;
	}
	return node->text;
}

bool value_reject_word(const struct reader *reader, const struct node *node, const char *const *words, const char *also)
{
	struct suggestion near = suggestion_for(node->text);
	char list[200] = "";

	for (size_t i = 0; words[i]; i++) {
		suggestion_consider(&near, words[i]);
		strcat(list, i ? ", " : "");
		strcat(list, words[i]);
	}
	if (near.best)
		return value_reject(reader, node, "unknown value %s; did you mean %s? Known are %s%s",
			fault_quote(node->text), near.best, list, also);
	return value_reject(reader, node, "unknown value %s; known are %s%s", fault_quote(node->text), list, also);
}
