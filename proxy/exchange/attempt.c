/* The life of an attempt: its states, its lease, its end. */
#include "../base/check.h"
#include "../base/clock.h"
#include "../base/spare.h"
#include "attempt_private.h"

static struct spare spare_attempts = SPARE_OF(struct attempt);

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

void attempt_enter(struct attempt *attempt, enum attempt_state state, struct mono now)
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

void attempt_end(struct attempt *attempt, enum outcome outcome, const char *detail, bool is_reusable)
{
	if (attempt->state == ATTEMPT_ENDED)
		return;
	int64_t keep_alive_ms = attempt->response.keep_alive_timeout_ms;
	if (attempt->lease.state == LEASE_HELD)
		pool_release(&attempt->lease, is_reusable, is_reusable ? keep_alive_ms : -1);
	else
		pool_cancel(&attempt->lease);
	attempt_enter(attempt, ATTEMPT_ENDED, clock_now());
	attempt->ops->on_done(attempt->owner, attempt, outcome, detail);
}

/* ---- the lease ---- */

static void connected(struct attempt *attempt)
{
	attempt_enter(attempt, ATTEMPT_SENDING, clock_now());
	if (!attempt->lease.order.is_tunnel)
		attempt_pump(attempt);
}

static void on_lease_progress(void *owner)
{
	struct attempt *attempt = owner;
	if (attempt->state == ATTEMPT_QUEUED && attempt->lease.state == LEASE_CONNECTING)
		attempt_enter(attempt, ATTEMPT_CONNECTING, clock_now());
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
	attempt_end(attempt, outcome, detail, false);
	attempt->ops->on_event_end(attempt->owner);
}

static const struct lease_ops lease_ops = {
	.on_progress = on_lease_progress,
	.on_ready = on_lease_ready,
	.on_failed = on_lease_failed,
	.on_readable = attempt_on_readable,
	.on_writable = attempt_on_writable,
};

/* What became clear within attempt_start is told from the loop, so that no op is called before the caller has
 * its pointer. */
static void tell_late(struct deferred *item)
{
	struct attempt *attempt = LIST_ENTRY_OF(item, struct attempt, deferred_end);
	if (attempt->state == ATTEMPT_ENDED)
		return;
	attempt_end(attempt, attempt->pending_outcome, attempt->pending_detail, false);
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

struct attempt *attempt_start(struct loop *loop, const struct attempt_order *order, const struct attempt_ops *ops,
			      void *owner)
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
		attempt_enter(attempt, ATTEMPT_CONNECTING, attempt->queued);
		break;
	case LEASE_QUEUED:
		attempt_enter(attempt, ATTEMPT_QUEUED, attempt->queued);
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
	attempt_enter(attempt, ATTEMPT_ENDED, clock_now());
}

void attempt_free(struct attempt **attempt)
{
	if (!*attempt)
		return;
	attempt_cancel(*attempt);
	loop_defer((*attempt)->loop, &(*attempt)->deferred_free);
	*attempt = NULL;
}
