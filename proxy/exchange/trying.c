/* Attempts: their beginning, the rate and the breaker before it, and hedges beside it. */
#include <stdio.h>

#include "../base/clock.h"
#include "../policy/hedge.h"
#include "machine.h"

/* net/dial keeps no limit while timeouts are only observed. */
static const struct timeouts unbounded = {
	.connect_ms = LIMIT_OFF,
	.tls_handshake_ms = LIMIT_OFF,
};

/* ---- before an attempt ---- */

void trying_refuse(struct exchange *exchange, enum outcome outcome, const char *detail)
{
	exchange->start_outcome = outcome;
	snprintf(exchange->start_detail, sizeof(exchange->start_detail), "%s", detail ? detail : "");
	loop_defer(exchange->room->loop, &exchange->deferred_start_failure);
}

void trying_tell_refusal(struct deferred *item)
{
	struct exchange *exchange = LIST_ENTRY_OF(item, struct exchange, deferred_start_failure);
	if (exchange->state == EXCHANGE_DONE)
		return;
	judge_failure(exchange, exchange->start_outcome, exchange->start_detail);
	if (exchange->state == EXCHANGE_DONE)
		return;
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}

/* The rate's place may be in the future: then the exchange sleeps first. False when it sleeps or was refused. */
static bool is_rate_ready(struct exchange *exchange, struct mono now)
{
	const struct policy *policy = exchange->policy;
	if (!policy->rate_limit.is_on || exchange->is_rate_taken || exchange_is_observing(exchange))
		return true;
	int64_t wait_ms = rate_take(&exchange->origin->rate, &policy->rate_limit, policy->timeouts.pool_wait_ms, now);
	if (wait_ms < 0) {
		exchange->origin->metrics->pool_rejected[POOL_REJECTED_RATE_LIMIT]++;
		trying_refuse(exchange, OUTCOME_RATE_LIMIT, NULL);
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
	if (!rule->is_on || exchange->is_breaker_admitted || exchange_is_observing(exchange))
		return true;
	enum breaker_state before = exchange->origin->breaker.state;
	exchange->is_breaker_admitted = breaker_admit(&exchange->origin->breaker, rule, now);
	conclude_breaker_change(exchange, before);
	if (!exchange->is_breaker_admitted)
		trying_refuse(exchange, OUTCOME_BREAKER_OPEN, NULL);
	return exchange->is_breaker_admitted;
}

/* ---- an attempt ---- */

static struct attempt *launch(struct exchange *exchange, bool is_hedge)
{
	const struct exchange_order *order = &exchange->order;
	const struct policy *policy = exchange->policy;
	const struct request *request = order->request;
	exchange->n_attempts++;
	struct attempt_order attempt = {
		.lease = {
			.origin = exchange->origin,
			.timeouts = exchange_is_observing(exchange) ? &unbounded : &policy->timeouts,
			.egress = &exchange->config->global.egress,
			.is_fresh_only = exchange->wants_fresh || request->is_connect,
			.is_repeatable = exchange->is_repeatable,
			.is_tunnel = request->is_connect,
		},
		.request = request,
		.rewrite = {
			.host = order->host_field,
			.path = order->path,
			.via_id = slice_of(exchange->room->instance_id),
			.request_id = order->is_own_request_id ? (struct slice){ 0 } : order->request_id,
			.n_previous_attempts = exchange->n_inherited_attempts + exchange->n_attempts - 1,
			.framing = request->framing,
			.forward_expect = request->expects_continue && !exchange->is_continue_sent && !is_hedge,
			.forward_upgrade = order->is_upgrade,
			.edit = &policy->request_headers,
		},
		.body = &exchange->body,
		.max_header_bytes = (size_t)exchange->config->global.limits.header_bytes,
	};
	return attempt_start(exchange->room->loop, &attempt, &exchange_attempt_ops, exchange);
}

void trying_account_sleep(struct exchange *exchange, struct mono now)
{
	if (exchange->state != EXCHANGE_BACKOFF || !mono_is_set(exchange->backoff_began))
		return;
	int64_t slept_us = mono_elapsed_us(exchange->backoff_began, now);
	if (exchange->is_rate_wait)
		exchange->queue_us += slept_us;
	else
		exchange->backoff_us += slept_us;
	exchange->backoff_began = MONO_ZERO;
	exchange->is_rate_wait = false;
}

/* An attempt before this one was answered without the body: its client still waits to be told to go on. */
static void await_continue(struct exchange *exchange, struct mono now)
{
	if (!exchange->order.request->expects_continue || exchange->is_continue_awaited || exchange->is_continue_sent ||
	    exchange->body.is_complete || exchange->body.received > 0)
		return;
	exchange->is_continue_awaited = true;
	exchange->continue_at = mono_add_ms(now, CONTINUE_WAIT_MS);
}

void trying_start(struct exchange *exchange)
{
	struct mono now = clock_now();
	trying_account_sleep(exchange, now);
	if (!is_rate_ready(exchange, now) || !is_breaker_ready(exchange, now))
		return;
	exchange->is_rate_taken = false;
	exchange->n_hedges_sent = 0;
	exchange->is_hedging_over = false;
	exchange->is_main_a_hedge = false;
	attempt_free(&exchange->attempt);
	if (exchange->state != EXCHANGE_TRYING)
		exchange_enter(exchange, EXCHANGE_TRYING);
	await_continue(exchange, now);
	exchange->attempt = launch(exchange, false);
}

/* ---- hedges ---- */

static struct hedge_facts hedge_facts_of(const struct exchange *exchange)
{
	const struct policy *policy = exchange->policy;
	const struct attempt *newest = exchange->n_hedges > 0 ? exchange->hedges[exchange->n_hedges - 1] : exchange->attempt;
	bool is_room_left = exchange->n_hedges < EXCHANGE_MAX_HEDGES && exchange->state == EXCHANGE_TRYING && newest &&
			    !exchange->is_hedging_over && !exchange_is_observing(exchange);
	return (struct hedge_facts){
		.n_hedges = exchange->n_hedges_sent,
		.last_began = is_room_left ? newest->began : MONO_ZERO,
		.has_head = exchange->attempt && exchange->attempt->state >= ATTEMPT_READING_BODY,
		.is_committed = exchange->state == EXCHANGE_RELAYING,
		.is_draining_hard = exchange->room->is_cutting,
		.is_repeatable = exchange->is_repeatable && !exchange->order.request->is_connect,
		.is_body_complete = exchange->body.is_complete && exchange->body.is_kept,
		.is_nested = exchange->order.is_nested && !policy->retry.nested_allow,
		.n_attempts = exchange->n_attempts,
		.max_attempts = exchange->order.max_attempts,
		.would_breaker_admit = !policy->breaker.is_on || exchange->origin->breaker.state == BREAKER_CLOSED,
		.origin_quiet_until = policy->retry.retry_after.shared ? exchange->origin->quiet_until : MONO_ZERO,
		.total_at = mono_add_ms(exchange->order.started, exchange->order.total_ms),
	};
}

struct mono trying_hedge_at(const struct exchange *exchange)
{
	if (!exchange->origin)
		return MONO_NEVER;
	struct hedge_facts facts = hedge_facts_of(exchange);
	return hedge_at(&exchange->policy->hedge, &facts);
}

/* A hedge is there to be quick: it doesn't wait for its place in the rate, and never goes without one. */
static enum hedge_verdict decide_hedge(struct exchange *exchange, const struct hedge_facts *facts, struct mono now)
{
	const struct policy *policy = exchange->policy;
	struct origin *origin = exchange->origin;
	bool takes_rate = policy->rate_limit.is_on && mono_reached(hedge_at(&policy->hedge, facts), now);
	if (takes_rate && rate_take(&origin->rate, &policy->rate_limit, 0, now) < 0)
		return HEDGE_NEVER;
	enum hedge_verdict verdict = hedge_decide(&policy->hedge, &policy->retry.budget, facts, &origin->budget, now);
	if (takes_rate && verdict != HEDGE_SEND)
		rate_give_back(&origin->rate, &policy->rate_limit);
	return verdict;
}

void trying_hedge(struct exchange *exchange, struct mono now)
{
	if (!exchange->origin)
		return;
	struct hedge_facts facts = hedge_facts_of(exchange);
	const struct policy *policy = exchange->policy;
	switch (decide_hedge(exchange, &facts, now)) {
	case HEDGE_WAIT:
		return;
	case HEDGE_NEVER:
		exchange->is_hedging_over = true;
		return;
	case HEDGE_BUDGET:
		exchange->is_hedging_over = true;
		exchange->origin->metrics->suppressed[SUPPRESSED_BUDGET]++;
		return;
	case HEDGE_SEND:
		break;
	}
	struct log_line line;
	if (log_begin(&line, LOG_INFO, "hedge")) {
		log_slice(&line, "id", exchange->order.request_id);
		log_string(&line, "upstream", exchange->order.match.upstream->name);
		log_integer(&line, "attempt", exchange->n_attempts + 1);
		log_integer(&line, "after_ms", policy->hedge.after_ms);
		log_end(&line);
	}
	exchange->n_hedges_sent++;
	exchange->hedges[exchange->n_hedges++] = launch(exchange, true);
}

static void remove_hedge(struct exchange *exchange, const struct attempt *hedge)
{
	size_t i = 0;
	while (exchange->hedges[i] != hedge)
		i++;
	for (exchange->n_hedges--; i < exchange->n_hedges; i++)
		exchange->hedges[i] = exchange->hedges[i + 1];
}

void trying_drop_hedges(struct exchange *exchange)
{
	while (exchange->n_hedges > 0) {
		struct attempt *hedge = exchange->hedges[--exchange->n_hedges];
		conclude_give_up(exchange, hedge);
		exchange->origin->metrics->hedges_lost++;
		attempt_free(&hedge);
	}
}

/* The first head decides: its attempt is the one that counts from here on, the others are given up. */
void trying_take_winner(struct exchange *exchange, struct attempt *winner)
{
	if (winner != exchange->attempt) {
		struct attempt *slow = exchange->attempt;
		remove_hedge(exchange, winner);
		exchange->attempt = winner;
		exchange->is_main_a_hedge = true;
		conclude_give_up(exchange, slow);
		attempt_free(&slow);
	}
	if (exchange->is_main_a_hedge)
		exchange->origin->metrics->hedges_won++;
	exchange->is_main_a_hedge = false;
	trying_drop_hedges(exchange);
	exchange->is_hedging_over = true;
}

void trying_hedge_failed(struct exchange *exchange, struct attempt *hedge, enum outcome outcome)
{
	conclude_attempt(exchange, hedge, outcome, 0);
	exchange->origin->metrics->hedges_lost++;
	remove_hedge(exchange, hedge);
	attempt_free(&hedge);
}

bool trying_promote_hedge(struct exchange *exchange, enum outcome outcome)
{
	if (exchange->n_hedges == 0 || exchange->state != EXCHANGE_TRYING)
		return false;
	conclude_attempt(exchange, exchange->attempt, outcome, 0);
	attempt_free(&exchange->attempt);
	exchange->attempt = exchange->hedges[0];
	exchange->is_main_a_hedge = true;
	remove_hedge(exchange, exchange->attempt);
	return true;
}
