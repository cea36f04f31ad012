#include "pool.h"

#include "../base/check.h"
#include "../base/clock.h"
#include "registry.h"

#define TO(state) (1u << LEASE_##state)

static const unsigned edges[] = {
	[LEASE_NONE] = TO(QUEUED) | TO(CONNECTING) | TO(HELD),
	[LEASE_QUEUED] = TO(CONNECTING) | TO(HELD) | TO(NONE),
	[LEASE_CONNECTING] = TO(HELD) | TO(NONE),
	[LEASE_HELD] = TO(NONE),
};

static bool has_seat(enum lease_state state)
{
	return state == LEASE_CONNECTING || state == LEASE_HELD;
}

static void enter_queue(struct origin *origin, struct lease *lease)
{
	list_append(&origin->waiters, &lease->link);
	origin->n_waiting++;
	origin->metrics->pending++;
}

static void leave_queue(struct origin *origin, struct lease *lease)
{
	list_remove(&lease->link);
	CHECK(origin->n_waiting > 0);
	origin->metrics->pending--;
	if (--origin->n_waiting == 0)
		list_remove(&origin->starved_link);
}

static void take_seat(struct origin *origin)
{
	origin->n_seats++;
	origin->metrics->in_flight++;
}

static void give_seat_back(struct origin *origin)
{
	CHECK(origin->n_seats > 0);
	origin->n_seats--;
	origin->metrics->in_flight--;
}

/* The only place where a lease's state changes: its place in the queue and its seat go with it. */
static void set_state(struct lease *lease, enum lease_state next, struct mono now)
{
	struct origin *origin = lease->order.origin;
	CHECK(edges[lease->state] & (1u << next));
	if (lease->state == LEASE_QUEUED)
		leave_queue(origin, lease);
	if (next == LEASE_QUEUED)
		enter_queue(origin, lease);
	if (has_seat(next) && !has_seat(lease->state)) {
		take_seat(origin);
		lease->granted = now;
	}
	if (!has_seat(next) && has_seat(lease->state))
		give_seat_back(origin);
	if (next == LEASE_HELD)
		lease->held = now;
	lease->state = next;
}

/* --- granting ------------------------------------------------------------------------------------------------ */

static void hold(struct lease *lease, struct conn *conn, struct mono now)
{
	conn_lease(conn, lease);
	lease->is_reused = true;
	lease->order.origin->metrics->connections_reused++;
	set_state(lease, LEASE_HELD, now);
}

/* Within max_connections, where an idle connection of no use to the lease makes way, and within the process's share. */
static bool may_dial(struct origin *origin, bool is_turn)
{
	while (limit_is_reached(origin_n_connections(origin), origin->limits.max_connections))
		if (!idle_close_oldest(origin))
			return false;
	return share_admit(origin, is_turn);
}

/* A seat and a connection or a dial for a lease that is NONE or QUEUED; false: it has to wait. Calls nobody back. */
static bool grant(struct lease *lease, bool is_turn, struct mono now)
{
	struct origin *origin = lease->order.origin;
	if (limit_is_reached(origin->n_seats, origin->limits.max_in_flight))
		return false;
	struct conn *conn = lease->order.is_fresh_only ? NULL : idle_take(origin, &lease->order, now);
	if (conn) {
		hold(lease, conn, now);
		return true;
	}
	if (!may_dial(origin, is_turn))
		return false;
	set_state(lease, LEASE_CONNECTING, now);
	conn_dial(lease, now);
	return true;
}

bool pool_serve_one(struct origin *origin, bool is_turn)
{
	if (list_is_empty(&origin->waiters))
		return false;
	struct lease *lease = LIST_ENTRY_OF(origin->waiters.next, struct lease, link);
	if (!grant(lease, is_turn, clock_now()))
		return false;
	if (lease->state == LEASE_HELD)
		lease->ops->on_ready(lease->owner);
	else if (lease->ops->on_progress)
		lease->ops->on_progress(lease->owner);
	return true;
}

void pool_serve_due(struct deferred *item)
{
	struct origin *origin = LIST_ENTRY_OF(item, struct origin, serve);
	size_t n = origin->n_waiting;
	if (n > 0) {
		origin_ref(origin); /* a waiter that is served may let go of the last reference */
		while (n-- > 0 && pool_serve_one(origin, false))
			;
		idle_trim(origin);
		origin_unref(&origin);
	} else {
		idle_trim(origin);
	}
}

/* Waiters are called back from the loop only, never from within somebody else's release or cancel. */
void pool_serve_soon(struct origin *origin)
{
	if (origin->n_waiting > 0)
		loop_defer(origin->registry->loop, &origin->serve);
}

/* --- the dial's news ----------------------------------------------------------------------------------------- */

void pool_dial_phase(struct lease *lease, enum dial_phase phase, bool is_silent, struct mono now)
{
	CHECK(lease->state == LEASE_CONNECTING);
	lease->phase = phase;
	if (phase >= DIAL_CONNECTING && !mono_is_set(lease->connecting))
		lease->connecting = now;
	if (phase == DIAL_SECURING && !mono_is_set(lease->securing))
		lease->securing = now;
	if (!is_silent && lease->ops->on_progress)
		lease->ops->on_progress(lease->owner);
}

void pool_dial_ready(struct lease *lease, struct mono now)
{
	set_state(lease, LEASE_HELD, now);
	lease->ops->on_ready(lease->owner);
}

void pool_dial_failed(struct lease *lease, enum outcome outcome, const char *detail)
{
	struct origin *origin = lease->order.origin;
	set_state(lease, LEASE_NONE, clock_now());
	pool_serve_soon(origin);
	lease->ops->on_failed(lease->owner, outcome, detail);
}

/* --- the door ------------------------------------------------------------------------------------------------ */

void lease_init(struct lease *lease)
{
	*lease = (struct lease){ .state = LEASE_NONE };
	list_init(&lease->link);
}

static enum lease_state refuse(struct lease *lease)
{
	struct origin *origin = lease->order.origin;
	if (origin->n_waiting == 0)
		list_remove(&origin->starved_link); /* nobody is there to take its turn */
	lease->refused = OUTCOME_MAX_PENDING;
	lease->refused_detail = outcome_facts[OUTCOME_MAX_PENDING].detail;
	origin->metrics->pool_rejected[POOL_REJECTED_MAX_PENDING]++;
	return LEASE_NONE;
}

enum lease_state pool_acquire(struct lease *lease, const struct lease_order *order, const struct lease_ops *ops,
			      void *owner)
{
	CHECK(lease->state == LEASE_NONE);
	struct origin *origin = order->origin;
	struct mono now = clock_now();
	lease_init(lease);
	lease->order = *order;
	lease->ops = ops;
	lease->owner = owner;
	lease->queued = now;
	origin->last_used = now;
	if (origin->n_waiting == 0 && grant(lease, false, now))
		return lease->state;
	if (limit_is_reached(origin->n_waiting, origin->limits.max_pending))
		return refuse(lease);
	set_state(lease, LEASE_QUEUED, now);
	return LEASE_QUEUED;
}

void pool_release(struct lease *lease, bool is_reusable, int64_t keep_alive_timeout_ms)
{
	CHECK(lease->state == LEASE_HELD);
	struct origin *origin = lease->order.origin;
	struct conn *conn = lease->conn;
	struct mono now = clock_now();
	lease->conn = NULL;
	conn->lease = NULL;
	set_state(lease, LEASE_NONE, now);
	pool_serve_soon(origin); /* its own waiters come before those of starved origins */
	if (!is_reusable || lease->order.is_tunnel || !idle_park(conn, keep_alive_timeout_ms, now))
		conn_close(conn, false);
}

void pool_cancel(struct lease *lease)
{
	if (lease->state == LEASE_NONE)
		return;
	struct origin *origin = lease->order.origin;
	if (lease->conn)
		conn_close(lease->conn, false);
	set_state(lease, LEASE_NONE, clock_now());
	pool_serve_soon(origin);
}

void pool_move(struct lease *to, struct lease *from, const struct lease_ops *ops, void *owner)
{
	CHECK(to->state == LEASE_NONE && from->state == LEASE_HELD);
	*to = *from;
	list_init(&to->link);
	to->ops = ops;
	to->owner = owner;
	to->conn->lease = to;
	from->state = LEASE_NONE; /* the seat goes along: no count changes */
	from->conn = NULL;
}

struct stream *lease_stream(const struct lease *lease)
{
	CHECK(lease->state == LEASE_HELD);
	return &lease->conn->stream;
}

bool lease_was_readable_when_taken(const struct lease *lease)
{
	CHECK(lease->state == LEASE_HELD);
	return lease->is_reused && lease->conn->leased_turn == lease->order.origin->registry->loop->turn;
}

const struct address *lease_address(const struct lease *lease)
{
	CHECK(lease->state == LEASE_HELD);
	return &lease->conn->address;
}

size_t pool_n_waiting(const struct origin *origin)
{
	return origin->n_waiting;
}
