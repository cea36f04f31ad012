/* The response's way to the client: held back, passed on, or turned into a tunnel. */
#include <stdio.h>

#include "machine.h"

void relay_drop_held(struct exchange *exchange)
{
	process_metrics.buffered_bytes -= (int64_t)buffer_length(&exchange->held);
	buffer_clear(&exchange->held);
	exchange->is_holding = false;
}

static void compose_rewrite(const struct exchange *exchange, struct response_rewrite *rewrite,
			    struct extra_field extra[static 3], char number[static 24])
{
	int n = snprintf(number, 24, "%lld", (long long)exchange->n_attempts);
	extra[0] = (struct extra_field){ SLICE("Evenkeel-Attempts"), { number, (size_t)n } };
	extra[1] = (struct extra_field){ SLICE("Evenkeel-Upstream"), slice_of(exchange->order.match.upstream->name) };
	extra[2] = (struct extra_field){ SLICE("X-Request-Id"), exchange->order.request_id };
	*rewrite = (struct response_rewrite){
		.via_id = slice_of(exchange->room->instance_id),
		.extra = extra,
		.n_extra = 3,
		.edit = &exchange->policy->response_headers,
	};
}

/* Is the Content-Type one of timeouts.stream_types (parameters aside)? Such a response is meant to last. */
static bool is_stream_type(const struct exchange *exchange)
{
	struct slice type = head_get(&exchange->attempt->response.head, SLICE("Content-Type"));
	if (!type.data)
		return false;
	size_t n = 0;
	while (n < type.length && type.data[n] != ';' && type.data[n] != ' ' && type.data[n] != '\t')
		n++;
	type.length = n;
	const struct string_list *types = &exchange->policy->timeouts.stream_types;
	for (size_t i = 0; i < types->n; i++)
		if (slice_equals_nocase(type, slice_of(types->items[i])))
			return true;
	return false;
}

/* The commit point: from here on there is no retry. */
static void commit(struct exchange *exchange)
{
	struct response_rewrite rewrite;
	struct extra_field extra[3];
	char number[24];
	compose_rewrite(exchange, &rewrite, extra, number);
	exchange_enter(exchange, EXCHANGE_RELAYING);
	exchange->status = exchange->attempt->response.status;
	exchange->downstream->ops->send_head(exchange->downstream, &exchange->attempt->response, &rewrite);
}

static void pass_on(struct exchange *exchange, struct slice data)
{
	exchange->response_bytes += data.length;
	if (!exchange->downstream->ops->send_body(exchange->downstream, data) && exchange->attempt->state != ATTEMPT_ENDED)
		attempt_pause_reading(exchange->attempt);
}

/* Judges the response before its end; true when it is passed on from here, false when it is repeated. */
static bool judge_now(struct exchange *exchange)
{
	if (!judge_response(exchange))
		return false;
	commit(exchange);
	return true;
}

/*
 * Kept back until complete: what may have to be repeated because of its status, and what is short enough
 * (retry.hold_response) for a broken body to be repeatable too.
 */
static bool should_hold(const struct exchange *exchange)
{
	const struct response *response = &exchange->attempt->response;
	int64_t max = exchange->policy->retry.hold_response_bytes;
	int64_t max_buffered = exchange->config->global.limits.buffered_bytes;
	bool is_full = max_buffered >= 0 && process_metrics.buffered_bytes >= max_buffered;
	if (max <= 0 || is_full || exchange->is_stream || exchange_is_observing(exchange))
		return false;
	if (response->framing == BODY_LENGTH || response->framing == BODY_NONE)
		return response->framing == BODY_NONE || response->content_length <= (uint64_t)max;
	return judge_could_retry(exchange);
}

static void on_head(void *owner, struct attempt *attempt)
{
	struct exchange *exchange = owner;
	trying_take_winner(exchange, attempt);
	exchange->is_stream = is_stream_type(exchange);
	/* The origin has answered without wanting the body: the client isn't told to go on. */
	exchange->is_continue_awaited = false;
	exchange->is_holding = should_hold(exchange);
	if (!exchange->is_holding)
		judge_now(exchange);
}

static void on_body(void *owner, struct attempt *attempt, struct slice data)
{
	(void)attempt; /* the winner: only it has a head */
	struct exchange *exchange = owner;
	if (!exchange->is_holding) {
		pass_on(exchange, data);
		return;
	}
	buffer_append_slice(&exchange->held, data);
	process_metrics.buffered_bytes += (int64_t)data.length;
	if (buffer_length(&exchange->held) <= (size_t)exchange->policy->retry.hold_response_bytes)
		return;
	/* Of unknown length and longer than what is held: decide with what is known. */
	exchange->is_holding = false;
	if (judge_now(exchange)) {
		pass_on(exchange, buffer_slice(&exchange->held));
		relay_drop_held(exchange);
	}
}

static ssize_t on_splice(void *owner, struct attempt *attempt, struct stream *from, uint64_t max)
{
	struct exchange *exchange = owner;
	if (exchange->state != EXCHANGE_RELAYING)
		return DOWNSTREAM_CANT_SPLICE; /* held back */
	bool is_full = false;
	ssize_t n = exchange->downstream->ops->splice_body(exchange->downstream, from, max, &is_full);
	if (n > 0)
		exchange->response_bytes += (uint64_t)n;
	if (is_full)
		attempt_pause_reading(attempt);
	return n;
}

static void response_complete(struct exchange *exchange)
{
	if (!judge_response(exchange))
		return;
	if (exchange->state == EXCHANGE_TRYING) {
		commit(exchange);
		if (buffer_length(&exchange->held) > 0)
			pass_on(exchange, buffer_slice(&exchange->held));
		relay_drop_held(exchange);
	}
	const struct head *trailers = &exchange->attempt->reader.trailers;
	exchange->downstream->ops->send_end(exchange->downstream, trailers->n_fields > 0 ? trailers : NULL);
	exchange->is_response_complete = true;
}

static void on_done(void *owner, struct attempt *attempt, enum outcome outcome, const char *detail)
{
	struct exchange *exchange = owner;
	if (outcome == OUTCOME_RESPONSE)
		response_complete(exchange);
	else if (attempt != exchange->attempt)
		trying_hedge_failed(exchange, attempt, outcome);
	else if (!trying_promote_hedge(exchange, outcome))
		judge_failure(exchange, outcome, detail);
}

static void on_interim(void *owner, struct attempt *attempt, const struct response *response)
{
	struct exchange *exchange = owner;
	if (attempt != exchange->attempt)
		return;
	if (response->status != 100)
		exchange->downstream->ops->send_interim(exchange->downstream, response);
	else if (exchange->is_continue_awaited)
		exchange_send_continue(exchange);
}

static void on_sent(void *owner)
{
	exchange_steer_body(owner);
}

static void on_progress(void *owner)
{
	exchange_rearm(owner);
}

static void on_event_end(void *owner)
{
	struct exchange *exchange = owner;
	if (exchange->state == EXCHANGE_DONE)
		return;
	/* Whatever the events of this batch led to, a back-off included: here the timer hears of it. */
	exchange_rearm(exchange);
	exchange->downstream->ops->flush(exchange->downstream);
}

static void on_tunnel(void *owner, struct attempt *attempt, struct slice early)
{
	struct exchange *exchange = owner;
	trying_take_winner(exchange, attempt);
	bool is_upgrade = attempt->response.is_upgrade;
	struct response_rewrite rewrite;
	struct extra_field extra[3];
	char number[24];
	compose_rewrite(exchange, &rewrite, extra, number);
	rewrite.forward_upgrade = is_upgrade;
	exchange->status = is_upgrade ? 101 : 200;
	exchange_enter(exchange, EXCHANGE_RELAYING);
	conclude_attempt(exchange, attempt, OUTCOME_RESPONSE, exchange->status);
	exchange->is_recorded = true; /* by the tunnel, at its end */
	exchange->downstream->ops->become_tunnel(exchange->downstream, &attempt->lease,
						 is_upgrade ? &attempt->response : NULL, &rewrite, early);
	exchange_finish(exchange);
}

const struct attempt_ops exchange_attempt_ops = {
	.on_progress = on_progress,
	.on_interim = on_interim,
	.on_head = on_head,
	.on_body = on_body,
	.on_splice = on_splice,
	.on_sent = on_sent,
	.on_tunnel = on_tunnel,
	.on_done = on_done,
	.on_event_end = on_event_end,
};
