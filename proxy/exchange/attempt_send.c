/* An attempt's request on its way out: the head, then the body as it comes, as it is or in chunks. */
#include "../base/clock.h"
#include "attempt_private.h"

#define MAX_OUT_BYTES (64 * 1024) /* chunked: how much is framed ahead of the socket */

static void frame_chunks(struct attempt *attempt)
{
	struct request_body *body = attempt->order.body;
	struct slice rest = request_body_from(body, attempt->body_sent);
	size_t room = buffer_length(&attempt->out) < MAX_OUT_BYTES ? MAX_OUT_BYTES - buffer_length(&attempt->out) : 0;
	if (rest.length > room)
		rest.length = room;
	if (rest.length > 0) {
		h1_write_chunk(&attempt->out, rest);
		attempt->body_sent += rest.length;
		request_body_sent(body, attempt->body_sent);
	}
	if (body->is_complete && attempt->body_sent == body->received && !attempt->is_last_chunk_written) {
		h1_write_last_chunk(&attempt->out, body->trailers);
		attempt->is_last_chunk_written = true;
	}
}

static bool is_all_framed(const struct attempt *attempt)
{
	switch (attempt->order.rewrite.framing) {
	case BODY_CHUNKED:
		return attempt->is_last_chunk_written;
	case BODY_LENGTH:
		return attempt->order.body->is_complete && attempt->body_sent == attempt->order.body->received;
	default:
		return true;
	}
}

/* One write of what is ready. Returns false when the socket takes no more for now or for good. */
static bool write_once(struct attempt *attempt)
{
	struct request_body *body = attempt->order.body;
	struct slice head = buffer_slice(&attempt->out);
	struct slice data = { 0 };
	if (attempt->order.rewrite.framing == BODY_LENGTH)
		data = request_body_from(body, attempt->body_sent);
	if (head.length + data.length == 0)
		return false;

	struct iovec pieces[2];
	int n_pieces = 0;
	if (head.length > 0)
		pieces[n_pieces++] = (struct iovec){ (void *)(uintptr_t)head.data, head.length };
	if (data.length > 0)
		pieces[n_pieces++] = (struct iovec){ (void *)(uintptr_t)data.data, data.length };
	struct stream *stream = lease_stream(&attempt->lease);
	ssize_t n = stream_writev(stream, pieces, n_pieces);
	if (n == STREAM_AGAIN) {
		stream_want_write(stream);
		return false;
	}
	if (n < 0) {
		/* What the origin said before it closed may still be readable: reading decides. */
		attempt->is_write_broken = true;
		return false;
	}
	size_t of_head = (size_t)n < head.length ? (size_t)n : head.length;
	if (of_head > 0)
		buffer_consume(&attempt->out, of_head);
	if ((size_t)n > of_head) {
		attempt->body_sent += (size_t)n - of_head;
		request_body_sent(body, attempt->body_sent);
	}
	if ((size_t)n < head.length + data.length) {
		stream_want_write(stream);
		return false;
	}
	return true;
}

void attempt_pump(struct attempt *attempt)
{
	if (attempt->lease.state != LEASE_HELD || attempt->is_request_sent || attempt->is_write_broken ||
	    attempt->lease.order.is_tunnel)
		return;
	if (!attempt->is_head_written) {
		h1_write_request(&attempt->out, attempt->order.request, &attempt->order.rewrite,
				 attempt->order.request->content_length);
		attempt->is_head_written = true;
	}
	do {
		if (attempt->order.rewrite.framing == BODY_CHUNKED)
			frame_chunks(attempt);
	} while (write_once(attempt));

	if (!attempt->is_write_broken && buffer_length(&attempt->out) == 0 && is_all_framed(attempt)) {
		attempt->is_request_sent = true;
		struct mono now = clock_now();
		attempt->request_sent = now;
		if (attempt->state == ATTEMPT_SENDING)
			attempt_enter(attempt, ATTEMPT_WAITING_HEAD, now);
	}
}

void attempt_more_body(struct attempt *attempt)
{
	if (attempt->state == ATTEMPT_SENDING || attempt->state == ATTEMPT_READING_BODY)
		attempt_pump(attempt);
}

void attempt_on_writable(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_ENDED)
		return;
	attempt_pump(attempt);
	attempt->ops->on_sent(attempt->owner);
	attempt->ops->on_event_end(attempt->owner);
}
