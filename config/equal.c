/* Whether two configs hold the same value under a key: what a reload reports, and what it leaves alone. */
#include <string.h>

#include "keys.h"

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool is_same_list(const struct string_list *a, const struct string_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return true;
}

static bool is_same_listen(const struct listen_list *a, const struct listen_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->items[i].text, b->items[i].text) != 0)
			return false;
	return true;
}

static bool is_same_ports(const uint16_t *a, size_t n_a, const uint16_t *b, size_t n_b)
{
	return n_a == n_b && (n_a == 0 || !memcmp(a, b, n_a * sizeof(*a)));
}

static bool is_same_fields(const struct header_field *a, const struct header_field *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(a[i].name, b[i].name) != 0 || strcmp(a[i].value, b[i].value) != 0)
			return false;
	return true;
}

static bool is_same_cidrs(const struct cidr *a, const struct cidr *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].is_v6 != b[i].is_v6 || a[i].prefix_length != b[i].prefix_length ||
			memcmp(a[i].address, b[i].address, sizeof(a[i].address)) != 0)
			return false;
	return true;
}

static bool is_same_array(enum key_type type, const char *member, const char *other)
{
	const void *items_a, *items_b;
	size_t n_a, n_b;

	memcpy(&items_a, member, sizeof(items_a));
	memcpy(&items_b, other, sizeof(items_b));
	memcpy(&n_a, member + sizeof(items_a), sizeof(n_a));
	memcpy(&n_b, other + sizeof(items_b), sizeof(n_b));
	if (n_a != n_b)
		return false;
	if (type == KEY_PORTS)
		return is_same_ports(items_a, n_a, items_b, n_b);
	return type == KEY_FIELDS ? is_same_fields(items_a, items_b, n_a) : is_same_cidrs(items_a, items_b, n_a);
}

static bool is_same_jitter(const struct backoff_rule *a, const struct backoff_rule *b)
{
	return a->jitter == b->jitter && !memcmp(&a->jitter_fraction, &b->jitter_fraction, sizeof(a->jitter_fraction));
}

static bool is_same_connect_ports(const struct egress_rule *a, const struct egress_rule *b)
{
	return a->connect_any_port == b->connect_any_port &&
	       is_same_ports(a->connect_ports, a->n_connect_ports, b->connect_ports, b->n_connect_ports);
}

static bool is_same_admin(const struct global_rule *a, const struct global_rule *b)
{
	return a->admin_is_on == b->admin_is_on && (!a->admin_is_on || is_same_text(a->admin.text, b->admin.text));
}

bool key_is_equal(const struct key *key, const void *owner, const void *other)
{
	const void *a = (const char *)owner + key->offset, *b = (const char *)other + key->offset;

	switch (key->type) {
	case KEY_STRUCTURE:
	case KEY_SECTION:
	case N_KEY_TYPES:
		return true;
	case KEY_SWITCH:
	case KEY_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case KEY_DURATION:
	case KEY_SIZE:
	case KEY_COUNT:
		return !memcmp(a, b, sizeof(int64_t));
	case KEY_RATIO:
	case KEY_NUMBER:
		return !memcmp(a, b, sizeof(double));
	case KEY_WORD:
		return !memcmp(a, b, sizeof(unsigned));
	case KEY_PORT:
		return !memcmp(a, b, sizeof(uint16_t));
	case KEY_NAME:
	case KEY_FIELD_NAME:
	case KEY_FILE:
	case KEY_SERVER_NAME:
		return is_same_text(*(const char *const *)a, *(const char *const *)b);
	case KEY_METHODS:
	case KEY_MEDIA_TYPES:
	case KEY_HOST_PATTERNS:
	case KEY_HOST_NAMES:
	case KEY_PATHS:
	case KEY_PINS:
	case KEY_FIELD_NAMES:
	case KEY_SERVERS:
		return is_same_list(a, b);
	case KEY_PORTS:
	case KEY_CIDRS:
	case KEY_FIELDS:
		return is_same_array(key->type, a, b);
	case KEY_CONNECT_PORTS:
		return is_same_connect_ports(a, b);
	case KEY_RETRY_ON:
		return !memcmp(a, b, sizeof(struct retry_on));
	case KEY_JITTER:
		return is_same_jitter(a, b);
	case KEY_LISTEN:
		return is_same_listen(a, b);
	case KEY_ADMIN:
		return is_same_admin(owner, other);
	}
	return true;
}
