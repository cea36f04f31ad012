#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/diff.h"

static struct config *load(const char *text)
{
	struct fault_list faults;
	struct config *config;

	fault_list_init(&faults);
	config = config_load_text("t.yaml", text, strlen(text), &faults);
	if (!config)
		fail_msg("%u: %s", faults.items[0].line, faults.items[0].message);
	fault_list_clear(&faults);
	return config;
}

/* "scope key: before -> after" or "+scope" / "-scope", one to a line. */
static void assert_diff(const char *before_text, const char *after_text, const char *expected)
{
	struct config *before = load(before_text), *after = load(after_text);
	struct change_list changes = {0};
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	config_diff(before, after, &changes);
	for (size_t i = 0; i < changes.n; i++) {
		const struct change *change = &changes.items[i];

		if (change->kind == CHANGE_CHANGED)
			fprintf(out, "%s %s: %s -> %s\n", change->scope, change->key, change->before, change->after);
		else
			fprintf(out, "%c%s\n", change->kind == CHANGE_ADDED ? '+' : '-', change->scope);
	}
	fclose(out);
	assert_string_equal(text, expected);
	assert_int_equal(changes.n_left_out, 0);
	free(text);
	change_list_clear(&changes);
	config_unref(&before);
	config_unref(&after);
}

#define A "upstreams:\n  - {name: a, match: {hosts: [a.example]}"
#define B "  - {name: b, match: {hosts: [b.example]}"

static void test_no_change(void **state)
{
	(void)state;
	assert_diff("", "# comment\n", "");
	assert_diff("", "defaults: {timeouts: {total: 30s}}\n", ""); /* written out, but the same */
	assert_diff(A "}\n" B "}\n", A "}\n" B "}\n", "");
	assert_diff("defaults: {timeouts: {total: 60s}}\n", "defaults: {timeouts: {total: 1m}}\n", "");
}

static void test_global(void **state)
{
	(void)state;
	assert_diff("listen: 127.0.0.1:1\n",
		"listen: [127.0.0.1:2, 127.0.0.1:3]\nadmin: off\negress: {connect_ports: any}\n",
		" listen: 127.0.0.1:1 -> [127.0.0.1:2, 127.0.0.1:3]\n"
		" admin: 127.0.0.1:9128 -> off\n"
		" egress.connect_ports: [443] -> any\n");
	assert_diff("egress: {deny_addresses: [10.0.0.0/8]}\n", "egress: {deny_addresses: [10.0.0.0/9]}\n",
		" egress.deny_addresses: [10.0.0.0/8] -> [10.0.0.0/9]\n");
}

static void test_upstreams(void **state)
{
	(void)state;
	assert_diff(A "}\n", "upstreams:\n" B "}\n", "-upstreams[a]\n+upstreams[b]\n");
	assert_diff(A "}\n" B "}\n", A ", timeouts: {total: 20s}, tls: {verify: on, originate: on}}\n" B "}\n",
		"upstreams[a] tls.originate: off -> on\n"
		"upstreams[a] timeouts.total: 30s -> 20s\n");
	/* the order of entries is not part of the policy */
	assert_diff(A "}\n" B "}\n", "upstreams:\n" B "}\n  - {name: a, match: {hosts: [a.example]}}\n", "");
}

static void test_inherited(void **state)
{
	(void)state;
	assert_diff(A "}\n" B ", timeouts: {total: 20s}}\n",
		"defaults: {timeouts: {total: 25s}}\n" A "}\n" B ", timeouts: {total: 20s}}\n",
		"defaults timeouts.total: 30s -> 25s\n");
	/* what was inherited is now its own, and another */
	assert_diff(A "}\n", "defaults: {timeouts: {total: 25s}}\n" A ", timeouts: {total: 12s}}\n",
		"defaults timeouts.total: 30s -> 25s\n"
		"upstreams[a] timeouts.total: 30s -> 12s\n");
}

static void test_routes(void **state)
{
	(void)state;
	assert_diff(A ", routes: [{match: {paths: [/x]}}]}\n",
		A ", routes: [{match: {paths: [/y]}, retry: {max_attempts: 1}}, {match: {methods: [GET]}}]}\n",
		"upstreams[a].routes[0] match.paths: [/x] -> [/y]\n"
		"upstreams[a].routes[0] retry.max_attempts: 3 -> 1\n"
		"+upstreams[a].routes[1]\n");
	assert_diff(A ", routes: [{match: {paths: [/x]}}]}\n", A "}\n", "-upstreams[a].routes[0]\n");
}

static void test_bound(void **state)
{
	struct config *empty = load(""), *many;
	struct change_list changes = {0};
	char *text = malloc(200000), *at = text;

	(void)state;
	assert_non_null(text);
	at += sprintf(at, "upstreams:\n");
	for (int i = 0; i < 1500; i++)
		at += sprintf(at, "  - {name: u%d, match: {hosts: [u%d.example]}}\n", i, i);
	many = load(text);
	config_diff(empty, many, &changes);
	assert_int_equal(changes.n, MAX_CHANGES);
	assert_int_equal(changes.n_left_out, 500);
	assert_string_equal(changes.items[999].scope, "upstreams[u999]");
	change_list_clear(&changes);
	config_unref(&empty);
	config_unref(&many);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_change),
		cmocka_unit_test(test_global),
		cmocka_unit_test(test_upstreams),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
