#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "../../proxy/base/rng.h"
#include "../../proxy/policy/budget.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })

static const struct budget_rule built_in = { .is_on = true, .ratio = 0.2, .reserve = 10, .window_ms = 10000 };

static int spend_all(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	int n = 0;

	while (n < 100000 && budget_spend(budget, rule, now))
		n++;
	return n;
}

static void earn(struct budget *budget, const struct budget_rule *rule, int n, struct mono now)
{
	for (int i = 0; i < n; i++)
		budget_earn(budget, rule, now);
}

static void reserve_is_there_from_the_start(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	assert_int_equal(spend_all(&budget, &built_in, AT(1000)), 10);
	assert_false(budget_spend(&budget, &built_in, AT(1000)));
	assert_false(budget_spend(&budget, &built_in, AT(3600000))); /* time alone earns nothing */
}

static void five_requests_earn_one_retry(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	spend_all(&budget, &built_in, AT(1000));
	earn(&budget, &built_in, 4, AT(2000));
	assert_false(budget_spend(&budget, &built_in, AT(2000)));
	earn(&budget, &built_in, 1, AT(2000));
	assert_true(budget_spend(&budget, &built_in, AT(2000)));
	assert_false(budget_spend(&budget, &built_in, AT(2000)));
}

/* Sums of shares that no binary fraction holds come out whole. */
static void shares_add_up(void **state)
{
	(void)state;
	const double ratios[] = { 0.1, 0.2, 0.05, 0.01 };
	struct budget_rule rule = built_in;

	for (int i = 0; i < 4; i++) {
		struct budget budget;
		rule.ratio = ratios[i];
		rule.reserve = 0;
		budget_init(&budget);
		earn(&budget, &rule, 1000, AT(1000));
		assert_int_equal(spend_all(&budget, &rule, AT(1000)), (int)lround(1000 * ratios[i]));
	}
}

static void earned_shares_expire_and_the_reserve_does_not(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	earn(&budget, &built_in, 100, AT(1000)); /* the reserve is full: 20 go to the window */
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(1000))), 30);
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(9999))), 30);
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(11000))), 10);
	assert_int_equal(spend_all(&budget, &built_in, AT(11000)), 10);
}

static void earning_refills_the_reserve_first(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	spend_all(&budget, &built_in, AT(1000));
	earn(&budget, &built_in, 60, AT(1000)); /* 12: 10 for the reserve, 2 for the window */
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(1000))), 12);
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(60000))), 10);
}

static void oldest_is_spent_first_and_the_reserve_last(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	earn(&budget, &built_in, 10, AT(1000));  /* 2, lost at 11 s */
	earn(&budget, &built_in, 10, AT(8000));  /* 2, lost at 18 s */
	for (int i = 0; i < 3; i++)
		assert_true(budget_spend(&budget, &built_in, AT(9000)));
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(12000))), 11); /* 1 of 8 s, 10 reserve */
	assert_int_equal((int)lround(budget_left(&budget, &built_in, AT(18000))), 10);
}

static void trickle(void **state)
{
	(void)state;
	struct budget_rule rule = built_in;
	struct budget budget;

	rule.reserve = 0;
	rule.min_per_second = 0.5;
	budget_init(&budget);
	assert_false(budget_spend(&budget, &rule, AT(1000)));
	assert_false(budget_spend(&budget, &rule, AT(2999)));
	assert_true(budget_spend(&budget, &rule, AT(3000)));
	assert_false(budget_spend(&budget, &rule, AT(3001)));
	int after_a_day = spend_all(&budget, &rule, AT(86400000));
	assert_in_range(after_a_day, 4, 5); /* no more than a window's worth */
}

static void off_bounds_nothing(void **state)
{
	(void)state;
	struct budget_rule off = { .is_on = false };
	struct budget budget;

	budget_init(&budget);
	assert_int_equal(spend_all(&budget, &off, AT(1000)), 100000);
	assert_true(isinf(budget_left(&budget, &off, AT(1000))));
}

static void a_refused_retry_spends_nothing(void **state)
{
	(void)state;
	struct budget_rule rule = built_in;
	struct budget budget;

	rule.reserve = 0;
	budget_init(&budget);
	earn(&budget, &rule, 4, AT(1000));
	for (int i = 0; i < 10; i++)
		assert_false(budget_spend(&budget, &rule, AT(1000)));
	earn(&budget, &rule, 1, AT(1000));
	assert_true(budget_spend(&budget, &rule, AT(1000)));
}

static void a_reload_neither_fills_nor_empties(void **state)
{
	(void)state;
	struct budget_rule rule = built_in;
	struct budget budget;

	budget_init(&budget);
	earn(&budget, &rule, 20, AT(5000));
	rule.window_ms = 60000;
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(5001))), 14);
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(50000))), 14);
	rule.window_ms = 1000;
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(50001))), 14);
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(60000))), 10);
	rule.reserve = 3;
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(60000))), 3);
	rule.reserve = 100;
	assert_int_equal((int)lround(budget_left(&budget, &rule, AT(60000))), 3);
}

/*
 * The promise: in any span of time, retries <= reserve + ratio x requests + trickle, counting the requests (and the
 * trickle's time) of the span and of one window before it. Random traffic in bursts and lulls; greedy retries.
 */
static void the_bound_holds_over_every_span(void **state)
{
	(void)state;
	enum { STEPS = 600, STEP_MS = 137, WINDOW_MS = 10000 };
	static int requests[STEPS], retries[STEPS];

	for (int seed = 1; seed <= 20; seed++) {
		struct budget_rule rule = built_in;
		struct budget budget;
		struct rng rng;
		int total = 0;

		rule.min_per_second = seed % 2 ? 0.7 : 0;
		budget_init(&budget);
		rng_init(&rng, (uint64_t)seed);
		for (int i = 0; i < STEPS; i++) {
			struct mono now = AT(1000 + i * STEP_MS);
			requests[i] = rng_u64(&rng) % 4 ? 0 : (int)(rng_u64(&rng) % 60);
			earn(&budget, &rule, requests[i], now);
			retries[i] = rng_u64(&rng) % 8 ? 0 : spend_all(&budget, &rule, now);
			total += retries[i];
		}
		assert_true(total > 100);
		for (int from = 0; from < STEPS; from++) {
			int before = from - WINDOW_MS / STEP_MS - 1, n_retries = 0;
			double n_requests = 0;
			for (int i = before < 0 ? 0 : before; i < from; i++)
				n_requests += requests[i];
			for (int to = from; to < STEPS; to++) {
				n_requests += requests[to];
				n_retries += retries[to];
				double seconds = ((to - from) * STEP_MS + WINDOW_MS) / 1000.0;
				assert_true(n_retries <= 10 + 0.2 * n_requests + rule.min_per_second * seconds + 1e-6);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserve_is_there_from_the_start),
		cmocka_unit_test(five_requests_earn_one_retry),
		cmocka_unit_test(shares_add_up),
		cmocka_unit_test(earned_shares_expire_and_the_reserve_does_not),
		cmocka_unit_test(earning_refills_the_reserve_first),
		cmocka_unit_test(oldest_is_spent_first_and_the_reserve_last),
		cmocka_unit_test(trickle),
		cmocka_unit_test(off_bounds_nothing),
		cmocka_unit_test(a_refused_retry_spends_nothing),
		cmocka_unit_test(a_reload_neither_fills_nor_empties),
		cmocka_unit_test(the_bound_holds_over_every_span),
	};
	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
