/* limits.upstream_connections: how origins share what the process as a whole may open. */
#include "../base/check.h"
#include "registry.h"

static bool is_full(const struct registry *registry)
{
	return limit_is_reached(registry->n_connections, registry->max_connections);
}

/* Are there idle connections that the origin's own waiters won't get at the loop's safe point? */
static bool has_spare(const struct origin *origin)
{
	size_t n_claims = origin->n_waiting;
	int64_t max = origin->limits.max_in_flight;
	if (max >= 0) {
		size_t n_seats_free = limit_is_reached(origin->n_seats, max) ? 0 : (size_t)max - origin->n_seats;
		n_claims = n_claims < n_seats_free ? n_claims : n_seats_free;
	}
	return origin->n_idle > n_claims;
}

/* The longest-idle connection that may be closed for the sake of this origin; NULL: none. */
static struct conn *find_victim(const struct registry *registry, const struct origin *beneficiary)
{
	LIST_EACH(link, &registry->idle) {
		struct conn *conn = LIST_ENTRY_OF(link, struct conn, idle_link);
		if (conn->origin == beneficiary || has_spare(conn->origin))
			return conn;
	}
	return NULL;
}

static bool make_room(struct registry *registry, const struct origin *beneficiary)
{
	while (is_full(registry)) {
		struct conn *conn = find_victim(registry, beneficiary);
		if (!conn)
			return false;
		conn_close(conn, false);
	}
	return true;
}

static struct origin *first_starved(const struct registry *registry)
{
	return LIST_ENTRY_OF(registry->starved.next, struct origin, starved_link);
}

bool share_admit(struct origin *origin, bool is_turn)
{
	struct registry *registry = origin->registry;
	if ((is_turn || list_is_empty(&registry->starved)) && make_room(registry, origin))
		return true;
	if (!list_is_linked(&origin->starved_link))
		list_append(&registry->starved, &origin->starved_link);
	share_serve_soon(registry);
	return false;
}

static bool can_progress(const struct registry *registry)
{
	return !list_is_empty(&registry->starved) &&
	       (!is_full(registry) || find_victim(registry, first_starved(registry)));
}

void share_serve_soon(struct registry *registry)
{
	if (can_progress(registry))
		loop_defer(registry->loop, &registry->serve_starved);
}

static void take_turn(struct registry *registry)
{
	struct origin *origin = first_starved(registry);
	list_remove(&origin->starved_link);
	origin_ref(origin);
	if (pool_serve_one(origin, true) && origin->n_waiting > 0 && !list_is_linked(&origin->starved_link))
		list_append(&registry->starved, &origin->starved_link);
	origin_unref(&origin);
}

/* One waiter of each starved origin in turn; the rest in a further round. */
static void serve_starved(struct deferred *item)
{
	struct registry *registry = LIST_ENTRY_OF(item, struct registry, serve_starved);
	size_t n_turns = 0;
	LIST_EACH(link, &registry->starved)
		n_turns++;
	while (n_turns-- > 0 && can_progress(registry))
		take_turn(registry);
	share_serve_soon(registry);
}

void share_init(struct registry *registry)
{
	list_init(&registry->starved);
	deferred_init(&registry->serve_starved, serve_starved);
}

void share_note_opened(struct origin *origin)
{
	origin->registry->n_connections++;
	process_metrics.upstream_connections++;
}

void share_note_closed(struct origin *origin)
{
	struct registry *registry = origin->registry;
	CHECK(registry->n_connections > 0);
	registry->n_connections--;
	process_metrics.upstream_connections--;
	share_serve_soon(registry);
}

void share_note_idle(struct origin *origin)
{
	share_serve_soon(origin->registry);
}

bool share_must_yield(const struct origin *origin)
{
	const struct registry *registry = origin->registry;
	if (registry->max_connections >= 0 && registry->n_connections > (uint64_t)registry->max_connections)
		return true; /* the limit fell */
	if (list_is_empty(&registry->starved) || !is_full(registry))
		return false;
	const struct origin *first = first_starved(registry);
	return origin_n_connections(origin) > origin_n_connections(first) + 1;
}

void share_trim(struct registry *registry)
{
	while (registry->max_connections >= 0 && registry->n_connections > (uint64_t)registry->max_connections &&
	       !list_is_empty(&registry->idle))
		conn_close(LIST_ENTRY_OF(registry->idle.next, struct conn, idle_link), false);
}
