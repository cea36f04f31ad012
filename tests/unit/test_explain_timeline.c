#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../proxy/explain/timeline.h"
#include "../../proxy/policy/backoff.h"

/* The built-in policy, as far as time is concerned. */
static struct policy policy_of(int64_t total_ms, int64_t attempt_ms, int64_t pool_wait_ms, int64_t max_attempts)
{
	struct policy policy = {
		.timeouts = {.total_ms = total_ms, .attempt_ms = attempt_ms, .pool_wait_ms = pool_wait_ms},
		.retry = {.max_attempts = max_attempts,
			.on = {.kinds = RETRY_ATTEMPT_TIMEOUT},
			.backoff = {.base_ms = 100, .multiplier = 2, .max_ms = 5000, .jitter = JITTER_FULL},
			.retry_after = {.honor = true, .max_ms = 30000}},
	};
	return policy;
}

static void expect_step(const struct timeline *timeline, size_t i, int64_t start_ms, int64_t slot_ms, int64_t end_ms,
	enum timeline_cut cut)
{
	assert_true(i < timeline->n_steps);
	const struct timeline_step *step = &timeline->steps[i];
	assert_int_equal(step->start_ms, start_ms);
	assert_int_equal(step->slot_ms, slot_ms);
	assert_int_equal(step->end_ms, end_ms);
	assert_int_equal(step->cut, cut);
}

static void built_in_values_are_cut_by_total(void **state)
{
	(void)state;
	struct policy policy = policy_of(30000, 10000, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 3);
	expect_step(&timeline, 0, 0, 1000, 11000, TIMELINE_ATTEMPT);
	expect_step(&timeline, 1, 11100, 12100, 22100, TIMELINE_ATTEMPT);
	expect_step(&timeline, 2, 22300, 23300, 30000, TIMELINE_TOTAL);
	assert_int_equal(timeline.steps[2].backoff_min_ms, 0);
	assert_int_equal(timeline.steps[2].backoff_max_ms, 200);
	assert_int_equal(timeline.backoffs_ms, 300);
	assert_int_equal(timeline.plain_ms, 33300);
	assert_int_equal(timeline.asked_ms, 33000 + 30100 + 30200); /* each wish spread by no more than the back-off */
	assert_true(timeline.is_by_total);
	assert_int_equal(timeline.longest_ms, 30000);
	assert_int_equal(timeline.client_timeout_ms, 31500);
	assert_null(timeline.unbounded_by);
}

static void total_off_adds_everything_up(void **state)
{
	(void)state;
	struct policy policy = policy_of(LIMIT_OFF, 10000, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	expect_step(&timeline, 2, 22300, 23300, 33300, TIMELINE_ATTEMPT);
	assert_false(timeline.is_by_total);
	assert_int_equal(timeline.longest_ms, 93300);
	policy.retry.retry_after.honor = false;
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.longest_ms, 33300);
	assert_int_equal(timeline.client_timeout_ms, 35000); /* 34965 rounded up */
	policy.retry.retry_after = (struct retry_after_rule){.honor = true, .max_ms = LIMIT_OFF};
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.plain_ms, 33300);
	assert_int_equal(timeline.longest_ms, LIMIT_OFF);
	assert_int_equal(timeline.client_timeout_ms, LIMIT_OFF);
	assert_string_equal(timeline.unbounded_by, "retry.retry_after.max");
}

static void a_total_that_is_never_reached_cuts_nothing(void **state)
{
	(void)state;
	struct policy policy = policy_of(200000, 10000, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	expect_step(&timeline, 2, 22300, 23300, 33300, TIMELINE_ATTEMPT);
	assert_false(timeline.is_by_total);
	assert_int_equal(timeline.longest_ms, 93300);
	policy.timeouts.total_ms = 93300; /* on a tie the wider limit is named */
	timeline_make(&timeline, &policy);
	assert_true(timeline.is_by_total);
}

static void a_tie_within_an_attempt_names_total(void **state)
{
	(void)state;
	struct policy policy = policy_of(11000, 10000, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 1);
	expect_step(&timeline, 0, 0, 1000, 11000, TIMELINE_TOTAL);
	policy.timeouts.total_ms = 700; /* even the slot doesn't come in time */
	timeline_make(&timeline, &policy);
	expect_step(&timeline, 0, 0, 700, 700, TIMELINE_TOTAL);
	assert_int_equal(timeline.client_timeout_ms, 1200);
}

static void a_back_off_past_total_is_not_begun(void **state)
{
	(void)state;
	struct policy policy = policy_of(11100, 10000, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 2);
	expect_step(&timeline, 0, 0, 1000, 11000, TIMELINE_ATTEMPT);
	expect_step(&timeline, 1, 11100, 11100, 11100, TIMELINE_NOT_BEGUN);
	assert_int_equal(timeline.longest_ms, 11100); /* a shorter back-off still fits */
	policy.timeouts.total_ms = 11101;
	timeline_make(&timeline, &policy);
	expect_step(&timeline, 1, 11100, 11101, 11101, TIMELINE_TOTAL);
}

static void what_is_off_is_unbounded(void **state)
{
	(void)state;
	struct policy policy = policy_of(LIMIT_OFF, LIMIT_OFF, 1000, 3);
	struct timeline timeline;

	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 1);
	expect_step(&timeline, 0, 0, 1000, LIMIT_OFF, TIMELINE_NOTHING);
	assert_int_equal(timeline.longest_ms, LIMIT_OFF);
	assert_string_equal(timeline.unbounded_by, "timeouts.attempt");
	policy = policy_of(LIMIT_OFF, 5000, LIMIT_OFF, 3);
	timeline_make(&timeline, &policy);
	expect_step(&timeline, 0, 0, LIMIT_OFF, LIMIT_OFF, TIMELINE_NOTHING);
	assert_string_equal(timeline.unbounded_by, "timeouts.pool_wait");
	policy = policy_of(9000, LIMIT_OFF, LIMIT_OFF, 3);
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 1);
	expect_step(&timeline, 0, 0, 9000, 9000, TIMELINE_TOTAL);
	assert_int_equal(timeline.longest_ms, 9000);
}

static void one_attempt_when_nothing_is_retried(void **state)
{
	(void)state;
	struct policy policy = policy_of(30000, 10000, 1000, 5);
	struct timeline timeline;

	policy.retry.on.kinds = 0;
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.max_attempts, 1);
	assert_int_equal(timeline.n_steps, 1);
	assert_int_equal(timeline.longest_ms, 11000);
	policy.retry.on.statuses[3] = 1; /* one status is enough */
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.max_attempts, 5);
	policy.mode = MODE_OBSERVE;
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.max_attempts, 1);
	assert_int_equal(timeline.longest_ms, LIMIT_OFF);
	assert_string_equal(timeline.unbounded_by, "mode");
}

static void a_rate_limit_waits_as_well(void **state)
{
	(void)state;
	struct policy policy = policy_of(30000, 10000, 1000, 1);
	struct timeline timeline;

	policy.rate_limit.is_on = true;
	timeline_make(&timeline, &policy);
	expect_step(&timeline, 0, 0, 2000, 12000, TIMELINE_ATTEMPT);
}

static void a_hundred_attempts_fit(void **state)
{
	(void)state;
	struct policy policy = policy_of(LIMIT_OFF, 10, 0, 100);
	struct timeline timeline;

	policy.retry.backoff.jitter = JITTER_NONE;
	policy.retry.backoff.max_ms = 100;
	policy.retry.retry_after.honor = false;
	timeline_make(&timeline, &policy);
	assert_int_equal(timeline.n_steps, 100);
	expect_step(&timeline, 99, 99 * 110, 99 * 110, 99 * 110 + 10, TIMELINE_ATTEMPT);
	assert_int_equal(timeline.longest_ms, 99 * 110 + 10);
}

static void expect_range(enum jitter jitter, double fraction, int64_t n_retry, int64_t min_ms, int64_t max_ms)
{
	const struct backoff_rule rule = {100, 2, 1000, jitter, fraction};
	struct backoff_range range = timeline_backoff(&rule, n_retry);

	assert_int_equal(range.min_ms, min_ms);
	assert_int_equal(range.max_ms, max_ms);
}

static void ranges_of_each_jitter(void **state)
{
	(void)state;
	expect_range(JITTER_FULL, 0, 1, 0, 100);
	expect_range(JITTER_FULL, 0, 3, 0, 400);
	expect_range(JITTER_FULL, 0, 9, 0, 1000);
	expect_range(JITTER_EQUAL, 0, 2, 100, 200);
	expect_range(JITTER_NONE, 0, 2, 200, 200);
	expect_range(JITTER_FRACTION, 0.25, 2, 150, 250);
	expect_range(JITTER_FRACTION, 0.25, 9, 750, 1250);
	expect_range(JITTER_DECORRELATED, 0, 1, 100, 300);
	expect_range(JITTER_DECORRELATED, 0, 2, 100, 900);
	expect_range(JITTER_DECORRELATED, 0, 3, 100, 1000);
}

/* What is drawn stays within what is told, and comes near both ends. */
static void ranges_hold_what_is_drawn(void **state)
{
	(void)state;
	static const enum jitter jitters[] = {
		JITTER_FULL, JITTER_EQUAL, JITTER_DECORRELATED, JITTER_FRACTION, JITTER_NONE};
	struct rng rng;

	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(jitters) / sizeof(jitters[0]); i++) {
		const struct backoff_rule rule = {70, 1.7, 900, jitters[i], 0.3};
		int64_t least[6] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, most[6] = {0};

		for (int turn = 0; turn < 20000; turn++) {
			int64_t previous_ms = 0;
			for (int64_t n = 1; n < 6; n++) {
				struct backoff_range range = timeline_backoff(&rule, n);
				previous_ms = backoff_delay_ms(&rule, n, previous_ms, &rng);
				assert_in_range(previous_ms, range.min_ms, range.max_ms);
				least[n] = previous_ms < least[n] ? previous_ms : least[n];
				most[n] = previous_ms > most[n] ? previous_ms : most[n];
			}
		}
		for (int64_t n = 1; n < 6; n++) {
			struct backoff_range range = timeline_backoff(&rule, n);
			assert_true(least[n] <= range.min_ms + 5);
			assert_true(most[n] >= range.max_ms - range.max_ms / 10 - 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(built_in_values_are_cut_by_total),
		cmocka_unit_test(total_off_adds_everything_up),
		cmocka_unit_test(a_total_that_is_never_reached_cuts_nothing),
		cmocka_unit_test(a_tie_within_an_attempt_names_total),
		cmocka_unit_test(a_back_off_past_total_is_not_begun),
		cmocka_unit_test(what_is_off_is_unbounded),
		cmocka_unit_test(one_attempt_when_nothing_is_retried),
		cmocka_unit_test(a_rate_limit_waits_as_well),
		cmocka_unit_test(a_hundred_attempts_fit),
		cmocka_unit_test(ranges_of_each_jitter),
		cmocka_unit_test(ranges_hold_what_is_drawn),
	};
	return cmocka_run_group_tests_name("explain timeline", tests, NULL, NULL);
}
