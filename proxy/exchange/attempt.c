#include "attempt.h"

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/spare.h"
#include "../net/tls.h"

static struct spare spare_attempts = SPARE_OF(struct attempt);

#define MAX_OUT_BYTES (64 * 1024) /* chunked: how much is framed ahead of the socket */

static const char *const state_words[] = {
	[ATTEMPT_NEW] = "new",
	[ATTEMPT_QUEUED] = "queued",
	[ATTEMPT_CONNECTING] = "connecting",
	[ATTEMPT_SENDING] = "sending",
	[ATTEMPT_WAITING_HEAD] = "waiting_head",
	[ATTEMPT_READING_BODY] = "reading_body",
	[ATTEMPT_ENDED] = "ended",
};

const char *attempt_state_word(enum attempt_state state)
{
	return state_words[state];
}

#define TO(state) (1u << (state))
static const unsigned edges[] = {
	[ATTEMPT_NEW] = TO(ATTEMPT_QUEUED) | TO(ATTEMPT_CONNECTING) | TO(ATTEMPT_SENDING) | TO(ATTEMPT_ENDED),
	[ATTEMPT_QUEUED] = TO(ATTEMPT_CONNECTING) | TO(ATTEMPT_SENDING) | TO(ATTEMPT_ENDED),
	[ATTEMPT_CONNECTING] = TO(ATTEMPT_SENDING) | TO(ATTEMPT_ENDED),
	[ATTEMPT_SENDING] = TO(ATTEMPT_WAITING_HEAD) | TO(ATTEMPT_READING_BODY) | TO(ATTEMPT_ENDED),
	[ATTEMPT_WAITING_HEAD] = TO(ATTEMPT_READING_BODY) | TO(ATTEMPT_ENDED),
	[ATTEMPT_READING_BODY] = TO(ATTEMPT_ENDED),
	[ATTEMPT_ENDED] = 0,
};

static void enter(struct attempt *attempt, enum attempt_state state, struct mono now)
{
	CHECK(edges[attempt->state] & TO(state));
	attempt->state = state;
	switch (state) {
	case ATTEMPT_QUEUED:
		attempt->queued = now;
		break;
	case ATTEMPT_CONNECTING:
	case ATTEMPT_SENDING:
		if (!mono_is_set(attempt->began))
			attempt->began = now;
		break;
	case ATTEMPT_WAITING_HEAD:
		attempt->request_sent = now;
		break;
	case ATTEMPT_READING_BODY:
		attempt->head_complete = attempt->last_read = now;
		break;
	case ATTEMPT_ENDED:
		attempt->ended = now;
		break;
	case ATTEMPT_NEW:
		break;
	}
}

/* The one way out with a word. The lease is given back before the owner hears of it. */
static void end(struct attempt *attempt, enum outcome outcome, const char *detail, bool is_reusable)
{
	if (attempt->state == ATTEMPT_ENDED)
		return;
	int64_t keep_alive_ms = attempt->response.keep_alive_timeout_ms;
	if (attempt->lease.state == LEASE_HELD)
		pool_release(&attempt->lease, is_reusable, is_reusable ? keep_alive_ms : -1);
	else
		pool_cancel(&attempt->lease);
	enter(attempt, ATTEMPT_ENDED, clock_now());
	attempt->outcome = outcome;
	attempt->ops->on_done(attempt->owner, attempt, outcome, detail);
}

/*
 * The connection broke. Before any byte of a response, on a connection that had served before, it was stale: the
 * origin closed it while it idled (RFC 9112 9.3.1).
 */
static void broke(struct attempt *attempt, const char *detail)
{
	if (attempt->state == ATTEMPT_READING_BODY) {
		end(attempt, OUTCOME_INCOMPLETE_BODY, detail, false);
		return;
	}
	bool is_stale = attempt->lease.is_reused && !attempt->reader.has_bytes;
	end(attempt, is_stale ? OUTCOME_STALE : OUTCOME_RESET, detail, false);
}

/* ---- writing the request ---- */

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

static void pump(struct attempt *attempt)
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
			enter(attempt, ATTEMPT_WAITING_HEAD, now);
	}
}

void attempt_more_body(struct attempt *attempt)
{
	if (attempt->state == ATTEMPT_SENDING || attempt->state == ATTEMPT_READING_BODY)
		pump(attempt);
}

static void on_writable(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_ENDED)
		return;
	pump(attempt);
	attempt->ops->on_sent(attempt->owner);
	attempt->ops->on_event_end(attempt->owner);
}

/* ---- reading the response ---- */

static void complete(struct attempt *attempt, size_t n_left)
{
	bool is_reusable = attempt->response.is_keep_alive && attempt->is_request_sent && n_left == 0 &&
			   attempt->response.framing != BODY_UNTIL_CLOSE;
	/* What took no more than it wanted has not seen what lies behind: another answer, perhaps, that nobody asked for. */
	if (is_reusable && attempt->may_have_more && stream_is_readable_now(lease_stream(&attempt->lease)))
		is_reusable = false;
	end(attempt, OUTCOME_RESPONSE, "", is_reusable);
}

static void bad(struct attempt *attempt)
{
	const struct read_error *error = &attempt->reader.error;
	/* Garbage in mid-body: the part before it may be with the client already; for it the body broke off. */
	if (attempt->state == ATTEMPT_READING_BODY)
		end(attempt, OUTCOME_INCOMPLETE_BODY, error->detail, false);
	else
		end(attempt, error->is_too_large ? OUTCOME_HEADERS_TOO_LARGE : OUTCOME_BAD_RESPONSE, error->detail, false);
}

/* What came in, event by event. The owner may end the attempt within any op. */
static void feed(struct attempt *attempt, const char *at, size_t left, struct mono now)
{
	struct slice body;
	while (attempt->state != ATTEMPT_ENDED) {
		switch (response_reader_next(&attempt->reader, &at, &left, &body)) {
		case READ_MORE:
			return;
		case READ_INTERIM:
			attempt->ops->on_interim(attempt->owner, attempt, &attempt->response);
			break;
		case READ_HEAD:
			enter(attempt, ATTEMPT_READING_BODY, now);
			if (attempt->response.is_upgrade) {
				attempt->ops->on_tunnel(attempt->owner, attempt, (struct slice){ at, left });
				return;
			}
			attempt->ops->on_head(attempt->owner, attempt);
			break;
		case READ_BODY:
			attempt->ops->on_body(attempt->owner, attempt, body);
			break;
		case READ_END:
			complete(attempt, left);
			return;
		case READ_ERROR:
			bad(attempt);
			return;
		}
	}
}

/* TLS said why it ended. A refusal of the handshake is one although our side of it was done: nothing was heard of us. */
static bool ended_by_alert(struct attempt *attempt)
{
	const struct tls_connection *tls = lease_stream(&attempt->lease)->tls;
	char detail[256];
	bool is_refusal;
	if (!tls || !tls_alert(tls, &is_refusal, detail, sizeof(detail)))
		return false;
	if (is_refusal && !attempt->lease.is_reused)
		end(attempt, OUTCOME_TLS_FAILURE, detail, false);
	else
		broke(attempt, detail);
	return true;
}

static void at_eof(struct attempt *attempt, ssize_t n)
{
	if (n == STREAM_ERROR) {
		if (ended_by_alert(attempt))
			return;
		broke(attempt, attempt->state == ATTEMPT_READING_BODY ? "the connection was reset in the middle of the body"
								      : "the connection was reset");
		return;
	}
	if (response_reader_eof(&attempt->reader, n == STREAM_EOF) == READ_END) {
		/* Ended by close: complete, but the connection is gone. */
		end(attempt, OUTCOME_RESPONSE, "", false);
		return;
	}
	broke(attempt, n == STREAM_TRUNCATED ? "TLS ended without close_notify" : "the connection was closed early");
}

static void note_read(struct attempt *attempt, struct mono now)
{
	int64_t silence_us = mono_elapsed_us(attempt->last_read, now); /* 0 before the head */
	if (silence_us > attempt->longest_silence_us && attempt->state == ATTEMPT_READING_BODY)
		attempt->longest_silence_us = silence_us;
	attempt->last_read = now;
}

/* The common way: into the scratch buffer, through the reader. */
static void read_and_feed(struct attempt *attempt)
{
	ssize_t n = stream_read(lease_stream(&attempt->lease), attempt->loop->scratch, LOOP_SCRATCH_BYTES);
	if (n == STREAM_AGAIN)
		return;
	if (n <= 0) {
		at_eof(attempt, n);
		return;
	}
	attempt->may_have_more = n == LOOP_SCRATCH_BYTES;
	if (lease_was_readable_when_taken(&attempt->lease)) {
		broke(attempt, "bytes that nobody had asked for lay on the kept-alive connection");
		return;
	}
	struct mono now = clock_now();
	note_read(attempt, now);
	feed(attempt, attempt->loop->scratch, (size_t)n, now);
}

/* The rest of a large body of known length needs no reader: the owner may take it from the socket. False: it doesn't. */
static bool splice(struct attempt *attempt)
{
	uint64_t left = response_reader_length_left(&attempt->reader);
	if (left < ATTEMPT_SPLICE_BYTES)
		return false;
	ssize_t n = attempt->ops->on_splice(attempt->owner, attempt, lease_stream(&attempt->lease), left);
	if (n == DOWNSTREAM_CANT_SPLICE)
		return false;
	if (n > 0) {
		struct mono now = clock_now();
		note_read(attempt, now);
		response_reader_skip(&attempt->reader, (uint64_t)n);
		attempt->may_have_more = true;
		if ((uint64_t)n == left)
			feed(attempt, "", 0, now);
	} else if (n != STREAM_AGAIN) {
		at_eof(attempt, n);
	}
	return true;
}

static void on_readable(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_ENDED || attempt->is_reading_paused)
		return;
	if (!splice(attempt))
		read_and_feed(attempt);
	attempt->ops->on_event_end(attempt->owner);
}

void attempt_pause_reading(struct attempt *attempt)
{
	if (attempt->lease.state != LEASE_HELD || attempt->is_reading_paused)
		return;
	attempt->is_reading_paused = true;
	stream_pause_reading(lease_stream(&attempt->lease));
}

void attempt_resume_reading(struct attempt *attempt)
{
	if (!attempt->is_reading_paused)
		return;
	attempt->is_reading_paused = false;
	attempt->last_read = clock_now();
	if (attempt->lease.state == LEASE_HELD)
		stream_resume_reading(lease_stream(&attempt->lease));
}

/* ---- the lease ---- */

static void connected(struct attempt *attempt)
{
	enter(attempt, ATTEMPT_SENDING, clock_now());
	if (!attempt->lease.order.is_tunnel)
		pump(attempt);
}

static void on_lease_progress(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_QUEUED && attempt->lease.state == LEASE_CONNECTING)
		enter(attempt, ATTEMPT_CONNECTING, clock_now());
	if (attempt->state != ATTEMPT_ENDED)
		attempt->ops->on_progress(attempt->owner);
}

static void on_lease_ready(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_ENDED)
		return;
	connected(attempt);
	if (attempt->lease.order.is_tunnel)
		attempt->ops->on_tunnel(attempt->owner, attempt, (struct slice){ "", 0 });
	else
		attempt->ops->on_sent(attempt->owner);
	attempt->ops->on_event_end(attempt->owner);
}

static void on_lease_failed(void *owner, enum outcome outcome, const char *detail)
{
	struct attempt *attempt = owner;
	end(attempt, outcome, detail, false);
	attempt->ops->on_event_end(attempt->owner);
}

static const struct lease_ops lease_ops = {
	.on_progress = on_lease_progress,
	.on_ready = on_lease_ready,
	.on_failed = on_lease_failed,
	.on_readable = on_readable,
	.on_writable = on_writable,
};

/* What became clear within attempt_start is told from the loop, so that no op is called before the caller has its pointer. */
static void tell_late(struct deferred *item)
{
	struct attempt *attempt = LIST_ENTRY_OF(item, struct attempt, deferred_end);
	if (attempt->state == ATTEMPT_ENDED)
		return;
	end(attempt, attempt->pending_outcome, attempt->pending_detail, false);
	attempt->ops->on_event_end(attempt->owner);
}

static void free_late(struct deferred *item)
{
	struct attempt *attempt = LIST_ENTRY_OF(item, struct attempt, deferred_free);
	response_reader_clear(&attempt->reader);
	response_clear(&attempt->response);
	buffer_clear(&attempt->out);
	spare_give(&spare_attempts, attempt);
}

struct attempt *attempt_start(struct loop *loop, const struct attempt_order *order, const struct attempt_ops *ops, void *owner)
{
	struct attempt *attempt = spare_take(&spare_attempts);
	*attempt = (struct attempt){ .state = ATTEMPT_NEW, .loop = loop, .ops = ops, .owner = owner, .order = *order };
	deferred_init(&attempt->deferred_end, tell_late);
	deferred_init(&attempt->deferred_free, free_late);
	lease_init(&attempt->lease);
	response_init(&attempt->response);
	attempt->response.keep_alive_timeout_ms = -1;
	response_reader_init(&attempt->reader, &attempt->response, order->max_header_bytes, order->request->is_head,
			     order->request->is_connect, order->rewrite.forward_upgrade);

	attempt->queued = clock_now();
	switch (pool_acquire(&attempt->lease, &attempt->order.lease, &lease_ops, attempt)) {
	case LEASE_HELD:
		connected(attempt);
		break;
	case LEASE_CONNECTING:
		enter(attempt, ATTEMPT_CONNECTING, attempt->queued);
		break;
	case LEASE_QUEUED:
		enter(attempt, ATTEMPT_QUEUED, attempt->queued);
		break;
	case LEASE_NONE:
		attempt->pending_outcome = attempt->lease.refused;
		attempt->pending_detail = attempt->lease.refused_detail;
		loop_defer(loop, &attempt->deferred_end);
		break;
	}
	return attempt;
}

void attempt_cancel(struct attempt *attempt)
{
	if (attempt->state == ATTEMPT_ENDED)
		return;
	pool_cancel(&attempt->lease);
	deferred_cancel(&attempt->deferred_end);
	enter(attempt, ATTEMPT_ENDED, clock_now());
	attempt->outcome = OUTCOME_CANCELLED;
}

void attempt_free(struct attempt **attempt)
{
	if (!*attempt)
		return;
	attempt_cancel(*attempt);
	loop_defer((*attempt)->loop, &(*attempt)->deferred_free);
	*attempt = NULL;
}
