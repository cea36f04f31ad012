/* Which addresses may not be dialled, in whatever other address they are wrapped. */
#include <string.h>

#include "dial.h"

static bool prefix_matches(const uint8_t *address, const uint8_t *prefix, unsigned length, unsigned max_length)
{
	unsigned n_bytes = length / 8, n_bits = length % 8;
	if (length > max_length || memcmp(address, prefix, n_bytes) != 0)
		return false;
	if (n_bits == 0)
		return true;
	uint8_t mask = (uint8_t)(0xff << (8 - n_bits));
	return (address[n_bytes] & mask) == (prefix[n_bytes] & mask);
}

static bool v6_is_listed(const uint8_t *v6, const struct cidr *deny, size_t n_deny)
{
	for (size_t i = 0; i < n_deny; i++) {
		if (deny[i].is_v6 && prefix_matches(v6, deny[i].address, deny[i].prefix_length, 128))
			return true;
	}
	return false;
}

/* The rule may itself have been written for the mapped form (::ffff:10.0.0.0/104). */
static bool v4_is_listed(const uint8_t *v4, const struct cidr *deny, size_t n_deny)
{
	static const uint8_t any[4] = { 0, 0, 0, 0 }, loopback[4] = { 127, 0, 0, 1 };
	uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };
	memcpy(mapped + 12, v4, 4);
	for (size_t i = 0; i < n_deny; i++) {
		if (!deny[i].is_v6 && prefix_matches(v4, deny[i].address, deny[i].prefix_length, 32))
			return true;
		if (deny[i].is_v6 && deny[i].prefix_length >= 96 &&
		    prefix_matches(mapped, deny[i].address, deny[i].prefix_length, 128))
			return true;
	}
	/* Linux connects 0.0.0.0 to the loopback. */
	return memcmp(v4, any, 4) == 0 && v4_is_listed(loopback, deny, n_deny);
}

/* Prefixes that hold an IPv4 address, and where. */
static const struct {
	uint8_t prefix[16];
	unsigned length;
	unsigned place;
	bool is_inverted;
} wrappers[] = {
	{ { [10] = 0xff, [11] = 0xff }, 96, 12, false },                            /* mapped */
	{ { 0 }, 96, 12, false },                                                   /* compatible */
	{ { [8] = 0xff, [9] = 0xff }, 96, 12, false },                              /* translated, RFC 7915 */
	{ { 0x00, 0x64, 0xff, 0x9b }, 96, 12, false },                              /* NAT64, RFC 6052 */
	{ { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, 12, false },                  /* NAT64, local use, RFC 8215 */
	{ { 0x20, 0x02 }, 16, 2, false },                                           /* 6to4, RFC 3056 */
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, 12, true },                               /* Teredo, RFC 4380 */
};

static bool v6_is_denied(const uint8_t *v6, const struct cidr *deny, size_t n_deny)
{
	static const uint8_t any[16] = { 0 }, loopback[16] = { [15] = 1 };
	if (v6_is_listed(v6, deny, n_deny))
		return true;
	if (memcmp(v6, loopback, 16) == 0)
		return false; /* no IPv4 address, although the compatible form would read it as 0.0.0.1 */
	if (memcmp(v6, any, 16) == 0 && v6_is_listed(loopback, deny, n_deny))
		return true;
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		if (!prefix_matches(v6, wrappers[i].prefix, wrappers[i].length, 128))
			continue;
		uint8_t v4[4];
		for (unsigned byte = 0; byte < 4; byte++)
			v4[byte] = (uint8_t)(v6[wrappers[i].place + byte] ^ (wrappers[i].is_inverted ? 0xff : 0));
		if (v4_is_listed(v4, deny, n_deny))
			return true;
	}
	return false;
}

bool address_is_denied(const struct address *address, const struct cidr *deny, size_t n_deny)
{
	if (address->socket.any.sa_family == AF_INET) {
		uint8_t v4[4];
		memcpy(v4, &address->socket.v4.sin_addr, sizeof(v4));
		return v4_is_listed(v4, deny, n_deny);
	}
	return v6_is_denied(address->socket.v6.sin6_addr.s6_addr, deny, n_deny);
}
