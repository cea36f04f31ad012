#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/rate.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })

static const struct rate_rule rule = { .is_on = true, .per_second = 50, .burst = 10 };

static void a_burst_goes_at_once_and_the_rest_in_line(void **state)
{
	(void)state;
	struct rate rate;

	rate_init(&rate);
	for (int i = 0; i < 10; i++)
		assert_int_equal(rate_take(&rate, &rule, 1000, AT(1000)), 0);
	for (int i = 1; i <= 50; i++)
		assert_int_equal(rate_take(&rate, &rule, 1000, AT(1000)), 20 * i);
	assert_int_equal(rate_take(&rate, &rule, 1000, AT(1000)), -1); /* would be 1020 ms */
	assert_int_equal(rate_take(&rate, &rule, -1, AT(1000)), 1020);
}

static void a_refused_one_takes_nothing(void **state)
{
	(void)state;
	struct rate rate;

	rate_init(&rate);
	for (int i = 0; i < 10; i++)
		rate_take(&rate, &rule, 0, AT(1000));
	for (int i = 0; i < 100; i++)
		assert_int_equal(rate_take(&rate, &rule, 0, AT(1000)), -1);
	assert_int_equal(rate_take(&rate, &rule, 0, AT(1020)), 0);
	assert_int_equal(rate_take(&rate, &rule, 0, AT(1020)), -1);
}

static void a_long_lull_fills_no_more_than_the_burst(void **state)
{
	(void)state;
	struct rate rate;
	int n = 0;

	rate_init(&rate);
	rate_take(&rate, &rule, 0, AT(1000));
	while (rate_take(&rate, &rule, 0, AT(3600000)) == 0)
		n++;
	assert_int_equal(n, 10);
}

static void who_leaves_the_line_gives_back(void **state)
{
	(void)state;
	struct rate rate;

	rate_init(&rate);
	for (int i = 0; i < 10; i++)
		rate_take(&rate, &rule, 0, AT(1000));
	assert_int_equal(rate_take(&rate, &rule, 1000, AT(1000)), 20);
	rate_give_back(&rate, &rule);
	assert_int_equal(rate_take(&rate, &rule, 1000, AT(1000)), 20);
	for (int i = 0; i < 100; i++)
		rate_give_back(&rate, &rule);
	assert_true(rate.tokens <= 10);
}

/* Greedy takers over a minute: never more than burst + rate x time. */
static void the_rate_holds(void **state)
{
	(void)state;
	struct rate rate;
	int n = 0;

	rate_init(&rate);
	for (int ms = 1000; ms <= 61000; ms += 7)
		while (rate_take(&rate, &rule, 0, AT(ms)) == 0)
			n++;
	assert_in_range(n, 3000, 3010);
}

static void odd_rules(void **state)
{
	(void)state;
	struct rate_rule odd = rule;
	struct rate rate;

	odd.is_on = false;
	rate_init(&rate);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rate_take(&rate, &odd, 0, AT(1000)), 0);
	odd = (struct rate_rule){ .is_on = true, .per_second = 0, .burst = 0 };
	assert_int_equal(rate_take(&rate, &odd, -1, AT(1000)), 0);
	assert_int_equal(rate_take(&rate, &odd, -1, AT(1000)), -1); /* never */
	odd.per_second = 0.001;
	assert_int_equal(rate_take(&rate, &odd, -1, AT(1000)), 1000000);
	assert_int_equal(rate_take(&rate, &odd, -1, AT(500)), 2000000); /* a clock that steps back */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_goes_at_once_and_the_rest_in_line),
		cmocka_unit_test(a_refused_one_takes_nothing),
		cmocka_unit_test(a_long_lull_fills_no_more_than_the_burst),
		cmocka_unit_test(who_leaves_the_line_gives_back),
		cmocka_unit_test(the_rate_holds),
		cmocka_unit_test(odd_rules),
	};
	return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
