/* One key in the schema: its type as alternatives, its description, its built-in value as JSON. */
#include "schema_key.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "document.h"
#include "keys.h"
#include "units.h"

#define NUMBER_PATTERN "(0|[1-9][0-9]*)"
#define DURATION_PATTERN                                                                                               \
	"^(?=[0-9])(" NUMBER_PATTERN "h)?(" NUMBER_PATTERN "m)?(" NUMBER_PATTERN "s)?(" NUMBER_PATTERN "ms)?$"
#define SIZE_PATTERN "^" NUMBER_PATTERN "(B|KB|MB|GB|KiB|MiB|GiB)?$"
#define RATIO_PATTERN "^" NUMBER_PATTERN "([.][0-9]+)?%?$"
#define DECIMAL_PATTERN "^" NUMBER_PATTERN "([.][0-9]+)?$"
#define TOKEN_PATTERN "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
#define LISTEN_PATTERN "^(unix:/.+|[0-9.]+:[0-9]+|\\[[0-9A-Fa-f:.]+\\]:[0-9]+)$"

void schema_print_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\":", name);
	check_print_json_string(out, text);
}

/* ---- the built-in value as JSON ---- */

static bool is_json_number(const struct node *node)
{
	const char *text = node->text;
	size_t digits = strspn(text, "0123456789");

	return node->is_plain && digits > 0 && text[digits] == '\0' && (text[0] != '0' || digits == 1);
}

static void print_json_node(FILE *out, const struct node *node)
{
	if (node->kind == NODE_SCALAR) {
		if (is_json_number(node))
			fputs(node->text, out);
		else
			check_print_json_string(out, node->text);
		return;
	}
	fputs(node->kind == NODE_LIST ? "[" : "{", out);
	for (size_t i = 0; i < node->n; i++) {
		fputs(i ? "," : "", out);
		print_json_node(out, node->entries[i].value);
	}
	fputs(node->kind == NODE_LIST ? "]" : "}", out);
}

void schema_print_default(FILE *out, const struct key *key)
{
	struct arena arena = {NULL};
	struct fault_list faults;
	struct document document;

	if (!key->built_in || !*key->built_in)
		return;
	fault_list_init(&faults);
	document_parse(&arena, key->built_in, strlen(key->built_in), &faults, &document);
	if (document.root) {
		fputs(",\"default\":", out);
		print_json_node(out, document.root);
	}
	fault_list_clear(&faults);
	arena_clear(&arena);
}

/* ---- values ---- */

static void print_words(FILE *out, const char *const *words)
{
	for (size_t i = 0; words[i]; i++) {
		fputs(i ? "," : "", out);
		check_print_json_string(out, words[i]);
		if (strchr(words[i], '.') && isdigit((unsigned char)words[i][0]))
			fprintf(out, ",%s", words[i]); /* an unquoted 1.2 comes as a number */
	}
}

/* Numbers with bounds, as a number and, since quoting is allowed, as text. */
static void print_numbers(FILE *out, const char *type, double min, double max, const char *pattern)
{
	char least[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];

	fprintf(out, "{\"type\":\"%s\",\"minimum\":%s,\"maximum\":%s},{\"type\":\"string\",", type,
		units_format_number(min, least), units_format_number(max, most));
	schema_print_member(out, "pattern", pattern);
	fputc('}', out);
}

static void print_pattern(FILE *out, const char *pattern)
{
	fputs("{\"type\":\"string\",", out);
	schema_print_member(out, "pattern", pattern);
	fputc('}', out);
}

static void print_ports(FILE *out)
{
	fputs("{\"type\":\"array\",\"items\":{\"anyOf\":[", out);
	print_numbers(out, "integer", 1, 65535, "^[1-9][0-9]{0,4}$");
	fputs("," SCHEMA_ENVIRONMENT "]}}", out);
}

/* A list of texts that match the pattern; "": any text. */
static void print_list(FILE *out, const char *pattern)
{
	fputs("{\"type\":\"array\",\"items\":{\"anyOf\":[", out);
	print_pattern(out, pattern);
	fputs("," SCHEMA_ENVIRONMENT "]}}", out);
}

/* A token of digits comes as a number. */
static void print_tokens(FILE *out)
{
	fputs("{\"type\":\"array\",\"items\":{\"anyOf\":[", out);
	print_pattern(out, TOKEN_PATTERN);
	fputs(",{\"type\":\"number\"}," SCHEMA_ENVIRONMENT "]}}", out);
}

static void print_retry_on(FILE *out)
{
	fputs("{\"type\":\"array\",\"items\":{\"anyOf\":[{\"enum\":[", out);
	print_words(out, key_retry_kind_words);
	fputs(",\"4xx\",\"5xx\"]},", out);
	print_numbers(out, "integer", 400, 599, "^[45][0-9][0-9]$");
	fputs("," SCHEMA_ENVIRONMENT "]}}", out);
}

static void print_fields(FILE *out)
{
	fputs("{\"type\":\"object\",\"propertyNames\":", out);
	print_pattern(out, TOKEN_PATTERN);
	fputs(",\"additionalProperties\":{\"type\":[\"string\",\"number\",\"boolean\",\"null\"]}}", out);
}

static void print_bool(FILE *out, const struct key *key)
{
	fputs("{\"enum\":[", out);
	if (key->words)
		print_words(out, key->words);
	else
		fputs("\"on\",\"off\",true,false,\"true\",\"false\"", out);
	fputs("]}", out);
}

static void print_word(FILE *out, const struct key *key)
{
	fputs("{\"enum\":[", out);
	print_words(out, key->words);
	fputs("]}", out);
}

static void print_listen(FILE *out, bool may_be_list)
{
	print_pattern(out, LISTEN_PATTERN);
	if (!may_be_list)
		return;
	fputc(',', out);
	print_list(out, LISTEN_PATTERN);
}

static void print_jitter(FILE *out)
{
	fputs("{\"enum\":[", out);
	print_words(out, key_jitter_words);
	fputs(",false,\"off\",\"false\"]},", out);
	print_numbers(out, "number", 0, 1, RATIO_PATTERN);
}

/* The alternatives of a type, without the brackets of anyOf. */
static void print_type(FILE *out, const struct key *key)
{
	switch (key->type) {
	case KEY_STRUCTURE:
	case KEY_SECTION:
	case N_KEY_TYPES:
	case KEY_SWITCH:
		print_bool(out, key);
		break;
	case KEY_DURATION:
		print_pattern(out, DURATION_PATTERN);
		break;
	case KEY_SIZE:
		print_numbers(out, "integer", key->min, key->max, SIZE_PATTERN);
		break;
	case KEY_COUNT:
		print_numbers(out, "integer", key->min, key->max, "^" NUMBER_PATTERN "$");
		break;
	case KEY_RATIO:
		print_numbers(out, "number", key->min, key->max, RATIO_PATTERN);
		break;
	case KEY_NUMBER:
		print_numbers(out, "number", key->min, key->max, DECIMAL_PATTERN);
		break;
	case KEY_BOOL:
		print_bool(out, key);
		break;
	case KEY_WORD:
		print_word(out, key);
		break;
	case KEY_NAME:
		fputs("{\"type\":[\"string\",\"number\"]}", out);
		break;
	case KEY_FIELD_NAME:
		print_pattern(out, TOKEN_PATTERN);
		fputs(",{\"type\":\"number\"}", out);
		break;
	case KEY_FILE:
		fputs("{\"type\":\"string\",\"minLength\":1},{\"type\":\"number\"}", out);
		break;
	case KEY_SERVER_NAME:
		fputs("{\"type\":\"string\",\"minLength\":1}", out);
		break;
	case KEY_PORT:
		print_numbers(out, "integer", 1, 65535, "^[1-9][0-9]{0,4}$");
		break;
	case KEY_METHODS:
	case KEY_FIELD_NAMES:
		print_tokens(out);
		break;
	case KEY_MEDIA_TYPES:
		print_list(out, "^[^/;* ]+/[^/;* ]+$");
		break;
	case KEY_HOST_PATTERNS:
		print_list(out, "^([*]|([*][.])?[^*/ :]+|\\[[0-9A-Fa-f:.]+\\])$");
		break;
	case KEY_HOST_NAMES:
		print_list(out, "^([^*/ :]+|\\[[0-9A-Fa-f:.]+\\])$");
		break;
	case KEY_PATHS:
		print_list(out, "^[/*][^?#]*$");
		break;
	case KEY_PINS:
		print_list(out, "^sha256/[A-Za-z0-9+/]{43}=$");
		break;
	case KEY_SERVERS:
		fputs("{\"const\":\"system\"},", out);
		print_list(out, "^[0-9A-Fa-f.:\\[\\]]+$");
		break;
	case KEY_PORTS:
		print_ports(out);
		break;
	case KEY_CIDRS:
		print_list(out, "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$");
		break;
	case KEY_FIELDS:
		print_fields(out);
		break;
	case KEY_CONNECT_PORTS:
		fputs("{\"const\":\"any\"},", out);
		print_ports(out);
		break;
	case KEY_RETRY_ON:
		print_retry_on(out);
		break;
	case KEY_JITTER:
		print_jitter(out);
		break;
	case KEY_LISTEN:
		print_listen(out, true);
		break;
	case KEY_ADMIN:
		print_listen(out, false);
		break;
	}
}

static bool takes_environment(const struct key *key)
{
	return key->type != KEY_FIELDS && key->type != KEY_SECTION;
}

void schema_print_description(FILE *out, const struct key *key)
{
	char text[512];

	snprintf(text, sizeof(text), "%s%s%s", key->doc, key->built_in && *key->built_in ? ". Built-in: " : "",
		key->built_in ? key->built_in : "");
	schema_print_member(out, "description", text);
}

void schema_print_leaf(FILE *out, const struct key *key)
{
	fputc('{', out);
	schema_print_description(out, key);
	schema_print_default(out, key);
	fputs(",\"anyOf\":[", out);
	print_type(out, key);
	if (key->words && key->type != KEY_BOOL && key->type != KEY_WORD && key->type != KEY_RETRY_ON &&
		key->type != KEY_JITTER && key->type != KEY_SERVERS && key->type != KEY_CONNECT_PORTS) {
		fputs(",{\"enum\":[", out);
		print_words(out, key->words);
		fputs("]}", out);
	}
	if (key->flags & KEY_MAY_BE_OFF)
		fputs(",{\"enum\":[\"off\",false,\"false\"]}", out);
	if (key->flags & KEY_MAY_BE_EMPTY)
		fputs(",{\"type\":\"null\"}", out);
	if (takes_environment(key))
		fputs("," SCHEMA_ENVIRONMENT, out);
	fputs("]}", out);
}
