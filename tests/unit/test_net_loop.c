/* The loop's safe point and its timers: order, re-entry, and that nothing is ever early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/net/loop.h"

struct recorder {
	struct loop *loop;
	char order[64];
	size_t n;
	int to_stop;
};

static void note(struct recorder *recorder, char what)
{
	assert_true(recorder->n < sizeof(recorder->order) - 1);
	recorder->order[recorder->n++] = what;
	if (recorder->to_stop > 0 && --recorder->to_stop == 0)
		loop_stop(recorder->loop);
}

struct step {
	struct deferred deferred;
	struct recorder *recorder;
	char name;
	struct step *defers, *cancels;
	int n_again;
};

static void run_step(struct deferred *item)
{
	struct step *step = LIST_ENTRY_OF(item, struct step, deferred);
	note(step->recorder, step->name);
	if (step->defers != NULL)
		loop_defer(step->recorder->loop, &step->defers->deferred);
	if (step->cancels != NULL)
		deferred_cancel(&step->cancels->deferred);
	if (step->n_again > 0) {
		step->n_again--;
		loop_defer(step->recorder->loop, item);
	}
}

static void step_init(struct step *step, struct recorder *recorder, char name)
{
	memset(step, 0, sizeof(*step));
	step->recorder = recorder;
	step->name = name;
	deferred_init(&step->deferred, run_step);
}

static void deferred_items_run_once_in_order(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct step a, b, c;
	step_init(&a, &recorder, 'a');
	step_init(&b, &recorder, 'b');
	step_init(&c, &recorder, 'c');
	loop_defer(recorder.loop, &a.deferred);
	loop_defer(recorder.loop, &b.deferred);
	loop_defer(recorder.loop, &a.deferred);
	loop_defer(recorder.loop, &c.deferred);
	loop_run(recorder.loop); /* returns: nothing can happen any more */
	assert_string_equal(recorder.order, "abc");
	loop_free(&recorder.loop);
	assert_null(recorder.loop);
}

static void deferred_items_may_defer_and_cancel(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct step a, b, c, d;
	step_init(&a, &recorder, 'a');
	step_init(&b, &recorder, 'b');
	step_init(&c, &recorder, 'c');
	step_init(&d, &recorder, 'd');
	a.defers = &d;
	a.cancels = &b;
	loop_defer(recorder.loop, &a.deferred);
	loop_defer(recorder.loop, &b.deferred);
	loop_defer(recorder.loop, &c.deferred);
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "acd");
	loop_free(&recorder.loop);
}

static void what_is_still_deferred_runs_when_the_loop_is_freed(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct step a, b;
	step_init(&a, &recorder, 'a');
	step_init(&b, &recorder, 'b');
	a.defers = &b;
	loop_defer(recorder.loop, &a.deferred);
	struct loop *loop = recorder.loop;
	loop_free(&loop);
	assert_string_equal(recorder.order, "ab");
}

static void on_pipe(evutil_socket_t fd, short what, void *context)
{
	(void)what;
	char byte;
	assert_int_equal(read(fd, &byte, 1), 1);
	note(context, byte);
}

/* An item that defers itself for ever must not keep the sockets from being served. */
static void endless_deferring_starves_nobody(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct step again;
	struct event event;
	int ends[2];
	step_init(&again, &recorder, '.');
	again.n_again = 40;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	event_assign(&event, recorder.loop->base, ends[0], EV_READ, on_pipe, &recorder);
	event_add(&event, NULL);
	loop_defer(recorder.loop, &again.deferred);
	loop_run(recorder.loop);
	const char *served = strchr(recorder.order, 'x');
	assert_non_null(served);
	assert_true(served - recorder.order <= 16);
	assert_int_equal(recorder.n, 42);
	close(ends[0]);
	close(ends[1]);
	loop_free(&recorder.loop);
}

struct alarm {
	struct timer timer;
	struct recorder *recorder;
	struct mono set_for, rang;
	struct alarm *sets;
	struct mono sets_to;
	char name;
};

static void ring(void *owner)
{
	struct alarm *alarm = owner;
	alarm->rang = clock_now();
	note(alarm->recorder, alarm->name);
	if (alarm->sets != NULL)
		timer_set(&alarm->sets->timer, alarm->sets_to);
}

static void alarm_init(struct alarm *alarm, struct recorder *recorder, char name)
{
	memset(alarm, 0, sizeof(*alarm));
	alarm->recorder = recorder;
	alarm->name = name;
	timer_init(&alarm->timer, recorder->loop, ring, alarm);
}

static void alarm_set(struct alarm *alarm, int64_t us)
{
	alarm->set_for = (struct mono){ clock_now().us + us };
	timer_set(&alarm->timer, alarm->set_for);
}

static void timers_are_never_early(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct alarm alarms[40];
	for (int i = 0; i < 40; i++) {
		alarm_init(&alarms[i], &recorder, '.');
		alarm_set(&alarms[i], 500 + 1337 * i);
	}
	usleep(3000); /* the loop's cached time is old by now */
	loop_run(recorder.loop);
	assert_int_equal(recorder.n, 40);
	for (int i = 0; i < 40; i++) {
		assert_true(mono_reached(alarms[i].set_for, alarms[i].rang));
		assert_true(alarms[i].rang.us - alarms[i].set_for.us < 250000);
		assert_true(mono_is_never(alarms[i].timer.due));
		timer_clear(&alarms[i].timer);
	}
	loop_free(&recorder.loop);
}

static void timers_ring_in_the_order_of_their_times(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct alarm a, b, c;
	alarm_init(&a, &recorder, 'a');
	alarm_init(&b, &recorder, 'b');
	alarm_init(&c, &recorder, 'c');
	alarm_set(&c, 60000);
	alarm_set(&a, 10000);
	alarm_set(&b, 35000);
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "abc");
	loop_free(&recorder.loop);
}

static void a_timer_can_be_moved_both_ways_and_stopped(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new() };
	struct alarm later, sooner, stopped, past;
	alarm_init(&later, &recorder, 'l');
	alarm_init(&sooner, &recorder, 's');
	alarm_init(&stopped, &recorder, 'x');
	alarm_init(&past, &recorder, 'p');
	alarm_set(&later, 5000);
	struct mono armed = later.timer.armed;
	alarm_set(&later, 60000);
	assert_int_equal(later.timer.armed.us, armed.us); /* moving it back is free: no new wake-up was set */
	alarm_set(&sooner, 10 * 1000 * 1000);
	alarm_set(&sooner, 20000);
	alarm_set(&stopped, 10000);
	timer_set(&stopped.timer, MONO_NEVER);
	alarm_set(&past, -1000000);
	struct mono start = clock_now();
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "psl");
	assert_true(mono_reached(later.set_for, later.rang));
	assert_true(mono_reached(sooner.set_for, sooner.rang));
	assert_true(clock_now().us - start.us < 1000000);
	loop_free(&recorder.loop);
}

static void a_timer_can_set_itself_and_others_when_it_rings(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new(), .to_stop = 4 };
	struct alarm a, b;
	alarm_init(&a, &recorder, 'a');
	alarm_init(&b, &recorder, 'b');
	a.sets = &b;
	a.sets_to = (struct mono){ 1 };
	b.sets = &a;
	b.sets_to = (struct mono){ 1 };
	alarm_set(&a, 0);
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "abab");
	timer_clear(&a.timer);
	timer_clear(&b.timer);
	loop_free(&recorder.loop);
}

static void stop_ends_the_run_and_it_can_be_run_again(void **state)
{
	(void)state;
	struct recorder recorder = { .loop = loop_new(), .to_stop = 1 };
	struct alarm first, second, far;
	struct step step;
	alarm_init(&first, &recorder, 'a');
	alarm_init(&second, &recorder, 'b');
	alarm_init(&far, &recorder, 'x');
	step_init(&step, &recorder, 'd');
	alarm_set(&first, 1000);
	alarm_set(&second, 30000);
	alarm_set(&far, 50LL * 365 * 24 * 3600 * 1000000);
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "a");
	recorder.to_stop = 2;
	loop_defer(recorder.loop, &step.deferred);
	loop_run(recorder.loop);
	assert_string_equal(recorder.order, "adb");
	timer_clear(&far.timer);
	loop_free(&recorder.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deferred_items_run_once_in_order),
		cmocka_unit_test(deferred_items_may_defer_and_cancel),
		cmocka_unit_test(what_is_still_deferred_runs_when_the_loop_is_freed),
		cmocka_unit_test(endless_deferring_starves_nobody),
		cmocka_unit_test(timers_are_never_early),
		cmocka_unit_test(timers_ring_in_the_order_of_their_times),
		cmocka_unit_test(a_timer_can_be_moved_both_ways_and_stopped),
		cmocka_unit_test(a_timer_can_set_itself_and_others_when_it_rings),
		cmocka_unit_test(stop_ends_the_run_and_it_can_be_run_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
