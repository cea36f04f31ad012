#include "conn.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "registry.h"

#define TO(state) (1u << CONN_##state)

static const unsigned edges[N_CONN_STATES] = {
	[CONN_RESOLVING] = TO(DIALING) | TO(CLOSING),
	[CONN_DIALING] = TO(SECURING) | TO(LEASED) | TO(CLOSING),
	[CONN_SECURING] = TO(LEASED) | TO(CLOSING),
	[CONN_IDLE] = TO(LEASED) | TO(CLOSING),
	[CONN_LEASED] = TO(IDLE) | TO(CLOSING),
	[CONN_CLOSING] = TO(CLOSED),
};

/* The list, count and gauge that a state stands for. */
struct place {
	struct list *list;
	size_t *n;
	int64_t *gauge;
};

static struct place place_of(struct origin *origin, enum conn_state state)
{
	switch (state) {
	case CONN_RESOLVING:
	case CONN_DIALING:
	case CONN_SECURING:
		return (struct place){ &origin->connecting, &origin->n_connecting,
				       &origin->metrics->connections_connecting };
	case CONN_IDLE:
		return (struct place){ &origin->idle, &origin->n_idle, &origin->metrics->connections_idle };
	case CONN_LEASED:
		return (struct place){ &origin->leased, &origin->n_leased, &origin->metrics->connections_active };
	default:
		return (struct place){ NULL, NULL, NULL };
	}
}

static void place_enter(struct conn *conn, struct place place)
{
	if (!place.list)
		return;
	list_prepend(place.list, &conn->link); /* idle: most recently used first */
	++*place.n;
	++*place.gauge;
}

static void place_leave(struct conn *conn, struct place place)
{
	if (!place.list)
		return;
	list_remove(&conn->link);
	CHECK(*place.n > 0);
	--*place.n;
	--*place.gauge;
}

/* The only place where a connection's state changes. */
static void set_state(struct conn *conn, enum conn_state next)
{
	CHECK(edges[conn->state] & (1u << next));
	struct place from = place_of(conn->origin, conn->state), to = place_of(conn->origin, next);
	if (from.list != to.list) {
		place_leave(conn, from);
		place_enter(conn, to);
	}
	if (conn->state == CONN_IDLE)
		list_remove(&conn->idle_link);
	conn->state = next;
	switch (next) {
	case CONN_IDLE:
		list_append(&conn->origin->registry->idle, &conn->idle_link);
		break;
	case CONN_CLOSING:
		share_note_closed(conn->origin);
		break;
	case CONN_CLOSED:
		loop_defer(conn->origin->registry->loop, &conn->free_later);
		break;
	default:
		break;
	}
}

static void free_closed(struct deferred *item)
{
	free(LIST_ENTRY_OF(item, struct conn, free_later));
}

/* --- the stream: while idle nothing may come ----------------------------------------------------------------- */

/* The end, a reset, or bytes that nobody asked for. TLS records without data (a session ticket) are none of these. */
static void readable_while_idle(struct conn *conn)
{
	char byte;
	if (stream_read(&conn->stream, &byte, 1) != STREAM_AGAIN)
		conn_close(conn, false);
}

static void on_readable(void *owner)
{
	struct conn *conn = owner;
	if (conn->state == CONN_IDLE)
		readable_while_idle(conn);
	else if (conn->state == CONN_LEASED)
		conn->lease->ops->on_readable(conn->lease->owner);
}

static void on_writable(void *owner)
{
	struct conn *conn = owner;
	if (conn->state == CONN_LEASED)
		conn->lease->ops->on_writable(conn->lease->owner);
}

static const struct stream_ops stream_ops = { on_readable, on_writable };

/* --- the dial ------------------------------------------------------------------------------------------------ */

static enum outcome outcome_of(enum dial_status status)
{
	switch (status) {
	case DIAL_DNS_NO_NAME: return OUTCOME_DNS_NO_NAME;
	case DIAL_DNS_FAILED: return OUTCOME_DNS_FAILURE;
	case DIAL_DNS_TIMEOUT: return OUTCOME_DNS_TIMEOUT;
	case DIAL_DENIED: return OUTCOME_ADDRESS_DENIED;
	case DIAL_REFUSED: return OUTCOME_CONNECT_REFUSED;
	case DIAL_TIMEOUT: return OUTCOME_CONNECT_TIMEOUT;
	case DIAL_TLS_TIMEOUT: return OUTCOME_TLS_TIMEOUT;
	case DIAL_TLS_CLOSED: return OUTCOME_TLS_CLOSED;
	case DIAL_TLS_CERTIFICATE: return OUTCOME_TLS_CERTIFICATE;
	case DIAL_TLS_FAILED: return OUTCOME_TLS_FAILURE;
	case DIAL_OK:
	case DIAL_UNREACHABLE:
	case DIAL_NO_DESCRIPTORS: break;
	}
	return OUTCOME_CONNECT_UNREACHABLE;
}

/* Up to the state that the phase stands for, through those that took no time. False: nothing new. */
static bool advance(struct conn *conn, enum dial_phase phase)
{
	enum conn_state goal = phase == DIAL_RESOLVING ? CONN_RESOLVING :
			       phase == DIAL_CONNECTING ? CONN_DIALING : CONN_SECURING;
	if (conn->state >= goal)
		return false;
	while (conn->state < goal)
		set_state(conn, conn->state + 1);
	return true;
}

static void dial_on_phase(void *owner, enum dial_phase phase)
{
	struct conn *conn = owner;
	if (advance(conn, phase))
		pool_dial_phase(conn->lease, phase, conn->is_starting, clock_now());
}

static void dial_failed(struct conn *conn, const struct dial_result *result)
{
	struct lease *lease = conn->lease;
	char detail[sizeof(result->detail)]; /* the dial may be gone before the owner has read it */
	snprintf(detail, sizeof(detail), "%s", result->detail);
	enum outcome outcome = outcome_of(result->status);
	conn_close(conn, false);
	pool_dial_failed(lease, outcome, detail);
}

static void count_opened(struct conn *conn, const struct dial_result *result)
{
	struct upstream_metrics *metrics = conn->origin->metrics;
	metrics->connections_opened++;
	if (!result->tls)
		return;
	if (tls_is_resumed(result->tls))
		metrics->tls_handshakes_resumed++;
	else
		metrics->tls_handshakes_full++;
}

static void dial_on_done(void *owner, struct dial_result *result)
{
	struct conn *conn = owner;
	struct mono now = clock_now();
	conn->dial = NULL;
	if (result->status != DIAL_OK) {
		dial_failed(conn, result);
		return;
	}
	count_opened(conn, result);
	enum dial_phase last = result->tls ? DIAL_SECURING : DIAL_CONNECTING;
	if (advance(conn, last))
		pool_dial_phase(conn->lease, last, true, now);
	conn->address = result->address;
	conn->born = now;
	stream_open(&conn->stream, conn->origin->registry->loop, result->fd, result->tls, &stream_ops, conn);
	result->fd = -1;
	result->tls = NULL;
	set_state(conn, CONN_LEASED);
	conn->n_requests = 1;
	addresses_learn(conn, now);
	pool_dial_ready(conn->lease, now);
}

static const struct dial_ops dial_ops = { dial_on_phase, dial_on_done };

static struct conn *conn_new(struct lease *lease)
{
	struct conn *conn = xcalloc(1, sizeof(*conn));
	list_init(&conn->link);
	list_init(&conn->idle_link);
	deferred_init(&conn->free_later, free_closed);
	conn->origin = lease->order.origin;
	conn->lease = lease;
	conn->stream.fd = -1;
	conn->announced_ms = -1;
	conn->state = CONN_RESOLVING;
	place_enter(conn, place_of(conn->origin, CONN_RESOLVING));
	share_note_opened(conn->origin);
	return conn;
}

void conn_dial(struct lease *lease, struct mono now)
{
	struct conn *conn = conn_new(lease);
	struct origin *origin = conn->origin;
	struct dial_order order = {
		.host = origin->host,
		.port = origin->port,
		.connect_ms = lease->order.timeouts->connect_ms,
		.tls_handshake_ms = lease->order.timeouts->tls_handshake_ms,
		.deny = lease->order.egress ? lease->order.egress->deny : NULL,
		.n_deny = lease->order.egress ? lease->order.egress->n_deny : 0,
		.tls = origin->tls,
		.server_name = origin->server_name,
	};
	lease->conn = conn;
	lease->phase = DIAL_RESOLVING;
	conn->is_starting = true;
	conn->dial = dial_start(origin->registry->loop, origin->registry->resolver, &order, &dial_ops, conn);
	conn->is_starting = false;
	enum dial_phase phase = dial_phase(conn->dial);
	if (advance(conn, phase))
		pool_dial_phase(lease, phase, true, now);
}

void conn_lease(struct conn *conn, struct lease *lease)
{
	set_state(conn, CONN_LEASED);
	conn->n_requests++;
	conn->leased_turn = conn->origin->registry->loop->turn;
	conn->lease = lease;
	lease->conn = conn;
}

void conn_unlease(struct conn *conn, struct mono now)
{
	set_state(conn, CONN_IDLE);
	conn->lease = NULL;
	conn->idle_since = now;
	if (!conn->stream.is_reading)
		stream_resume_reading(&conn->stream);
}

void conn_close(struct conn *conn, bool is_reset)
{
	set_state(conn, CONN_CLOSING);
	if (conn->lease) {
		conn->lease->conn = NULL;
		conn->lease = NULL;
	}
	dial_cancel(&conn->dial);
	if (stream_is_open(&conn->stream))
		stream_close(&conn->stream, is_reset);
	set_state(conn, CONN_CLOSED);
}
