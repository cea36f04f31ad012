/* A URL that names an upstream's own local port stands for the upstream: http://127.0.0.1:9001/x. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "explanation.h"

static bool is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (strcmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_every_address(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Would a connection to this host and port end there, as far as can be known without asking the system? */
static bool reaches(const struct listen_address *listen, const struct target *target)
{
	if (!listen->host || listen->port == 0 || listen->port != target->port)
		return false;
	if (strcmp(listen->host, target->host) == 0)
		return true;
	return is_loopback(target->host) &&
	       (is_every_address(listen->host) ||
		       (strcmp(target->host, "localhost") == 0 && is_loopback(listen->host)));
}

const struct upstream_def *find_local_port(const struct config *config, const struct target *target)
{
	if (target->form != TARGET_ABSOLUTE || target->is_https)
		return NULL;
	for (size_t i = 0; i < config->n_upstreams; i++)
		for (size_t j = 0; j < config->upstreams[i].listen.n; j++)
			if (reaches(&config->upstreams[i].listen.items[j], target))
				return &config->upstreams[i];
	return NULL;
}
