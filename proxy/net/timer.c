#include "../base/clock.h"
#include "loop.h"

/* libevent's own limits are far beyond; a timer that is due later wakes once a day and sleeps on. */
#define MAX_SLEEP_MS (24 * 3600 * 1000LL)

static void timer_arm(struct timer *timer, struct mono now)
{
	struct mono at = mono_min(timer->due, mono_add_ms(now, MAX_SLEEP_MS));
	int64_t left_us = at.us > now.us ? at.us - now.us : 0;
	struct timeval sleep = { .tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000 };
	event_add(&timer->event, &sleep);
	timer->armed = at;
}

/* libevent counts from a cached, coarse clock, so this may be early; and the due time may have moved on meanwhile. */
static void timer_wake(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	struct timer *timer = context;
	timer->armed = MONO_NEVER;
	if (mono_is_never(timer->due))
		return;
	struct mono now = clock_now();
	if (!mono_reached(timer->due, now)) {
		timer_arm(timer, now);
		return;
	}
	timer->due = MONO_NEVER;
	timer->on_due(timer->owner); /* the timer may be gone after this */
}

void timer_init(struct timer *timer, struct loop *loop, timer_fn on_due, void *owner)
{
	timer->loop = loop;
	timer->due = MONO_NEVER;
	timer->armed = MONO_NEVER;
	timer->on_due = on_due;
	timer->owner = owner;
	event_assign(&timer->event, loop->base, -1, 0, timer_wake, timer);
}

void timer_set(struct timer *timer, struct mono due)
{
	timer->due = due;
	if (mono_is_never(due)) {
		if (!mono_is_never(timer->armed))
			event_del(&timer->event);
		timer->armed = MONO_NEVER;
		return;
	}
	if (mono_before(due, timer->armed))
		timer_arm(timer, clock_now());
}

void timer_clear(struct timer *timer)
{
	timer_set(timer, MONO_NEVER);
}
