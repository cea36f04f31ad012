/* Idle connections: which are fit for use, how long they are kept, how many. */
#include "../base/clock.h"
#include "registry.h"

/*
 * How long after a response the connection may be used again when the origin announced `Keep-Alive: timeout=N`: its
 * clock started earlier than ours and our request takes time to arrive, so not in the last second of N, nor in its
 * last half when N is below two seconds. A request that can't be repeated keeps to the first half in any case.
 */
static int64_t announced_usable_ms(int64_t announced_ms, bool is_repeatable)
{
	if (announced_ms < 0)
		return LIMIT_OFF;
	int64_t half_ms = announced_ms / 2;
	return !is_repeatable || half_ms < 1000 ? half_ms : announced_ms - 1000;
}

static struct mono use_until(const struct conn *conn, bool is_repeatable)
{
	const struct pool_limits *limits = &conn->origin->limits;
	struct mono until = mono_add_ms(conn->idle_since, limits->idle_timeout_ms);
	until = mono_min(until, mono_add_ms(conn->idle_since, announced_usable_ms(conn->announced_ms, is_repeatable)));
	return mono_min(until, mono_add_ms(conn->born, limits->max_lifetime_ms));
}

/* Nobody may use it any more. */
static bool is_worn_out(const struct conn *conn, struct mono now)
{
	const struct pool_limits *limits = &conn->origin->limits;
	return conn->origin->is_retired || conn->is_gone || limit_is_reached((size_t)conn->n_requests, limits->max_requests) ||
	       mono_reached(use_until(conn, true), now);
}

/* Dialled when it was allowed; deny_addresses may have been reloaded since. */
static bool is_denied_by_now(const struct conn *conn, const struct egress_rule *egress)
{
	return egress && address_is_denied(&conn->address, egress->deny, egress->n_deny);
}

struct conn *idle_take(struct origin *origin, const struct lease_order *order, struct mono now)
{
	if (list_is_empty(&origin->idle))
		return NULL;
	addresses_refresh(origin, now);
	LIST_EACH_SAFE(link, after, &origin->idle) {
		struct conn *conn = LIST_ENTRY_OF(link, struct conn, link);
		if (is_worn_out(conn, now) || is_denied_by_now(conn, order->egress)) {
			conn_close(conn, false);
			continue;
		}
		if (order->is_repeatable)
			return conn;
		if (mono_reached(use_until(conn, false), now))
			continue;
		if (!stream_is_readable_now(&conn->stream))
			return conn;
		conn_close(conn, false);
	}
	return NULL;
}

/* What TLS holds already would raise no event: data would be taken for the next response, a session ticket may stay. */
static bool is_clean(struct stream *stream)
{
	char byte;
	if (!stream_is_open(stream) || stream->is_shut)
		return false;
	return !stream->tls || !tls_has_pending(stream->tls) || stream_read(stream, &byte, 1) == STREAM_AGAIN;
}

bool idle_park(struct conn *conn, int64_t keep_alive_timeout_ms, struct mono now)
{
	struct origin *origin = conn->origin;
	conn->announced_ms = keep_alive_timeout_ms;
	conn->idle_since = now;
	if (is_worn_out(conn, now) || !is_clean(&conn->stream) || share_must_yield(origin))
		return false;
	conn_unlease(conn, now);
	struct mono until = use_until(conn, true);
	if (mono_before(until, origin->idle_timer.due))
		timer_set(&origin->idle_timer, until);
	idle_trim(origin);
	share_note_idle(origin);
	return true;
}

bool idle_close_oldest(struct origin *origin)
{
	if (list_is_empty(&origin->idle))
		return false;
	conn_close(LIST_ENTRY_OF(origin->idle.previous, struct conn, link), false);
	return true;
}

/* Those that waiters will get at the loop's safe point are no surplus. */
static bool has_surplus(const struct origin *origin)
{
	const struct pool_limits *limits = &origin->limits;
	if (origin->n_idle == 0)
		return false;
	if (limits->max_connections >= 0 && origin_n_connections(origin) > (uint64_t)limits->max_connections)
		return true;
	return limits->max_idle >= 0 && origin->n_idle > (uint64_t)limits->max_idle + origin->n_waiting;
}

void idle_trim(struct origin *origin)
{
	while (has_surplus(origin))
		idle_close_oldest(origin);
}

void idle_close_all(struct origin *origin)
{
	while (idle_close_oldest(origin))
		;
}

void idle_timer_update(struct origin *origin)
{
	struct mono now = clock_now(), first = MONO_NEVER;
	LIST_EACH_SAFE(link, after, &origin->idle) {
		struct conn *conn = LIST_ENTRY_OF(link, struct conn, link);
		if (is_worn_out(conn, now))
			conn_close(conn, false);
		else
			first = mono_min(first, use_until(conn, true));
	}
	timer_set(&origin->idle_timer, first);
}

void idle_timer_due(void *owner)
{
	idle_timer_update(owner);
}
