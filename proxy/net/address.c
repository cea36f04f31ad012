/* Addresses and the shared, immutable lists of them. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "resolve.h"

struct address_list *address_list_ref(struct address_list *list)
{
	list->references++;
	return list;
}

void address_list_unref(struct address_list **list)
{
	struct address_list *gone = *list;
	if (gone == NULL)
		return;
	*list = NULL;
	CHECK(gone->references > 0);
	if (--gone->references == 0)
		free(gone);
}

bool address_equals(const struct address *a, const struct address *b)
{
	if (a->socket.any.sa_family != b->socket.any.sa_family)
		return false;
	if (a->socket.any.sa_family == AF_INET)
		return a->socket.v4.sin_addr.s_addr == b->socket.v4.sin_addr.s_addr;
	return memcmp(&a->socket.v6.sin6_addr, &b->socket.v6.sin6_addr, sizeof(struct in6_addr)) == 0 &&
	       a->socket.v6.sin6_scope_id == b->socket.v6.sin6_scope_id;
}

bool address_list_has(const struct address_list *list, const struct address *address)
{
	for (size_t i = 0; i < list->n; i++) {
		if (address_equals(&list->items[i], address))
			return true;
	}
	return false;
}

size_t address_format(const struct address *address, char *out, size_t capacity)
{
	char text[INET6_ADDRSTRLEN] = "?";
	if (address->socket.any.sa_family == AF_INET)
		inet_ntop(AF_INET, &address->socket.v4.sin_addr, text, sizeof(text));
	else if (address->socket.any.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &address->socket.v6.sin6_addr, text, sizeof(text));
	size_t length = strlen(text);
	if (capacity == 0)
		return 0;
	if (length >= capacity)
		length = capacity - 1;
	memcpy(out, text, length);
	out[length] = '\0';
	return length;
}

bool address_parse(const char *text, struct address *address)
{
	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &address->socket.v4.sin_addr) == 1) {
		address->socket.any.sa_family = AF_INET;
		return true;
	}
	if (inet_pton(AF_INET6, text, &address->socket.v6.sin6_addr) == 1) {
		address->socket.any.sa_family = AF_INET6;
		return true;
	}
	return false;
}

int address_precedence(const struct address *address)
{
	static const struct {
		uint8_t prefix[16];
		size_t n_bytes;
		int precedence;
	} rows[] = {
		{ { 0x20, 0x01, 0, 0 }, 4, 5 },  /* Teredo */
		{ { 0x20, 0x02 }, 2, 30 },       /* 6to4 */
	};
	if (address->socket.any.sa_family == AF_INET)
		return 35;
	const struct in6_addr *v6 = &address->socket.v6.sin6_addr;
	if (IN6_IS_ADDR_LOOPBACK(v6))
		return 50;
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return 35;
	if ((v6->s6_addr[0] & 0xfe) == 0xfc)
		return 3; /* unique local: IPv4 first, unless there is none */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (memcmp(v6->s6_addr, rows[i].prefix, rows[i].n_bytes) == 0)
			return rows[i].precedence;
	}
	return IN6_IS_ADDR_V4COMPAT(v6) ? 1 : 40;
}

/* Stable, so that the order in which the server gave them (often rotated by it) is kept among equals. */
static void sort_by_precedence(struct address *items, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct address moving = items[i];
		int precedence = address_precedence(&moving);
		size_t place = i;
		for (; place > 0 && address_precedence(&items[place - 1]) < precedence; place--)
			items[place] = items[place - 1];
		items[place] = moving;
	}
}

struct address_list *address_list_new(const struct address *items, size_t n, struct mono expires)
{
	if (n > RESOLVE_MAX_ADDRESSES)
		n = RESOLVE_MAX_ADDRESSES;
	struct address_list *list = xcalloc(1, sizeof(*list) + n * sizeof(list->items[0]));
	list->references = 1;
	list->expires = expires;
	for (size_t i = 0; i < n; i++) {
		if (!address_list_has(list, &items[i]))
			list->items[list->n++] = items[i];
	}
	sort_by_precedence(list->items, list->n);
	return list;
}
