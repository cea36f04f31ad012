/*
 * The event loop: libevent's base, one scratch buffer to read into, and the one safe point at which things are freed.
 * A turn: wait for events, run their callbacks, run what was deferred, flush the log. Single-threaded.
 */
#ifndef EVENKEEL_NET_LOOP_H
#define EVENKEEL_NET_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/list.h"
#include "../base/mono.h"
#include "../base/rng.h"

#define LOOP_SCRATCH_BYTES (128 * 1024)

struct deferred; /* embedded in whoever wants to be freed or called at the safe point */
typedef void (*deferred_fn)(struct deferred *item);
struct deferred {
	struct list link; /* list_init it (deferred_init) before first use */
	deferred_fn run;
};

struct loop {
	struct event_base *base;
	struct rng rng;
	char *scratch;         /* LOOP_SCRATCH_BYTES; valid within one callback only */
	struct list deferred;
	struct timer *log_timer;
	uint64_t turn;         /* number of the look at the sockets whose events are being served */
	bool is_stopped;
};

struct loop *loop_new(void);
void loop_free(struct loop **loop); /* runs what is still deferred first */
void loop_run(struct loop *loop);   /* until loop_stop; at each turn's end: deferred items, then log_flush */
void loop_stop(struct loop *loop);

static inline void deferred_init(struct deferred *item, deferred_fn run)
{
	list_init(&item->link);
	item->run = run;
}
/* Calls item->run at the safe point of this turn. Idempotent while it waits. Items deferred by deferred items
 * run too. */
void loop_defer(struct loop *loop, struct deferred *item);
static inline void deferred_cancel(struct deferred *item) { list_remove(&item->link); }

/*
 * One timer. timer_set moves it; setting it later than it is armed costs nothing (it wakes, sees that it is early and
 * sleeps on), which is the common case of a deadline that is pushed back by progress. Never calls back early.
 */
typedef void (*timer_fn)(void *owner);
struct timer {
	struct event event;
	struct loop *loop;
	struct mono due;   /* when to call back; MONO_NEVER: not at all */
	struct mono armed; /* when libevent will wake us; MONO_NEVER: it won't */
	timer_fn on_due;
	void *owner;
};

void timer_init(struct timer *timer, struct loop *loop, timer_fn on_due, void *owner);
void timer_set(struct timer *timer, struct mono due); /* MONO_NEVER: stop */
void timer_clear(struct timer *timer);                /* before its memory goes */

#endif
