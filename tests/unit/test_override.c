#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/retry.h"

static int64_t timeout_after(enum override override, const char *value, int64_t total_ms)
{
	assert_true(override_timeout(override, slice_of(value), &total_ms));
	return total_ms;
}

static int64_t attempts_after(enum override override, const char *value, int64_t max_attempts)
{
	assert_true(override_max_attempts(override, slice_of(value), &max_attempts));
	return max_attempts;
}

static void tighten_goes_down_only(void **state)
{
	(void)state;
	assert_int_equal(timeout_after(OVERRIDE_TIGHTEN, "1500ms", 30000), 1500);
	assert_int_equal(timeout_after(OVERRIDE_TIGHTEN, "1m30s", 30000), 30000);
	assert_int_equal(timeout_after(OVERRIDE_TIGHTEN, "off", 30000), 30000);
	assert_int_equal(timeout_after(OVERRIDE_TIGHTEN, "1h", LIMIT_OFF), 3600000);
	assert_int_equal(timeout_after(OVERRIDE_TIGHTEN, "off", LIMIT_OFF), LIMIT_OFF);
	assert_int_equal(attempts_after(OVERRIDE_TIGHTEN, "1", 3), 1);
	assert_int_equal(attempts_after(OVERRIDE_TIGHTEN, "5", 3), 3);
}

static void any_goes_both_ways(void **state)
{
	(void)state;
	assert_int_equal(timeout_after(OVERRIDE_ANY, "1m30s", 30000), 90000);
	assert_int_equal(timeout_after(OVERRIDE_ANY, "1h2m3s4ms", 30000), 3723004);
	assert_int_equal(timeout_after(OVERRIDE_ANY, " 2s\t", 30000), 2000);
	assert_int_equal(timeout_after(OVERRIDE_ANY, "off", 30000), LIMIT_OFF);
	assert_int_equal(attempts_after(OVERRIDE_ANY, "5", 3), 5);
	assert_int_equal(attempts_after(OVERRIDE_ANY, "1", 3), 1);
}

static void off_ignores(void **state)
{
	(void)state;
	assert_int_equal(timeout_after(OVERRIDE_OFF, "1s", 30000), 30000);
	assert_int_equal(timeout_after(OVERRIDE_OFF, "nonsense", 30000), 30000);
	assert_int_equal(attempts_after(OVERRIDE_OFF, "1", 3), 3);
	assert_int_equal(attempts_after(OVERRIDE_OFF, "", 3), 3);
}

static void junk_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	const char *const durations[] = { "", " ", "5", "1500", "-1s", "+1s", "1.5s", "1 s", "s", "ms", "1x", "1s1s", "1s1m",
					  "1S", "0ms", "0s", "OFF", "1s,2s", "9223372036854775807ms", "99999999999999999999h",
					  "9223372036854775h", "1s\x01" };
	const char *const counts[] = { "", "0", "-1", "+1", "1.0", "x", "1x", "1, 2", "1001", "99999999999999999999" };

	for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
		int64_t total_ms = 30000;
		assert_false(override_timeout(OVERRIDE_ANY, slice_of(durations[i]), &total_ms));
		assert_false(override_timeout(OVERRIDE_TIGHTEN, slice_of(durations[i]), &total_ms));
		assert_int_equal(total_ms, 30000);
	}
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		int64_t max_attempts = 3;
		assert_false(override_max_attempts(OVERRIDE_ANY, slice_of(counts[i]), &max_attempts));
		assert_false(override_max_attempts(OVERRIDE_TIGHTEN, slice_of(counts[i]), &max_attempts));
		assert_int_equal(max_attempts, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tighten_goes_down_only),
		cmocka_unit_test(any_goes_both_ways),
		cmocka_unit_test(off_ignores),
		cmocka_unit_test(junk_is_refused_and_changes_nothing),
	};
	return cmocka_run_group_tests_name("override", tests, NULL, NULL);
}
