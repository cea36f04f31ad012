/* JSON text: commas, escapes, numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/base/json.h"

static void assert_text(struct buffer *buffer, const char *expected)
{
	buffer_append(buffer, "", 1);
	assert_string_equal(buffer_start(buffer), expected);
	buffer_clear(buffer);
}

static void test_commas(void **state)
{
	(void)state;
	struct buffer out = { 0 };
	json_open(&out, NULL, '{');
	json_open(&out, "a", '[');
	json_close(&out, ']');
	json_open(&out, "b", '[');
	json_open(&out, NULL, '{');
	json_member_string(&out, "x", "{");
	json_member_string(&out, "y", NULL);
	json_close(&out, '}');
	json_open(&out, NULL, '{');
	json_close(&out, '}');
	json_item_slice(&out, SLICE("["));
	json_item_slice(&out, SLICE(""));
	json_close(&out, ']');
	json_member_bool(&out, "yes", true);
	json_member_bool(&out, "no", false);
	json_close(&out, '}');
	assert_text(&out, "{\"a\":[],\"b\":[{\"x\":\"{\",\"y\":null},{},\"[\",\"\"],\"yes\":true,\"no\":false}");
}

static void test_numbers(void **state)
{
	(void)state;
	struct buffer out = { 0 };
	json_open(&out, NULL, '{');
	json_member_integer(&out, "a", INT64_MIN);
	json_member_limit(&out, "b", -1);
	json_member_limit(&out, "c", 0);
	json_member_ms(&out, "d", 1234567);
	json_member_ms(&out, "e", 7);
	json_member_ms(&out, "f", -7);
	json_member_number(&out, "g", 12.5);
	json_member_number(&out, "h", 0);
	json_member_number(&out, "i", 100);
	json_member_number(&out, "j", 0.00004);
	json_member_number(&out, "k", NAN);
	json_member_number(&out, "l", INFINITY);
	json_member_number(&out, "m", -0.0625);
	json_close(&out, '}');
	assert_text(&out, "{\"a\":-9223372036854775808,\"b\":null,\"c\":0,\"d\":1234.567,\"e\":0.007,\"f\":0.000,\"g\":12.5,"
			  "\"h\":0,\"i\":100,\"j\":0,\"k\":null,\"l\":null,\"m\":-0.0625}");
}

static void test_strings(void **state)
{
	(void)state;
	struct buffer out = { 0 };
	json_string(&out, (struct slice){ "a\"\\\n\0\x1f\xc3\xa9\xff", 9 });
	assert_text(&out, "\"a\\\"\\\\\\n\\u0000\\u001f\xc3\xa9\xef\xbf\xbd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commas),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
