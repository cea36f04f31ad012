#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "../../proxy/policy/match.h"

#define LIST(...) { (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *) }
#define PORTS(...) .ports = (const uint16_t[]){ __VA_ARGS__ }, .n_ports = sizeof((const uint16_t[]){ __VA_ARGS__ }) / 2

static struct route pay_routes[] = {
	{ .text = "charges", .methods = LIST("POST"), .paths = LIST("/v1/charges", "/v1/refunds/*") },
	{ .text = "stream", .paths = LIST("/v1/stream/*") },
	{ .text = "any-post", .methods = LIST("POST", "PUT") },
};

static struct upstream_def upstreams[] = {
	{ .name = "star", .hosts = LIST("*") },
	{ .name = "wide", .hosts = LIST("*.example") },
	{ .name = "pay", .hosts = LIST("api.pay.example", "*.pay.example"), .routes = pay_routes, .n_routes = 3 },
	{ .name = "pay-8443", .hosts = LIST("api.pay.example"), PORTS(8443, 9443) },
	{ .name = "v6", .hosts = LIST("2001:db8::1", "10.0.0.1") },
	{ .name = "wide-8080", .hosts = LIST("*.example"), PORTS(8080) },
};

static struct config config = { .upstreams = upstreams, .n_upstreams = 6, .unmatched = { .name = "default" } };

static const char *upstream_for(const char *host, uint16_t port)
{
	const struct upstream_def *upstream = match_upstream(&config, slice_of(host), port);

	return upstream ? upstream->name : "none";
}

static void exact_beats_suffix_beats_star(void **state)
{
	(void)state;
	assert_string_equal(upstream_for("api.pay.example", 443), "pay");
	assert_string_equal(upstream_for("a.pay.example", 443), "pay");
	assert_string_equal(upstream_for("a.b.pay.example", 443), "pay");
	assert_string_equal(upstream_for("pay.example", 443), "wide");
	assert_string_equal(upstream_for("xpay.example", 443), "wide");
	assert_string_equal(upstream_for("example", 443), "star");
	assert_string_equal(upstream_for("other.test", 443), "star");
	assert_string_equal(upstream_for("2001:db8::1", 80), "v6");
	assert_string_equal(upstream_for("10.0.0.1", 80), "v6");
	assert_string_equal(upstream_for("10.0.0.10", 80), "star");
}

static void host_before_port(void **state)
{
	(void)state;
	assert_string_equal(upstream_for("api.pay.example", 8443), "pay-8443");
	assert_string_equal(upstream_for("api.pay.example", 9443), "pay-8443");
	assert_string_equal(upstream_for("x.example", 8080), "wide-8080");
	assert_string_equal(upstream_for("x.example", 80), "wide");
	assert_string_equal(upstream_for("x.pay.example", 8080), "pay"); /* longer suffix, though the port is named elsewhere */
}

/* The order of the file decides nothing. */
static void order_does_not_matter(void **state)
{
	(void)state;
	struct upstream_def turned[6];

	for (int i = 0; i < 6; i++)
		turned[i] = upstreams[5 - i];
	config.upstreams = turned;
	exact_beats_suffix_beats_star(state);
	host_before_port(state);
	config.upstreams = upstreams;
}

static void unmatched_gets_default_or_none(void **state)
{
	(void)state;
	struct config narrow = { .upstreams = &upstreams[2], .n_upstreams = 1, .unmatched = { .name = "default" } };
	struct match match;

	assert_ptr_equal(match_upstream(&narrow, SLICE("other.test"), 80), &narrow.unmatched);
	match = match_request(&narrow, SLICE("other.test"), 80, SLICE("GET"), SLICE("/"));
	assert_ptr_equal(match.policy, &narrow.unmatched.policy);
	narrow.global.unmatched_deny = true;
	match = match_request(&narrow, SLICE("other.test"), 80, SLICE("GET"), SLICE("/"));
	assert_null(match.upstream);
	assert_null(match.route);
	assert_null(match.policy);
	narrow.n_upstreams = 0;
	assert_null(match_upstream(&narrow, SLICE(""), 80));
}

static const char *route_for(const char *method, const char *path)
{
	const struct route *route = match_route(&upstreams[2], slice_of(method), slice_of(path));

	return route ? route->text : "none";
}

static void first_route_wins(void **state)
{
	(void)state;
	assert_string_equal(route_for("POST", "/v1/charges"), "charges");
	assert_string_equal(route_for("POST", "/v1/refunds/12/x"), "charges");
	assert_string_equal(route_for("POST", "/v1/refunds/"), "charges");
	assert_string_equal(route_for("POST", "/v1/refunds"), "any-post");
	assert_string_equal(route_for("POST", "/v1/charges/"), "any-post");
	assert_string_equal(route_for("POST", "/V1/charges"), "any-post");
	assert_string_equal(route_for("POST", "/v1/stream/a"), "stream");
	assert_string_equal(route_for("GET", "/v1/stream/a"), "stream");
	assert_string_equal(route_for("PUT", "/"), "any-post");
	assert_string_equal(route_for("post", "/"), "none");
	assert_string_equal(route_for("GET", "/v1/charges"), "none");
	struct match match = match_request(&config, SLICE("api.pay.example"), 443, SLICE("POST"), SLICE("/v1/charges"));
	assert_ptr_equal(match.policy, &pay_routes[0].policy);
	match = match_request(&config, SLICE("api.pay.example"), 443, SLICE("GET"), SLICE("/"));
	assert_ptr_equal(match.policy, &upstreams[2].policy);
}

static bool glob(const char *pattern, const char *text)
{
	return match_glob(slice_of(pattern), slice_of(text));
}

static void globs(void **state)
{
	(void)state;
	assert_true(glob("", ""));
	assert_false(glob("", "a"));
	assert_true(glob("*", ""));
	assert_true(glob("*", "/a/b"));
	assert_true(glob("**", "x"));
	assert_true(glob("***", ""));
	assert_true(glob("a*", "a"));
	assert_false(glob("a*a", "a"));
	assert_true(glob("a*a", "aa"));
	assert_true(glob("/a/*/c", "/a/b/x/c"));
	assert_false(glob("/a/*/c", "/a/c"));
	assert_true(glob("*b*", "abc"));
	assert_false(glob("*b*", "ac"));
	assert_true(glob("*ab*ab", "abab"));
	assert_false(glob("*ab*ab", "aab"));
	assert_false(glob("*ab*ab*ab", "ababxb"));
	assert_true(glob("x*aab*y", "xaaaaby"));
	assert_false(glob("?", "a"));
	assert_false(glob("[a]", "a"));
}

/* The simplest matcher that is right, to hold the fast one against. */
static bool slow_glob(const char *pattern, const char *text)
{
	if (*pattern == '\0')
		return *text == '\0';
	if (*pattern == '*')
		return slow_glob(pattern + 1, text) || (*text && slow_glob(pattern, text + 1));
	return *pattern == *text && slow_glob(pattern + 1, text + 1);
}

/* Every pattern of up to 5 out of {a, b, *} on every text of up to 5 out of {a, b}. */
static void globs_agree_with_the_definition(void **state)
{
	(void)state;
	char pattern[8], words[64][8];
	int n_words = 0, n_matches = 0;

	for (int length = 0; length <= 5; length++)
		for (int bits = 0; bits < 1 << length; bits++) {
			for (int i = 0; i < length; i++)
				words[n_words][i] = (bits >> i & 1) ? 'a' : 'b';
			words[n_words++][length] = '\0';
		}
	for (int length = 0, n = 1; length <= 5; length++, n *= 3)
		for (int code = 0; code < n; code++) {
			for (int i = 0, left = code; i < length; i++, left /= 3)
				pattern[i] = "ab*"[left % 3];
			pattern[length] = '\0';
			for (int i = 0; i < n_words; i++) {
				assert_int_equal(glob(pattern, words[i]), slow_glob(pattern, words[i]));
				n_matches += glob(pattern, words[i]);
			}
		}
	assert_true(n_matches > 1000);
}

/* Backtracking would take minutes here. */
static void globs_are_linear(void **state)
{
	(void)state;
	static char pattern[2002], text[200001];
	size_t n = 0;

	for (int i = 0; i < 20; i++) {
		pattern[n++] = '*';
		memset(pattern + n, 'a', 49);
		n += 49;
		pattern[n++] = 'b';
	}
	memset(text, 'a', sizeof text - 1);
	clock_t began = clock();
	for (int i = 0; i < 20; i++)
		assert_false(glob(pattern, text));
	assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_beats_suffix_beats_star),
		cmocka_unit_test(host_before_port),
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(unmatched_gets_default_or_none),
		cmocka_unit_test(first_route_wins),
		cmocka_unit_test(globs),
		cmocka_unit_test(globs_agree_with_the_definition),
		cmocka_unit_test(globs_are_linear),
	};
	return cmocka_run_group_tests_name("match", tests, NULL, NULL);
}
