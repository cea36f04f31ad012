/* Effective values back to YAML: for explain, the dump of effective policies, and the report of a reload. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "arena.h"
#include "hosts.h"
#include "keys.h"
#include "units.h"
#include "yaml_hints.h"

/* Words that a YAML reader, of either version, would not take for text. */
static bool is_special_word(const char *text)
{
	static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(text, words[i]))
			return true;
	return false;
}

static bool is_plain_safe(const char *text)
{
	size_t length = strlen(text);

	if (length == 0 || !(isalpha((unsigned char)text[0]) || text[0] == '/' || text[0] == '_'))
		return false;
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("/_.+-:=*", *c))
			return false;
	return text[length - 1] != ':' && !strstr(text, "::") && !is_special_word(text);
}

/* IPv4 with a port or prefix begins with a digit, but has two dots or more, so no reader takes it for a number. */
static bool is_address_like(const char *text)
{
	const char *dot = strchr(text, '.');

	return dot && strchr(dot + 1, '.') && text[strspn(text, "0123456789./:")] == '\0' &&
	       text[strlen(text) - 1] != ':';
}

/* Bytes that are no text, which only the environment can bring in, have no spelling in YAML: U+FFFD stands for them. */
static void print_quoted(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);

	fputc('"', out);
	while (at < end) {
		unsigned code = 0xfffd;
		size_t n = yaml_utf8_decode(at, (size_t)(end - at), &code);

		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (n == 0)
			fputs("\xef\xbf\xbd", out);
		else if (!yaml_is_printable(code) || code < 0x20 || code == 0x85)
			fprintf(out, "\\u%04x", code);
		else if (*at == '$' && at[1] == '{')
			fputs("$$", out);
		else
			fwrite(at, 1, n, out);
		at += n ? n : 1;
	}
	fputc('"', out);
}

void key_print_scalar(FILE *out, const char *text)
{
	if (is_plain_safe(text) || is_address_like(text))
		fputs(text, out);
	else
		print_quoted(out, text);
}

static void print_texts(FILE *out, const struct string_list *list)
{
	fputc('[', out);
	for (size_t i = 0; i < list->n; i++) {
		fputs(i ? ", " : "", out);
		key_print_scalar(out, list->items[i]);
	}
	fputc(']', out);
}

/* Hosts are kept bare; in YAML an IPv6 literal has its brackets. */
static void print_hosts(FILE *out, const struct string_list *list)
{
	fputc('[', out);
	for (size_t i = 0; i < list->n; i++)
		if (strchr(list->items[i], ':'))
			fprintf(out, "%s\"[%s]\"", i ? ", " : "", list->items[i]);
		else {
			fputs(i ? ", " : "", out);
			key_print_scalar(out, list->items[i]);
		}
	fputc(']', out);
}

static void print_ports(FILE *out, const uint16_t *ports, size_t n)
{
	fputc('[', out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s%u", i ? ", " : "", ports[i]);
	fputc(']', out);
}

static void print_cidrs(FILE *out, const struct cidr *cidrs, size_t n)
{
	char text[64];

	fputc('[', out);
	for (size_t i = 0; i < n; i++) {
		cidr_format(&cidrs[i], text);
		fputs(i ? ", " : "", out);
		key_print_scalar(out, text);
	}
	fputc(']', out);
}

static void print_listen(FILE *out, const struct listen_list *list)
{
	if (list->n != 1)
		fputc('[', out);
	for (size_t i = 0; i < list->n; i++) {
		fputs(i ? ", " : "", out);
		key_print_scalar(out, list->items[i].text);
	}
	if (list->n != 1)
		fputc(']', out);
}

static bool is_secret_field(const char *name)
{
	static const char *const parts[] = {
		"auth", "cookie", "token", "secret", "key", "password", "credential", "session"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcasestr(name, parts[i]))
			return true;
	return false;
}

static void print_fields(FILE *out, const struct header_field *fields, size_t n)
{
	fputc('{', out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ", " : "", out);
		key_print_scalar(out, fields[i].name);
		fputs(": ", out);
		print_quoted(out, is_secret_field(fields[i].name) ? "(hidden)" : fields[i].value);
	}
	fputc('}', out);
}

/* Nx x when the whole hundred is listed, else one by one. */
static void print_statuses(FILE *out, const struct retry_on *on, bool is_first)
{
	for (int hundred = 400; hundred <= 500; hundred += 100) {
		int n = 0;

		for (int status = hundred; status < hundred + 100; status++)
			n += retry_on_status(on, status);
		if (n == 100) {
			fprintf(out, "%s%dxx", is_first ? "" : ", ", hundred / 100);
			is_first = false;
			continue;
		}
		for (int status = hundred; status < hundred + 100; status++) {
			if (!retry_on_status(on, status))
				continue;
			fprintf(out, "%s%d", is_first ? "" : ", ", status);
			is_first = false;
		}
	}
}

static void print_retry_on(FILE *out, const struct retry_on *on)
{
	bool is_first = true;

	fputc('[', out);
	for (size_t i = 0; key_retry_kind_words[i]; i++) {
		if (!(on->kinds & (1u << i)))
			continue;
		fprintf(out, "%s%s", is_first ? "" : ", ", key_retry_kind_words[i]);
		is_first = false;
	}
	print_statuses(out, on, is_first);
	fputc(']', out);
}

static void print_jitter(FILE *out, const struct backoff_rule *rule)
{
	char text[UNITS_TEXT_BYTES];

	fputs(rule->jitter == JITTER_FRACTION ? units_format_ratio(rule->jitter_fraction, text)
					      : key_jitter_words[rule->jitter],
		out);
}

static void print_text(FILE *out, const struct key *key, const char *text)
{
	if (text)
		key_print_scalar(out, text);
	else if (key->flags & KEY_MAY_BE_OFF)
		fputs("off", out);
	else
		fputs(key->words ? key->words[0] : "~", out);
}

static void print_number(FILE *out, const struct key *key, const void *member)
{
	char text[UNITS_TEXT_BYTES];
	int64_t integer;
	double number;

	memcpy(&integer, member, sizeof(integer));
	memcpy(&number, member, sizeof(number));
	switch (key->type) {
	case KEY_DURATION:
		fputs(units_format_duration(integer, text), out);
		break;
	case KEY_SIZE:
		fputs(units_format_size(integer, text), out);
		break;
	case KEY_COUNT:
		fputs(units_format_count(integer, text), out);
		break;
	case KEY_RATIO:
		fputs(units_format_ratio(number, text), out);
		break;
	default:
		fputs(units_format_number(number, text), out);
		break;
	}
}

static void print_word(FILE *out, const struct key *key, const void *member)
{
	unsigned value;

	memcpy(&value, member, sizeof(value));
	/* "1.2" is text, though it looks like a number */
	fprintf(out, isdigit((unsigned char)key->words[value][0]) ? "\"%s\"" : "%s", key->words[value]);
}

static void print_bool(FILE *out, const struct key *key, bool value)
{
	fputs(key->words ? key->words[value] : value ? "on" : "off", out);
}

static void print_array(FILE *out, enum key_type type, const void *member)
{
	const void *items;
	size_t n;

	memcpy(&items, member, sizeof(items));
	memcpy(&n, (const char *)member + sizeof(items), sizeof(n));
	if (type == KEY_PORTS)
		print_ports(out, items, n);
	else if (type == KEY_CIDRS)
		print_cidrs(out, items, n);
	else
		print_fields(out, items, n);
}

void key_print_value(FILE *out, const struct key *key, const void *owner)
{
	const void *member = (const char *)owner + key->offset;
	const struct egress_rule *egress = member;
	const struct global_rule *global = owner;
	const struct string_list *list = member;

	switch (key->type) {
	case KEY_STRUCTURE:
	case KEY_SECTION:
	case N_KEY_TYPES:
		break;
	case KEY_SWITCH:
	case KEY_BOOL:
		print_bool(out, key, *(const bool *)member);
		break;
	case KEY_DURATION:
	case KEY_SIZE:
	case KEY_COUNT:
	case KEY_RATIO:
	case KEY_NUMBER:
		print_number(out, key, member);
		break;
	case KEY_WORD:
		print_word(out, key, member);
		break;
	case KEY_NAME:
	case KEY_FIELD_NAME:
	case KEY_FILE:
	case KEY_SERVER_NAME:
		print_text(out, key, *(const char *const *)member);
		break;
	case KEY_PORT:
		if (*(const uint16_t *)member)
			fprintf(out, "%u", *(const uint16_t *)member);
		else
			fputs("~", out);
		break;
	case KEY_SERVERS:
		if (list->n == 0)
			fputs("system", out);
		else
			print_texts(out, list);
		break;
	case KEY_HOST_PATTERNS:
	case KEY_HOST_NAMES:
		print_hosts(out, list);
		break;
	case KEY_METHODS:
	case KEY_MEDIA_TYPES:
	case KEY_PATHS:
	case KEY_PINS:
	case KEY_FIELD_NAMES:
		print_texts(out, list);
		break;
	case KEY_PORTS:
	case KEY_CIDRS:
	case KEY_FIELDS:
		print_array(out, key->type, member);
		break;
	case KEY_CONNECT_PORTS:
		if (egress->connect_any_port)
			fputs("any", out);
		else
			print_ports(out, egress->connect_ports, egress->n_connect_ports);
		break;
	case KEY_RETRY_ON:
		print_retry_on(out, member);
		break;
	case KEY_JITTER:
		print_jitter(out, member);
		break;
	case KEY_LISTEN:
		print_listen(out, member);
		break;
	case KEY_ADMIN:
		if (global->admin_is_on)
			key_print_scalar(out, global->admin.text);
		else
			fputs("off", out);
		break;
	}
}

size_t key_format_value(const struct key *key, const void *owner, char *out, size_t size)
{
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);

	if (size)
		out[0] = '\0';
	if (!stream)
		return 0;
	key_print_value(stream, key, owner);
	fclose(stream);
	if (size) {
		size_t n = length < size ? length : size - 1;

		memcpy(out, text, n);
		out[n] = '\0';
	}
	free(text);
	return length;
}
