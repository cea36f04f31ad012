#include "target.h"

#include <arpa/inet.h>

#include "../../config/paths.h"
#include "../base/check.h"
#include "octet.h"

static const char *read_port(struct slice text, struct target *target)
{
	unsigned port = 0;

	if (text.length == 0 || text.length > 5)
		return "port is empty or too long (RFC 3986 3.2.3)";
	for (size_t i = 0; i < text.length; i++) {
		if (!octet_is(text.data[i], OCTET_DIGIT))
			return "port is not a number (RFC 3986 3.2.3)";
		port = port * 10 + (unsigned)(text.data[i] - '0');
	}
	if (port == 0 || port > 65535)
		return "port is not within 1-65535";
	target->has_port = true;
	target->port = (uint16_t)port;
	return NULL;
}

/*
 * In its one canonical spelling (RFC 5952), so that no other gets round a policy. Zone ids are refused: they mean
 * something on one machine only, and would end up in the Host field (RFC 6874 1).
 */
static const char *read_ipv6(struct slice inside, struct target *target)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (inside.length == 0 || inside.length >= sizeof(text))
		return "bad IPv6 literal (RFC 3986 3.2.2)";
	memcpy(text, inside.data, inside.length);
	text[inside.length] = '\0';
	if (inet_pton(AF_INET6, text, &address) != 1)
		return "bad IPv6 literal (RFC 3986 3.2.2)";
	CHECK(inet_ntop(AF_INET6, &address, target->host, sizeof(target->host)) != NULL);
	target->is_ipv6_literal = true;
	return NULL;
}

static const char *read_name(struct slice name, struct target *target)
{
	size_t length = name.length;

	if (length > 1 && name.data[length - 1] == '.')
		length--;
	if (length == 0)
		return "empty host (RFC 9110 4.2.1)";
	if (length > TARGET_MAX_HOST)
		return "host name is too long (RFC 1035 2.3.4)";
	for (size_t i = 0; i < length; i++) {
		char octet = name.data[i];

		if (!octet_is(octet, OCTET_HOST))
			return "host holds a character that no host name has (RFC 3986 3.2.2)";
		if (octet == '.' && (i == 0 || name.data[i - 1] == '.'))
			return "host name with an empty label (RFC 1035 2.3.1)";
		target->host[i] = octet >= 'A' && octet <= 'Z' ? (char)(octet | 0x20) : octet;
	}
	target->host[length] = '\0';
	return NULL;
}

/* host [ ":" port ]. A colon without a port is the default port in a URI (RFC 3986 3.2.3), if may_end_in_colon. */
static const char *read_authority(struct slice text, bool may_end_in_colon, struct target *target)
{
	const char *end = text.data + text.length, *host_end, *fault;

	if (text.length > 0 && text.data[0] == '[') {
		const char *bracket = memchr(text.data, ']', text.length);
		if (!bracket)
			return "bracket without its counterpart in the host (RFC 3986 3.2.2)";
		fault = read_ipv6((struct slice){text.data + 1, (size_t)(bracket - text.data - 1)}, target);
		host_end = bracket + 1;
	} else {
		const char *colon = text.length > 0 ? memchr(text.data, ':', text.length) : NULL;
		host_end = colon ? colon : end;
		fault = read_name((struct slice){text.data, (size_t)(host_end - text.data)}, target);
	}
	if (fault)
		return fault;
	target->host_text = (struct slice){text.data, (size_t)(host_end - text.data)};
	if (host_end == end || (may_end_in_colon && host_end + 1 == end && *host_end == ':'))
		return NULL;
	if (*host_end != ':')
		return "something other than a port after the host (RFC 3986 3.2)";
	return read_port((struct slice){host_end + 1, (size_t)(end - host_end - 1)}, target);
}

static bool starts_with_nocase(struct slice text, struct slice prefix)
{
	return text.length >= prefix.length && strncasecmp(text.data, prefix.data, prefix.length) == 0;
}

static const char *parse_absolute(struct slice text, struct target *target)
{
	size_t scheme_length = target->is_https ? 8 : 7;
	struct slice rest = {text.data + scheme_length, text.length - scheme_length};
	size_t length = 0;

	while (length < rest.length && rest.data[length] != '/' && rest.data[length] != '?')
		length++;
	struct slice authority = {rest.data, length};
	target->form = TARGET_ABSOLUTE;
	target->path = (struct slice){rest.data + length, rest.length - length};
	/* The last one: whatever comes before it is userinfo, and no host has an "@" (RFC 3986 3.2.1). */
	const char *at_sign = length > 0 ? memrchr(authority.data, '@', length) : NULL;
	if (at_sign) {
		size_t n = (size_t)(at_sign - authority.data);
		if (memchr(authority.data, '@', n))
			return "more than one \"@\" in the authority (RFC 3986 3.2.1)";
		target->has_userinfo = true;
		authority = (struct slice){at_sign + 1, length - n - 1};
	}
	const char *fault = read_authority(authority, true, target);
	if (!target->has_port)
		target->port = target->is_https ? 443 : 80;
	return fault;
}

static const char *parse_connect(struct slice text, struct target *target)
{
	target->form = TARGET_AUTHORITY;
	const char *fault = read_authority(text, false, target);
	if (!fault && !target->has_port)
		fault = "CONNECT needs host:port (RFC 9112 3.2.3)";
	return fault;
}

static void target_start(struct target *target)
{
	memset(target, 0, offsetof(struct target, host));
	target->host[0] = '\0';
	target->is_ipv6_literal = target->has_port = false;
	target->port = 0;
	target->path = (struct slice){"", 0};
}

const char *target_parse(struct slice text, bool is_connect, struct target *target)
{
	target_start(target);
	if (text.length == 0)
		return "empty request target (RFC 9112 3.2)";
	if (!octets_are(text, OCTET_TARGET))
		return "white space or a control character in the request target (RFC 9112 3.2)";
	if (memchr(text.data, '#', text.length))
		return "fragment in the request target (RFC 9110 7.1)";
	if (is_connect)
		return parse_connect(text, target);
	if (text.data[0] == '/') {
		target->form = TARGET_ORIGIN;
		target->path = text;
		return NULL;
	}
	if (text.length == 1 && text.data[0] == '*') {
		target->form = TARGET_ASTERISK;
		target->path = text;
		return NULL;
	}
	target->is_https = starts_with_nocase(text, SLICE("https://"));
	if (!target->is_https && !starts_with_nocase(text, SLICE("http://")))
		return memmem(text.data, text.length, "://", 3) ? "only http and https URLs are served"
								: "bad request target (RFC 9112 3.2)";
	return parse_absolute(text, target);
}

const char *target_parse_host(struct slice value, struct target *target)
{
	target_start(target);
	const char *fault = read_authority(value, true, target);
	return fault ? "bad Host field (RFC 9112 3.2)" : NULL;
}

size_t target_match_path(struct slice path, char *out, size_t capacity)
{
	const char *query = path.length > 0 ? memchr(path.data, '?', path.length) : NULL;
	size_t length = query ? (size_t)(query - path.data) : path.length;

	CHECK(capacity >= length && capacity > 0);
	if (length > 0)
		length = path_normalise(path.data, length, out);
	if (length == 0)
		out[length++] = '/';
	return length;
}
