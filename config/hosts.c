#include "hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "faults.h"

#define MAX_NAME_BYTES 253
#define MAX_LABEL_BYTES 63
#define MAX_UNIX_PATH_BYTES 107

static bool is_ipv4(const char *text)
{
	struct in_addr address;

	return inet_pton(AF_INET, text, &address) == 1;
}

static bool is_ipv6(const char *text)
{
	struct in6_addr address;

	return inet_pton(AF_INET6, text, &address) == 1;
}

/* The one spelling of an IPv6 address (RFC 5952). */
static const char *canonical_ipv6(struct arena *arena, const char *text)
{
	struct in6_addr address;
	char canonical[INET6_ADDRSTRLEN];

	if (inet_pton(AF_INET6, text, &address) != 1)
		return NULL;
	return arena_strdup(arena, inet_ntop(AF_INET6, &address, canonical, sizeof(canonical)));
}

/* Mistakes that are worth a word of their own; NULL when it is none of them. */
static const char *explain_host(struct arena *arena, const char *text)
{
	const char *scheme = strstr(text, "://"), *colon = strchr(text, ':');

	if (!*text)
		return "an empty host";
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c >= 0x80)
			return arena_printf(arena, "%s: write an international name in its A-label form (xn--...)",
				fault_quote(text));
	if (scheme)
		return arena_printf(arena, "%s is a URL: write the host only, %s", fault_quote(text),
			fault_quote_n(scheme + 3, strcspn(scheme + 3, "/:?#")));
	if (is_ipv6(text))
		return arena_printf(arena, "%s: write an IPv6 address in brackets, \"[%s]\"", fault_quote(text), text);
	if (strchr(text, '/'))
		return arena_printf(arena, "%s: a host has no path and no range", fault_quote(text));
	if (colon && text[0] != '[')
		return arena_printf(arena, "%s: a host has no port here: ports go into match.ports", fault_quote(text));
	if (strchr(text, '*'))
		return arena_printf(arena, "%s: * stands alone or first, as in \"*.example.com\"", fault_quote(text));
	if (strpbrk(text, " \t,;"))
		return arena_printf(arena, "%s: write several hosts as a list", fault_quote(text));
	return NULL;
}

/* Letters, digits, hyphens and underscores in labels of at most 63 (underscores: container networks use them). */
static bool is_name(const char *text, size_t length)
{
	size_t label = 0;

	if (length == 0 || length > MAX_NAME_BYTES)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '.') {
			if (label == 0)
				return false;
			label = 0;
			continue;
		}
		if (!isalnum(c) && c != '-' && c != '_')
			return false;
		if (++label > MAX_LABEL_BYTES)
			return false;
	}
	return label > 0;
}

/* All digits and dots but no IPv4 address: "10.0.0", "010.0.0.1", "1.2.3.4.5" are never meant as names. */
static bool is_number_like(const char *text)
{
	size_t last = strlen(text);

	while (last > 0 && text[last - 1] != '.')
		last--;
	return text[last] && strspn(text + last, "0123456789") == strlen(text + last);
}

static const char *parse_bracketed(struct arena *arena, const char *text, const char **why)
{
	size_t length = strlen(text);
	const char *address = length > 2 && text[length - 1] == ']'
				      ? canonical_ipv6(arena, arena_strndup(arena, text + 1, length - 2))
				      : NULL;

	if (!address && strchr(text, ']') && strchr(text, ']')[1] == ':')
		*why = arena_printf(arena, "%s: a host has no port here: ports go into match.ports", fault_quote(text));
	else if (!address)
		*why = arena_printf(arena, "%s is not an IPv6 address in brackets", fault_quote(text));
	return address;
}

const char *host_parse_name(struct arena *arena, const char *text, const char **why)
{
	size_t length = strlen(text);
	char *name;

	if (text[0] == '[')
		return parse_bracketed(arena, text, why);
	*why = explain_host(arena, text);
	if (*why)
		return NULL;
	if (length > 1 && text[length - 1] == '.')
		length--;
	name = arena_strndup(arena, text, length);
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (!is_name(name, length) || (is_number_like(name) && !is_ipv4(name))) {
		*why = arena_printf(arena, "%s is not a host name or IP address", fault_quote(text));
		return NULL;
	}
	return name;
}

const char *host_parse_pattern(struct arena *arena, const char *text, const char **why)
{
	const char *suffix;

	if (!strcmp(text, "*"))
		return arena_strdup(arena, text);
	if (strncmp(text, "*.", 2) != 0 || strchr(text + 2, '*'))
		return host_parse_name(arena, text, why);
	suffix = text[2] == '[' ? NULL : host_parse_name(arena, text + 2, why);
	if (!suffix && text[2] == '[')
		*why = "an address has no suffix";
	if (suffix && is_ipv4(suffix)) {
		*why = "an address has no suffix";
		return NULL;
	}
	return suffix ? arena_printf(arena, "*.%s", suffix) : NULL;
}

static bool parse_port(const char *text, uint16_t *port)
{
	size_t n = strspn(text, "0123456789");
	long value;

	if (n == 0 || n > 5 || text[n] || (n > 1 && text[0] == '0'))
		return false;
	value = strtol(text, NULL, 10);
	if (value > 65535)
		return false;
	*port = (uint16_t)value;
	return true;
}

static bool explain_listen(struct arena *arena, const char *text, const char **why)
{
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	bool has_port = *port && strspn(port, "0123456789") == strlen(port);

	if (strstr(text, "://"))
		*why = arena_printf(arena, "%s is a URL: write IP:PORT only", fault_quote(text));
	else if (!strncasecmp(text, "localhost:", 10))
		*why = arena_printf(
			arena, "%s: names are not resolved here: write 127.0.0.1:%s", fault_quote(text), port);
	else if (has_port && (!colon || colon == text || (text[0] == '*' && colon == text + 1)))
		*why = arena_printf(arena, "%s has no address: write 127.0.0.1:%s, or 0.0.0.0:%s for every interface",
			fault_quote(text), port, port);
	else if (text[0] != '[' && strchr(text, ':') != colon)
		*why = arena_printf(
			arena, "%s: write an IPv6 address in brackets, as in \"[::1]:3128\"", fault_quote(text));
	else if (!colon && (is_ipv4(text) || text[0] == '['))
		*why = arena_printf(arena, "%s has no port", fault_quote(text));
	else
		*why = arena_printf(arena, "%s is not IP:PORT, \"[IPv6]:PORT\" or unix:/path", fault_quote(text));
	return false;
}

static bool parse_unix(struct arena *arena, const char *text, struct listen_address *address, const char **why)
{
	const char *path = text + strlen("unix:");

	*why = NULL;
	if (path[0] != '/')
		*why = arena_printf(arena, "%s: the path of a unix socket begins with /", fault_quote(text));
	else if (strlen(path) > MAX_UNIX_PATH_BYTES)
		*why = arena_printf(arena, "the path of a unix socket has at most %d bytes", MAX_UNIX_PATH_BYTES);
	address->unix_path = arena_strdup(arena, path);
	address->text = arena_strdup(arena, text);
	return !*why;
}

bool listen_parse(struct arena *arena, const char *text, struct listen_address *address, const char **why)
{
	const char *colon = strrchr(text, ':');
	const char *host;
	size_t length;
	bool is_v6;

	*address = (struct listen_address){0};
	if (!strncmp(text, "unix:", 5))
		return parse_unix(arena, text, address, why);
	if (!colon)
		return explain_listen(arena, text, why);
	length = (size_t)(colon - text);
	is_v6 = text[0] == '[' && length > 2 && colon[-1] == ']';
	host = is_v6 ? canonical_ipv6(arena, arena_strndup(arena, text + 1, length - 2))
		     : arena_strndup(arena, text, length);
	if (!host || (!is_v6 && !is_ipv4(host)))
		return explain_listen(arena, text, why);
	if (!parse_port(colon + 1, &address->port)) {
		*why = arena_printf(arena, "%s: a port is a number from 0 to 65535", fault_quote(text));
		return false;
	}
	address->host = host;
	address->text = arena_printf(arena, is_v6 ? "[%s]:%u" : "%s:%u", host, address->port);
	return true;
}

const char *server_parse(struct arena *arena, const char *text, const char **why)
{
	struct listen_address address;
	size_t length = strlen(text);

	if (is_ipv4(text))
		return arena_strdup(arena, text);
	if (is_ipv6(text))
		return canonical_ipv6(arena, text);
	if (text[0] == '[' && text[length - 1] == ']')
		return parse_bracketed(arena, text, why);
	if (strncmp(text, "unix:", 5) != 0 && listen_parse(arena, text, &address, why) && address.port != 0)
		return address.text;
	*why = arena_printf(arena, "%s is not an address of a name server: write IP or IP:PORT", fault_quote(text));
	return NULL;
}

/* Clears the bits behind the prefix; true when some were set. */
static bool clear_host_bits(struct cidr *cidr)
{
	bool had_bits = false;

	for (unsigned bit = cidr->prefix_length; bit < (cidr->is_v6 ? 128u : 32u); bit++) {
		uint8_t mask = (uint8_t)(0x80 >> (bit % 8));

		had_bits |= (cidr->address[bit / 8] & mask) != 0;
		cidr->address[bit / 8] &= (uint8_t)~mask;
	}
	return had_bits;
}

bool cidr_parse(struct arena *arena, const char *text, struct cidr *cidr, const char **why)
{
	const char *slash = strchr(text, '/');
	const char *address = arena_strndup(arena, text, slash ? (size_t)(slash - text) : strlen(text));
	uint16_t prefix;

	*cidr = (struct cidr){0};
	cidr->is_v6 = strchr(address, ':') != NULL;
	if (inet_pton(cidr->is_v6 ? AF_INET6 : AF_INET, address, cidr->address) != 1) {
		*why = arena_printf(
			arena, "%s is not an address or range such as 10.0.0.0/8 or \"fe80::/10\"", fault_quote(text));
		return false;
	}
	prefix = cidr->is_v6 ? 128 : 32;
	if (slash && (!parse_port(slash + 1, &prefix) || prefix > (cidr->is_v6 ? 128 : 32))) {
		*why = arena_printf(
			arena, "%s: the prefix length goes from 0 to %d", fault_quote(text), cidr->is_v6 ? 128 : 32);
		return false;
	}
	cidr->prefix_length = prefix;
	if (clear_host_bits(cidr)) {
		char right[64];

		cidr_format(cidr, right);
		*why = arena_printf(arena, "%s has bits behind its prefix: write %s", fault_quote(text), right);
		return false;
	}
	return true;
}

void cidr_format(const struct cidr *cidr, char out[static 64])
{
	inet_ntop(cidr->is_v6 ? AF_INET6 : AF_INET, cidr->address, out, INET6_ADDRSTRLEN);
	sprintf(out + strlen(out), "/%u", cidr->prefix_length);
}

bool listen_is_local(const struct listen_address *address)
{
	return address->unix_path || !strncmp(address->host, "127.", 4) || !strcmp(address->host, "::1");
}

static bool is_every_address(const char *host)
{
	return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

bool listen_clashes(const struct listen_address *a, const struct listen_address *b)
{
	if (a->unix_path || b->unix_path)
		return a->unix_path && b->unix_path && !strcmp(a->unix_path, b->unix_path);
	if (!a->host || !b->host || a->port == 0 || a->port != b->port)
		return false;
	if (!strcmp(a->host, b->host))
		return true;
	return (is_every_address(a->host) || is_every_address(b->host)) &&
	       !strchr(a->host, ':') == !strchr(b->host, ':');
}
