/* The one timer of an exchange: which limit comes next, and what it means when it is reached. */
#include "../base/clock.h"
#include "machine.h"

static enum deadline_phase phase_of_attempt(const struct attempt *attempt, bool is_observing)
{
	switch (attempt->state) {
	case ATTEMPT_NEW:
	case ATTEMPT_QUEUED:
		return PHASE_QUEUED;
	case ATTEMPT_CONNECTING:
		/* connect and tls_handshake bound each address tried, so net/dial keeps them; when they are only
		 * observed it keeps none, and they are watched here over the whole dial. */
		if (!is_observing || attempt->lease.phase == DIAL_RESOLVING)
			return PHASE_RESOLVING;
		return attempt->lease.phase == DIAL_CONNECTING ? PHASE_CONNECTING : PHASE_SECURING;
	case ATTEMPT_SENDING:
		return PHASE_SENDING;
	case ATTEMPT_WAITING_HEAD:
		return PHASE_WAITING_HEAD;
	case ATTEMPT_READING_BODY:
		return PHASE_READING_BODY;
	case ATTEMPT_ENDED:
		break;
	}
	return PHASE_FLUSHING;
}

static enum deadline_phase phase_of(const struct exchange *exchange)
{
	if (exchange->is_response_complete)
		return PHASE_FLUSHING;
	if (exchange->state == EXCHANGE_BACKOFF)
		return exchange->is_rate_wait ? PHASE_QUEUED : PHASE_BACKOFF;
	return exchange->attempt ? phase_of_attempt(exchange->attempt, exchange_is_observing(exchange)) : PHASE_FLUSHING;
}

static struct deadline next_deadline(const struct exchange *exchange)
{
	struct deadline_facts facts = {
		.phase = phase_of(exchange),
		.started = exchange->order.started,
		.is_stream = exchange->is_stream,
		.backoff_until = exchange->backoff_until,
		.total_ms = exchange->order.total_ms,
	};
	const struct attempt *attempt = exchange->attempt;
	if (attempt) {
		facts.queued = attempt->queued;
		facts.attempt_began = attempt->began;
		facts.phase_began = facts.phase == PHASE_SECURING ? attempt->lease.securing : attempt->lease.connecting;
		facts.request_sent = attempt->request_sent;
		facts.head_complete = attempt->head_complete;
		facts.last_read = attempt->last_read;
		facts.is_reading_paused = attempt->is_reading_paused;
	}
	if (exchange->is_rate_wait)
		facts.queued = exchange->backoff_began;
	return deadline_next(&exchange->timeouts, &facts);
}

void exchange_rearm(struct exchange *exchange)
{
	if (exchange->state == EXCHANGE_DONE)
		return;
	struct mono at = next_deadline(exchange).at;
	if (exchange->is_rate_wait)
		at = mono_min(at, exchange->backoff_until);
	if (exchange->is_continue_awaited)
		at = mono_min(at, exchange->continue_at);
	if (exchange->policy->hedge.is_on)
		at = mono_min(at, trying_hedge_at(exchange));
	timer_set(&exchange->timer, at);
}

/* The limits that end something; a back-off's end is none of them. */
static const struct {
	const char *key; /* of timeouts */
	enum timeout_label label;
	enum outcome outcome;
} meaning[] = {
	[LIMIT_TOTAL] = { "total", TIMEOUT_LABEL_TOTAL, OUTCOME_TOTAL_TIMEOUT },
	[LIMIT_ATTEMPT] = { "attempt", TIMEOUT_LABEL_ATTEMPT, OUTCOME_ATTEMPT_TIMEOUT },
	[LIMIT_POOL_WAIT] = { "pool_wait", TIMEOUT_LABEL_POOL_WAIT, OUTCOME_POOL_WAIT },
	[LIMIT_CONNECT] = { "connect", TIMEOUT_LABEL_CONNECT, OUTCOME_CONNECT_TIMEOUT },
	[LIMIT_TLS_HANDSHAKE] = { "tls_handshake", TIMEOUT_LABEL_TLS_HANDSHAKE, OUTCOME_TLS_TIMEOUT },
	[LIMIT_RESPONSE_HEADERS] = { "response_headers", TIMEOUT_LABEL_RESPONSE_HEADERS, OUTCOME_HEADERS_TIMEOUT },
	[LIMIT_BODY_IDLE] = { "body_idle", TIMEOUT_LABEL_BODY_IDLE, OUTCOME_BODY_IDLE },
	[LIMIT_STREAM_TOTAL] = { "stream_total", TIMEOUT_LABEL_STREAM_TOTAL, OUTCOME_STREAM_TOTAL },
};

/* Where this exchange's own value of the limit is kept. */
static int64_t *limit_of(struct exchange *exchange, enum limit limit)
{
	struct timeouts *timeouts = &exchange->timeouts;
	switch (limit) {
	case LIMIT_ATTEMPT:
		return &timeouts->attempt_ms;
	case LIMIT_POOL_WAIT:
		return &timeouts->pool_wait_ms;
	case LIMIT_CONNECT:
		return &timeouts->connect_ms;
	case LIMIT_TLS_HANDSHAKE:
		return &timeouts->tls_handshake_ms;
	case LIMIT_RESPONSE_HEADERS:
		return &timeouts->response_headers_ms;
	case LIMIT_BODY_IDLE:
		return &timeouts->body_idle_ms;
	case LIMIT_STREAM_TOTAL:
		return &timeouts->stream_total_ms;
	case LIMIT_TOTAL:
	case LIMIT_BACKOFF:
	case LIMIT_NONE:
		break;
	}
	return &exchange->order.total_ms;
}

static void cut(struct exchange *exchange, enum limit limit)
{
	enum outcome outcome = meaning[limit].outcome;
	if (exchange->attempt)
		attempt_cancel(exchange->attempt);
	if (limit != LIMIT_TOTAL && trying_promote_hedge(exchange, outcome))
		return;
	judge_failure(exchange, outcome, NULL);
}

static void observe(struct exchange *exchange, enum limit limit)
{
	int64_t *limit_ms = limit_of(exchange, limit);
	struct log_line line;
	if (log_begin(&line, LOG_INFO, "observed")) {
		log_slice(&line, "id", exchange->order.request_id);
		log_string(&line, "upstream", exchange->order.match.upstream->name);
		log_string(&line, "timeout", meaning[limit].key);
		log_integer(&line, "limit_ms", *limit_ms);
		log_end(&line);
	}
	if (exchange->origin)
		exchange->origin->metrics->observed_timeouts[meaning[limit].label]++;
	*limit_ms = LIMIT_OFF; /* seen once, it binds this exchange no more */
}

void exchange_on_due(void *owner)
{
	struct exchange *exchange = owner;
	if (exchange->state == EXCHANGE_DONE)
		return;
	struct mono now = clock_now();
	struct deadline deadline = next_deadline(exchange);

	if (exchange->is_continue_awaited && mono_reached(exchange->continue_at, now))
		exchange_send_continue(exchange);
	if (!mono_reached(deadline.at, now)) {
		if (exchange->is_rate_wait && mono_reached(exchange->backoff_until, now))
			trying_start(exchange);
		else if (exchange->policy->hedge.is_on)
			trying_hedge(exchange, now);
	} else if (deadline.limit == LIMIT_BACKOFF) {
		trying_start(exchange);
	} else if (exchange_is_observing(exchange)) {
		observe(exchange, deadline.limit);
	} else {
		cut(exchange, deadline.limit);
	}
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}
