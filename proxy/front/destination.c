#include "destination.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../policy/egress.h"

static bool refuse(struct refusal *refusal, int status, const char *error, const char *detail)
{
	*refusal = (struct refusal){ .status = status, .error = error, .detail = detail };
	return false;
}

static bool refuse_target(struct refusal *refusal, const char *detail)
{
	refuse(refusal, 400, "http_request_error", detail);
	refusal->must_close = true;
	return false;
}

static bool is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;
	if (strcmp(host, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool is_local_end(const struct wire *wire, const char *host)
{
	struct sockaddr_storage local;
	socklen_t length = sizeof(local);
	struct in_addr v4;
	struct in6_addr v6;
	if (getsockname(wire->stream.fd, (struct sockaddr *)&local, &length) != 0)
		return false;
	if (local.ss_family == AF_INET && inet_pton(AF_INET, host, &v4) == 1)
		return memcmp(&v4, &((const struct sockaddr_in *)&local)->sin_addr, sizeof(v4)) == 0;
	if (local.ss_family == AF_INET6 && inet_pton(AF_INET6, host, &v6) == 1)
		return memcmp(&v6, &((const struct sockaddr_in6 *)&local)->sin6_addr, sizeof(v6)) == 0;
	return false;
}

bool destination_is_own_address(const struct wire *wire, const char *host, uint16_t port)
{
	return wire->listener->port != 0 && port == wire->listener->port && (is_loopback(host) || is_local_end(wire, host));
}

/* The path that is sent: origin form, with "/" where the client's URL has none (RFC 9112 3.2.1), "*" for the
 * whole server. */
static struct slice path_to_send(struct client *client, const struct request *request)
{
	const struct target *target = &request->target;
	if (target->form == TARGET_ASTERISK)
		return SLICE("*");
	if (target->path.length == 0)
		return slice_equals(request->method, SLICE("OPTIONS")) ? SLICE("*") : SLICE("/");
	if (target->path.data[0] == '?')
		return client_keep_printf(client, "/%.*s", SLICE_ARGS(target->path));
	return target->path;
}

/* The authority as a Host field names it; the client's own text as far as it will do. */
static struct slice host_field(struct client *client, const struct target *target, bool names_port, uint16_t port)
{
	bool has_zone = target->is_ipv6_literal && memchr(target->host_text.data, '%', target->host_text.length);
	if (!names_port && !has_zone)
		return target->host_text;
	if (!has_zone && target->has_port && port == target->port)
		return client_keep_printf(client, "%.*s:%u", SLICE_ARGS(target->host_text), port);
	char name[TARGET_MAX_HOST + 3];
	snprintf(name, sizeof(name), target->is_ipv6_literal ? "[%s]" : "%s", target->host);
	return names_port ? client_keep_printf(client, "%s:%u", name, port) : client_keep_printf(client, "%s", name);
}

/* For the log's URL: "OPTIONS *" asks for no path. */
static struct slice path_of_url(const struct client *client)
{
	return slice_equals(client->order.path, SLICE("*")) ? SLICE("") : client->order.path;
}

static void find_match(struct client *client, const char *host, uint16_t port)
{
	struct exchange_order *order = &client->order;
	order->match.upstream = match_upstream(client->config, slice_of(host), port);
}

/* Only now, since the local port's entry is known without a search. */
static bool find_route(struct client *client, const struct request *request, struct refusal *refusal)
{
	struct match *match = &client->order.match;
	if (match->upstream == NULL)
		return refuse(refusal, outcome_facts[OUTCOME_HOST_DENIED].status,
			      outcome_facts[OUTCOME_HOST_DENIED].proxy_error, outcome_facts[OUTCOME_HOST_DENIED].detail);
	match->route = NULL;
	if (match->upstream->n_routes > 0) {
		struct slice path = request->is_connect ? SLICE("") : client->order.path;
		char stack[512];
		char *normal = path.length <= sizeof(stack) ? stack : xmalloc(path.length);
		size_t length = request->is_connect ? 0 : target_match_path(path, normal, path.length);
		match->route = match_route(match->upstream, request->method, (struct slice){ normal, length });
		if (normal != stack)
			free(normal);
	}
	match->policy = match->route ? &match->route->policy : &match->upstream->policy;
	return true;
}

/* An http or https URL, whether it came as an absolute form or as origin form and Host. */
static bool find_by_authority(struct client *client, const struct request *request, const struct target *target,
			      struct refusal *refusal)
{
	struct exchange_order *order = &client->order;
	order->host = target->host;
	order->port = target->port;
	order->is_tls = target->is_https;
	find_match(client, target->host, target->port);
	if (!find_route(client, request, refusal))
		return false;
	const struct upstream_def *upstream = order->match.upstream;
	if (!target->is_https && upstream->tls.originate) {
		order->is_tls = true;
		order->port = egress_port(upstream, target->port);
	}
	bool is_moved = order->port != target->port;
	uint16_t usual = order->is_tls ? EGRESS_HTTPS_PORT : EGRESS_HTTP_PORT;
	bool names_port = is_moved ? order->port != usual : target->has_port;
	order->host_field = host_field(client, target, names_port, order->port);
	return true;
}

static bool find_by_host_field(struct client *client, const struct request *request, struct refusal *refusal)
{
	static const char hint[] =
		"this is a forward proxy and the request names no other host: ask for an absolute URL (GET http://host/path), as "
		"applications do that have HTTP_PROXY set to this address, or give the upstream a `listen:` port of its own";
	struct slice value = head_get(&request->head, SLICE("Host"));
	struct target *target = &client->authority;
	if (value.length == 0 || target_parse_host(value, target) != NULL)
		return refuse_target(refusal, hint);
	if (!target->has_port)
		target->port = EGRESS_HTTP_PORT;
	if (destination_is_own_address(client->wire, target->host, target->port))
		return refuse_target(refusal, hint);
	target->is_https = false;
	client->order.url = client_keep_printf(client, "http://%.*s%.*s", SLICE_ARGS(value), SLICE_ARGS(path_of_url(client)));
	return find_by_authority(client, request, target, refusal);
}

static const struct upstream_def *upstream_of_listener(const struct client *client)
{
	const char *name = client->wire->listener->upstream;
	for (size_t i = 0; i < client->config->n_upstreams; i++)
		if (strcmp(client->config->upstreams[i].name, name) == 0)
			return &client->config->upstreams[i];
	return NULL;
}

static bool find_by_local_port(struct client *client, const struct request *request, struct refusal *refusal)
{
	struct exchange_order *order = &client->order;
	const struct upstream_def *upstream = upstream_of_listener(client);
	if (upstream == NULL)
		return refuse(refusal, 503, "proxy_internal_response",
			      "the upstream that this port stood for is no longer in the policy file");
	order->host = egress_local_host(upstream);
	if (order->host == NULL)
		return refuse(refusal, 503, "proxy_configuration_error",
			      "a local port needs an upstream whose match.hosts names a host without `*`");
	order->port = egress_local_port(upstream);
	order->is_tls = upstream->tls.originate;
	order->match.upstream = upstream;
	uint16_t usual = order->is_tls ? EGRESS_HTTPS_PORT : EGRESS_HTTP_PORT;
	const char *bracket[2] = { strchr(order->host, ':') ? "[" : "", strchr(order->host, ':') ? "]" : "" };
	order->host_field = client_keep_printf(client, order->port == usual ? "%s%s%s" : "%s%s%s:%u", bracket[0], order->host,
					       bracket[1], order->port);
	order->url = client_keep_printf(client, "%s://%.*s%.*s", order->is_tls ? "https" : "http",
					SLICE_ARGS(order->host_field), SLICE_ARGS(path_of_url(client)));
	return find_route(client, request, refusal);
}

/* Inside a CONNECT that must speak HTTP: its authority, whatever Host says. */
static bool find_by_tunnel(struct client *client, const struct request *request, struct refusal *refusal)
{
	const struct wire_authority *inner = client->wire->inner;
	const struct target *target = &request->target;
	if (target->form == TARGET_AUTHORITY)
		return refuse_target(refusal, "CONNECT inside a tunnel");
	if (target->form == TARGET_ABSOLUTE &&
	    (target->is_https || target->port != inner->port || strcmp(target->host, inner->host) != 0))
		return refuse_target(refusal, "inside this tunnel only the host and port that its CONNECT named may be asked for");
	struct target *authority = &client->authority;
	snprintf(authority->host, sizeof(authority->host), "%s", inner->host);
	authority->is_ipv6_literal = strchr(inner->host, ':') != NULL;
	authority->host_text = slice_of(inner->host_field);
	authority->has_port = inner->port != EGRESS_HTTP_PORT;
	authority->port = inner->port;
	client->order.url = client_keep_printf(client, "http://%s:%u%.*s", inner->host_field, inner->port,
					       SLICE_ARGS(path_of_url(client)));
	return find_by_authority(client, request, authority, refusal);
}

static bool find_by_connect(struct client *client, const struct request *request, struct refusal *refusal)
{
	struct exchange_order *order = &client->order;
	order->host = request->target.host;
	order->port = request->target.port;
	order->is_tls = false;
	order->host_field = request->target_text;
	find_match(client, order->host, order->port);
	return find_route(client, request, refusal);
}

bool destination_find(struct client *client, struct refusal *refusal)
{
	const struct request *request = &client->wire->message->request;
	const struct target *target = &request->target;
	client->order.url = request->target_text;
	client->order.path = path_to_send(client, request);
	if (client->wire->inner)
		return find_by_tunnel(client, request, refusal);
	if (target->form == TARGET_AUTHORITY)
		return find_by_connect(client, request, refusal);
	bool is_local_port = client->wire->listener->role == LISTENER_UPSTREAM;
	if (target->form == TARGET_ABSOLUTE) {
		if (!is_local_port && !target->is_https &&
		    destination_is_own_address(client->wire, target->host, target->port))
			return refuse(refusal, outcome_facts[OUTCOME_LOOP].status, outcome_facts[OUTCOME_LOOP].proxy_error,
				      "the URL names this very proxy");
		if (is_local_port && !target->is_https && destination_is_own_address(client->wire, target->host, target->port))
			return find_by_local_port(client, request, refusal);
		return find_by_authority(client, request, target, refusal);
	}
	return is_local_port ? find_by_local_port(client, request, refusal) : find_by_host_field(client, request, refusal);
}
