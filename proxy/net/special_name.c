#include "special_name.h"

#include <string.h>

#include "../base/check.h"
#include "lookup.h"

/* RFC 6761 6.3: never asked for, always the loopback. */
static bool is_localhost(const char *host, size_t length)
{
	static const char name[] = "localhost";
	const size_t n = sizeof(name) - 1;
	if (length > 0 && host[length - 1] == '.')
		length--;
	return length >= n && memcmp(host + length - n, name, n) == 0 && (length == n || host[length - n - 1] == '.');
}

static struct address_list *loopback(void)
{
	struct address both[2];
	CHECK(address_parse("::1", &both[0]) && address_parse("127.0.0.1", &both[1]));
	return address_list_new(both, 2, MONO_NEVER);
}

static bool label_is_number(const char *label, size_t length)
{
	bool is_hex = length >= 2 && label[0] == '0' && (label[1] | 0x20) == 'x';
	for (size_t i = is_hex ? 2 : 0; i < length; i++) {
		char c = (char)(label[i] | 0x20);
		if (!(label[i] >= '0' && label[i] <= '9') && !(is_hex && c >= 'a' && c <= 'f'))
			return false;
	}
	return length > 0;
}

/*
 * Spellings of an IPv4 address that inet_aton would take (2130706433, 0x7f.1, 0177.0.0.1): not canonical, so no address
 * here, and no name that DNS could hold either (RFC 1123 2.1). Nobody gets round a host rule by them.
 */
static bool is_odd_number(const char *host)
{
	const char *label = host;
	for (;;) {
		size_t length = strcspn(label, ".");
		if (!label_is_number(label, length))
			return false;
		label += length;
		if (label[0] == '\0' || label[1] == '\0')
			return true;
		label++;
	}
}

/* Letters, digits, hyphens and, since they are met, underscores; no empty label. A dot at the end is fine. */
static bool is_name(const char *host, size_t length)
{
	if (length == 0 || length >= LOOKUP_MAX_NAME - 1 || host[0] == '.')
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = (char)(host[i] | 0x20);
		bool is_alphanumeric = (c >= 'a' && c <= 'z') || (host[i] >= '0' && host[i] <= '9');
		if (host[i] == '.' && host[i + 1] == '.')
			return false;
		if (!is_alphanumeric && host[i] != '-' && host[i] != '_' && host[i] != '.')
			return false;
	}
	return true;
}

/* RFC 7686: never asked for in DNS. */
static bool is_onion(const char *host, size_t length)
{
	if (length > 0 && host[length - 1] == '.')
		length--;
	return length >= 6 && memcmp(host + length - 6, ".onion", 6) == 0;
}

bool special_name_find(const char *name, enum resolve_status *status, struct address_list **addresses)
{
	struct address literal;
	size_t length = strlen(name);
	*status = RESOLVE_OK;
	*addresses = NULL;
	if (address_parse(name, &literal))
		*addresses = address_list_new(&literal, 1, MONO_NEVER);
	else if (!is_name(name, length) || is_odd_number(name) || is_onion(name, length))
		*status = RESOLVE_NO_NAME;
	else if (is_localhost(name, length))
		*addresses = loopback();
	else
		return false;
	return true;
}
