#include "loop.h"

#include <stdlib.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/log.h"

/* Deferred items that defer further ones can't keep the loop from its sockets: so many rounds, then a look at them. */
#define MAX_DEFERRED_ROUNDS 16
#define LOG_RETRY_MS 20

/* Waking up is all that is wanted: the turn's end flushes the log. */
static void on_log_due(void *owner)
{
	(void)owner;
}

static struct event_base *base_new(void)
{
	/* libevent's calloc goes past malloc's per-thread cache, its free fills it: evhttp's objects of each request would never
	 * come from there. Given functions of its own it clears what malloc gives. */
	event_set_mem_functions(malloc, realloc, free);
	struct event_config *settings = event_config_new();
	CHECK(settings != NULL);
	event_config_set_flag(settings, EVENT_BASE_FLAG_NOLOCK);
	/* The coarse clock, libevent's default, ticks every 4 ms: a back-off of 1 ms would last five. */
	event_config_set_flag(settings, EVENT_BASE_FLAG_PRECISE_TIMER);
	struct event_base *base = event_base_new_with_config(settings);
	event_config_free(settings);
	CHECK(base != NULL);
	return base;
}

struct loop *loop_new(void)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));
	loop->base = base_new();
	rng_init_random(&loop->rng);
	loop->scratch = xmalloc(LOOP_SCRATCH_BYTES);
	list_init(&loop->deferred);
	loop->log_timer = xcalloc(1, sizeof(*loop->log_timer));
	timer_init(loop->log_timer, loop, on_log_due, loop);
	return loop;
}

void loop_defer(struct loop *loop, struct deferred *item)
{
	if (!list_is_linked(&item->link))
		list_append(&loop->deferred, &item->link);
}

/* Runs what waits now; what those items defer waits for the next round. */
static void run_deferred_round(struct loop *loop)
{
	struct list round;
	list_init(&round);
	list_insert_before(&loop->deferred, &round);
	list_remove(&loop->deferred);
	while (!list_is_empty(&round)) {
		struct deferred *item = LIST_ENTRY_OF(round.next, struct deferred, link);
		list_remove(&item->link);
		item->run(item);
	}
}

static void run_deferred(struct loop *loop)
{
	for (int round = 0; round < MAX_DEFERRED_ROUNDS && !list_is_empty(&loop->deferred); round++)
		run_deferred_round(loop);
}

void loop_free(struct loop **loop)
{
	struct loop *gone = *loop;
	if (gone == NULL)
		return;
	*loop = NULL;
	while (!list_is_empty(&gone->deferred))
		run_deferred_round(gone);
	timer_clear(gone->log_timer);
	free(gone->log_timer);
	event_base_free(gone->base);
	free(gone->scratch);
	free(gone);
}

/* A slow reader of the log doesn't hold the loop up: it is tried again in a moment. */
static void flush_log(struct loop *loop)
{
	if (log_flush())
		return;
	if (mono_is_never(loop->log_timer->due))
		timer_set(loop->log_timer, mono_add_ms(clock_now(), LOG_RETRY_MS));
}

void loop_run(struct loop *loop)
{
	flush_log(loop); /* the lines of the start: the first turn may wait for long */
	while (!loop->is_stopped) {
		bool has_work = !list_is_empty(&loop->deferred);
		loop->turn++;
		/* NONBLOCK alone would go round for as long as any socket is ready, and the safe point would
		 * never come. */
		int result = event_base_loop(loop->base, has_work ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
		CHECK(result >= 0);
		run_deferred(loop);
		flush_log(loop);
		/* 1: no event is left, so that nothing can happen any more. */
		if (result == 1 && list_is_empty(&loop->deferred) && mono_is_never(loop->log_timer->due))
			break;
	}
	loop->is_stopped = false;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopped = true;
	event_base_loopbreak(loop->base);
}
