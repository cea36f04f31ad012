/*
 * A browser on the same machine reaches the admin port too. A page of a foreign site could read it after making its own
 * name resolve to 127.0.0.1 (DNS rebinding: Host is then that name), or POST to it from anywhere (Origin says so).
 */
#include <arpa/inet.h>
#include <string.h>

#include "admin.h"

static bool is_literal_or_localhost(const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	return strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

bool admin_host_is_allowed(const struct global_rule *global, const struct request *request)
{
	struct target host;
	struct slice value = head_get(&request->head, SLICE("Host"));
	if (value.data == NULL)
		return request->minor_version == 0; /* no browser */
	if (target_parse_host(value, &host) != NULL)
		return false;
	if (is_literal_or_localhost(host.host))
		return true;
	for (size_t i = 0; i < global->admin_hosts.n; i++)
		if (strcmp(global->admin_hosts.items[i], host.host) == 0)
			return true;
	return false;
}

/* Origin is "scheme://host[:port]"; the same site's is "http://" and what Host says. No Origin: no browser's script. */
bool admin_origin_is_allowed(const struct request *request)
{
	struct slice scheme = SLICE("http://");
	struct slice origin = head_get(&request->head, SLICE("Origin"));
	struct slice host = head_get(&request->head, SLICE("Host"));
	if (origin.data == NULL)
		return true;
	if (head_find(&request->head, SLICE("Origin"), (size_t)head_find(&request->head, SLICE("Origin"), 0) + 1) >= 0)
		return false;
	if (host.data == NULL || origin.length != scheme.length + host.length ||
	    strncasecmp(origin.data, scheme.data, scheme.length) != 0)
		return false;
	return slice_equals_nocase((struct slice){ origin.data + scheme.length, host.length }, host);
}
