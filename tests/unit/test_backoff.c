#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/backoff.h"

#define N_DRAWS 20000

static const struct backoff_rule built_in = { .base_ms = 100, .multiplier = 2, .max_ms = 5000, .jitter = JITTER_FULL };

struct spread {
	int64_t least, most;
	double mean;
	double largest_share; /* of the fullest of 20 buckets between the bounds */
};

/* Draws many delays; each must lie in low..high. */
static struct spread draw(const struct backoff_rule *rule, int64_t n_retry, int64_t previous_ms, int64_t low, int64_t high)
{
	struct spread spread = { INT64_MAX, INT64_MIN, 0, 0 };
	struct rng rng;
	int buckets[20] = { 0 };

	rng_init(&rng, 42);
	for (int i = 0; i < N_DRAWS; i++) {
		int64_t delay = backoff_delay_ms(rule, n_retry, previous_ms, &rng);
		assert_true(delay >= low && delay <= high);
		spread.least = delay < spread.least ? delay : spread.least;
		spread.most = delay > spread.most ? delay : spread.most;
		spread.mean += (double)delay / N_DRAWS;
		buckets[(delay - low) * 20 / (high - low + 1)]++;
	}
	for (int i = 0; i < 20; i++)
		if ((double)buckets[i] / N_DRAWS > spread.largest_share)
			spread.largest_share = (double)buckets[i] / N_DRAWS;
	return spread;
}

static void plain_grows_up_to_max(void **state)
{
	(void)state;
	const int64_t expected[] = { 100, 200, 400, 800, 1600, 3200, 5000, 5000 };

	for (int n = 1; n <= 8; n++)
		assert_int_equal(backoff_plain_ms(&built_in, n), expected[n - 1]);
	struct backoff_rule none = built_in;
	none.jitter = JITTER_NONE;
	assert_int_equal(backoff_delay_ms(&none, 3, 0, NULL), 400);
	none.multiplier = 1.5;
	assert_int_equal(backoff_delay_ms(&none, 3, 0, NULL), 225);
}

static void full_is_even_from_zero(void **state)
{
	(void)state;
	struct spread spread = draw(&built_in, 3, 0, 0, 400);

	assert_int_equal(spread.least, 0);
	assert_int_equal(spread.most, 400);
	assert_true(spread.mean > 195 && spread.mean < 205);
	assert_true(spread.largest_share <= 0.05 * 1.5);
}

/* Where base is max nothing may pile up at the cap either. */
static void full_is_even_at_the_cap(void **state)
{
	(void)state;
	struct backoff_rule rule = { .base_ms = 400, .multiplier = 2, .max_ms = 400, .jitter = JITTER_FULL };

	assert_true(draw(&rule, 5, 0, 0, 400).largest_share <= 0.05 * 1.5);
}

static void equal_keeps_half(void **state)
{
	(void)state;
	struct backoff_rule rule = built_in;

	rule.jitter = JITTER_EQUAL;
	struct spread spread = draw(&rule, 3, 0, 200, 400);
	assert_int_equal(spread.least, 200);
	assert_int_equal(spread.most, 400);
	assert_true(spread.mean > 295 && spread.mean < 305);
	assert_true(spread.largest_share <= 0.05 * 1.5);
}

static void decorrelated_follows_the_last_delay(void **state)
{
	(void)state;
	struct backoff_rule rule = built_in;

	rule.jitter = JITTER_DECORRELATED;
	assert_int_equal(draw(&rule, 1, 0, 100, 300).most, 300);
	struct spread spread = draw(&rule, 9, 1000, 100, 3000);
	assert_true(spread.mean > 1500 && spread.mean < 1600);
	assert_true(spread.largest_share <= 0.05 * 1.5);
	spread = draw(&rule, 9, 4000, 100, 5000); /* 3 x 4000 is over max: still even */
	assert_int_equal(spread.most, 5000);
	assert_true(spread.largest_share <= 0.05 * 1.5);
}

static void fraction_is_around_the_delay(void **state)
{
	(void)state;
	struct backoff_rule rule = built_in;

	rule.jitter = JITTER_FRACTION;
	rule.jitter_fraction = 0.25;
	struct spread spread = draw(&rule, 3, 0, 300, 500);
	assert_int_equal(spread.least, 300);
	assert_int_equal(spread.most, 500);
	assert_true(spread.mean > 397 && spread.mean < 403);
	assert_true(draw(&rule, 99, 0, 3750, 6250).most > 6000); /* max x (1 + f) */
	rule.jitter_fraction = 0;
	draw(&rule, 3, 0, 400, 400);
}

static void extremes_do_no_harm(void **state)
{
	(void)state;
	const enum jitter jitters[] = { JITTER_FULL, JITTER_EQUAL, JITTER_DECORRELATED, JITTER_NONE, JITTER_FRACTION };
	const int64_t lengths[] = { LIMIT_OFF, 0, 1, 100, INT64_MAX };
	const int64_t retries[] = { 0, 1, 2, 64, 2000, INT64_MAX };
	const double multipliers[] = { 0, 0.5, 1, 2, 1e300 };
	struct rng rng;

	rng_init(&rng, 1);
	for (int j = 0; j < 5; j++)
		for (int base = 0; base < 5; base++)
			for (int max = 0; max < 5; max++)
				for (int n = 0; n < 6; n++)
					for (int m = 0; m < 5; m++) {
						struct backoff_rule rule = { lengths[base], multipliers[m], lengths[max],
									     jitters[j], 0.5 };
						int64_t delay = backoff_delay_ms(&rule, retries[n], lengths[(n + m) % 5], &rng);
						assert_true(delay >= 0);
						if (lengths[max] >= 0 && lengths[max] <= 100)
							assert_true(delay <= lengths[max] + lengths[max] / 2);
					}
}

static void different_seeds_different_delays(void **state)
{
	(void)state;
	struct rng a, b;
	int n_equal = 0;

	rng_init(&a, 1);
	rng_init(&b, 2);
	for (int i = 0; i < 1000; i++)
		n_equal += backoff_delay_ms(&built_in, 6, 0, &a) == backoff_delay_ms(&built_in, 6, 0, &b);
	assert_true(n_equal < 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_grows_up_to_max),
		cmocka_unit_test(full_is_even_from_zero),
		cmocka_unit_test(full_is_even_at_the_cap),
		cmocka_unit_test(equal_keeps_half),
		cmocka_unit_test(decorrelated_follows_the_last_delay),
		cmocka_unit_test(fraction_is_around_the_delay),
		cmocka_unit_test(extremes_do_no_harm),
		cmocka_unit_test(different_seeds_different_delays),
	};
	return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
