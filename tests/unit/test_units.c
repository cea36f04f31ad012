#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/policy.h"
#include "../../config/units.h"

static char why[UNITS_WHY_BYTES];
static char text[UNITS_TEXT_BYTES];

static void assert_duration(const char *in, int64_t expected_ms)
{
	int64_t ms = -7;

	if (!units_parse_duration(in, &ms, why))
		fail_msg("%s: %s", in, why);
	assert_int_equal(ms, expected_ms);
}

static void assert_no_duration(const char *in, const char *expected_why)
{
	int64_t ms = -7;

	assert_false(units_parse_duration(in, &ms, why));
	assert_string_equal(why, expected_why);
	assert_int_equal(ms, -7);
}

static void test_durations(void **state)
{
	(void)state;
	assert_duration("250ms", 250);
	assert_duration("2s", 2000);
	assert_duration("1m30s", 90000);
	assert_duration("1h", 3600000);
	assert_duration("1h2m3s4ms", 3723004);
	assert_duration("0s", 0);
	assert_duration("0ms", 0);
	assert_duration("90m", 5400000);
	assert_duration("9223372036854775807ms", INT64_MAX);
}

static void test_bad_durations(void **state)
{
	(void)state;
	assert_no_duration("30", "\"30\" has no unit: write 30s or 30ms");
	assert_no_duration("1m30", "\"1m30\" has no unit: write 1m30s or 1m30ms");
	assert_no_duration("1.5s", "\"1.5s\": no fractions: write 1.5s as 1500ms");
	assert_no_duration("5 s", "\"5 s\": write it without the blank");
	assert_no_duration("1d", "\"1d\": days are written in hours, such as 24h");
	assert_no_duration("5us", "\"5us\": the smallest unit is ms");
	assert_no_duration("5S", "\"5S\": the units are ms, s, m and h");
	assert_no_duration("5sec", "\"5sec\": the units are ms, s, m and h");
	assert_no_duration("30s1m", "\"30s1m\": units go from large to small, each once, as in 1m30s");
	assert_no_duration("1s1s", "\"1s1s\": units go from large to small, each once, as in 1m30s");
	assert_no_duration("-1s", "\"-1s\" is negative");
	assert_no_duration("+1s", "\"+1s\": write it without the sign");
	assert_no_duration("", "no value");
	assert_no_duration("s", "\"s\" is not a duration: write for example 250ms, 2s or 1m30s");
	assert_no_duration(
		"01s", "\"01s\" begins with 0, which YAML readers take for octal: write it without the zero");
	assert_no_duration("9223372036854775808ms", "\"9223372036854775808ms\" is too large");
	assert_no_duration("9223372036854775807s", "\"9223372036854775807s\" is too large");
	assert_no_duration("2562047788015h99999999999m", "\"2562047788015h99999999999m\" is too large");
}

static void test_duration_format(void **state)
{
	(void)state;
	assert_string_equal(units_format_duration(LIMIT_OFF, text), "off");
	assert_string_equal(units_format_duration(0, text), "0s");
	assert_string_equal(units_format_duration(250, text), "250ms");
	assert_string_equal(units_format_duration(1500, text), "1500ms");
	assert_string_equal(units_format_duration(30000, text), "30s");
	assert_string_equal(units_format_duration(60000, text), "60s");
	assert_string_equal(units_format_duration(90000, text), "90s");
	assert_string_equal(units_format_duration(300000, text), "5m");
	assert_string_equal(units_format_duration(150000, text), "2m30s");
	assert_string_equal(units_format_duration(3600000, text), "1h");
	assert_string_equal(units_format_duration(3723004, text), "1h2m3s4ms");
}

static void assert_size(const char *in, int64_t expected)
{
	int64_t bytes = -7;

	if (!units_parse_size(in, &bytes, why))
		fail_msg("%s: %s", in, why);
	assert_int_equal(bytes, expected);
}

static void assert_no_size(const char *in, const char *expected_why)
{
	int64_t bytes = -7;

	assert_false(units_parse_size(in, &bytes, why));
	assert_string_equal(why, expected_why);
	assert_int_equal(bytes, -7);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_size("64KiB", 65536);
	assert_size("1MiB", 1048576);
	assert_size("2GiB", 2147483648);
	assert_size("10MB", 10000000);
	assert_size("3KB", 3000);
	assert_size("1GB", 1000000000);
	assert_size("4096", 4096);
	assert_size("12B", 12);
	assert_size("0", 0);
	assert_no_size("64K", "\"64K\": write 64KiB (1024) or 64KB (1000)");
	assert_no_size("64kb", "\"64kb\": write 64KiB (1024) or 64KB (1000)");
	assert_no_size("64kib", "\"64kib\": write 64KiB (1024) or 64KB (1000)");
	assert_no_size("1.5MiB", "\"1.5MiB\": no fractions: write 1.5MiB as 1536KiB");
	assert_no_size("10 MB", "\"10 MB\": write it without the blank");
	assert_no_size("0x10", "\"0x10\": only decimal numbers are read");
	assert_no_size("1TB", "\"1TB\" is not a size: the units are KiB MiB GiB, KB MB GB, or none for bytes");
	assert_no_size("many", "\"many\" is not a size: write for example 64KiB, 10MB or 4096");
	assert_no_size("9223372036854775807KiB", "\"9223372036854775807KiB\" is too large");
	assert_no_size("1_000", "\"1_000\": write the digits without separators");
}

static void test_size_format(void **state)
{
	(void)state;
	assert_string_equal(units_format_size(LIMIT_OFF, text), "off");
	assert_string_equal(units_format_size(0, text), "0");
	assert_string_equal(units_format_size(65536, text), "64KiB");
	assert_string_equal(units_format_size(10000000, text), "10MB");
	assert_string_equal(units_format_size(1000000000, text), "1GB");
	assert_string_equal(units_format_size(1234567, text), "1234567");
}

static void test_ratios(void **state)
{
	double ratio = -7;

	(void)state;
	assert_true(units_parse_ratio("20%", &ratio, why));
	assert_true(ratio == 0.2);
	assert_true(units_parse_ratio("0.2", &ratio, why));
	assert_true(ratio == 0.2);
	assert_true(units_parse_ratio("100%", &ratio, why));
	assert_true(ratio == 1);
	assert_true(units_parse_ratio("0", &ratio, why));
	assert_true(ratio == 0);
	assert_true(units_parse_ratio("12.5%", &ratio, why));
	assert_true(ratio == 0.125);
	assert_false(units_parse_ratio("20", &ratio, why));
	assert_string_equal(why, "\"20\" is over 1: did you mean 20%?");
	assert_false(units_parse_ratio("120%", &ratio, why));
	assert_string_equal(why, "\"120%\" is over 100%");
	assert_false(units_parse_ratio("20 %", &ratio, why));
	assert_false(units_parse_ratio("%", &ratio, why));
	assert_false(units_parse_ratio(".5", &ratio, why));
	assert_false(units_parse_ratio("5.", &ratio, why));
	assert_false(units_parse_ratio("1e-1", &ratio, why));
	assert_false(units_parse_ratio("nan", &ratio, why));
	assert_false(units_parse_ratio("0.11111111111111111111111111111111111111111", &ratio, why));
	assert_string_equal(units_format_ratio(0.2, text), "20%");
	assert_string_equal(units_format_ratio(0.125, text), "12.5%");
	assert_string_equal(units_format_ratio(LIMIT_OFF, text), "off");
	assert_string_equal(units_format_ratio(0, text), "0%");
}

static void test_numbers(void **state)
{
	double number = -7;
	int64_t count = -7;

	(void)state;
	assert_true(units_parse_number("1.5", &number, why));
	assert_true(number == 1.5);
	assert_false(units_parse_number("inf", &number, why));
	assert_false(units_parse_number("1e9", &number, why));
	assert_string_equal(units_format_number(2, text), "2");
	assert_string_equal(units_format_number(1.5, text), "1.5");
	assert_string_equal(units_format_number(0.001, text), "0.001");
	assert_true(units_parse_count("10000", &count, why));
	assert_int_equal(count, 10000);
	assert_false(units_parse_count("1.0", &count, why));
	assert_string_equal(why, "\"1.0\" is not a whole number");
	assert_false(units_parse_count("010", &count, why));
	assert_false(units_parse_count("9223372036854775808", &count, why));
	assert_string_equal(why, "\"9223372036854775808\" is too large");
	assert_int_equal(count, 10000);
}

/* What is printed is read back to the same value: for every unit's edges. */
static void test_round_trip(void **state)
{
	static const int64_t values[] = {0, 1, 999, 1000, 1001, 59999, 60000, 119999, 120000, 3599999, 3600000,
		86400000, 1023, 1024, 1048576, 1073741824, 123456789, INT64_MAX / 2};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		int64_t back = -7;

		assert_true(units_parse_duration(units_format_duration(values[i], text), &back, why));
		assert_int_equal(back, values[i]);
		assert_true(units_parse_size(units_format_size(values[i], text), &back, why));
		assert_int_equal(back, values[i]);
		assert_true(units_parse_count(units_format_count(values[i], text), &back, why));
		assert_int_equal(back, values[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_bad_durations),
		cmocka_unit_test(test_duration_format),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_size_format),
		cmocka_unit_test(test_ratios),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
