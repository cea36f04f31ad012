/* An attempt's response on its way in: from the socket through the reader to the owner, and every way it can
 * break off. */
#include "../base/clock.h"
#include "../net/tls.h"
#include "attempt_private.h"

/*
 * The connection broke. Before any byte of a response, on a connection that had served before, it was stale: the
 * origin closed it while it idled (RFC 9112 9.3.1).
 */
static void broke(struct attempt *attempt, const char *detail)
{
	if (attempt->state == ATTEMPT_READING_BODY) {
		attempt_end(attempt, OUTCOME_INCOMPLETE_BODY, detail, false);
		return;
	}
	bool is_stale = attempt->lease.is_reused && !attempt->reader.has_bytes;
	attempt_end(attempt, is_stale ? OUTCOME_STALE : OUTCOME_RESET, detail, false);
}

static void complete(struct attempt *attempt, size_t n_left)
{
	bool is_reusable = attempt->response.is_keep_alive && attempt->is_request_sent && n_left == 0 &&
			   attempt->response.framing != BODY_UNTIL_CLOSE;
	/* What took no more than it wanted has not seen what lies behind: another answer, perhaps, that nobody
	 * asked for. */
	if (is_reusable && attempt->may_have_more && stream_is_readable_now(lease_stream(&attempt->lease)))
		is_reusable = false;
	attempt_end(attempt, OUTCOME_RESPONSE, "", is_reusable);
}

static void bad(struct attempt *attempt)
{
	const struct read_error *error = &attempt->reader.error;
	/* Garbage in mid-body: the part before it may be with the client already; for it the body broke off. */
	if (attempt->state == ATTEMPT_READING_BODY)
		attempt_end(attempt, OUTCOME_INCOMPLETE_BODY, error->detail, false);
	else
		attempt_end(attempt, error->is_too_large ? OUTCOME_HEADERS_TOO_LARGE : OUTCOME_BAD_RESPONSE, error->detail, false);
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
			attempt_enter(attempt, ATTEMPT_READING_BODY, now);
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

/* TLS said why it ended. A refusal of the handshake is one although our side of it was done: nothing was heard
 * of us. */
static bool ended_by_alert(struct attempt *attempt)
{
	const struct tls_connection *tls = lease_stream(&attempt->lease)->tls;
	char detail[256];
	bool is_refusal;
	if (!tls || !tls_alert(tls, &is_refusal, detail, sizeof(detail)))
		return false;
	if (is_refusal && !attempt->lease.is_reused)
		attempt_end(attempt, OUTCOME_TLS_FAILURE, detail, false);
	else
		broke(attempt, detail);
	return true;
}

static void at_eof(struct attempt *attempt, ssize_t n)
{
	if (n == STREAM_ERROR) {
		if (ended_by_alert(attempt))
			return;
		broke(attempt, "the origin reset the connection");
		return;
	}
	if (response_reader_eof(&attempt->reader, n == STREAM_EOF) == READ_END) {
		/* Ended by close: complete, but the connection is gone. */
		attempt_end(attempt, OUTCOME_RESPONSE, "", false);
		return;
	}
	broke(attempt, n == STREAM_TRUNCATED ? "TLS ended without close_notify" : "the origin ended its side");
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

/* The rest of a large body of known length needs no reader: the owner may take it from the socket. False: it
 * doesn't. */
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

void attempt_on_readable(void *owner)
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
