/* Distributions of durations: precision, ranks, limits, memory, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../proxy/base/latency.h"
#include "../../proxy/base/rng.h"

static void test_empty(void **state)
{
	(void)state;
	struct quantiles quantiles = { 0 };
	assert_int_equal(quantiles_at_us(&quantiles, 0.5), 0);
	assert_int_equal(quantiles_at_us(&quantiles, 0.999), 0);
	assert_int_equal(quantiles_n_reaching(&quantiles, 0), 0);
	assert_true(sizeof(quantiles) < 2048);
}

/* The middle of the bucket, but never above what was seen. */
static void test_one_value(void **state)
{
	(void)state;
	static const struct {
		int64_t value, at;
	} rows[] = {
		{ -5, 0 }, { 0, 0 }, { 3, 3 }, { 7, 4 }, { 8, 8 }, { 13, 12 }, { 127, 124 }, { 128, 128 }, { 135, 132 },
		{ 136, 136 }, { 255, 252 }, { 256, 256 }, { 271, 264 }, { 1000, 1000 }, { 1023, 1008 }, { 300000, 300000 },
		{ (1 << 30) - 1, (1 << 30) - (1 << 24) }, { 1 << 30, 1 << 30 }, { INT64_MAX, INT64_MAX },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct quantiles quantiles = { 0 };
		quantiles_add(&quantiles, rows[i].value);
		assert_int_equal(quantiles.n, 1);
		assert_int_equal(quantiles_at_us(&quantiles, 0), rows[i].at);
		assert_int_equal(quantiles_at_us(&quantiles, 1), rows[i].at);
	}
}

/* Every bucket is met, none twice, and in order. */
static void test_buckets_are_in_order(void **state)
{
	(void)state;
	int64_t previous = -1;
	size_t n_buckets = 0;
	for (int64_t value = 0; value < (int64_t)1 << 31; value += value < 128 ? 1 : value / 128) {
		struct quantiles quantiles = { 0 };
		quantiles_add(&quantiles, value);
		int64_t place = 0;
		while (!quantiles.counts[place])
			place++;
		assert_true(place == previous || place == previous + 1);
		n_buckets += place != previous;
		previous = place;
	}
	assert_int_equal(n_buckets, QUANTILES_BUCKETS);
}

static void test_nearest_rank(void **state)
{
	(void)state;
	struct quantiles quantiles = { 0 };
	for (int i = 1; i <= 10; i++)
		quantiles_add(&quantiles, i * 8); /* each in a bucket of its own, whose middle is 4 more */
	assert_int_equal(quantiles_at_us(&quantiles, 0.5), 5 * 8 + 4);
	assert_int_equal(quantiles_at_us(&quantiles, 0.51), 6 * 8 + 4);
	assert_int_equal(quantiles_at_us(&quantiles, 0.9), 9 * 8 + 4);
	assert_int_equal(quantiles_at_us(&quantiles, 0.901), 10 * 8);
	assert_int_equal(quantiles_at_us(&quantiles, 0.99), 10 * 8);
}

static int compare(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
	return (left > right) - (left < right);
}

static void test_precision_against_sorted_values(void **state)
{
	(void)state;
	static int64_t values[20000];
	static const double shares[] = { 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1 };
	size_t n = sizeof(values) / sizeof(values[0]);
	struct quantiles quantiles = { 0 };
	struct rng rng;
	rng_init(&rng, 7);
	for (size_t i = 0; i < n; i++) {
		values[i] = (int64_t)(rng_u64(&rng) >> (36 + rng_u64(&rng) % 20));
		quantiles_add(&quantiles, values[i]);
	}
	qsort(values, n, sizeof(values[0]), compare);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		size_t rank = (size_t)(shares[i] * (double)n + 0.5);
		double exact = (double)values[rank - 1], read = (double)quantiles_at_us(&quantiles, shares[i]);
		assert_true(read >= exact * 0.968 - 4 && read <= exact * 1.032 + 4);
	}
	assert_int_equal(quantiles.max_us, values[n - 1]);
	assert_int_equal(quantiles_at_us(&quantiles, 1) <= quantiles.max_us, 1);
}

static void test_reaching_a_limit(void **state)
{
	(void)state;
	struct quantiles quantiles = { 0 };
	for (int i = 0; i < 90; i++)
		quantiles_add(&quantiles, 1000);
	for (int i = 0; i < 10; i++)
		quantiles_add(&quantiles, 300400); /* cut off at 300 ms, and a little late */
	assert_int_equal(quantiles_n_reaching(&quantiles, 0), 100);
	assert_int_equal(quantiles_n_reaching(&quantiles, 1000), 100);
	assert_int_equal(quantiles_n_reaching(&quantiles, 1100), 10);
	assert_int_equal(quantiles_n_reaching(&quantiles, 300000), 10);
	assert_int_equal(quantiles_n_reaching(&quantiles, 300401), 0); /* nothing took longer: known exactly */
	assert_int_equal(quantiles_n_reaching(&quantiles, INT64_MAX), 0);
	quantiles_add(&quantiles, INT64_MAX);
	assert_int_equal(quantiles_n_reaching(&quantiles, INT64_MAX), 1);
}

static void test_overflow_halves(void **state)
{
	(void)state;
	struct quantiles quantiles = { 0 };
	quantiles_add(&quantiles, 4);
	quantiles.counts[0] = UINT32_MAX;
	quantiles.counts[1] = 1001;
	quantiles.n = (uint64_t)UINT32_MAX + 1001;
	quantiles_add(&quantiles, 4);
	assert_int_equal(quantiles.counts[0], 0x80000000u);
	assert_int_equal(quantiles.counts[1], 500);
	assert_int_equal(quantiles.n, 0x80000000u + 500u);
}

static void test_merge(void **state)
{
	(void)state;
	struct quantiles sum = { 0 }, more = { 0 };
	quantiles_add(&sum, 10);
	quantiles_add(&more, 10);
	quantiles_add(&more, 5000);
	quantiles_merge(&sum, &more);
	assert_int_equal(sum.n, 3);
	assert_int_equal(sum.max_us, 5000);
	assert_int_equal(sum.counts[1], 2);
	assert_int_equal(more.n, 2);
	sum.counts[1] = more.counts[1] = 0xfffffff0u;
	quantiles_merge(&sum, &more);
	assert_int_equal(sum.counts[1], 0xfffffff0u);
	assert_int_equal(sum.n, 0xfffffff0u + 1u); /* 5000 was in both: (1 + 1) / 2 */
}

static void test_latency_by_phase(void **state)
{
	(void)state;
	struct latency origin = { 0 }, upstream = { 0 };
	latency_add(&origin, LATENCY_CONNECT, 100);
	latency_add(&origin, LATENCY_CONNECT, 120);
	assert_null(origin.phases[LATENCY_TLS]);
	latency_merge(&upstream, &origin);
	latency_merge(&upstream, &origin);
	assert_int_equal(upstream.phases[LATENCY_CONNECT]->n, 4);
	assert_null(upstream.phases[LATENCY_TLS]);
	for (enum latency_phase phase = 0; phase < N_LATENCY_PHASES; phase++)
		assert_non_null(latency_phase_words[phase]);
	latency_clear(&origin);
	latency_clear(&upstream);
	assert_null(upstream.phases[LATENCY_CONNECT]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_one_value),
		cmocka_unit_test(test_buckets_are_in_order),
		cmocka_unit_test(test_nearest_rank),
		cmocka_unit_test(test_precision_against_sorted_values),
		cmocka_unit_test(test_reaching_a_limit),
		cmocka_unit_test(test_overflow_halves),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_latency_by_phase),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
