#include "match.h"

#include <string.h>

/* How well a pattern fits: 0 not at all, 1 "*", more for a longer "*.suffix", SIZE_MAX exact. */
static size_t host_rank(const char *pattern, struct slice host)
{
	size_t length = strlen(pattern);

	if (pattern[0] != '*')
		return length == host.length && memcmp(pattern, host.data, length) == 0 ? SIZE_MAX : 0;
	if (length == 1)
		return 1;
	/* "*.pay.example" needs at least one byte before ".pay.example", so pay.example itself is not meant */
	if (host.length < length || memcmp(host.data + host.length - (length - 1), pattern + 1, length - 1) != 0)
		return 0;
	return length;
}

static size_t best_host_rank(const struct string_list *hosts, struct slice host)
{
	size_t best = 0;

	for (size_t i = 0; i < hosts->n; i++) {
		size_t rank = host_rank(hosts->items[i], host);
		if (rank > best)
			best = rank;
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

/* The host decides first; only between equals does a named port. What ties in both is refused by the loader. */
const struct upstream_def *match_upstream(const struct config *config, struct slice host, uint16_t port)
{
	const struct upstream_def *best = NULL;
	size_t best_rank = 0;

	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];
		if (upstream->n_ports > 0 && !has_port(upstream, port))
			continue;
		size_t rank = best_host_rank(&upstream->hosts, host);
		if (rank > best_rank || (rank > 0 && rank == best_rank && upstream->n_ports > 0 && best->n_ports == 0)) {
			best = upstream;
			best_rank = rank;
		}
	}
	if (best)
		return best;
	return config->global.unmatched_deny ? NULL : &config->unmatched;
}

/* First place of a run in text; the naive search would be quadratic on paths made for it, memmem is not. */
static const char *find(struct slice text, struct slice run)
{
	return memmem(text.data, text.length, run.data, run.length);
}

/* Each run between stars is taken at its first place; a later one could only leave less for the rest. */
bool match_glob(struct slice pattern, struct slice text)
{
	const char *star = pattern.length > 0 ? memchr(pattern.data, '*', pattern.length) : NULL;

	if (!star)
		return slice_equals(pattern, text);
	const char *last = memrchr(pattern.data, '*', pattern.length);
	size_t prefix = (size_t)(star - pattern.data), suffix = pattern.length - (size_t)(last - pattern.data) - 1;
	if (text.length < prefix + suffix || memcmp(text.data, pattern.data, prefix) != 0 ||
	    memcmp(text.data + text.length - suffix, last + 1, suffix) != 0)
		return false;

	struct slice rest = { text.data + prefix, text.length - prefix - suffix };
	while (star < last) {
		const char *next = memchr(star + 1, '*', (size_t)(last - star));
		struct slice run = { star + 1, (size_t)(next - star - 1) };
		const char *place = run.length > 0 ? find(rest, run) : rest.data;
		if (!place)
			return false;
		size_t used = (size_t)(place - rest.data) + run.length;
		rest = (struct slice){ rest.data + used, rest.length - used };
		star = next;
	}
	return true;
}

static bool has_method(const struct string_list *methods, struct slice method)
{
	for (size_t i = 0; i < methods->n; i++)
		if (slice_equals(slice_of(methods->items[i]), method))
			return true;
	return methods->n == 0;
}

static bool has_path(const struct string_list *paths, struct slice path)
{
	for (size_t i = 0; i < paths->n; i++)
		if (match_glob(slice_of(paths->items[i]), path))
			return true;
	return paths->n == 0;
}

const struct route *match_route(const struct upstream_def *upstream, struct slice method, struct slice path)
{
	for (size_t i = 0; i < upstream->n_routes; i++) {
		const struct route *route = &upstream->routes[i];
		if (has_method(&route->methods, method) && has_path(&route->paths, path))
			return route;
	}
	return NULL;
}

struct match match_request(const struct config *config, struct slice host, uint16_t port, struct slice method,
			   struct slice path)
{
	struct match match = { .upstream = match_upstream(config, host, port) };

	if (match.upstream) {
		match.route = match_route(match.upstream, method, path);
		match.policy = match.route ? &match.route->policy : &match.upstream->policy;
	}
	return match;
}
