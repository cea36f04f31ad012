/* The life of a wire: its states, from accept to close. */
#include "wire.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/spare.h"
#include "tunnel.h"

/* Each state may be left for these. */
#define TO(state) (1u << (state))
static const unsigned edges[] = {
	[WIRE_ACCEPTED] = TO(WIRE_IDLE) | TO(WIRE_CLOSED),
	[WIRE_IDLE] = TO(WIRE_HEAD) | TO(WIRE_CLOSED),
	[WIRE_HEAD] = TO(WIRE_IDLE) | TO(WIRE_BUSY) | TO(WIRE_CLOSED),
	[WIRE_BUSY] = TO(WIRE_IDLE) | TO(WIRE_LINGERING) | TO(WIRE_TUNNEL) | TO(WIRE_CLOSED),
	[WIRE_LINGERING] = TO(WIRE_CLOSED),
	[WIRE_TUNNEL] = TO(WIRE_CLOSED),
	[WIRE_CLOSED] = 0,
};

void wire_enter(struct wire *wire, enum wire_state state)
{
	CHECK(edges[wire->state] & TO(state));
	wire->state = state;
}

static struct spare spare_messages = SPARE_OF(struct wire_message);

struct wire_message *wire_new_message(void)
{
	return spare_take(&spare_messages);
}

static void free_message_late(struct deferred *item)
{
	struct wire_message *message = LIST_ENTRY_OF(item, struct wire_message, free_late);
	request_reader_clear(&message->reader);
	request_clear(&message->request);
	spare_give(&spare_messages, message);
}

static void free_message(struct wire *wire)
{
	struct wire_message *message = wire->message;
	wire->message = NULL;
	if (message == NULL)
		return;
	deferred_init(&message->free_late, free_message_late);
	loop_defer(wire->front->loop, &message->free_late);
}

static void free_authority(struct wire_authority **authority)
{
	struct wire_authority *gone = *authority;
	*authority = NULL;
	if (gone == NULL)
		return;
	free(gone->host);
	free(gone->host_field);
	free(gone);
}

void wire_free(struct wire *wire)
{
	CHECK(wire->state == WIRE_CLOSED);
	struct front *front = wire->front;
	struct listener *listener = wire->listener;
	timer_clear(&wire->timer);
	deferred_cancel(&wire->later);
	buffer_clear(&wire->input);
	buffer_clear(&wire->output);
	splice_pipe_close(&wire->pipe);
	free_authority(&wire->inner);
	list_remove(&wire->link);
	free(wire);
	front_count_wire(front, listener, -1);
}

void wire_name_client(struct wire *wire, const struct sockaddr *peer)
{
	struct sockaddr_storage asked;
	socklen_t length = sizeof(asked);
	char host[INET6_ADDRSTRLEN] = "";
	if (wire->client_address[0] != '\0')
		return;
	snprintf(wire->client_address, sizeof(wire->client_address), "unix:");
	if (peer == NULL && getpeername(wire->stream.fd, (struct sockaddr *)&asked, &length) == 0)
		peer = (const struct sockaddr *)&asked;
	if (peer == NULL)
		return;
	if (peer->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(wire->client_address, sizeof(wire->client_address), "%s:%u", host, ntohs(v4->sin_port));
	} else if (peer->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(wire->client_address, sizeof(wire->client_address), "[%s]:%u", host, ntohs(v6->sin6_port));
	}
}

static void take_accepted(struct wire *wire)
{
	if (!wire_take_descriptor(wire)) {
		wire_close(wire, false);
		return;
	}
	wire_enter(wire, WIRE_IDLE);
	wire->since = clock_now();
	wire_rearm(wire);
}

static void finish_flushed(struct wire *wire)
{
	if (wire->state != WIRE_BUSY || !wire->is_reply_complete || wire_pending(wire) > 0)
		return;
	if (wire->user_ops)
		wire->user_ops->on_flushed(wire->user);
	else
		wire_end_request(wire, wire->must_close, false);
}

static bool take_flag(bool *flag)
{
	bool was_set = *flag;
	*flag = false;
	return was_set;
}

static void run_later(struct deferred *item)
{
	struct wire *wire = LIST_ENTRY_OF(item, struct wire, later);
	if (wire->state == WIRE_ACCEPTED)
		take_accepted(wire);
	if (take_flag(&wire->is_gone_due))
		wire_lose(wire);
	if (take_flag(&wire->is_flushed_due))
		finish_flushed(wire);
	if (take_flag(&wire->is_writable_due) && wire->state == WIRE_BUSY && wire->user_ops)
		wire->user_ops->on_writable(wire->user);
	if (take_flag(&wire->is_process_due) && wire->state != WIRE_CLOSED)
		wire_process_input(wire);
	if (wire->state == WIRE_CLOSED)
		wire_free(wire);
}

void wire_do_later(struct wire *wire)
{
	loop_defer(wire->front->loop, &wire->later);
}

void wire_init(struct wire *wire)
{
	wire->state = WIRE_ACCEPTED;
	wire->stream.fd = -1;
	splice_pipe_init(&wire->pipe);
	list_append(&wire->front->wires, &wire->link);
	timer_init(&wire->timer, wire->front->loop, wire_on_due, wire);
	deferred_init(&wire->later, run_later);
	front_count_wire(wire->front, wire->listener, 1);
	wire_do_later(wire);
}

void wire_set_user(struct wire *wire, const struct wire_user_ops *ops, void *user)
{
	wire->user_ops = ops;
	wire->user = user;
}

void wire_close(struct wire *wire, bool is_reset)
{
	if (wire->state == WIRE_CLOSED)
		return;
	CHECK(wire->user_ops == NULL);
	wire_enter(wire, WIRE_CLOSED);
	stream_close(&wire->stream, is_reset);
	wire_release_evhttp(wire);
	timer_set(&wire->timer, MONO_NEVER);
	free_message(wire);
	wire_do_later(wire);
}

void wire_lose(struct wire *wire)
{
	if (wire->state == WIRE_CLOSED)
		return;
	wire->is_gone = true;
	if (wire->state == WIRE_TUNNEL) {
		tunnel_cut(wire->tunnel);
		return;
	}
	if (wire->user_ops == NULL) {
		wire_close(wire, false);
		return;
	}
	wire->user_ops->on_gone(wire->user);
	/* Until its user lets go: an end of file stays readable. */
	if (wire->state != WIRE_CLOSED)
		stream_pause_reading(&wire->stream);
}

static void start_lingering(struct wire *wire)
{
	wire_enter(wire, WIRE_LINGERING);
	buffer_clear(&wire->input);
	wire->since = clock_now();
	stream_shutdown(&wire->stream);
	stream_resume_reading(&wire->stream);
	wire_rearm(wire);
}

static void go_idle(struct wire *wire)
{
	wire_end_evhttp_request(wire);
	wire_enter(wire, WIRE_IDLE);
	wire->since = clock_now();
	if (buffer_length(&wire->input) > 0 || wire->is_half_closed) {
		wire->is_process_due = true;
		wire_do_later(wire);
	}
	wire_rearm(wire);
}

void wire_end_request(struct wire *wire, bool must_close, bool is_reset)
{
	if (wire->state == WIRE_CLOSED)
		return;
	wire_set_user(wire, NULL, NULL);
	free_message(wire);
	/* After a hand-over, what the reply's head promised before it holds: the client may be sending its next
	 * request. */
	must_close |= wire->must_close || (wire->is_closing_soon && !wire->front->is_handed_over);
	if (wire->is_gone || is_reset)
		wire_close(wire, is_reset);
	else if (must_close && wire->is_half_closed)
		wire_close(wire, false);
	else if (must_close)
		start_lingering(wire);
	else
		go_idle(wire);
}

static bool may_be_asking(struct wire *wire)
{
	char byte;
	if (wire->front->is_freeing)
		return false;
	if (wire->state == WIRE_ACCEPTED || wire->front->is_handed_over)
		return true;
	if (recv(wire->stream.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
		wire->since = clock_now();
		return true;
	}
	return wire->n_requests == 0 && !mono_reached(mono_add_ms(wire->since, WIRE_PARTING_MS), clock_now());
}

void wire_close_when_idle(struct wire *wire)
{
	wire->is_closing_soon = true;
	if (wire->state != WIRE_IDLE && wire->state != WIRE_ACCEPTED)
		return;
	if (may_be_asking(wire))
		wire_rearm(wire);
	else
		wire_close(wire, false);
}

void wire_enter_tunnel(struct wire *wire, void *tunnel)
{
	wire_set_user(wire, NULL, NULL);
	wire_enter(wire, WIRE_TUNNEL);
	wire->tunnel = tunnel;
	splice_pipe_close(&wire->pipe); /* of an answer before; the tunnel's flows have their own */
	timer_set(&wire->timer, MONO_NEVER);
}
