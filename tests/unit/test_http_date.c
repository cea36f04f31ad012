/* Retry-After and HTTP-date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/backoff.h"

#define NOW_MS INT64_C(1795982400000) /* Sun, 29 Nov 2026 20:00:00 GMT */
#define SATURATED (INT64_MAX / 4)

static int64_t wait_for(const char *value)
{
	return retry_after_parse_ms(slice_of(value), NOW_MS);
}

static int64_t date_of(const char *value)
{
	return http_date_parse_ms(slice_of(value), NOW_MS);
}

static void seconds(void **state)
{
	(void)state;
	assert_int_equal(wait_for("1"), 1000);
	assert_int_equal(wait_for("0"), 0);
	assert_int_equal(wait_for("00120"), 120000);
	assert_int_equal(wait_for(" 2 "), 2000);
	assert_int_equal(wait_for("\t2\t"), 2000);
	assert_int_equal(wait_for("9223372037"), INT64_C(9223372037000));
	assert_true(wait_for("99999999999999999999") == SATURATED);
	assert_true(wait_for("9223372036854775807") == SATURATED);
	assert_true(wait_for("9999999999999999999999999999999999999999999999999999999999") == SATURATED);
}

static void junk_is_as_if_absent(void **state)
{
	(void)state;
	const char *const junk[] = { "", " ", "+3", "-3", "1.5", "abc", "1s", "0x10", "1 2", "1, 2", "1,", "\302\2401", "1e3",
				     "\v1", "\xd9\xa3" };

	for (size_t i = 0; i < sizeof junk / sizeof *junk; i++)
		assert_int_equal(wait_for(junk[i]), -1);
	assert_int_equal(retry_after_parse_ms((struct slice){ "1\0", 2 }, NOW_MS), -1);
}

static void dates_in_three_forms(void **state)
{
	(void)state;
	assert_int_equal(date_of("Sun, 06 Nov 1994 08:49:37 GMT"), INT64_C(784111777000));
	assert_int_equal(date_of("Sunday, 06-Nov-94 08:49:37 GMT"), INT64_C(784111777000));
	assert_int_equal(date_of("Sun Nov  6 08:49:37 1994"), INT64_C(784111777000));
	assert_int_equal(date_of("Wed Nov 16 08:49:37 1994"), INT64_C(784975777000));
	assert_int_equal(date_of("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
	assert_int_equal(date_of("Tue, 01 Jan 1901 00:00:00 GMT"), 0);
	assert_int_equal(date_of("Tue, 29 Feb 2000 12:00:00 GMT"), INT64_C(951825600000));
	assert_int_equal(date_of("Fri, 31 Dec 9999 23:59:59 GMT"), INT64_C(253402300799000));
	assert_int_equal(date_of("Sun, 06 Nov 1994 08:49:60 GMT"), INT64_C(784111800000)); /* leap second */
}

static void dates_as_waits(void **state)
{
	(void)state;
	assert_int_equal(wait_for("Sun, 29 Nov 2026 20:00:01 GMT"), 1000);
	assert_int_equal(wait_for("Sunday, 29-Nov-26 20:00:30 GMT"), 30000);
	assert_int_equal(wait_for("Sun Nov 29 20:01:00 2026"), 60000);
	assert_int_equal(wait_for("Sun, 29 Nov 2026 20:00:00 GMT"), 0);
	assert_int_equal(wait_for("Sun, 06 Nov 1994 08:49:60 GMT"), 0);
	assert_int_equal(wait_for(" Sun, 29 Nov 2026 20:00:01 GMT "), 1000);
}

static void dates_that_are_none(void **state)
{
	(void)state;
	const char *const junk[] = {
		"Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000",
		"Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 gmt",
		"Sun, 31 Feb 1994 08:49:37 GMT", "Mon, 29 Feb 1999 08:49:37 GMT", "Wed, 29 Feb 2100 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT", "Son, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Okt 1994 08:49:37 GMT",
		"Sun,06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT;", "Sun Nov 6 08:49:37 1994",
		"Sun Nov 06 08:49:37 94", "Sun, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sun, -6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:3", "S", "2026-11-29T20:00:00Z",
	};

	for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
		assert_int_equal(date_of(junk[i]), -1);
		assert_int_equal(wait_for(junk[i]), -1);
	}
}

/* RFC 9110 5.6.7: more than 50 years ahead means the past. */
static void two_digit_years(void **state)
{
	(void)state;
	int64_t in_50_years = date_of("Sun, 29 Nov 2076 20:00:00 GMT");

	assert_int_equal(date_of("Sunday, 29-Nov-76 20:00:00 GMT"), in_50_years);
	assert_int_equal(date_of("Sunday, 29-Nov-76 20:00:01 GMT"), date_of("Mon, 29 Nov 1976 20:00:01 GMT"));
	assert_int_equal(date_of("Friday, 01-Jan-27 00:00:00 GMT"), date_of("Fri, 01 Jan 2027 00:00:00 GMT"));
	assert_int_equal(date_of("Sunday, 29-Nov-25 20:00:00 GMT"), date_of("Sat, 29 Nov 2025 20:00:00 GMT"));
	assert_int_equal(date_of("Tuesday, 29-Feb-00 12:00:00 GMT"), INT64_C(951825600000));
	int64_t late_2099 = date_of("Thu, 31 Dec 2099 23:59:59 GMT");
	assert_int_equal(http_date_parse_ms(SLICE("Friday, 01-Jan-00 00:00:00 GMT"), late_2099), late_2099 + 1000);
}

/* Every cut and every changed byte of a good date is read without harm; under the sanitizers this looks for overruns. */
static void damaged_dates(void **state)
{
	(void)state;
	const char *const good[] = { "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
				     "Sun Nov  6 08:49:37 1994" };

	for (int form = 0; form < 3; form++) {
		char text[40];
		size_t length = strlen(good[form]);
		for (size_t n = 0; n < length; n++)
			assert_int_equal(http_date_parse_ms((struct slice){ good[form], n }, NOW_MS), -1);
		for (size_t at = 0; at < length; at++)
			for (int byte = 0; byte < 256; byte++) {
				memcpy(text, good[form], length);
				text[at] = (char)byte;
				assert_true(http_date_parse_ms((struct slice){ text, length }, NOW_MS) >= -1);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seconds),
		cmocka_unit_test(junk_is_as_if_absent),
		cmocka_unit_test(dates_in_three_forms),
		cmocka_unit_test(dates_as_waits),
		cmocka_unit_test(dates_that_are_none),
		cmocka_unit_test(two_digit_years),
		cmocka_unit_test(damaged_dates),
	};
	return cmocka_run_group_tests_name("http_date", tests, NULL, NULL);
}
