#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "units.h"
#include "value_reader.h"

/* "off", and what YAML 1.1 tools write for it. */
bool value_is_off(const char *text)
{
	return !strcmp(text, "off") || !strcmp(text, "false");
}

static bool reject_off_trap(const struct reader *reader, const char *text)
{
	static const char *const traps[] = {
		"no", "none", "never", "disabled", "unlimited", "infinite", "-1", "Off", "OFF"};

	for (size_t i = 0; i < sizeof(traps) / sizeof(traps[0]); i++)
		if (!strcmp(text, traps[i]))
			return !REJECT(reader, "%s: to switch the limit off, write off", fault_quote(text));
	return false;
}

int value_find_word(const char *const *words, const char *text)
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
	const char *text = value_scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	int64_t value = LIMIT_OFF;
	bool is_good;

	if (!text)
		return false;
	if (!((reader->key->flags & KEY_MAY_BE_OFF) && value_is_off(text))) {
		if ((reader->key->flags & KEY_MAY_BE_OFF) && reject_off_trap(reader, text))
			return false;
		if (value_is_off(text))
			return REJECT(
				reader, "this limit can't be switched off; expected %s", value_type_words(reader->key));
		is_good = reader->key->type == KEY_DURATION ? units_parse_duration(text, &value, why)
			  : reader->key->type == KEY_SIZE   ? units_parse_size(text, &value, why)
							    : units_parse_count(text, &value, why);
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
	const char *text = value_scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	double value = LIMIT_OFF;

	if (!text)
		return false;
	if (!((reader->key->flags & KEY_MAY_BE_OFF) && value_is_off(text))) {
		if (!(reader->key->type == KEY_RATIO ? units_parse_ratio(text, &value, why)
						     : units_parse_number(text, &value, why)))
			return REJECT(reader, "%s", why);
		if (!check_range(reader, value))
			return false;
	}
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

bool value_read_port(const struct reader *reader, const struct node *node, uint16_t *port)
{
	const char *text = value_scalar(reader, node);
	char why[UNITS_WHY_BYTES];
	int64_t value;

	if (!text)
		return false;
	if (!units_parse_count(text, &value, why))
		return value_reject(reader, node, "%s; expected a port from 1 to 65535", why);
	if (value < 1 || value > 65535)
		return value_reject(reader, node, "%s is not a port: ports go from 1 to 65535", fault_quote(text));
	*port = (uint16_t)value;
	return true;
}

/* ---- words ---- */

/* What other spellings of on and off mean; NULL when it is none. */
static const char *guess_bool(const char *text)
{
	static const char *const spellings[][2] = {
		{"yes", "on"},
		{"y", "on"},
		{"on", "on"},
		{"true", "on"},
		{"1", "on"},
		{"enabled", "on"},
		{"always", "on"},
		{"no", "off"},
		{"n", "off"},
		{"off", "off"},
		{"false", "off"},
		{"0", "off"},
		{"disabled", "off"},
		{"never", "off"},
		{"none", "off"},
	};

	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (!strcasecmp(text, spellings[i][0]))
			return spellings[i][1];
	return NULL;
}

static bool read_bool(const struct reader *reader)
{
	static const char *const off_on[] = {"off", "on", NULL};
	const char *const *words = reader->key->words ? reader->key->words : off_on;
	const char *text = value_scalar(reader, reader->node);
	int index;
	bool value;

	if (!text)
		return false;
	index = value_find_word(words, text);
	if (index < 0 && !reader->key->words) /* what YAML 1.1 tools write for on and off */
		index = !strcmp(text, "true") ? 1 : !strcmp(text, "false") ? 0 : -1;
	if (index < 0 && !reader->key->words && guess_bool(text))
		return REJECT(reader, "%s: write %s", fault_quote(text), guess_bool(text));
	if (index < 0)
		return value_reject_word(reader, reader->node, words, "");
	value = index == 1;
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_word(const struct reader *reader)
{
	const char *text = value_scalar(reader, reader->node);
	unsigned value;
	int index;

	if (!text)
		return false;
	index = value_find_word(
		reader->key->words, (reader->key->flags & KEY_MAY_BE_OFF) && value_is_off(text) ? "off" : text);
	if (index < 0)
		return value_reject_word(reader, reader->node, reader->key->words, "");
	value = (unsigned)index;
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

/* The map form of a switch is the walker's; here only on and off. */
static bool read_switch(const struct reader *reader)
{
	const char *text = value_scalar(reader, reader->node);
	bool value;

	if (!text)
		return false;
	if (!value_is_off(text) && strcmp(text, "on") != 0 && strcmp(text, "true") != 0)
		return REJECT(reader, "%s is not a map of keys, on or off", fault_quote(text));
	value = !value_is_off(text);
	memcpy(reader->member, &value, sizeof(value));
	return true;
}

static bool read_jitter(const struct reader *reader)
{
	struct backoff_rule *rule = (struct backoff_rule *)(void *)reader->member;
	const char *text = value_scalar(reader, reader->node);
	char why[UNITS_WHY_BYTES];
	int index;

	if (!text)
		return false;
	index = value_find_word(key_jitter_words, value_is_off(text) ? "none" : text);
	if (index < 0 && !isdigit((unsigned char)text[0]))
		return value_reject_word(reader, reader->node, key_jitter_words, " and fractions such as 0.2");
	if (index < 0 && !units_parse_ratio(text, &rule->jitter_fraction, why))
		return REJECT(reader, "%s", why);
	if (index >= 0)
		rule->jitter_fraction = 0;
	rule->jitter = index < 0 ? JITTER_FRACTION : (enum jitter)index;
	return true;
}

bool value_is_list(const struct reader *reader)
{
	const struct node *node = reader->node;

	if (node->is_faulty)
		return false;
	if (node->kind == NODE_LIST)
		return true;
	if (node->kind == NODE_SCALAR && !node_is_null(node))
		return REJECT(reader, "expected %s; found the text %s", value_type_words(reader->key),
			fault_quote(node->text));
	return value_reject_kind(reader, node);
}

void value_store_array(const struct reader *reader, const void *items, size_t n)
{
	memcpy(reader->member, &items, sizeof(items));
	memcpy(reader->member + sizeof(items), &n, sizeof(n));
}

static bool read_single_port(const struct reader *reader)
{
	uint16_t port = 0;

	if (!node_is_null(reader->node) && !value_read_port(reader, reader->node, &port))
		return false;
	memcpy(reader->member, &port, sizeof(port));
	return true;
}

bool value_read(
	struct arena *arena, struct fault_list *faults, const struct key *key, const struct node *node, void *owner)
{
	const struct reader reader = {arena, faults, key, node, (char *)owner + key->offset};

	switch (key->type) {
	case KEY_STRUCTURE:
	case KEY_SECTION:
	case N_KEY_TYPES:
		return true;
	case KEY_SWITCH:
		return read_switch(&reader);
	case KEY_DURATION:
	case KEY_SIZE:
	case KEY_COUNT:
		return read_integer(&reader);
	case KEY_RATIO:
	case KEY_NUMBER:
		return read_fraction(&reader);
	case KEY_BOOL:
		return read_bool(&reader);
	case KEY_WORD:
		return read_word(&reader);
	case KEY_NAME:
	case KEY_FIELD_NAME:
	case KEY_FILE:
	case KEY_SERVER_NAME:
		return value_read_text(&reader);
	case KEY_PORT:
		return read_single_port(&reader);
	case KEY_METHODS:
	case KEY_MEDIA_TYPES:
	case KEY_HOST_PATTERNS:
	case KEY_HOST_NAMES:
	case KEY_PATHS:
	case KEY_PINS:
	case KEY_FIELD_NAMES:
	case KEY_SERVERS:
		return value_read_texts(&reader);
	case KEY_PORTS:
		return value_read_ports(&reader);
	case KEY_CIDRS:
		return value_read_cidrs(&reader);
	case KEY_FIELDS:
		return value_read_fields(&reader);
	case KEY_CONNECT_PORTS:
		return value_read_connect_ports(&reader);
	case KEY_RETRY_ON:
		return value_read_retry_on(&reader);
	case KEY_JITTER:
		return read_jitter(&reader);
	case KEY_LISTEN:
		return value_read_listen(&reader);
	case KEY_ADMIN:
		return value_read_admin(&reader);
	}
	return true;
}
