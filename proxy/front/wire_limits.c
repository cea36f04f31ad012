/* The wire's one timer: which of the client's limits comes next in a state, and what it means when it is reached. */
#include "../base/clock.h"
#include "refuse.h"
#include "wire.h"

/* For more of the request's body, from a client that may send it. */
static bool waits_for_body(const struct wire *wire)
{
	return !wire->is_request_complete && !wire->is_body_paused && wire->stream.is_reading;
}

/* For a client that takes the rest of an answer which no exchange's limits watch over. */
static bool waits_for_room(const struct wire *wire)
{
	return wire->is_reply_complete && wire->user_ops == NULL;
}

static struct mono due_while_busy(const struct wire *wire, const struct client_rule *rule, struct mono now)
{
	struct mono due = MONO_NEVER;
	if (waits_for_body(wire) || waits_for_room(wire))
		due = mono_add_ms(wire->since, rule->body_idle_timeout_ms);
	if (!wire->stream.is_reading)
		due = mono_min(due, mono_add_ms(now, WIRE_PEER_CHECK_MS));
	return due;
}

static int64_t idle_limit_ms(const struct wire *wire, const struct client_rule *rule)
{
	return wire->is_closing_soon && !wire->front->is_handed_over ? WIRE_PARTING_MS : rule->idle_timeout_ms;
}

void wire_rearm(struct wire *wire)
{
	const struct client_rule *rule = &front_config(wire->front)->global.client;
	struct mono due = MONO_NEVER;
	switch (wire->state) {
	case WIRE_IDLE:
		due = mono_add_ms(wire->since, idle_limit_ms(wire, rule));
		if (splice_pipe_is_open(&wire->pipe))
			due = mono_min(due, mono_add_ms(wire->since, WIRE_PIPE_REST_MS));
		break;
	case WIRE_HEAD:
		due = mono_add_ms(wire->message->started, rule->header_timeout_ms);
		break;
	case WIRE_BUSY:
		due = due_while_busy(wire, rule, clock_now());
		/* Most requests need no timer: leaving the old one alone is cheaper, it finds nothing to do if
		 * it wakes. */
		if (mono_is_never(due))
			return;
		break;
	case WIRE_LINGERING:
		due = mono_add_ms(wire->since, wire->front->room->is_draining ? WIRE_DRAIN_LINGER_MS : WIRE_LINGER_MS);
		break;
	case WIRE_ACCEPTED:
	case WIRE_TUNNEL:
	case WIRE_CLOSED:
		break;
	}
	timer_set(&wire->timer, due);
}

static void on_due_while_busy(struct wire *wire, const struct client_rule *rule, struct mono now)
{
	bool is_late = mono_reached(mono_add_ms(wire->since, rule->body_idle_timeout_ms), now);
	if (!wire->stream.is_reading && wire_is_peer_gone(wire)) {
		wire_lose(wire);
	} else if (is_late && waits_for_room(wire)) {
		wire_lose(wire);
	} else if (is_late && waits_for_body(wire) && wire->user_ops != NULL) {
		wire->is_request_complete = wire->must_close = true; /* no more of it is taken */
		wire->user_ops->on_body_failed(wire->user, OUTCOME_CLIENT_SLOW, NULL);
	}
}

void wire_on_due(void *owner)
{
	struct wire *wire = owner;
	const struct client_rule *rule = &front_config(wire->front)->global.client;
	struct mono now = clock_now();
	switch (wire->state) {
	case WIRE_IDLE:
		if (mono_reached(mono_add_ms(wire->since, idle_limit_ms(wire, rule)), now))
			wire_close(wire, false);
		else if (mono_reached(mono_add_ms(wire->since, WIRE_PIPE_REST_MS), now))
			splice_pipe_close(&wire->pipe);
		break;
	case WIRE_HEAD:
		if (mono_reached(mono_add_ms(wire->message->started, rule->header_timeout_ms), now))
			refuse_unread(wire, 408, "the request's header section was not complete within client.header_timeout");
		break;
	case WIRE_BUSY:
		on_due_while_busy(wire, rule, now);
		break;
	case WIRE_LINGERING:
		wire_close(wire, false);
		break;
	case WIRE_ACCEPTED:
	case WIRE_TUNNEL:
	case WIRE_CLOSED:
		break;
	}
	wire_rearm(wire);
}
