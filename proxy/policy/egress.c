#include "egress.h"

#include <string.h>

static bool is_named(const uint16_t *ports, size_t n, uint16_t port)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	return false;
}

bool egress_is_opaque_port(const struct egress_rule *rule, const struct upstream_def *upstream, uint16_t port)
{
	return rule->connect_any_port || is_named(rule->connect_ports, rule->n_connect_ports, port) ||
	       is_named(upstream->ports, upstream->n_ports, port);
}

uint16_t egress_port(const struct upstream_def *upstream, uint16_t port)
{
	if (!upstream->tls.originate)
		return port;
	if (upstream->port != 0)
		return upstream->port;
	return port == EGRESS_HTTP_PORT ? EGRESS_HTTPS_PORT : port;
}

const char *egress_local_host(const struct upstream_def *upstream)
{
	for (size_t i = 0; i < upstream->hosts.n; i++)
		if (strchr(upstream->hosts.items[i], '*') == NULL)
			return upstream->hosts.items[i];
	return NULL;
}

/* The entry's own port, else the one that its match names, 80 before others. */
uint16_t egress_local_port(const struct upstream_def *upstream)
{
	if (upstream->port != 0)
		return upstream->port;
	if (upstream->n_ports == 0 || is_named(upstream->ports, upstream->n_ports, EGRESS_HTTP_PORT))
		return egress_port(upstream, EGRESS_HTTP_PORT);
	return egress_port(upstream, upstream->ports[0]);
}
