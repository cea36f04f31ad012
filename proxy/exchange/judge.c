/* The verdict on what an attempt came to, and what follows from it. */
#include "../base/clock.h"
#include "../policy/backoff.h"
#include "machine.h"

static int64_t retry_after_ms(const struct exchange *exchange)
{
	if (!exchange->policy->retry.retry_after.honor)
		return -1;
	struct slice value = head_get(&exchange->attempt->response.head, SLICE("Retry-After"));
	return value.data ? retry_after_parse_ms(value, clock_wall_ms()) : -1;
}

static struct retry_facts facts_of(const struct exchange *exchange, enum outcome outcome, int status, struct mono now)
{
	const struct policy *policy = exchange->policy;
	const struct origin *origin = exchange->origin;
	bool may_ask_for_time = outcome == OUTCOME_RESPONSE && retry_on_status(&policy->retry.on, status);
	return (struct retry_facts){
		.outcome = outcome,
		.status = status,
		.is_committed = exchange->state == EXCHANGE_RELAYING,
		.is_client_gone = outcome == OUTCOME_CANCELLED,
		.is_draining_hard = exchange->room->is_cutting,
		.method = exchange->order.request->method,
		.has_idempotency_key = exchange->has_idempotency_key,
		.is_nested = exchange->order.is_nested,
		.is_body_replayable = request_body_is_replayable(&exchange->body),
		.n_attempts = exchange->n_attempts,
		.max_attempts = exchange->order.max_attempts,
		.previous_delay_ms = exchange->previous_delay_ms,
		.retry_after_ms = may_ask_for_time ? retry_after_ms(exchange) : -1,
		.origin_quiet_until = policy->retry.retry_after.shared ? origin->quiet_until : MONO_ZERO,
		.total_at = mono_add_ms(exchange->order.started, exchange->order.total_ms),
		.would_breaker_admit = !policy->breaker.is_on ||
				       breaker_would_admit(&origin->breaker, &policy->breaker, now),
	};
}

bool judge_could_retry(const struct exchange *exchange)
{
	const struct retry_rule *rule = &exchange->policy->retry;
	return retry_on_status(&rule->on, exchange->attempt->response.status) &&
	       (!exchange->order.is_nested || rule->nested_allow) && exchange->is_repeatable &&
	       request_body_is_replayable(&exchange->body) && exchange->n_attempts < exchange->order.max_attempts;
}

static void log_retry(const struct exchange *exchange, enum outcome outcome, int status, int64_t delay_ms,
		      struct mono now)
{
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "retry"))
		return;
	char storage[24];
	log_slice(&line, "id", exchange->order.request_id);
	log_string(&line, "upstream", exchange->order.match.upstream->name);
	log_integer(&line, "attempt", exchange->n_attempts);
	log_integer(&line, "max_attempts", exchange->order.max_attempts);
	log_string(&line, "reason", outcome_reason(outcome, status, storage));
	log_integer(&line, "delay_ms", delay_ms);
	if (exchange->policy->timeouts.attempt_ms >= 0)
		log_integer(&line, "attempt_timeout_ms", exchange->policy->timeouts.attempt_ms);
	int64_t left = mono_left_ms(now, mono_add_ms(exchange->order.started, exchange->order.total_ms));
	if (left != INT64_MAX)
		log_integer(&line, "left_ms", left);
	if (exchange_is_observing(exchange))
		log_string(&line, "mode", "observe");
	log_end(&line);
}

static void note_quiet(struct exchange *exchange, struct mono now)
{
	const struct retry_after_rule *rule = &exchange->policy->retry.retry_after;
	int64_t wish_ms = retry_after_ms(exchange);
	if (!rule->honor || !rule->shared || wish_ms <= 0)
		return;
	/* An absurd wish silences this request's retries (the verdict sees to that), not the origin's for days. */
	if (rule->max_ms >= 0 && wish_ms > rule->max_ms)
		wish_ms = rule->max_ms;
	struct mono until = mono_add_ms(now, wish_ms);
	if (mono_before(exchange->origin->quiet_until, until))
		exchange->origin->quiet_until = until;
}

static void count_retry(struct exchange *exchange, enum outcome outcome, int status)
{
	struct upstream_metrics *metrics = exchange->origin->metrics;
	if (outcome == OUTCOME_RESPONSE)
		metrics->retries_by_status[status - 400]++;
	else
		metrics->retries_by_kind[outcome_facts[outcome].label]++;
}

static void count_observed_retry(struct exchange *exchange, enum outcome outcome, int status)
{
	struct upstream_metrics *metrics = exchange->origin->metrics;
	metrics->observed_retries++;
	if (outcome == OUTCOME_RESPONSE)
		metrics->observed_retries_by_status[status - 400]++;
	else
		metrics->observed_retries_by_kind[outcome_facts[outcome].label]++;
}

static void count_suppressed(struct exchange *exchange)
{
	static const signed char label_of[N_VERDICTS] = {
		[VERDICT_RETRY] = -1, [VERDICT_OK] = -1, [VERDICT_NOT_LISTED] = -1, [VERDICT_COMMITTED] = -1,
		[VERDICT_CANCELLED] = -1, [VERDICT_OBSERVE] = -1,
		[VERDICT_METHOD] = SUPPRESSED_METHOD, [VERDICT_BODY] = SUPPRESSED_BODY,
		[VERDICT_ATTEMPTS] = SUPPRESSED_ATTEMPTS, [VERDICT_BUDGET] = SUPPRESSED_BUDGET,
		[VERDICT_DEADLINE] = SUPPRESSED_DEADLINE, [VERDICT_BREAKER] = SUPPRESSED_BREAKER,
		[VERDICT_RETRY_AFTER] = SUPPRESSED_RETRY_AFTER, [VERDICT_DRAINING] = SUPPRESSED_DRAINING,
		[VERDICT_NESTED] = SUPPRESSED_NESTED,
	};
	int label = label_of[exchange->verdict];
	if (label >= 0)
		exchange->origin->metrics->suppressed[label]++;
}

static void back_off(struct exchange *exchange, int64_t delay_ms, struct mono now)
{
	exchange->previous_delay_ms = delay_ms;
	exchange->backoff_began = now;
	exchange->backoff_until = mono_add_ms(now, delay_ms);
	exchange->is_stream = false;
	relay_drop_held(exchange);
	attempt_free(&exchange->attempt);
	exchange_enter(exchange, EXCHANGE_BACKOFF);
	if (delay_ms == 0)
		trying_start(exchange);
}

/* A connection that had gone stale in the pool: once, on a new one, at nobody's expense. */
static bool replace_stale(struct exchange *exchange, enum outcome outcome)
{
	if (outcome != OUTCOME_STALE || exchange->has_replaced_stale || exchange->state == EXCHANGE_RELAYING ||
	    exchange->room->is_cutting || !request_body_is_replayable(&exchange->body) || !exchange->is_repeatable)
		return false;
	exchange->has_replaced_stale = true;
	exchange->wants_fresh = true;
	exchange->n_attempts--;
	exchange->is_rate_taken = true; /* its place in the rate is paid for */
	trying_start(exchange);
	return true;
}

static enum verdict verdict_of(enum outcome outcome, const struct retry_decision *decision)
{
	switch (outcome) {
	case OUTCOME_TOTAL_TIMEOUT:
		return decision->verdict == VERDICT_COMMITTED ? VERDICT_COMMITTED : VERDICT_DEADLINE;
	case OUTCOME_BREAKER_OPEN:
		return VERDICT_BREAKER;
	default:
		return decision->verdict;
	}
}

/* Asks for the verdict and does what it says. True: another attempt follows, at once or after a back-off. */
static bool repeat(struct exchange *exchange, enum outcome outcome, int status, struct mono now)
{
	struct retry_facts facts = facts_of(exchange, outcome, status, now);
	struct retry_decision decision = retry_decide(&exchange->policy->retry, &facts, &exchange->origin->budget, now,
						      &exchange->room->loop->rng);
	exchange->verdict = verdict_of(outcome, &decision);
	if (decision.verdict != VERDICT_RETRY) {
		if (outcome != OUTCOME_BREAKER_OPEN || exchange->n_attempts > 0) /* a first attempt is no retry */
			count_suppressed(exchange);
		return false;
	}
	if (exchange_is_observing(exchange)) {
		exchange->verdict = VERDICT_OBSERVE;
		log_retry(exchange, outcome, status, decision.delay_ms, now);
		count_observed_retry(exchange, outcome, status);
		return false;
	}
	if (outcome == OUTCOME_RESPONSE) /* it may have been judged by its head alone */
		conclude_attempt(exchange, exchange->attempt, outcome, status);
	log_retry(exchange, outcome, status, decision.delay_ms, now);
	count_retry(exchange, outcome, status);
	if (outcome == OUTCOME_STALE || outcome == OUTCOME_RESET)
		exchange->wants_fresh = true;
	back_off(exchange, decision.delay_ms, now);
	return true;
}

bool judge_response(struct exchange *exchange)
{
	struct mono now = clock_now();
	const struct attempt *attempt = exchange->attempt;
	int status = attempt->response.status;
	/* At its head (nothing is held back) it isn't over: counted at its end, or when it is given up for another. */
	if (attempt->state == ATTEMPT_ENDED)
		conclude_attempt(exchange, exchange->attempt, OUTCOME_RESPONSE, status);
	if (exchange->state == EXCHANGE_RELAYING)
		return true; /* its verdict was given at the head */
	if (retry_on_status(&exchange->policy->retry.on, status))
		note_quiet(exchange, now);
	return !repeat(exchange, OUTCOME_RESPONSE, status, now);
}

void judge_failure(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	if (!exchange->origin) { /* nobody to ask, now or later: refused by the registry */
		exchange->verdict = VERDICT_NOT_LISTED;
		conclude_with_error(exchange, outcome, detail);
		return;
	}
	if (replace_stale(exchange, outcome))
		return;
	conclude_attempt(exchange, exchange->attempt, outcome, 0);
	if (repeat(exchange, outcome, 0, clock_now()))
		return;
	relay_drop_held(exchange);
	if (exchange->state == EXCHANGE_RELAYING)
		conclude_abort(exchange, outcome);
	else
		conclude_with_error(exchange, outcome, detail);
}
