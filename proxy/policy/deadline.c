#include "deadline.h"

/* A stamp that is not set yet starts no clock. */
static struct mono limit_at(struct mono from, int64_t ms)
{
	return mono_is_set(from) ? mono_add_ms(from, ms) : MONO_NEVER;
}

/* Strictly earlier only, and the wide limits are asked first: so a tie names the wider one. */
static void consider(struct deadline *next, enum limit limit, struct mono at)
{
	if (mono_before(at, next->at))
		*next = (struct deadline){ limit, at };
}

/* Only an answer that is being read is a stream; the type of an earlier attempt's answer must not unbind this one. */
static bool is_streaming(const struct deadline_facts *facts)
{
	return facts->is_stream && (facts->phase == PHASE_READING_BODY || facts->phase == PHASE_FLUSHING);
}

struct mono deadline_total(const struct deadline_facts *facts)
{
	return is_streaming(facts) ? MONO_NEVER : limit_at(facts->started, facts->total_ms);
}

static void consider_body(struct deadline *next, const struct timeouts *timeouts, const struct deadline_facts *facts)
{
	struct mono from = mono_is_set(facts->last_read) ? facts->last_read : facts->head_complete;

	if (!facts->is_reading_paused)
		consider(next, LIMIT_BODY_IDLE, limit_at(from, timeouts->body_idle_ms));
}

static bool is_attempt_running(const struct deadline_facts *facts)
{
	return facts->phase != PHASE_BACKOFF && facts->phase != PHASE_QUEUED && facts->phase != PHASE_FLUSHING;
}

struct deadline deadline_next(const struct timeouts *timeouts, const struct deadline_facts *facts)
{
	struct deadline next = { LIMIT_NONE, MONO_NEVER };

	consider(&next, LIMIT_TOTAL, deadline_total(facts));
	if (is_streaming(facts))
		consider(&next, LIMIT_STREAM_TOTAL, limit_at(facts->head_complete, timeouts->stream_total_ms));
	else if (is_attempt_running(facts))
		consider(&next, LIMIT_ATTEMPT, limit_at(facts->attempt_began, timeouts->attempt_ms));

	switch (facts->phase) {
	case PHASE_BACKOFF:
		consider(&next, LIMIT_BACKOFF, facts->backoff_until);
		break;
	case PHASE_QUEUED:
		consider(&next, LIMIT_POOL_WAIT, limit_at(facts->queued, timeouts->pool_wait_ms));
		break;
	case PHASE_CONNECTING:
		consider(&next, LIMIT_CONNECT, limit_at(facts->phase_began, timeouts->connect_ms));
		break;
	case PHASE_SECURING:
		consider(&next, LIMIT_TLS_HANDSHAKE, limit_at(facts->phase_began, timeouts->tls_handshake_ms));
		break;
	case PHASE_WAITING_HEAD:
		consider(&next, LIMIT_RESPONSE_HEADERS, limit_at(facts->request_sent, timeouts->response_headers_ms));
		break;
	case PHASE_READING_BODY:
		consider_body(&next, timeouts, facts);
		break;
	case PHASE_RESOLVING:
	case PHASE_SENDING:
	case PHASE_FLUSHING:
		break;
	}
	return next;
}
