/* The request target (RFC 9112 3.2): the four forms, taken apart without changing a byte of what is forwarded. */
#ifndef EVENKEEL_HTTP_TARGET_H
#define EVENKEEL_HTTP_TARGET_H

#include <stdint.h>

#include "../base/slice.h"

#define TARGET_MAX_HOST 255

enum target_form { TARGET_ORIGIN, TARGET_ABSOLUTE, TARGET_AUTHORITY, TARGET_ASTERISK };

struct target {
	enum target_form form;
	bool is_https;            /* scheme of the absolute form */
	bool has_userinfo;        /* dropped; never forwarded, never logged */
	struct slice host_text;   /* as it came, brackets included, port and userinfo not */
	/* Lower case, no brackets, no trailing dot, IPv6 as RFC 5952 spells it, NUL-terminated; "" in origin form. */
	char host[TARGET_MAX_HOST + 1];
	bool is_ipv6_literal;
	bool has_port;
	uint16_t port;            /* effective: 80 / 443 by scheme when none is named; 0 in origin form */
	struct slice path;        /* path and query as they came; empty when the absolute form has none ("http://h?q" -> "?q") */
};

/*
 * Takes TEXT (borrowed by the result) apart. is_connect: authority form is expected, and nothing else allowed; any
 * other method may not use it. Returns NULL, or what is wrong as a static sentence for a 400.
 * Refused: schemes other than http and https, empty host, port 0 or > 65535 or with non-digits, control characters,
 * space, fragment, bad brackets, IPv6 zone ids, hosts longer than TARGET_MAX_HOST.
 */
const char *target_parse(struct slice text, bool is_connect, struct target *target);

/* Parses a Host field's value (host [":" port]) into host, port, has_port, host_text of target. NULL or what is wrong. */
const char *target_parse_host(struct slice value, struct target *target);

/*
 * The path that policies are matched by: no query, unreserved percent-escapes decoded, dot segments removed, "/" when
 * empty. Written to out, whose capacity is at least path.length and 1. Returns its length.
 */
size_t target_match_path(struct slice path, char *out, size_t capacity);

#endif
