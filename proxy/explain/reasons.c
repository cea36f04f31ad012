/* Why a request gets its upstream and its route, and why the other entries don't. */
#include "explanation.h"

#define MAX_LISTED 8 /* of the patterns that don't match: the rest is in the file */

/* As policy/match ranks them: a name beats the longest suffix beats "*". */
static size_t rank_of(const char *pattern)
{
	return pattern[0] == '*' ? strlen(pattern) : SIZE_MAX;
}

/* The pattern by which this host belongs to an upstream; NULL: it doesn't. */
static const char *best_pattern(const struct upstream_def *upstream, const char *host)
{
	const char *best = NULL;

	for (size_t i = 0; i < upstream->hosts.n; i++) {
		const char *pattern = upstream->hosts.items[i];
		if (match_glob(slice_of(pattern), slice_of(host)) && (!best || rank_of(pattern) > rank_of(best)))
			best = pattern;
	}
	return best;
}

static bool has_port(const struct upstream_def *upstream, uint16_t port)
{
	for (size_t i = 0; i < upstream->n_ports; i++)
		if (upstream->ports[i] == port)
			return true;
	return false;
}

static void put_texts(struct buffer *out, const struct string_list *list)
{
	for (size_t i = 0; i < list->n && i < MAX_LISTED; i++)
		buffer_printf(out, "%s%s", i ? ", " : "", list->items[i]);
	if (list->n > MAX_LISTED)
		buffer_printf(out, " and %zu more", list->n - MAX_LISTED);
}

static void put_ports(struct buffer *out, const struct upstream_def *upstream)
{
	for (size_t i = 0; i < upstream->n_ports && i < MAX_LISTED; i++)
		buffer_printf(out, "%s%u", i ? ", " : "", upstream->ports[i]);
	if (upstream->n_ports > MAX_LISTED)
		buffer_printf(out, " and %zu more", upstream->n_ports - MAX_LISTED);
}

static bool is_unmatched(const struct explanation *explanation)
{
	return !explanation->match.upstream || explanation->match.upstream == &explanation->config->unmatched;
}

void put_upstream_reason(struct buffer *out, const struct explanation *explanation)
{
	const struct upstream_def *upstream = explanation->match.upstream;
	const char *host = explanation->target.host;

	if (explanation->is_local_port) {
		buffer_printf(out, "port %u of this machine is its own (listen)", explanation->target.port);
		return;
	}
	if (is_unmatched(explanation)) {
		buffer_printf(out, "no entry of upstreams matches %s:%u, and unmatched is %s", host,
			explanation->target.port,
			upstream ? "allow: it gets the defaults" : "deny: 403 http_request_denied");
		return;
	}
	const char *pattern = best_pattern(upstream, host);
	if (pattern && pattern[0] == '*')
		buffer_printf(out, "host %s matches %s", host, pattern);
	else
		buffer_printf(out, "host %s is listed by name", host);
	if (upstream->n_ports > 0)
		buffer_printf(out, ", port %u is listed", explanation->target.port);
}

void put_upstream_place(struct buffer *out, const struct explanation *explanation)
{
	const struct config *config = explanation->config;

	if (explanation->is_local_port)
		put_key_place(out, config, explanation->match.upstream, "listen", KEY_UPSTREAM);
	else if (is_unmatched(explanation))
		put_key_place(out, config, &config->global, "unmatched", KEY_GLOBAL);
	else
		put_key_place(out, config, explanation->match.upstream, "match.hosts", KEY_UPSTREAM);
}

void put_other_upstream_reason(
	struct buffer *out, const struct explanation *explanation, const struct upstream_def *other)
{
	const struct upstream_def *upstream = explanation->match.upstream;
	uint16_t port = explanation->target.port;
	const char *pattern = best_pattern(other, explanation->target.host);

	if (explanation->is_local_port) {
		buffer_printf(out, "port %u is not its own", port);
	} else if (!pattern) {
		buffer_append_slice(out, SLICE("host is none of "));
		put_texts(out, &other->hosts);
	} else if (other->n_ports > 0 && !has_port(other, port)) {
		buffer_printf(out, "%s matches, but port %u is none of ", pattern, port);
		put_ports(out, other);
	} else if (!is_unmatched(explanation)) {
		const char *better = best_pattern(upstream, explanation->target.host);
		if (rank_of(better) > rank_of(pattern))
			buffer_printf(out, "%s matches, but %s is more specific", pattern, better);
		else
			buffer_printf(out, "%s matches, but %s names port %u as well", pattern, upstream->name, port);
	}
}

bool has_route_choice(const struct explanation *explanation)
{
	return explanation->match.upstream && explanation->kind != EXPLAINED_HTTP_TUNNEL &&
	       explanation->kind != EXPLAINED_PORT_DENIED;
}

static bool has_method(const struct route *route, struct slice method)
{
	for (size_t i = 0; i < route->methods.n; i++)
		if (slice_equals(slice_of(route->methods.items[i]), method))
			return true;
	return route->methods.n == 0;
}

/* The pattern that matches; NULL: none. */
static const char *path_pattern(const struct route *route, struct slice path)
{
	for (size_t i = 0; i < route->paths.n; i++)
		if (match_glob(slice_of(route->paths.items[i]), path))
			return route->paths.items[i];
	return NULL;
}

static struct slice path_of(const struct explanation *explanation)
{
	return (struct slice){explanation->path, explanation->path_length};
}

void put_route_reason(struct buffer *out, const struct explanation *explanation)
{
	const struct route *route = explanation->match.route;
	struct slice path = path_of(explanation);

	if (explanation->kind == EXPLAINED_HTTP_TUNNEL) {
		buffer_append_slice(out, SLICE("each request inside the tunnel finds its own"));
	} else if (!route) {
		buffer_printf(out, "%s, so the upstream's own policy rules",
			explanation->match.upstream->n_routes > 0 ? "no route matches" : "it has no routes");
	} else {
		buffer_append_slice(out, SLICE("the first that matches: "));
		if (route->methods.n > 0)
			buffer_printf(out, "method %.*s is listed", SLICE_ARGS(explanation->method));
		else
			buffer_append_slice(out, SLICE("any method"));
		if (route->paths.n > 0)
			buffer_printf(out, ", path %.*s matches %s", SLICE_ARGS(path), path_pattern(route, path));
		else
			buffer_append_slice(out, SLICE(", any path"));
	}
}

void put_other_route_reason(struct buffer *out, const struct explanation *explanation, const struct route *other)
{
	struct slice path = path_of(explanation);

	if (!has_method(other, explanation->method)) {
		buffer_printf(out, "method %.*s is none of ", SLICE_ARGS(explanation->method));
		put_texts(out, &other->methods);
	} else if (other->paths.n > 0 && !path_pattern(other, path)) {
		if (explanation->kind == EXPLAINED_OPAQUE_TUNNEL)
			buffer_append_slice(out, SLICE("the path inside a tunnel is not known"));
		else
			buffer_printf(out, "path %.*s is none of ", SLICE_ARGS(path));
		if (explanation->kind != EXPLAINED_OPAQUE_TUNNEL)
			put_texts(out, &other->paths);
	} else if (explanation->match.route) {
		buffer_printf(out, "matches, but %s comes first", explanation->match.route->text);
	}
}
