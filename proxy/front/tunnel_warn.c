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

static void log_warning(const struct exchange_order *order)
{
	struct log_line line;
	if (!log_begin(&line, LOG_WARN, "opaque_tunnel"))
		return;
	log_string(&line, "upstream", order->match.upstream->name);
	log_string(&line, "host", order->host);
	log_string(&line, "message",
		   "what is inside a CONNECT tunnel can't be seen, so status retries and request timeouts of this upstream don't "
		   "apply to it. Either let the application speak http:// and add to the upstream:\n"
		   "    tls: {originate: on}\n"
		   "or give it a local port and point the application there (http://127.0.0.1:9001/):\n"
		   "    tls: {originate: on}\n"
		   "    listen: 127.0.0.1:9001");
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
