#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/breaker.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })

static const struct breaker_rule both = { .is_on = true, .failure_ratio = 0.5, .min_requests = 20, .consecutive = 5,
					  .window_ms = 10000, .open_for_ms = 5000, .half_open = 1 };

static void report(struct breaker *breaker, const struct breaker_rule *rule, int n, bool is_failure, struct mono now)
{
	for (int i = 0; i < n; i++) {
		assert_true(breaker_admit(breaker, rule, now));
		breaker_report(breaker, rule, is_failure, now);
	}
}

static struct breaker opened_at(struct mono now)
{
	struct breaker breaker;

	breaker_init(&breaker);
	report(&breaker, &both, 5, true, now);
	assert_int_equal(breaker.state, BREAKER_OPEN);
	return breaker;
}

static void consecutive_failures_open_it(void **state)
{
	(void)state;
	struct breaker breaker;

	breaker_init(&breaker);
	report(&breaker, &both, 4, true, AT(1000));
	report(&breaker, &both, 1, false, AT(1000));
	report(&breaker, &both, 4, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	report(&breaker, &both, 1, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_false(breaker_admit(&breaker, &both, AT(1000)));
}

static void the_ratio_opens_it_once_there_are_enough(void **state)
{
	(void)state;
	struct breaker_rule rule = both;
	struct breaker breaker;

	rule.consecutive = LIMIT_OFF;
	breaker_init(&breaker);
	report(&breaker, &rule, 19, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	report(&breaker, &rule, 1, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_OPEN);

	breaker_init(&breaker);
	report(&breaker, &rule, 11, false, AT(1000));
	report(&breaker, &rule, 10, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_CLOSED); /* 10 of 21 */
	report(&breaker, &rule, 1, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_OPEN); /* 11 of 22 */
}

static void old_failures_leave_the_window(void **state)
{
	(void)state;
	struct breaker_rule rule = both;
	struct breaker breaker;

	rule.consecutive = LIMIT_OFF;
	breaker_init(&breaker);
	report(&breaker, &rule, 19, true, AT(1000));
	report(&breaker, &rule, 1, true, AT(12000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	report(&breaker, &rule, 18, true, AT(13000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	report(&breaker, &rule, 1, true, AT(21000));
	assert_int_equal(breaker.state, BREAKER_OPEN);
}

static void either_trigger_may_be_off(void **state)
{
	(void)state;
	struct breaker_rule rule = both;
	struct breaker breaker;

	rule.failure_ratio = LIMIT_OFF;
	rule.consecutive = 100;
	breaker_init(&breaker);
	report(&breaker, &rule, 99, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	rule.is_on = false;
	report(&breaker, &rule, 99, true, AT(1000));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
}

static void a_good_trial_closes_it(void **state)
{
	(void)state;
	struct breaker breaker = opened_at(AT(1000));

	assert_int_equal(breaker_retry_after_ms(&breaker, &both, AT(2000)), 4000);
	assert_false(breaker_would_admit(&breaker, &both, AT(5999)));
	assert_true(breaker_would_admit(&breaker, &both, AT(6000)));
	assert_int_equal(breaker_retry_after_ms(&breaker, &both, AT(6000)), 0);
	assert_int_equal(breaker.state, BREAKER_OPEN); /* asking changes nothing */
	assert_true(breaker_admit(&breaker, &both, AT(6000)));
	assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
	assert_false(breaker_admit(&breaker, &both, AT(6001))); /* half_open: 1 */
	assert_int_equal(breaker_retry_after_ms(&breaker, &both, AT(6001)), 1000);
	breaker_report(&breaker, &both, false, AT(6100));
	assert_int_equal(breaker.state, BREAKER_CLOSED);
	report(&breaker, &both, 4, true, AT(6200)); /* the failures of before are forgotten */
	assert_int_equal(breaker.state, BREAKER_CLOSED);
}

static void a_bad_trial_opens_it_anew(void **state)
{
	(void)state;
	struct breaker breaker = opened_at(AT(1000));

	assert_true(breaker_admit(&breaker, &both, AT(6000)));
	breaker_report(&breaker, &both, true, AT(7000));
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_false(breaker_would_admit(&breaker, &both, AT(11999)));
	assert_true(breaker_would_admit(&breaker, &both, AT(12000)));
}

static void a_cancelled_trial_gives_its_place_back(void **state)
{
	(void)state;
	struct breaker breaker = opened_at(AT(1000));

	assert_true(breaker_admit(&breaker, &both, AT(6000)));
	breaker_forget(&breaker);
	assert_int_equal(breaker.state, BREAKER_HALF_OPEN);
	assert_true(breaker_admit(&breaker, &both, AT(6001)));
	assert_false(breaker_admit(&breaker, &both, AT(6002)));
	breaker_forget(&breaker);
	breaker_forget(&breaker); /* one too many, from before it opened */
	assert_int_equal(breaker.n_trials, 0);
}

static void several_trials_at_once(void **state)
{
	(void)state;
	struct breaker_rule rule = both;
	struct breaker breaker = opened_at(AT(1000));

	rule.half_open = 3;
	for (int i = 0; i < 3; i++)
		assert_true(breaker_admit(&breaker, &rule, AT(6000)));
	assert_false(breaker_admit(&breaker, &rule, AT(6000)));
	breaker_report(&breaker, &rule, true, AT(6100));
	assert_int_equal(breaker.state, BREAKER_OPEN);
	breaker_report(&breaker, &rule, false, AT(6200)); /* a late good one doesn't close what is open */
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_int_equal(breaker.opened.us, 6100000);
}

static void a_changed_window_does_no_harm(void **state)
{
	(void)state;
	struct breaker_rule rule = both;
	struct breaker breaker;

	rule.consecutive = LIMIT_OFF;
	breaker_init(&breaker);
	report(&breaker, &rule, 10, true, AT(50000));
	rule.window_ms = 600000;
	report(&breaker, &rule, 19, true, AT(50001));
	assert_int_equal(breaker.state, BREAKER_CLOSED); /* counted afresh */
	report(&breaker, &rule, 1, true, AT(50002));
	assert_int_equal(breaker.state, BREAKER_OPEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(consecutive_failures_open_it),
		cmocka_unit_test(the_ratio_opens_it_once_there_are_enough),
		cmocka_unit_test(old_failures_leave_the_window),
		cmocka_unit_test(either_trigger_may_be_off),
		cmocka_unit_test(a_good_trial_closes_it),
		cmocka_unit_test(a_bad_trial_opens_it_anew),
		cmocka_unit_test(a_cancelled_trial_gives_its_place_back),
		cmocka_unit_test(several_trials_at_once),
		cmocka_unit_test(a_changed_window_does_no_harm),
	};
	return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
