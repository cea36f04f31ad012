/* How an exchange ends: an answer of our own, an abort, a cancellation; and what is counted and logged of it. */
#include "../base/clock.h"
#include "machine.h"
#include "reply.h"

/* The limit that struck, if one did. */
static void count_timeout(struct exchange *exchange, enum outcome outcome)
{
	static const signed char label_of[N_OUTCOMES] = {
		[OUTCOME_TOTAL_TIMEOUT] = TIMEOUT_LABEL_TOTAL + 1,
		[OUTCOME_ATTEMPT_TIMEOUT] = TIMEOUT_LABEL_ATTEMPT + 1,
		[OUTCOME_POOL_WAIT] = TIMEOUT_LABEL_POOL_WAIT + 1,
		[OUTCOME_CONNECT_TIMEOUT] = TIMEOUT_LABEL_CONNECT + 1,
		[OUTCOME_TLS_TIMEOUT] = TIMEOUT_LABEL_TLS_HANDSHAKE + 1,
		[OUTCOME_HEADERS_TIMEOUT] = TIMEOUT_LABEL_RESPONSE_HEADERS + 1,
		[OUTCOME_BODY_IDLE] = TIMEOUT_LABEL_BODY_IDLE + 1,
		[OUTCOME_STREAM_TOTAL] = TIMEOUT_LABEL_STREAM_TOTAL + 1,
	};
	if (label_of[outcome] > 0)
		exchange->origin->metrics->timeouts[label_of[outcome] - 1]++;
	if (outcome == OUTCOME_POOL_WAIT)
		exchange->origin->metrics->pool_rejected[POOL_REJECTED_POOL_WAIT]++;
}

static void add_durations(struct exchange *exchange, const struct attempt *attempt)
{
	struct mono now = mono_is_set(attempt->ended) ? attempt->ended : clock_now();
	exchange->queue_us += mono_elapsed_us(attempt->queued, mono_is_set(attempt->began) ? attempt->began : now);
	const struct lease *lease = &attempt->lease;
	if (!lease->is_reused && mono_is_set(lease->granted))
		exchange->connect_us += mono_elapsed_us(lease->granted, mono_is_set(lease->held) ? lease->held : now);
	exchange->first_byte_us = mono_elapsed_us(attempt->request_sent, attempt->head_complete);
	exchange->is_reused = lease->is_reused;
}

void conclude_breaker_change(struct exchange *exchange, enum breaker_state before)
{
	static const char *const words[] = { "closed", "half_open", "open" };
	const struct origin *origin = exchange->origin;
	origin_sync_breaker(exchange->origin);
	struct log_line line;
	if (origin->breaker.state == before || !log_begin(&line, LOG_WARN, "breaker"))
		return;
	log_string(&line, "upstream", origin->upstream_name);
	log_string(&line, "host", origin->host);
	log_integer(&line, "port", origin->port);
	log_string(&line, "from", words[before]);
	log_string(&line, "to", words[origin->breaker.state]);
	log_end(&line);
}

static void report_to_breaker(struct exchange *exchange, enum outcome outcome, int status)
{
	struct breaker *breaker = &exchange->origin->breaker;
	enum breaker_state before = breaker->state;
	exchange->is_breaker_admitted = false;
	if (outcome == OUTCOME_CANCELLED || outcome_facts[outcome].label == ATTEMPT_LABEL_REJECTED)
		breaker_forget(breaker);
	else
		breaker_report(breaker, &exchange->policy->breaker, retry_is_failure(outcome, status), clock_now());
	conclude_breaker_change(exchange, before);
}

/* A status from 600 on is no HTTP status; it is to be taken for a server error (RFC 9110 15). */
static enum attempt_label label_of_status(int status)
{
	return status < 600 ? (enum attempt_label)(ATTEMPT_LABEL_1XX + status / 100 - 1) : ATTEMPT_LABEL_5XX;
}

void conclude_attempt(struct exchange *exchange, struct attempt *attempt, enum outcome outcome, int status)
{
	if (!exchange->origin)
		return;
	struct upstream_metrics *metrics = exchange->origin->metrics;
	count_timeout(exchange, outcome);
	if (!attempt || attempt->is_concluded)
		return;
	attempt->is_concluded = true;
	enum attempt_label label = outcome_facts[outcome].label;
	if (outcome == OUTCOME_RESPONSE)
		label = label_of_status(status);
	metrics->attempts[label]++;
	if (attempt == exchange->attempt && exchange->is_main_a_hedge) {
		metrics->hedges_lost++; /* it took a failed attempt's place and came to no head either */
		exchange->is_main_a_hedge = false;
	}
	if (mono_is_set(attempt->began)) {
		struct mono ended = mono_is_set(attempt->ended) ? attempt->ended : clock_now();
		histogram_observe_us(&metrics->attempt_seconds, mono_elapsed_us(attempt->began, ended));
	}
	add_durations(exchange, attempt);
	measure_attempt(exchange, attempt, outcome);
	if (exchange->is_breaker_admitted && attempt == exchange->attempt)
		report_to_breaker(exchange, outcome, status);
}

void conclude_give_up(struct exchange *exchange, struct attempt *attempt)
{
	if (!attempt || attempt->state == ATTEMPT_ENDED)
		return;
	attempt_cancel(attempt);
	conclude_attempt(exchange, attempt, OUTCOME_CANCELLED, 0);
}

static int64_t retry_after_s(const struct exchange *exchange, enum outcome outcome)
{
	int64_t wait_ms = 1000;
	if (outcome == OUTCOME_BREAKER_OPEN)
		wait_ms = breaker_retry_after_ms(&exchange->origin->breaker, &exchange->policy->breaker, clock_now());
	if (wait_ms < 1000)
		wait_ms = 1000;
	return outcome_facts[outcome].status == 503 ? (wait_ms + 999) / 1000 : -1;
}

void conclude_with_error(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	const struct outcome_facts *facts = &outcome_facts[outcome];
	if (exchange->is_response_complete)
		return;
	/* Nothing that was waited for is to come between this answer and its last byte. */
	deferred_cancel(&exchange->deferred_start_failure);
	trying_account_sleep(exchange, clock_now());
	exchange->is_continue_awaited = false;
	trying_drop_hedges(exchange);
	char sentence[SENTENCE_BYTES];
	sentence_compose(exchange, outcome, detail, sentence);
	bool is_client_fault = outcome == OUTCOME_CLIENT_BAD_BODY || outcome == OUTCOME_CLIENT_SLOW;
	exchange->must_close |= !exchange->body.is_complete || is_client_fault || exchange->room->is_draining;
	struct reply_facts reply_facts = {
		.status = facts->status,
		.error = facts->proxy_error,
		.detail = sentence,
		.upstream = exchange->order.match.upstream->name,
		.n_attempts = exchange->n_attempts,
		.verdict = verdict_words[exchange->verdict],
		.elapsed_ms = mono_elapsed_ms(exchange->order.started, clock_now()),
		.request_id = exchange->order.request_id,
		.retry_after_s = retry_after_s(exchange, outcome),
		.must_close = exchange->must_close,
	};
	struct own_reply reply;
	struct buffer text = { 0 };
	reply_compose(&reply, &text, &reply_facts);
	exchange->status = facts->status;
	exchange->error = facts->proxy_error;
	exchange->response_bytes = reply.body.length;
	exchange_enter(exchange, EXCHANGE_RELAYING);
	exchange->is_response_complete = true;
	exchange->downstream->ops->send_own(exchange->downstream, &reply);
	buffer_clear(&text);
}

void conclude_abort(struct exchange *exchange, enum outcome outcome)
{
	exchange->is_aborted = true;
	exchange->must_close = true;
	exchange->error = outcome_facts[outcome].proxy_error;
	exchange->downstream->ops->abort(exchange->downstream);
	exchange_finish(exchange);
}

static void log_cancelled(const struct exchange *exchange)
{
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "cancelled"))
		return;
	const char *stage = exchange->state == EXCHANGE_BACKOFF ? "backoff"
			    : exchange->attempt ? attempt_state_word(exchange->attempt->state) : "admitted";
	if (exchange->is_response_complete)
		stage = "flushing";
	log_slice(&line, "id", exchange->order.request_id);
	log_string(&line, "upstream", exchange->order.match.upstream->name);
	log_string(&line, "stage", stage);
	log_integer(&line, "attempts", exchange->n_attempts);
	log_ms(&line, "duration_ms", mono_elapsed_us(exchange->order.started, clock_now()));
	log_end(&line);
}

void conclude_cancelled(struct exchange *exchange)
{
	log_cancelled(exchange);
	exchange->is_cancelled = true;
	exchange->must_close = true;
	exchange->verdict = VERDICT_CANCELLED;
	conclude_give_up(exchange, exchange->attempt);
	trying_account_sleep(exchange, clock_now());
	exchange_finish(exchange);
}

void exchange_access_facts(const struct exchange *exchange, struct access_facts *facts)
{
	const struct exchange_order *order = &exchange->order;
	*facts = (struct access_facts){
		.is_logged = exchange->config->global.log_access,
		.id = order->request_id,
		.method = order->request->method,
		.url = order->url,
		.client = order->client_address,
		.upstream = order->match.upstream->name,
		.route = order->match.route ? order->match.route->text : NULL,
		.status = exchange->status,
		.is_cancelled = exchange->is_cancelled,
		.is_aborted = exchange->is_aborted,
		.error = exchange->error,
		.n_attempts = exchange->n_attempts,
		.verdict = exchange->verdict,
		.started = order->started,
		.ended = clock_now(),
		.queue_us = exchange->queue_us,
		.connect_us = exchange->connect_us,
		.first_byte_us = exchange->first_byte_us,
		.backoff_us = exchange->backoff_us,
		.request_bytes = exchange->body.received,
		.response_bytes = exchange->response_bytes,
		.is_reused = exchange->is_reused,
		.metrics = exchange->origin ? exchange->origin->metrics : metrics_upstream(order->match.upstream->name),
	};
}

void conclude_record(struct exchange *exchange)
{
	if (exchange->is_recorded)
		return;
	exchange->is_recorded = true;
	struct access_facts facts;
	exchange_access_facts(exchange, &facts);
	facts.metrics->backoff_us += (uint64_t)exchange->backoff_us;
	measure_exchange(exchange);
	access_record(&facts);
}
