#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/hosts.h"

static struct arena arena;

static int tear_down(void **state)
{
	(void)state;
	arena_clear(&arena);
	return 0;
}

static void assert_pattern(const char *text, const char *expected)
{
	const char *why = NULL, *host = host_parse_pattern(&arena, text, &why);

	if (!host)
		fail_msg("%s: %s", text, why);
	assert_string_equal(host, expected);
}

static void assert_no_pattern(const char *text)
{
	const char *why = NULL;

	assert_null(host_parse_pattern(&arena, text, &why));
	assert_non_null(why);
}

static void test_patterns(void **state)
{
	(void)state;
	assert_pattern("*", "*");
	assert_pattern("*.Example.COM.", "*.example.com");
	assert_pattern("API.example", "api.example");
	assert_pattern("localhost", "localhost");
	assert_pattern("a_b-c.1x", "a_b-c.1x");
	assert_pattern("10.0.0.1", "10.0.0.1");
	assert_pattern("[::1]", "::1");
	assert_pattern("[FE80:0:0::00a]", "fe80::a");
	assert_pattern("[::ffff:1.2.3.4]", "::ffff:1.2.3.4");
	assert_pattern("xn--mnchen-3ya.example", "xn--mnchen-3ya.example");
}

static void test_bad_patterns(void **state)
{
	static const char *const bad[] = {"", ".", "..", "a..b", ".a", "*.", "**", "*a", "a.*", "*.*.a", "*.[::1]",
		"*.1.2.3.4", "a b", "a/b", "a:1", "::1", "[::1", "::1]", "[]", "[::1]:1", "[1.2.3.4]", "[fe80::1%lo]",
		"1.2.3", "1.2.3.4.5", "01.2.3.4", "256.1.1.1", "a.256", "http://a", "u@a", "a?", "a#",
		"\xc3\xa9.example", "a,b", "%61"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_no_pattern(bad[i]);
}

static void test_longest_names(void **state)
{
	char label[65], name[300] = "";

	(void)state;
	memset(label, 'a', 63);
	label[63] = '\0';
	assert_pattern(label, label);
	label[63] = 'a';
	label[64] = '\0';
	assert_no_pattern(label);
	for (int i = 0; i < 126; i++)
		strcat(name, "a.");
	strcat(name, "a");
	assert_int_equal(strlen(name), 253);
	assert_pattern(name, name);
	strcat(name, "b");
	assert_no_pattern(name);
}

static struct listen_address parsed(const char *text)
{
	struct listen_address address;
	const char *why = NULL;

	if (!listen_parse(&arena, text, &address, &why))
		fail_msg("%s: %s", text, why);
	return address;
}

static void test_listen(void **state)
{
	struct listen_address address = parsed("127.0.0.1:3128");

	(void)state;
	assert_string_equal(address.text, "127.0.0.1:3128");
	assert_string_equal(address.host, "127.0.0.1");
	assert_int_equal(address.port, 3128);
	assert_null(address.unix_path);
	address = parsed("[0:0::1]:0");
	assert_string_equal(address.text, "[::1]:0");
	assert_string_equal(address.host, "::1");
	assert_int_equal(address.port, 0);
	address = parsed("unix:/run/x.sock");
	assert_string_equal(address.text, "unix:/run/x.sock");
	assert_string_equal(address.unix_path, "/run/x.sock");
	assert_null(address.host);
}

static void test_bad_listen(void **state)
{
	static const char *const bad[] = {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:080",
		"127.0.0.1:+1", "127.0.0.1:1 ", "127.0.0.1 :1", "[::1:80", "[::1]80", "::1:80", "[]:80",
		"[127.0.0.1]:80", "localhost:80", "*:80", ":80", "80", "unix:", "unix:x", "http://127.0.0.1:80",
		"[::1]:80:80", "a.example:80"};
	struct listen_address address;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (listen_parse(&arena, bad[i], &address, &why))
			fail_msg("%s was taken", bad[i]);
		assert_non_null(why);
	}
}

static void assert_clash(const char *a, const char *b, bool expected)
{
	struct listen_address one = parsed(a), other = parsed(b);

	assert_int_equal(listen_clashes(&one, &other), expected);
	assert_int_equal(listen_clashes(&other, &one), expected);
}

static void test_clashes(void **state)
{
	(void)state;
	assert_clash("127.0.0.1:1", "127.0.0.1:1", true);
	assert_clash("127.0.0.1:1", "127.0.0.1:2", false);
	assert_clash("127.0.0.1:1", "127.0.0.2:1", false);
	assert_clash("127.0.0.1:1", "0.0.0.0:1", true);
	assert_clash("127.0.0.1:0", "127.0.0.1:0", false);
	assert_clash("[::1]:1", "[::]:1", true);
	assert_clash("[::1]:1", "127.0.0.1:1", false);
	assert_clash("[::1]:1", "0.0.0.0:1", false);
	assert_clash("unix:/a", "unix:/a", true);
	assert_clash("unix:/a", "unix:/b", false);
	assert_clash("unix:/a", "127.0.0.1:1", false);
}

static void test_local(void **state)
{
	struct listen_address address = parsed("127.8.8.8:1");

	(void)state;
	assert_true(listen_is_local(&address));
	address = parsed("[::1]:1");
	assert_true(listen_is_local(&address));
	address = parsed("unix:/a");
	assert_true(listen_is_local(&address));
	address = parsed("0.0.0.0:1");
	assert_false(listen_is_local(&address));
	address = parsed("[::]:1");
	assert_false(listen_is_local(&address));
	address = parsed("10.0.0.1:1");
	assert_false(listen_is_local(&address));
}

static void assert_cidr(const char *text, const char *expected)
{
	struct cidr cidr;
	const char *why = NULL;
	char formatted[64];

	if (!cidr_parse(&arena, text, &cidr, &why))
		fail_msg("%s: %s", text, why);
	cidr_format(&cidr, formatted);
	assert_string_equal(formatted, expected);
}

static void test_cidrs(void **state)
{
	static const char *const bad[] = {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08",
		"10.0.0.1/8", "10.0/8", "fe80::/129", "fe80::1/10", "::/x", "a.example", "10.0.0.0/8/8", "[::1]",
		"010.0.0.0/8"};
	struct cidr cidr;
	const char *why;

	(void)state;
	assert_cidr("10.0.0.0/8", "10.0.0.0/8");
	assert_cidr("10.1.2.3", "10.1.2.3/32");
	assert_cidr("0.0.0.0/0", "0.0.0.0/0");
	assert_cidr("::1", "::1/128");
	assert_cidr("FE80::/10", "fe80::/10");
	assert_cidr("::/0", "::/0");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		if (cidr_parse(&arena, bad[i], &cidr, &why))
			fail_msg("%s was taken", bad[i]);
		assert_non_null(why);
	}
	assert_false(cidr_parse(&arena, "10.1.2.3/8", &cidr, &why));
	assert_string_equal(why, "\"10.1.2.3/8\" has bits behind its prefix: write 10.0.0.0/8");
}

static void test_servers(void **state)
{
	static const char *const bad[] = {"", "dns", "10.0.0.1:0", "10.0.0.1:", "[::1", "unix:/x", "10.0.0.1/8"};
	const char *why;

	(void)state;
	assert_string_equal(server_parse(&arena, "10.0.0.1", &why), "10.0.0.1");
	assert_string_equal(server_parse(&arena, "10.0.0.1:53", &why), "10.0.0.1:53");
	assert_string_equal(server_parse(&arena, "::1", &why), "::1");
	assert_string_equal(server_parse(&arena, "[0::1]", &why), "::1");
	assert_string_equal(server_parse(&arena, "[0::1]:5353", &why), "[::1]:5353");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(server_parse(&arena, bad[i], &why));
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_patterns),
		TEST(test_bad_patterns),
		TEST(test_longest_names),
		TEST(test_listen),
		TEST(test_bad_listen),
		TEST(test_clashes),
		TEST(test_local),
		TEST(test_cidrs),
		TEST(test_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
