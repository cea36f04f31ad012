#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/log.h"
#include "tunnel.h"

#define MAX_WARNED_HOSTS 1000 /* remembered; beyond, further hosts aren't warned about */

struct warned_host {
	struct list link;
	char *host;
};

static bool was_warned(const struct front *front, const char *host)
{
	LIST_EACH(link, &front->warned_tunnels)
		if (strcmp(LIST_ENTRY_OF(link, struct warned_host, link)->host, host) == 0)
			return true;
	return false;
}

#define MAX_MESSAGE_BYTES 2048

/* The lines of policy that would enforce what the tunnel hides, ready to be copied. */
static void advise(const struct exchange_order *order, char out[static MAX_MESSAGE_BYTES])
{
	const char *name = order->match.upstream->name;
	bool is_v6 = strchr(order->host, ':') != NULL;
	char host[TARGET_MAX_HOST + 3], listed[TARGET_MAX_HOST + 5], port[8] = "";
	snprintf(host, sizeof(host), is_v6 ? "[%s]" : "%s", order->host);
	snprintf(listed, sizeof(listed), is_v6 ? "\"%s\"" : "%s", host);
	if (order->port != 443)
		snprintf(port, sizeof(port), ":%u", order->port);
	snprintf(out, MAX_MESSAGE_BYTES,
		 "what is inside the CONNECT tunnel to %s:%u can't be seen, so retries by status and request timeouts of upstream "
		 "%.200s don't apply to it. They do when the application asks for http://%s%s/ and the policy has\n"
		 "  - name: %.200s\n"
		 "    match: {hosts: [%s]}\n"
		 "    tls: {originate: on}\n"
		 "or, for an application that knows no proxy, also `listen: 127.0.0.1:9001`: it then asks for http://127.0.0.1:9001/",
		 host, order->port, name, host, port, name, listed);
}

static void log_warning(const struct exchange_order *order)
{
	struct log_line line;
	if (!log_begin(&line, LOG_WARN, "opaque_tunnel"))
		return;
	char message[MAX_MESSAGE_BYTES];
	advise(order, message);
	log_string(&line, "upstream", order->match.upstream->name);
	log_string(&line, "host", order->host);
	log_integer(&line, "port", order->port);
	log_string(&line, "message", message);
	log_end(&line);
}

void tunnel_warn(struct front *front, const struct exchange_order *order)
{
	const struct upstream_def *upstream = order->match.upstream;
	if (upstream->index == SIZE_MAX || front->n_warned_tunnels >= MAX_WARNED_HOSTS || was_warned(front, order->host))
		return;
	struct warned_host *warned = xcalloc(1, sizeof(*warned));
	warned->host = xstrdup(order->host);
	list_append(&front->warned_tunnels, &warned->link);
	front->n_warned_tunnels++;
	log_warning(order);
}

void tunnel_forget_warnings(struct front *front)
{
	LIST_EACH_SAFE(link, after, &front->warned_tunnels) {
		struct warned_host *warned = LIST_ENTRY_OF(link, struct warned_host, link);
		list_remove(&warned->link);
		free(warned->host);
		free(warned);
	}
}
