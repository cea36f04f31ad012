/* What the admin port reads from a request: parameters of the query, media types of Accept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proxy/front/admin.h"

struct reading {
	struct request request;
	struct request_reader reader;
	char text[512];
};

static const struct request *read_request(struct reading *reading, const char *target, const char *fields)
{
	struct slice body;
	const char *at = reading->text;
	size_t left = (size_t)snprintf(reading->text, sizeof(reading->text), "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
				       target, fields);
	request_init(&reading->request);
	request_reader_init(&reading->reader, &reading->request, 65536);
	assert_int_equal(request_reader_next(&reading->reader, &at, &left, &body), READ_HEAD);
	return &reading->request;
}

static void end_reading(struct reading *reading)
{
	request_reader_clear(&reading->reader);
	request_clear(&reading->request);
}

static void assert_query(const char *target, const char *name, enum query_result expected, struct slice value)
{
	struct reading reading;
	struct buffer found = { 0 };
	assert_int_equal(admin_query(read_request(&reading, target, ""), name, &found), expected);
	if (expected == QUERY_FOUND) {
		assert_int_equal(buffer_length(&found), value.length);
		assert_memory_equal(buffer_slice(&found).data, value.data, value.length);
	}
	buffer_clear(&found);
	end_reading(&reading);
}

static void test_query(void **state)
{
	(void)state;
	assert_query("/explain", "url", QUERY_MISSING, SLICE(""));
	assert_query("/explain?", "url", QUERY_MISSING, SLICE(""));
	assert_query("/explain?curl=1&urls=2&xurl", "url", QUERY_MISSING, SLICE(""));
	assert_query("/explain?url", "url", QUERY_FOUND, SLICE(""));
	assert_query("/explain?url=", "url", QUERY_FOUND, SLICE(""));
	assert_query("/explain?&&url=a&", "url", QUERY_FOUND, SLICE("a"));
	assert_query("/explain?method=GET&url=http%3A%2f%2Fa%3Fb=c", "url", QUERY_FOUND, SLICE("http://a?b=c"));
	assert_query("/explain?url=http://a/?b=c?d", "url", QUERY_FOUND, SLICE("http://a/?b=c?d"));
	assert_query("/explain?url=a+b%2B", "url", QUERY_FOUND, SLICE("a b+"));
	assert_query("/explain?url=a%00%ff", "url", QUERY_FOUND, SLICE("a\0\xff"));
	assert_query("/explain?url=a&url=a", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?url=%", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?url=%4", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?url=%4g", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?url=%g4", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?url=%4&x=1", "url", QUERY_BAD, SLICE(""));
	assert_query("/explain?other=%&url=a", "url", QUERY_FOUND, SLICE("a"));
}

static bool accepts(const char *fields)
{
	struct reading reading;
	bool is_accepted = admin_accepts(read_request(&reading, "/metrics", fields), SLICE("application/json"));
	end_reading(&reading);
	return is_accepted;
}

static void test_accept(void **state)
{
	(void)state;
	assert_false(accepts(""));
	assert_false(accepts("Accept: */*\r\n"));
	assert_false(accepts("Accept: text/html, application/jsonp\r\n"));
	assert_false(accepts("Accept: x-application/json\r\n"));
	assert_true(accepts("Accept: application/json\r\n"));
	assert_true(accepts("Accept: Application/JSON;v=1\r\n"));
	assert_true(accepts("Accept: text/html,application/json ;q=0.001, */*;q=0\r\n"));
	assert_true(accepts("Accept: text/html\r\nAccept: application/json\r\n"));
	assert_true(accepts("Accept: application/json;q=1\r\n"));
	assert_false(accepts("Accept: application/json;q=0\r\n"));
	assert_false(accepts("Accept: application/json; Q=0.000, text/html\r\n"));
	assert_true(accepts("Accept: application/json;seq=0\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_accept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
