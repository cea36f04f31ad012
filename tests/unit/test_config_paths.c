#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/paths.h"

static void assert_normal(const char *in, const char *expected)
{
	size_t n = strlen(in);
	char *exact = malloc(n ? n : 1), *again = malloc(n ? n : 1);
	assert_non_null(exact);
	assert_non_null(again);
	size_t length = path_normalise(in, n, exact);

	assert_int_equal(length, strlen(expected));
	assert_memory_equal(exact, expected, length);
	/* in place, and a fixed point */
	if (length)
		memcpy(again, exact, length);
	assert_int_equal(path_normalise(again, length, again), length);
	assert_memory_equal(again, expected, length);
	free(exact);
	free(again);
}

static void test_unreserved_are_decoded(void **state)
{
	(void)state;
	assert_normal("/%63harge", "/charge");
	assert_normal("/%7Euser%2d%5f%2E", "/~user-_.");
	assert_normal("/a%2fb", "/a%2Fb");
	assert_normal("/%c3%a9", "/\xc3\xa9");
	assert_normal("/\xc3\xa9", "/\xc3\xa9");
	assert_normal("/%22%3c%5C%7b%7C", "/\"<\\{|");
	assert_normal("/%00%1f%20%7f%25", "/%00%1F%20%7F%25");
	assert_normal("/%3a%3F%23%5b%40%21%2a%3D", "/%3A%3F%23%5B%40%21%2A%3D");
	assert_normal("/100%", "/100%");
	assert_normal("/%4", "/%4");
	assert_normal("/%zz%4x", "/%zz%4x");
	assert_normal("/%2563harge", "/%2563harge");
	assert_normal("/%2A", "/%2A");
}

static void test_dot_segments_are_removed(void **state)
{
	(void)state;
	assert_normal("/a/../charge", "/charge");
	assert_normal("/a/b/c/./../../g", "/a/g"); /* RFC 3986 5.2.4 */
	assert_normal("/..", "/");
	assert_normal("/../../x", "/x");
	assert_normal("/.", "/");
	assert_normal("/a/.", "/a/");
	assert_normal("/a/..", "/");
	assert_normal("/a/b/..", "/a/");
	assert_normal("/a/./b", "/a/b");
	assert_normal("/...", "/...");
	assert_normal("/.a/b.", "/.a/b.");
	assert_normal("/a//b", "/a//b");
	assert_normal("/a//../b", "/a/b");
	assert_normal("/%2e%2E/x", "/x");
	assert_normal("/a/%2e%2e/%63", "/c");
	assert_normal("/a/.%2e/c", "/c");
}

static void test_what_has_no_hierarchy_stays(void **state)
{
	(void)state;
	assert_normal("", "");
	assert_normal("/", "/");
	assert_normal("*", "*");
	assert_normal("*/../x", "*/../x");
	assert_normal("/v1/refunds/*", "/v1/refunds/*");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unreserved_are_decoded),
		cmocka_unit_test(test_dot_segments_are_removed),
		cmocka_unit_test(test_what_has_no_hierarchy_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
