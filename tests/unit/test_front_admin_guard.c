/* Who may speak to the admin port: DNS rebinding shows in Host, pages of other sites in Origin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proxy/front/admin.h"

static const char *const names[] = { "box.example" };
static const struct global_rule global = { .admin_hosts = { names, 1 } };

static void read_head(struct request_reader *reader, struct request *request, const char *version, const char *fields)
{
	char text[512];
	struct slice body;
	const char *at = text;
	size_t left = (size_t)snprintf(text, sizeof(text), "POST /reload HTTP/%s\r\n%s\r\n", version, fields);
	request_init(request);
	request_reader_init(reader, request, 65536);
	assert_int_equal(request_reader_next(reader, &at, &left, &body), READ_HEAD);
}

static bool host_is_allowed(const char *version, const char *fields)
{
	struct request request;
	struct request_reader reader;
	read_head(&reader, &request, version, fields);
	bool is_allowed = admin_host_is_allowed(&global, &request);
	request_reader_clear(&reader);
	request_clear(&request);
	return is_allowed;
}

static bool origin_is_allowed(const char *fields)
{
	struct request request;
	struct request_reader reader;
	read_head(&reader, &request, "1.1", fields);
	bool is_allowed = admin_origin_is_allowed(&request);
	request_reader_clear(&reader);
	request_clear(&request);
	return is_allowed;
}

static void test_host(void **state)
{
	(void)state;
	assert_true(host_is_allowed("1.1", "Host: 127.0.0.1:9128\r\n"));
	assert_true(host_is_allowed("1.1", "Host: 10.1.2.3\r\n"));
	assert_true(host_is_allowed("1.1", "Host: [::1]:9128\r\n"));
	assert_true(host_is_allowed("1.1", "Host: LocalHost:9128\r\n"));
	assert_false(host_is_allowed("1.1", "Host: a.localhost\r\n"));
	assert_true(host_is_allowed("1.1", "Host: Box.example:1\r\n"));
	assert_true(host_is_allowed("1.0", ""));
	assert_false(host_is_allowed("1.1", "Host: evil.example\r\n"));
	assert_false(host_is_allowed("1.1", "Host: localhost.evil.example\r\n"));
	assert_false(host_is_allowed("1.1", "Host: 127.0.0.1.evil.example\r\n"));
	assert_false(host_is_allowed("1.1", "Host: notlocalhost\r\n"));
	assert_false(host_is_allowed("1.1", "Host: 0x7f.1\r\n"));
}

static void test_origin(void **state)
{
	(void)state;
	assert_true(origin_is_allowed("Host: localhost:9128\r\n"));
	assert_true(origin_is_allowed("Host: localhost:9128\r\nOrigin: http://localhost:9128\r\n"));
	assert_true(origin_is_allowed("Host: localhost:9128\r\nOrigin: HTTP://LOCALHOST:9128\r\n"));
	assert_false(origin_is_allowed("Host: localhost:9128\r\nOrigin: http://localhost:80\r\n"));
	assert_false(origin_is_allowed("Host: localhost:9128\r\nOrigin: https://localhost:9128\r\n"));
	assert_false(origin_is_allowed("Host: localhost:9128\r\nOrigin: http://evil.example\r\n"));
	assert_false(origin_is_allowed("Host: localhost:9128\r\nOrigin: null\r\n"));
	assert_false(origin_is_allowed("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://localhost\r\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_host), cmocka_unit_test(test_origin) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
