#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../policy/backoff.h"
#include "machine.h"

#define TO(state) (1u << (state))
static const unsigned edges[] = {
	[EXCHANGE_ADMITTED] = TO(EXCHANGE_TRYING) | TO(EXCHANGE_BACKOFF) | TO(EXCHANGE_RELAYING) | TO(EXCHANGE_DONE),
	[EXCHANGE_TRYING] = TO(EXCHANGE_TRYING) | TO(EXCHANGE_BACKOFF) | TO(EXCHANGE_RELAYING) | TO(EXCHANGE_DONE),
	[EXCHANGE_BACKOFF] = TO(EXCHANGE_TRYING) | TO(EXCHANGE_RELAYING) | TO(EXCHANGE_DONE),
	[EXCHANGE_RELAYING] = TO(EXCHANGE_DONE),
	[EXCHANGE_DONE] = 0,
};

void exchange_enter(struct exchange *exchange, enum exchange_state state)
{
	CHECK(edges[exchange->state] & TO(state));
	exchange->state = state;
}

/* ---- the one timer ---- */

static enum deadline_phase phase_of(const struct exchange *exchange)
{
	if (exchange->is_response_complete)
		return PHASE_FLUSHING;
	if (exchange->state == EXCHANGE_BACKOFF)
		return exchange->is_rate_wait ? PHASE_QUEUED : PHASE_BACKOFF;
	if (!exchange->attempt)
		return PHASE_FLUSHING;
	switch (exchange->attempt->state) {
	case ATTEMPT_NEW:
	case ATTEMPT_QUEUED:
		return PHASE_QUEUED;
	case ATTEMPT_CONNECTING:
		/* connect and tls_handshake bound each address tried, so they are kept by net/dial. */
		return PHASE_RESOLVING;
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
		facts.request_sent = attempt->request_sent;
		facts.head_complete = attempt->head_complete;
		facts.last_read = attempt->last_read;
		facts.is_reading_paused = attempt->is_reading_paused;
	}
	if (exchange->is_rate_wait)
		facts.queued = exchange->backoff_began;
	return deadline_next(&exchange->policy->timeouts, &facts);
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
	timer_set(&exchange->timer, at);
}

void exchange_send_continue(struct exchange *exchange)
{
	exchange->is_continue_awaited = false;
	exchange->is_continue_sent = true;
	exchange->downstream->ops->send_continue(exchange->downstream);
	exchange->is_body_paused = false;
	exchange->downstream->ops->resume_body(exchange->downstream);
}

static void start_attempt(struct exchange *exchange);

static enum outcome outcome_of_limit(enum limit limit)
{
	switch (limit) {
	case LIMIT_ATTEMPT:
		return OUTCOME_ATTEMPT_TIMEOUT;
	case LIMIT_POOL_WAIT:
		return OUTCOME_POOL_WAIT;
	case LIMIT_CONNECT:
		return OUTCOME_CONNECT_TIMEOUT;
	case LIMIT_TLS_HANDSHAKE:
		return OUTCOME_TLS_TIMEOUT;
	case LIMIT_RESPONSE_HEADERS:
		return OUTCOME_HEADERS_TIMEOUT;
	case LIMIT_BODY_IDLE:
		return OUTCOME_BODY_IDLE;
	case LIMIT_STREAM_TOTAL:
		return OUTCOME_STREAM_TOTAL;
	case LIMIT_TOTAL:
	case LIMIT_BACKOFF:
	case LIMIT_NONE:
		break;
	}
	return OUTCOME_TOTAL_TIMEOUT;
}

static void on_due(void *owner)
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
			start_attempt(exchange);
	} else if (deadline.limit == LIMIT_BACKOFF) {
		start_attempt(exchange);
	} else {
		enum outcome outcome = outcome_of_limit(deadline.limit);
		struct attempt *attempt = exchange->attempt;
		if (attempt && attempt->state != ATTEMPT_ENDED) {
			attempt_cancel(attempt);
			attempt->outcome = outcome;
		}
		exchange_judge(exchange, outcome, NULL);
	}
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}

/* ---- trying ---- */

int64_t exchange_retry_after_ms(const struct exchange *exchange)
{
	if (!exchange->policy->retry.retry_after.honor || !exchange->attempt)
		return -1;
	struct slice value = head_get(&exchange->attempt->response.head, SLICE("Retry-After"));
	return value.data ? retry_after_parse_ms(value, clock_wall_ms()) : -1;
}

static struct retry_facts facts_of(const struct exchange *exchange, enum outcome outcome, int status, struct mono now)
{
	const struct policy *policy = exchange->policy;
	bool is_response = outcome == OUTCOME_RESPONSE;
	return (struct retry_facts){
		.outcome = outcome,
		.status = status,
		.is_committed = exchange->state == EXCHANGE_RELAYING,
		.is_client_gone = outcome == OUTCOME_CANCELLED,
		.is_draining_hard = exchange->room->is_cutting,
		.method = exchange->order.request->method,
		.has_idempotency_key = policy->retry.idempotency_key &&
				       head_find(&exchange->order.request->head,
						 slice_of(policy->retry.idempotency_key), 0) >= 0,
		.is_nested = exchange->order.is_nested,
		.is_body_replayable = request_body_is_replayable(&exchange->body),
		.n_attempts = exchange->n_attempts,
		.max_attempts = exchange->order.max_attempts,
		.previous_delay_ms = exchange->previous_delay_ms,
		.retry_after_ms = is_response ? exchange_retry_after_ms(exchange) : -1,
		.origin_quiet_until = policy->retry.retry_after.shared && exchange->origin ? exchange->origin->quiet_until
											     : MONO_ZERO,
		.total_at = mono_add_ms(exchange->order.started, exchange->order.total_ms),
		.would_breaker_admit = !policy->breaker.is_on || !exchange->origin ||
				       breaker_would_admit(&exchange->origin->breaker, &policy->breaker, now),
	};
}

/* Is it worth keeping this response back: would a retry be allowed as far as is known before its body is in? */
bool exchange_could_retry(const struct exchange *exchange)
{
	const struct retry_rule *rule = &exchange->policy->retry;
	struct retry_facts facts = facts_of(exchange, OUTCOME_RESPONSE, exchange->attempt->response.status, MONO_ZERO);
	return retry_on_status(&rule->on, facts.status) && !facts.is_committed &&
	       !(facts.is_nested && !rule->nested_allow) &&
	       retry_is_repeatable(rule, facts.method, facts.has_idempotency_key) && facts.is_body_replayable &&
	       facts.n_attempts < facts.max_attempts;
}

static void refuse_at_start(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	exchange->start_outcome = outcome;
	snprintf(exchange->start_detail, sizeof(exchange->start_detail), "%s", detail ? detail : "");
	loop_defer(exchange->room->loop, &exchange->deferred_start_failure);
}

static void tell_start_failure(struct deferred *item)
{
	struct exchange *exchange = LIST_ENTRY_OF(item, struct exchange, deferred_start_failure);
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_judge(exchange, exchange->start_outcome, exchange->start_detail);
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}

/* The rate's place may be in the future: then the exchange sleeps first. Returns false when it sleeps or was refused. */
static bool is_rate_ready(struct exchange *exchange, struct mono now)
{
	const struct policy *policy = exchange->policy;
	if (!policy->rate_limit.is_on || exchange->is_rate_taken)
		return true;
	int64_t wait_ms = rate_take(&exchange->origin->rate, &policy->rate_limit, policy->timeouts.pool_wait_ms, now);
	if (wait_ms < 0) {
		exchange->origin->metrics->pool_rejected[POOL_REJECTED_RATE_LIMIT]++;
		refuse_at_start(exchange, OUTCOME_RATE_LIMIT, NULL);
		return false;
	}
	exchange->is_rate_taken = true;
	if (wait_ms == 0)
		return true;
	exchange->is_rate_wait = true;
	exchange->backoff_began = now;
	exchange->backoff_until = mono_add_ms(now, wait_ms);
	if (exchange->state != EXCHANGE_BACKOFF)
		exchange_enter(exchange, EXCHANGE_BACKOFF);
	return false;
}

static bool is_breaker_ready(struct exchange *exchange, struct mono now)
{
	const struct breaker_rule *rule = &exchange->policy->breaker;
	if (!rule->is_on || exchange->is_breaker_admitted)
		return true;
	exchange->is_breaker_admitted = breaker_admit(&exchange->origin->breaker, rule, now);
	origin_sync_breaker(exchange->origin);
	if (!exchange->is_breaker_admitted)
		refuse_at_start(exchange, OUTCOME_BREAKER_OPEN, NULL);
	return exchange->is_breaker_admitted;
}

static void start_attempt(struct exchange *exchange)
{
	struct mono now = clock_now();
	if (exchange->state == EXCHANGE_BACKOFF && mono_is_set(exchange->backoff_began)) {
		int64_t slept_us = mono_elapsed_us(exchange->backoff_began, now);
		if (exchange->is_rate_wait)
			exchange->queue_us += slept_us;
		else
			exchange->backoff_us += slept_us;
		exchange->backoff_began = MONO_ZERO;
		exchange->is_rate_wait = false;
	}
	if (!is_rate_ready(exchange, now) || !is_breaker_ready(exchange, now))
		return;
	exchange->is_rate_taken = false;

	const struct exchange_order *order = &exchange->order;
	const struct policy *policy = exchange->policy;
	const struct request *request = order->request;
	exchange->n_attempts++;
	struct attempt_order attempt = {
		.lease = {
			.origin = exchange->origin,
			.timeouts = &policy->timeouts,
			.egress = &exchange->config->global.egress,
			.is_fresh_only = exchange->wants_fresh || request->is_connect,
			.is_repeatable = retry_is_repeatable(&policy->retry, request->method,
				facts_of(exchange, OUTCOME_RESPONSE, 0, now).has_idempotency_key),
			.is_tunnel = request->is_connect,
		},
		.request = request,
		.rewrite = {
			.host = order->host_field,
			.path = order->path,
			.via_id = slice_of(exchange->room->instance_id),
			.request_id = order->is_own_request_id ? (struct slice){ 0 } : order->request_id,
			.n_previous_attempts = exchange->n_attempts - 1,
			.framing = request->framing,
			.forward_expect = request->expects_continue && !exchange->is_continue_sent,
			.forward_upgrade = order->is_upgrade,
			.edit = &policy->request_headers,
		},
		.body = &exchange->body,
		.max_header_bytes = (size_t)exchange->config->global.limits.header_bytes,
	};
	attempt_free(&exchange->attempt);
	if (exchange->state != EXCHANGE_TRYING)
		exchange_enter(exchange, EXCHANGE_TRYING);
	exchange->attempt = attempt_start(exchange->room->loop, &attempt, &exchange_attempt_ops, exchange);
}

static void log_retry(const struct exchange *exchange, enum outcome outcome, int status, int64_t delay_ms, struct mono now)
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
	log_end(&line);
}

static void note_quiet(struct exchange *exchange, struct mono now)
{
	const struct retry_after_rule *rule = &exchange->policy->retry.retry_after;
	int64_t wish_ms = exchange_retry_after_ms(exchange);
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

static void count_suppressed(struct exchange *exchange)
{
	static const signed char label_of[N_VERDICTS] = {
		[VERDICT_RETRY] = -1, [VERDICT_OK] = -1, [VERDICT_NOT_LISTED] = -1, [VERDICT_COMMITTED] = -1,
		[VERDICT_CANCELLED] = -1,
		[VERDICT_METHOD] = SUPPRESSED_METHOD, [VERDICT_BODY] = SUPPRESSED_BODY,
		[VERDICT_ATTEMPTS] = SUPPRESSED_ATTEMPTS, [VERDICT_BUDGET] = SUPPRESSED_BUDGET,
		[VERDICT_DEADLINE] = SUPPRESSED_DEADLINE, [VERDICT_BREAKER] = SUPPRESSED_BREAKER,
		[VERDICT_RETRY_AFTER] = SUPPRESSED_RETRY_AFTER, [VERDICT_DRAINING] = SUPPRESSED_DRAINING,
		[VERDICT_NESTED] = SUPPRESSED_NESTED,
	};
	int label = label_of[exchange->verdict];
	if (label >= 0 && exchange->origin)
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
		start_attempt(exchange);
}

/* A connection that had gone stale in the pool: once, on a new one, at nobody's expense. */
static bool replace_stale(struct exchange *exchange, enum outcome outcome, const struct retry_facts *facts)
{
	if (outcome != OUTCOME_STALE || exchange->has_replaced_stale || facts->is_committed || facts->is_draining_hard ||
	    !facts->is_body_replayable ||
	    !retry_is_repeatable(&exchange->policy->retry, facts->method, facts->has_idempotency_key))
		return false;
	exchange->has_replaced_stale = true;
	exchange->wants_fresh = true;
	exchange->n_attempts--;
	start_attempt(exchange);
	return true;
}

void exchange_judge(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	struct mono now = clock_now();
	int status = outcome == OUTCOME_RESPONSE ? exchange->attempt->response.status : 0;
	char kept_detail[256];
	snprintf(kept_detail, sizeof(kept_detail), "%s", detail ? detail : "");

	/* Judged before its body is in (nothing held back): the attempt itself goes on unless it is to be repeated. */
	bool is_at_head = outcome == OUTCOME_RESPONSE && exchange->attempt->state != ATTEMPT_ENDED;
	if (outcome == OUTCOME_RESPONSE && exchange->state == EXCHANGE_RELAYING) {
		conclude_attempt(exchange, outcome, status); /* its verdict was given at the head */
		return;
	}
	if (!exchange->origin) { /* nobody to ask, now or later: refused by the registry */
		exchange->verdict = VERDICT_NOT_LISTED;
		conclude_with_error(exchange, outcome, kept_detail);
		return;
	}
	struct retry_facts facts = facts_of(exchange, outcome, status, now);
	if (replace_stale(exchange, outcome, &facts))
		return;
	if (!is_at_head) {
		conclude_attempt(exchange, outcome, status);
		facts.would_breaker_admit = facts_of(exchange, outcome, status, now).would_breaker_admit;
	}
	if (outcome == OUTCOME_RESPONSE && retry_on_status(&exchange->policy->retry.on, status))
		note_quiet(exchange, now);

	struct retry_decision decision = retry_decide(&exchange->policy->retry, &facts, &exchange->origin->budget, now,
						      &exchange->room->loop->rng);
	exchange->verdict = decision.verdict;
	if (decision.verdict == VERDICT_RETRY) {
		if (is_at_head)
			conclude_attempt(exchange, outcome, status);
		log_retry(exchange, outcome, status, decision.delay_ms, now);
		count_retry(exchange, outcome, status);
		if (outcome == OUTCOME_STALE || outcome == OUTCOME_RESET)
			exchange->wants_fresh = true;
		back_off(exchange, decision.delay_ms, now);
		return;
	}
	count_suppressed(exchange);
	if (outcome == OUTCOME_RESPONSE)
		return; /* exchange/relay passes it on */
	relay_drop_held(exchange);
	if (exchange->state == EXCHANGE_RELAYING)
		conclude_abort(exchange, outcome);
	else
		conclude_with_error(exchange, outcome, kept_detail);
}

/* ---- beginning and end ---- */

void exchange_room_init(struct exchange_room *room, struct loop *loop, struct registry *registry)
{
	*room = (struct exchange_room){ .loop = loop, .registry = registry };
	list_init(&room->exchanges);
	snprintf(room->instance_id, sizeof(room->instance_id), "%012llx",
		 (unsigned long long)(rng_u64(&loop->rng) & 0xffffffffffffULL));
}

static void free_late(struct deferred *item)
{
	struct exchange *exchange = LIST_ENTRY_OF(item, struct exchange, deferred_free);
	timer_clear(&exchange->timer);
	origin_unref(&exchange->origin);
	config_unref(&exchange->config);
	free(exchange);
}

/* The end, whatever led to it: everything taken is given back here, then the client's side is told. */
void exchange_finish(struct exchange *exchange)
{
	exchange_enter(exchange, EXCHANGE_DONE);
	if (exchange->is_breaker_admitted) {
		breaker_forget(&exchange->origin->breaker);
		origin_sync_breaker(exchange->origin);
		exchange->is_breaker_admitted = false;
	}
	if (exchange->is_rate_taken)
		rate_give_back(&exchange->origin->rate, &exchange->policy->rate_limit);
	conclude_record(exchange);
	attempt_free(&exchange->attempt);
	relay_drop_held(exchange);
	bool must_close = exchange->must_close || !exchange->body.is_complete;
	request_body_clear(&exchange->body);
	timer_set(&exchange->timer, MONO_NEVER);
	deferred_cancel(&exchange->deferred_start_failure);
	list_remove(&exchange->link);
	exchange->room->n_exchanges--;
	struct downstream *downstream = exchange->downstream;
	exchange->downstream = NULL;
	loop_defer(exchange->room->loop, &exchange->deferred_free);
	downstream->ops->on_done(downstream, must_close);
}

struct exchange *exchange_start(struct exchange_room *room, const struct exchange_order *order)
{
	struct exchange *exchange = xcalloc(1, sizeof(*exchange));
	exchange->room = room;
	exchange->downstream = order->downstream;
	exchange->order = *order;
	exchange->config = config_ref(order->config);
	exchange->policy = order->match.policy;
	exchange->state = EXCHANGE_ADMITTED;
	exchange->verdict = VERDICT_OK;
	exchange->is_body_paused = true;
	list_append(&room->exchanges, &exchange->link);
	room->n_exchanges++;
	timer_init(&exchange->timer, room->loop, on_due, exchange);
	deferred_init(&exchange->deferred_start_failure, tell_start_failure);
	deferred_init(&exchange->deferred_free, free_late);
	const struct global_limits *limits = &exchange->config->global.limits;
	request_body_init(&exchange->body, limits->request_buffer_bytes, limits->buffered_bytes);
	exchange->body.is_complete = order->request->framing == BODY_NONE;

	char error[256];
	exchange->origin = registry_get(room->registry, order->match.upstream, order->is_tls, order->host, order->port, error,
					sizeof(error));
	if (!exchange->origin) {
		refuse_at_start(exchange, order->is_tls ? OUTCOME_TLS_FAILURE : OUTCOME_MAX_PENDING, error);
		return exchange;
	}
	struct mono now = clock_now();
	budget_earn(&exchange->origin->budget, &exchange->policy->retry.budget, now);
	if (order->request->expects_continue) {
		exchange->is_continue_awaited = true;
		exchange->continue_at = mono_add_ms(now, CONTINUE_WAIT_MS);
	} else if (!exchange->body.is_complete) {
		exchange->is_body_paused = false;
		exchange->downstream->ops->resume_body(exchange->downstream);
	}
	start_attempt(exchange);
	exchange_rearm(exchange);
	return exchange;
}

/* ---- the client's events ---- */

void exchange_steer_body(struct exchange *exchange)
{
	struct request_body *body = &exchange->body;
	if (exchange->is_continue_awaited || body->is_complete || exchange->state == EXCHANGE_DONE)
		return;
	struct attempt *attempt = exchange->attempt;
	uint64_t sent = attempt && attempt->state != ATTEMPT_ENDED ? attempt->body_sent : body->dropped;
	uint64_t unsent = body->received - sent;
	const struct downstream_ops *ops = exchange->downstream->ops;
	if (!exchange->is_body_paused && !body->is_kept && unsent >= BODY_HIGH_WATER_BYTES) {
		exchange->is_body_paused = true;
		ops->pause_body(exchange->downstream);
	} else if (exchange->is_body_paused && (body->is_kept || unsent <= BODY_LOW_WATER_BYTES)) {
		exchange->is_body_paused = false;
		ops->resume_body(exchange->downstream);
	}
}

void exchange_request_body(struct exchange *exchange, struct slice data)
{
	if (exchange->state == EXCHANGE_DONE)
		return;
	request_body_append(&exchange->body, data);
	if (exchange->attempt && exchange->attempt->state != ATTEMPT_ENDED) {
		attempt_more_body(exchange->attempt);
		/* Bytes that left before the body outgrew its buffer needn't be kept any longer. */
		request_body_sent(&exchange->body, exchange->attempt->body_sent);
	}
	exchange_steer_body(exchange);
	exchange_rearm(exchange);
}

void exchange_request_end(struct exchange *exchange, const struct head *trailers)
{
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange->body.is_complete = true;
	exchange->body.trailers = trailers;
	if (exchange->attempt)
		attempt_more_body(exchange->attempt);
	exchange_rearm(exchange);
}

void exchange_request_failed(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	if (exchange->state == EXCHANGE_DONE)
		return;
	if (exchange->attempt)
		attempt_cancel(exchange->attempt);
	relay_drop_held(exchange);
	exchange->verdict = VERDICT_NOT_LISTED;
	if (exchange->is_response_complete) {
		/* The answer is on its way out; only the connection can't serve another request. */
		exchange->must_close = true;
		return;
	}
	if (exchange->state == EXCHANGE_RELAYING)
		conclude_abort(exchange, outcome);
	else
		conclude_with_error(exchange, outcome, detail);
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}

void exchange_client_writable(struct exchange *exchange)
{
	if (exchange->state == EXCHANGE_DONE || !exchange->attempt)
		return;
	attempt_resume_reading(exchange->attempt);
	exchange_rearm(exchange);
}

void exchange_client_flushed(struct exchange *exchange)
{
	if (exchange->state != EXCHANGE_DONE && exchange->is_response_complete)
		exchange_finish(exchange);
}

void exchange_client_gone(struct exchange *exchange)
{
	if (exchange->state == EXCHANGE_DONE)
		return;
	conclude_cancelled(exchange);
}

void exchange_cut_all(struct exchange_room *room)
{
	room->is_cutting = true;
	LIST_EACH_SAFE(link, after, &room->exchanges) {
		struct exchange *exchange = LIST_ENTRY_OF(link, struct exchange, link);
		room->n_cut++;
		if (exchange->attempt)
			attempt_cancel(exchange->attempt);
		relay_drop_held(exchange);
		exchange->verdict = VERDICT_DRAINING;
		if (exchange->state == EXCHANGE_RELAYING) {
			conclude_abort(exchange, OUTCOME_DRAIN_CUT);
			continue;
		}
		conclude_with_error(exchange, OUTCOME_DRAIN_CUT, NULL);
		if (exchange->state != EXCHANGE_DONE)
			exchange->downstream->ops->flush(exchange->downstream);
	}
}
