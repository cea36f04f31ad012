/* The forms of the request target, the Host field, and the path that policies see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../proxy/http/target.h"

struct good {
	const char *text, *host, *host_text, *path;
	uint16_t port;
	bool is_https, has_port, has_userinfo, is_ipv6;
};

static void expect_good(const struct good *c, bool is_connect)
{
	struct target target;
	const char *fault = target_parse(slice_of(c->text), is_connect, &target);

	if (fault)
		print_error("%s: %s\n", c->text, fault);
	assert_null(fault);
	assert_string_equal(target.host, c->host);
	assert_true(slice_equals(target.host_text, slice_of(c->host_text)));
	assert_true(slice_equals(target.path, slice_of(c->path)));
	assert_int_equal(target.port, c->port);
	assert_int_equal(target.is_https, c->is_https);
	assert_int_equal(target.has_port, c->has_port);
	assert_int_equal(target.has_userinfo, c->has_userinfo);
	assert_int_equal(target.is_ipv6_literal, c->is_ipv6);
	assert_int_equal(target.form, is_connect ? TARGET_AUTHORITY : TARGET_ABSOLUTE);
}

static void absolute_form(void **state)
{
	static const struct good cases[] = {
		{"http://h/", "h", "h", "/", 80, false, false, false, false},
		{"HTTPS://API.Example.:8443/a?b", "api.example", "API.Example.", "/a?b", 8443, true, true, false,
			false},
		{"http://h", "h", "h", "", 80, false, false, false, false},
		{"http://h?q", "h", "h", "?q", 80, false, false, false, false},
		{"https://h:/x", "h", "h", "/x", 443, true, false, false, false},
		{"http://u:p@h:81/@", "h", "h", "/@", 81, false, true, true, false},
		{"http://@h/", "h", "h", "/", 80, false, false, true, false},
		{"http://[::1]:8080/", "::1", "[::1]", "/", 8080, false, true, false, true},
		{"http://[2001:DB8:0:0::0:1]/", "2001:db8::1", "[2001:DB8:0:0::0:1]", "/", 80, false, false, false,
			true},
		{"http://a_b-c~d.e/http://x", "a_b-c~d.e", "a_b-c~d.e", "/http://x", 80, false, false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_good(&cases[i], false);
}

static void authority_form(void **state)
{
	static const struct good cases[] = {
		{"h:443", "h", "h", "", 443, false, true, false, false},
		{"H.:65535", "h", "H.", "", 65535, false, true, false, false},
		{"[::1]:443", "::1", "[::1]", "", 443, false, true, false, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_good(&cases[i], true);
}

static void origin_and_asterisk_form(void **state)
{
	struct target target;

	(void)state;
	assert_null(target_parse(SLICE("/a/../b?c"), false, &target));
	assert_int_equal(target.form, TARGET_ORIGIN);
	assert_string_equal(target.host, "");
	assert_int_equal(target.port, 0);
	assert_true(slice_equals(target.path, SLICE("/a/../b?c")));
	assert_null(target_parse(SLICE("*"), false, &target));
	assert_int_equal(target.form, TARGET_ASTERISK);
	assert_true(slice_equals(target.path, SLICE("*")));
}

static void bad_targets(void **state)
{
	static const char *const bad[] = {
		"",
		"h",
		"h:80",
		"ftp://h/",
		"http:/h",
		"http://",
		"http:///x",
		"http://:80/",
		"http://h:0/",
		"http://h:65536/",
		"http://h:8x/",
		"http://h:-1/",
		"http://h:+1/",
		"http://h:000080/",
		"http://h#f",
		"http://127.0.0.1:8#@evil/",
		"http://h/a#b",
		"http://h/ x",
		"http://h/\tx",
		"http://h/\x7f",
		"http://[::1/",
		"http://[]/",
		"http://[h]/",
		"http://[::1]x/",
		"http://[fe80::1%25lo]/",
		"http://[fe80::1%lo]/",
		"http://a@b@h/",
		"http://..../",
		"http://./",
		"http://a..b/",
		"http://.a/",
		"http://h,i/",
		"http://%68/",
		"http://h\\evil/",
		"http://\xc3\xa4/",
		"http://*/",
		"http://u:p@/",
		"**",
	};
	struct target target;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!target_parse(slice_of(bad[i]), false, &target))
			fail_msg("taken: %s", bad[i]);
}

static void bad_connect_targets(void **state)
{
	static const char *const bad[] = {
		/* I1 */
		"h",
		"h:",
		":443",
		":",
		"h:0",
		"h:65536",
		"h:443x",
		"h:443/",
		"h:443?",
		"h:443#",
		"u:p@h:443",
		"http://h:443",
		"/",
		"*",
		"[::1]",
		"[::1",
		"::1:443",
	};
	struct target target;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!target_parse(slice_of(bad[i]), true, &target))
			fail_msg("taken: %s", bad[i]);
}

static void host_names_have_a_length(void **state)
{
	char text[8 + TARGET_MAX_HOST + 1];
	struct target target;

	(void)state;
	memcpy(text, "http://", 7);
	memset(text + 7, 'a', TARGET_MAX_HOST + 1);
	assert_null(target_parse((struct slice){text, 7 + TARGET_MAX_HOST}, false, &target));
	assert_int_equal(strlen(target.host), TARGET_MAX_HOST);
	assert_string_equal(target_parse((struct slice){text, 7 + TARGET_MAX_HOST + 1}, false, &target),
		"host name is too long (RFC 1035 2.3.4)");
}

static void host_field(void **state)
{
	static const char *const bad[] = {
		"", ":80", "a b", "u@h", "h/", "h:x", "h:0", "h,h", "[::1", "a\tb", "http://h"};
	struct target target;

	(void)state;
	assert_null(target_parse_host(SLICE("Api.Example:8080"), &target));
	assert_string_equal(target.host, "api.example");
	assert_int_equal(target.port, 8080);
	assert_true(target.has_port);
	assert_null(target_parse_host(SLICE("[::1]"), &target));
	assert_string_equal(target.host, "::1");
	assert_false(target.has_port);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!target_parse_host(slice_of(bad[i]), &target))
			fail_msg("taken: %s", bad[i]);
}

static void match_path(void **state)
{
	static const char *const cases[][2] = {
		{"", "/"},
		{"?q", "/"},
		{"/%63harge", "/charge"},
		{"/a/../charge?x=/../y", "/charge"},
		{"/a%2fb", "/a%2Fb"},
		{"/x/", "/x/"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = target_match_path(slice_of(cases[i][0]), out, sizeof(out));
		assert_int_equal(n, strlen(cases[i][1]));
		assert_memory_equal(out, cases[i][1], n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absolute_form),
		cmocka_unit_test(authority_form),
		cmocka_unit_test(origin_and_asterisk_form),
		cmocka_unit_test(bad_targets),
		cmocka_unit_test(bad_connect_targets),
		cmocka_unit_test(host_names_have_a_length),
		cmocka_unit_test(host_field),
		cmocka_unit_test(match_path),
	};
	return cmocka_run_group_tests_name("http target", tests, NULL, NULL);
}
