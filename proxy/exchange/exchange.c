#include "exchange.h"

#include <stdio.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/spare.h"
#include "machine.h"

#define MAX_INHERITED_ATTEMPTS 1000

static struct spare spare_exchanges = SPARE_OF(struct exchange);

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

void exchange_send_continue(struct exchange *exchange)
{
	exchange->is_continue_awaited = false;
	exchange->is_continue_sent = true;
	exchange->downstream->ops->send_continue(exchange->downstream);
	exchange->is_body_paused = false;
	exchange->downstream->ops->resume_body(exchange->downstream);
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
	spare_give(&spare_exchanges, exchange);
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
	trying_drop_hedges(exchange);
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

/* Evenkeel-Previous-Attempts of a proxy before us: how many tries this request is already worth. */
static int64_t inherited_attempts(const struct request *request)
{
	struct slice value = head_get(&request->head, SLICE("Evenkeel-Previous-Attempts"));
	int64_t n = 0;
	for (size_t i = 0; i < value.length && n < MAX_INHERITED_ATTEMPTS; i++) {
		if (value.data[i] < '0' || value.data[i] > '9')
			return 1; /* no number, but a retry all the same */
		n = n * 10 + (value.data[i] - '0');
	}
	return n < MAX_INHERITED_ATTEMPTS ? n : MAX_INHERITED_ATTEMPTS;
}

static void note_nature_of_request(struct exchange *exchange)
{
	const struct retry_rule *rule = &exchange->policy->retry;
	const struct request *request = exchange->order.request;
	exchange->has_idempotency_key = rule->idempotency_key &&
					head_find(&request->head, slice_of(rule->idempotency_key), 0) >= 0;
	exchange->is_repeatable = retry_is_repeatable(rule, request->method, exchange->has_idempotency_key);
	if (exchange->order.is_nested)
		exchange->n_inherited_attempts = inherited_attempts(request);
}

struct exchange *exchange_start(struct exchange_room *room, const struct exchange_order *order)
{
	struct exchange *exchange = spare_take(&spare_exchanges);
	*exchange = (struct exchange){ 0 };
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
	timer_init(&exchange->timer, room->loop, exchange_on_due, exchange);
	deferred_init(&exchange->deferred_start_failure, trying_tell_refusal);
	deferred_init(&exchange->deferred_free, free_late);
	exchange->timeouts = exchange->policy->timeouts;
	note_nature_of_request(exchange);
	const struct global_limits *limits = &exchange->config->global.limits;
	request_body_init(&exchange->body, limits->request_buffer_bytes, limits->buffered_bytes);
	exchange->body.is_complete = order->request->framing == BODY_NONE;

	char error[256];
	enum outcome refused;
	exchange->origin = registry_get(room->registry, order->match.upstream, order->is_tls, order->host, order->port,
					&refused, error, sizeof(error));
	if (!exchange->origin) {
		trying_refuse(exchange, refused, error);
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
	trying_start(exchange);
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
	if (exchange->is_response_complete) {
		/* The answer is on its way out; only the connection can't serve another request. */
		exchange->must_close = true;
		return;
	}
	conclude_give_up(exchange, exchange->attempt);
	relay_drop_held(exchange);
	exchange->verdict = VERDICT_NOT_LISTED;
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

static void cut_off(struct exchange *exchange)
{
	conclude_give_up(exchange, exchange->attempt);
	relay_drop_held(exchange);
	exchange->verdict = VERDICT_DRAINING;
	if (exchange->state == EXCHANGE_RELAYING) {
		conclude_abort(exchange, OUTCOME_DRAIN_CUT);
		return;
	}
	conclude_with_error(exchange, OUTCOME_DRAIN_CUT, NULL);
	exchange->downstream->ops->flush(exchange->downstream);
	exchange_finish(exchange); /* nobody waits for a client to take it now */
}

void exchange_cut_all(struct exchange_room *room)
{
	room->is_cutting = true;
	LIST_EACH_SAFE(link, after, &room->exchanges) {
		room->n_cut++;
		cut_off(LIST_ENTRY_OF(link, struct exchange, link));
	}
}
