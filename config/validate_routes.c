/* Routes that can never match, since those before them take all that they would. */
#include <string.h>
#include <strings.h>

#include "private.h"

#define MAX_COMPARISONS 2000000 /* of patterns; past that a file's later routes go unjudged */

/*
 * Does every text that `narrow` matches match `wide` too? Sound, not complete: `narrow` is read as a text in which a
 * `*` can only be covered by a `*`.
 */
static bool glob_covers(const char *wide, const char *narrow)
{
	const char *star = NULL, *resume = NULL;

	while (*narrow) {
		if (*wide == '*') {
			star = wide++;
			resume = narrow;
		} else if (*wide == *narrow) {
			wide++;
			narrow++;
		} else if (star) {
			wide = star + 1;
			narrow = ++resume;
		} else {
			return false;
		}
	}
	while (*wide == '*')
		wide++;
	return *wide == '\0';
}

static bool list_has(const struct string_list *list, const char *item)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->items[i], item))
			return true;
	return false;
}

static bool methods_cover(const struct string_list *wide, const struct string_list *narrow)
{
	if (wide->n == 0)
		return true;
	for (size_t i = 0; i < narrow->n; i++)
		if (!list_has(wide, narrow->items[i]))
			return false;
	return narrow->n > 0;
}

/* The earlier route that takes every request for path, or NULL. */
static const struct route *find_cover(const struct config *config, const struct upstream_def *upstream,
	const struct route *route, const char *path, size_t *comparisons)
{
	for (size_t i = 0; i < route->index; i++) {
		const struct route *earlier = &upstream->routes[i];

		*comparisons += 1 + earlier->paths.n + earlier->methods.n;
		if (origins_find(config, earlier)->is_faulty)
			continue;
		if (!methods_cover(&earlier->methods, &route->methods))
			continue;
		if (earlier->paths.n == 0)
			return earlier;
		for (size_t j = 0; j < earlier->paths.n; j++)
			if (glob_covers(earlier->paths.items[j], path))
				return earlier;
	}
	return NULL;
}

static void judge_route(const struct config *config, struct fault_list *faults, const struct upstream_def *upstream,
	const struct route *route, size_t *comparisons)
{
	static const char *const any[] = {"*"};
	const struct string_list any_path = {any, 1};
	const struct string_list *paths = route->paths.n ? &route->paths : &any_path;
	const struct origins *origins = origins_find(config, route);
	const struct route *cover = NULL;

	if (origins->is_faulty)
		return;
	for (size_t i = 0; i < paths->n; i++) {
		cover = find_cover(config, upstream, route, paths->items[i], comparisons);
		if (!cover)
			return;
	}
	fault_add(faults, FAULT_WARNING, (struct place){origins->self.line, origins->self.column, cover->line},
		"%s can never match: %s on line %u takes every request before it", route->text, cover->text,
		cover->line);
}

static void check_empty(
	const struct config *config, struct fault_list *faults, const struct route *route, const char *path, size_t n)
{
	struct spot spot = origins_find(config, route)->spots[key_index(key_find(path, KEY_ROUTE))];

	if (spot.line && n == 0)
		fault_add(faults, FAULT_ERROR, (struct place){spot.line, spot.column, 0},
			"%s is empty: leave it out to match any", path);
}

const char *method_meant(const char *method)
{
	static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcasecmp(method, known[i]))
			return strcmp(method, known[i]) != 0 ? known[i] : NULL;
	return NULL;
}

static void check_case(const struct config *config, struct fault_list *faults, const struct route *route)
{
	struct spot spot = origins_find(config, route)->spots[key_index(key_find("match.methods", KEY_ROUTE))];

	for (size_t i = 0; i < route->methods.n; i++) {
		const char *meant = method_meant(route->methods.items[i]);

		if (meant)
			fault_add(faults, FAULT_WARNING, (struct place){spot.line, spot.column, 0},
				"match.methods: %s is not %s: methods are case-sensitive",
				fault_quote(route->methods.items[i]), meant);
	}
}

void validate_routes(const struct config *config, struct fault_list *faults)
{
	size_t comparisons = 0;

	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];

		for (size_t j = 0; j < upstream->n_routes; j++) {
			const struct route *route = &upstream->routes[j];

			check_empty(config, faults, route, "match.methods", route->methods.n);
			check_empty(config, faults, route, "match.paths", route->paths.n);
			check_case(config, faults, route);
			if (comparisons < MAX_COMPARISONS)
				judge_route(config, faults, upstream, route, &comparisons);
		}
	}
}
