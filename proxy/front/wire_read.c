/* The wire's incoming side: bytes to requests, one at a time, the rest kept for later and bounded. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "refuse.h"
#include "wire.h"

static void begin_message(struct wire *wire)
{
	struct wire_message *message = wire_new_message();
	request_init(&message->request);
	request_reader_init(&message->reader, &message->request,
			    (size_t)front_config(wire->front)->global.limits.header_bytes);
	list_init(&message->free_late.link);
	wire->message = message;
}

#define MAX_ADMIN_PATH 64

/* What evhttp may route by: a plain path without query; "/-", which no endpoint has, for anything else. */
static struct slice admin_path(const struct request *request)
{
	struct slice path = request->target.path;
	const char *query = path.length > 0 ? memchr(path.data, '?', path.length) : NULL;
	if (query)
		path.length = (size_t)(query - path.data);
	if (path.length == 0)
		return SLICE("/");
	for (size_t i = 0; i < path.length; i++) {
		char c = path.data[i];
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
				c == '_' || c == '.' || (c == '/' && (i == 0 || path.data[i - 1] != '/'));
		if (!is_plain || path.length >= MAX_ADMIN_PATH)
			return SLICE("/-");
	}
	return path;
}

static void hand_over_admin(struct wire *wire)
{
	char head[MAX_ADMIN_PATH + 32];
	struct slice path = admin_path(&wire->message->request);
	int length = snprintf(head, sizeof(head), "GET %.*s HTTP/1.1\r\n\r\n", SLICE_ARGS(path));
	wire_hand_over(wire, (struct slice){ head, (size_t)length });
}

static void take_head(struct wire *wire)
{
	wire_enter(wire, WIRE_BUSY);
	wire->n_requests++;
	wire->is_request_complete = wire->message->request.framing == BODY_NONE;
	wire->is_body_paused = true;
	wire->is_reply_complete = wire->is_full = wire->must_close = false;
	if (wire->listener->role == LISTENER_ADMIN)
		hand_over_admin(wire);
	else
		wire_hand_over(wire, SLICE("GET / HTTP/1.1\r\n\r\n"));
}

static void take_body_error(struct wire *wire)
{
	/* Nothing of what still comes can be understood. */
	wire->is_request_complete = true;
	wire->must_close = true;
	if (wire->user_ops)
		wire->user_ops->on_body_failed(wire->user, OUTCOME_CLIENT_BAD_BODY, wire->message->reader.error.detail);
}

/* One event of the reader. False: nothing more can be taken now. */
static bool take_event(struct wire *wire, const char **at, size_t *left)
{
	struct slice data;
	struct wire_message *message = wire->message;
	switch (request_reader_next(&message->reader, at, left, &data)) {
	case READ_HEAD:
		take_head(wire);
		return true;
	case READ_BODY:
		if (wire->user_ops)
			wire->user_ops->on_body(wire->user, data);
		return true;
	case READ_END:
		wire->is_request_complete = true;
		if (wire->user_ops)
			wire->user_ops->on_body_end(wire->user,
				message->reader.trailers.n_fields > 0 ? &message->reader.trailers : NULL);
		return true;
	case READ_ERROR:
		if (wire->state == WIRE_BUSY)
			take_body_error(wire);
		else
			refuse_unread(wire, message->reader.error.status, message->reader.error.detail);
		return false;
	case READ_MORE:
	case READ_INTERIM:
		break;
	}
	return false;
}

static bool may_take(const struct wire *wire)
{
	switch (wire->state) {
	case WIRE_IDLE:
	case WIRE_HEAD:
		return true;
	case WIRE_BUSY:
		if (wire->is_request_complete || wire->is_gone)
			return false;
		/* A pause holds back bytes, not the news that there are no more of them: no byte would come to
		 * bring it later. */
		return !wire->is_body_paused || request_reader_is_end_due(&wire->message->reader);
	case WIRE_ACCEPTED:
	case WIRE_LINGERING:
	case WIRE_TUNNEL:
	case WIRE_CLOSED:
		break;
	}
	return false;
}

/* Takes from (*at, *left) what may be taken now. */
static void take_bytes(struct wire *wire, const char **at, size_t *left, struct mono now)
{
	size_t before = *left;
	while (may_take(wire)) {
		if (wire->state == WIRE_IDLE) {
			if (*left == 0)
				break;
			if (!wire->message)
				begin_message(wire);
			wire->message->started = now;
			wire_enter(wire, WIRE_HEAD);
		}
		if (!take_event(wire, at, left))
			break;
	}
	/* An empty line before a request is no request yet (RFC 9112 2.2). */
	if (wire->state == WIRE_HEAD && request_reader_is_idle(&wire->message->reader))
		wire_enter(wire, WIRE_IDLE);
	if (wire->state == WIRE_BUSY && *left < before && !wire->is_reply_complete)
		wire->since = now;
}

static void drop_client_without_request(struct wire *wire)
{
	if (wire->is_half_closed && buffer_length(&wire->input) == 0 &&
	    (wire->state == WIRE_IDLE || wire->state == WIRE_HEAD))
		wire_close(wire, false);
	else if (wire->is_half_closed && buffer_length(&wire->input) == 0 && may_take(wire))
		wire_lose(wire); /* the rest of the body will never come */
}

/* Reading stops when enough is read ahead, and goes on when there is room again. */
static void steer_reading(struct wire *wire)
{
	if (wire->state == WIRE_CLOSED || wire->state == WIRE_TUNNEL)
		return;
	if (wire->is_half_closed || wire->is_gone || buffer_length(&wire->input) >= WIRE_MAX_AHEAD_BYTES)
		stream_pause_reading(&wire->stream);
	else
		stream_resume_reading(&wire->stream);
}

void wire_process_input(struct wire *wire)
{
	const char *at = buffer_start(&wire->input);
	size_t left = buffer_length(&wire->input), length = left;
	if (length > 0)
		take_bytes(wire, &at, &left, clock_now());
	if (wire->state == WIRE_TUNNEL)
		return; /* it has taken the buffer over */
	if (left < length)
		buffer_consume(&wire->input, length - left);
	drop_client_without_request(wire);
	steer_reading(wire);
	wire_rearm(wire);
}

static void on_end(struct wire *wire)
{
	bool is_serving = wire->state == WIRE_BUSY || buffer_length(&wire->input) > 0;
	if (is_serving && front_config(wire->front)->global.client.half_close_serve) {
		wire->is_half_closed = true;
		wire_process_input(wire);
	} else if (wire->state == WIRE_BUSY) {
		wire_lose(wire);
	} else {
		wire_close(wire, false);
	}
}

static void linger(struct wire *wire)
{
	ssize_t n = stream_read(&wire->stream, wire->front->loop->scratch, LOOP_SCRATCH_BYTES);
	if (n == STREAM_AGAIN)
		return;
	wire->n_lingered += n > 0 ? (uint64_t)n : 0;
	if (n <= 0 || wire->n_lingered > WIRE_LINGER_BYTES)
		wire_close(wire, false);
}

static size_t room_to_read(const struct wire *wire)
{
	size_t ahead = buffer_length(&wire->input);
	if (may_take(wire))
		return LOOP_SCRATCH_BYTES;
	return ahead < WIRE_MAX_AHEAD_BYTES ? WIRE_MAX_AHEAD_BYTES - ahead : 0;
}

void wire_on_readable(void *owner)
{
	struct wire *wire = owner;
	if (wire->state == WIRE_LINGERING) {
		linger(wire);
		return;
	}
	size_t room = room_to_read(wire);
	if (room == 0) {
		steer_reading(wire);
		wire_rearm(wire);
		return;
	}
	const char *at = wire->front->loop->scratch;
	ssize_t n = stream_read(&wire->stream, wire->front->loop->scratch, room);
	if (n == STREAM_AGAIN)
		return;
	if (n == STREAM_EOF) {
		on_end(wire);
		return;
	}
	if (n < 0) {
		wire_lose(wire);
		return;
	}
	size_t left = (size_t)n;
	if (buffer_length(&wire->input) > 0) {
		buffer_append(&wire->input, at, left);
		wire_process_input(wire);
		return;
	}
	take_bytes(wire, &at, &left, clock_now());
	if (left > 0 && wire->state != WIRE_CLOSED)
		buffer_append(&wire->input, at, left);
	if (left > 0)
		steer_reading(wire);
	wire_rearm(wire);
}

void wire_pause_body(struct wire *wire)
{
	wire->is_body_paused = true;
}

void wire_resume_body(struct wire *wire)
{
	if (wire->state != WIRE_BUSY || !wire->is_body_paused)
		return;
	wire->is_body_paused = false;
	if (wire->is_request_complete)
		return;
	wire->since = clock_now();
	if (buffer_length(&wire->input) == 0 && wire->stream.is_reading)
		return;
	wire->is_process_due = true;
	wire_do_later(wire);
}

/* A client that has ended its side and is served all the same is only gone once it resets. */
bool wire_is_peer_gone(struct wire *wire)
{
	if (!front_config(wire->front)->global.client.half_close_serve)
		return stream_is_peer_gone(&wire->stream);
	struct pollfd asked = { .fd = wire->stream.fd };
	return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}
