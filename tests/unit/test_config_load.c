/* From a file's text to merged policies: values, merge order, origins, look-ups, reference counts. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../config/dump.h"
#include "../../config/keys.h"
#include "../../config/load.h"

static struct config *load(const char *text)
{
	struct fault_list faults;
	struct config *config;

	fault_list_init(&faults);
	config = config_load_text("t.yaml", text, strlen(text), &faults);
	if (!config)
		fail_msg("%u:%u: %s", faults.items[0].line, faults.items[0].column, faults.items[0].message);
	fault_list_clear(&faults);
	return config;
}

/* Loads and expects exactly this one fault, an error or a warning. */
static void assert_fault(const char *text, unsigned line, unsigned column, unsigned related_line, const char *message)
{
	struct fault_list faults;
	struct config *config;

	fault_list_init(&faults);
	config = config_load_text("t.yaml", text, strlen(text), &faults);
	assert_int_equal(faults.n, 1);
	assert_string_equal(faults.items[0].message, message);
	assert_int_equal(faults.items[0].line, line);
	assert_int_equal(faults.items[0].column, column);
	assert_int_equal(faults.items[0].related_line, related_line);
	assert_string_equal(faults.items[0].file, "t.yaml");
	assert_int_equal(config == NULL, faults.items[0].severity == FAULT_ERROR);
	config_unref(&config);
	fault_list_clear(&faults);
}

static void assert_texts(const struct string_list *list, const char *expected)
{
	char joined[1000] = "";

	for (size_t i = 0; i < list->n; i++) {
		strcat(joined, i ? " " : "");
		strcat(joined, list->items[i]);
	}
	assert_string_equal(joined, expected);
}

static const char *value(const char *path, unsigned scope, const void *owner)
{
	static char text[512];

	key_format_value(key_find(path, scope), owner, text, sizeof(text));
	return text;
}

static unsigned line_of(const struct config *config, const char *path, unsigned scope, const void *owner)
{
	return config_origin(config, owner, key_find(path, scope)).line;
}

static void test_built_in(void **state)
{
	struct fault_list faults;
	struct config *config;
	const struct policy *policy;

	(void)state;
	fault_list_init(&faults);
	config = config_load(NULL, &faults);
	assert_non_null(config);
	assert_int_equal(faults.n, 0);
	assert_null(config->path);
	assert_int_equal(config->n_upstreams, 0);
	assert_string_equal(config->unmatched.name, "default");
	assert_int_equal(config->unmatched.index, SIZE_MAX);
	assert_true(config->unmatched.tls.verify);
	assert_false(config->unmatched.tls.originate);
	assert_int_equal(config->unmatched.tls.min_version, TLS_1_2);
	assert_null(config->unmatched.tls.ca_file);
	assert_int_equal(config->global.listen.n, 1);
	assert_string_equal(config->global.listen.items[0].host, "127.0.0.1");
	assert_int_equal(config->global.listen.items[0].port, 3128);
	assert_int_equal(config->global.listen.items[0].line, 0);
	assert_true(config->global.admin_is_on);
	assert_int_equal(config->global.admin.port, 9128);
	assert_int_equal(config->global.limits.request_buffer_bytes, 1048576);
	assert_int_equal(config->global.client.idle_timeout_ms, 60000);
	assert_int_equal(config->global.drain.timeout_ms, 25000);
	assert_int_equal(config->global.egress.n_connect_ports, 1);
	assert_int_equal(config->global.egress.connect_ports[0], 443);
	assert_int_equal(config->global.egress.n_deny, 3);
	assert_int_equal(config->global.egress.deny[0].prefix_length, 16);
	assert_int_equal(config->global.egress.deny[0].address[0], 169);
	assert_true(config->global.egress.deny[2].is_v6);
	assert_int_equal(config->global.dns.servers.n, 0);
	policy = &config->defaults;
	assert_int_equal(policy->timeouts.total_ms, 30000);
	assert_int_equal(policy->timeouts.response_headers_ms, LIMIT_OFF);
	assert_int_equal(policy->timeouts.tunnel_idle_ms, 300000);
	assert_texts(
		&policy->timeouts.stream_types, "text/event-stream application/x-ndjson multipart/x-mixed-replace");
	assert_int_equal(policy->retry.on.kinds, RETRY_DNS_FAILURE | RETRY_CONNECT_FAILURE | RETRY_RESET |
							 RETRY_ATTEMPT_TIMEOUT | RETRY_INCOMPLETE_BODY);
	assert_true(retry_on_status(&policy->retry.on, 503));
	assert_false(retry_on_status(&policy->retry.on, 500));
	assert_texts(&policy->retry.methods, "GET HEAD OPTIONS TRACE PUT DELETE");
	assert_string_equal(policy->retry.idempotency_key, "Idempotency-Key");
	assert_true(policy->retry.budget.is_on);
	assert_true(policy->retry.budget.ratio == 0.2);
	assert_true(policy->retry.backoff.multiplier == 2);
	assert_false(policy->breaker.is_on);
	assert_int_equal(policy->breaker.consecutive, 5);
	assert_int_equal(policy->override, OVERRIDE_TIGHTEN);
	config_unref(&config);
	assert_null(config);
	fault_list_clear(&faults);
}

static const char merged[] = "defaults:\n"
			     "  timeouts: {total: 20s, attempt: 4s}\n"
			     "  retry: {methods: [GET], budget: off}\n"
			     "upstreams:\n"
			     "  - name: a\n"
			     "    match: {hosts: [A.Example., \"*.a.example\", \"[0:0::1]\"], ports: [80, 8080]}\n"
			     "    timeouts: {total: 8s}\n"
			     "    retry: {budget: {ratio: 10%}}\n"
			     "    routes:\n"
			     "      - name: charge\n"
			     "        match: {methods: [POST], paths: [/a/../%63harge, \"/x/*\"]}\n"
			     "        timeouts: {attempt: off}\n"
			     "        retry: {on: [5xx, reset]}\n"
			     "      - match: {methods: [GET]}\n"
			     "  - name: b\n"
			     "    match: {hosts: [b.example]}\n";

static void test_merge(void **state)
{
	struct config *config = load(merged);
	const struct upstream_def *a = &config->upstreams[0], *b = &config->upstreams[1];
	const struct policy *charge = &a->routes[0].policy;

	(void)state;
	assert_int_equal(config->n_upstreams, 2);
	assert_int_equal(config->defaults.timeouts.total_ms, 20000);
	assert_int_equal(config->unmatched.policy.timeouts.total_ms, 20000);
	assert_int_equal(a->policy.timeouts.total_ms, 8000);
	assert_int_equal(a->policy.timeouts.attempt_ms, 4000);
	assert_int_equal(charge->timeouts.total_ms, 8000);
	assert_int_equal(charge->timeouts.attempt_ms, LIMIT_OFF);
	assert_int_equal(b->policy.timeouts.total_ms, 20000);
	assert_texts(&b->policy.retry.methods, "GET"); /* lists replace */
	assert_false(b->policy.retry.budget.is_on);
	assert_true(a->policy.retry.budget.is_on); /* a map switches on */
	assert_true(a->policy.retry.budget.ratio == 0.1);
	assert_int_equal(a->policy.retry.budget.reserve, 10);
	assert_int_equal(charge->retry.on.kinds, RETRY_RESET);
	assert_true(retry_on_status(&charge->retry.on, 500));
	assert_true(retry_on_status(&charge->retry.on, 599));
	assert_false(retry_on_status(&charge->retry.on, 429));
	assert_string_equal(value("retry.on", KEY_POLICY, charge), "[reset, 5xx]");
	config_unref(&config);
}

static void test_upstream_and_route(void **state)
{
	struct config *config = load(merged);
	const struct upstream_def *a = &config->upstreams[0];

	(void)state;
	assert_texts(&a->hosts, "a.example *.a.example ::1");
	assert_int_equal(a->n_ports, 2);
	assert_int_equal(a->ports[1], 8080);
	assert_int_equal(a->line, 5);
	assert_int_equal(config->upstreams[1].index, 1);
	assert_int_equal(a->n_routes, 2);
	assert_string_equal(a->routes[0].text, "charge");
	assert_string_equal(a->routes[1].text, "routes[1]");
	assert_texts(&a->routes[0].paths, "/charge /x/*");
	assert_texts(&a->routes[0].methods, "POST");
	assert_int_equal(a->routes[1].paths.n, 0);
	assert_int_equal(a->routes[1].line, 14);
	config_unref(&config);
}

static void test_origins(void **state)
{
	struct config *config = load(merged);
	const struct upstream_def *a = &config->upstreams[0];
	const struct policy *charge = &a->routes[0].policy;

	(void)state;
	assert_int_equal(line_of(config, "timeouts.total", KEY_POLICY, &config->defaults), 2);
	assert_int_equal(line_of(config, "timeouts.total", KEY_POLICY, &a->policy), 7);
	assert_int_equal(line_of(config, "timeouts.total", KEY_POLICY, charge), 7);
	assert_int_equal(line_of(config, "timeouts.attempt", KEY_POLICY, charge), 12);
	assert_int_equal(line_of(config, "timeouts.connect", KEY_POLICY, charge), 0);
	assert_int_equal(line_of(config, "timeouts.total", KEY_POLICY, &config->unmatched.policy), 2);
	assert_int_equal(line_of(config, "retry.budget", KEY_POLICY, &a->policy), 8);
	assert_int_equal(line_of(config, "retry.budget.reserve", KEY_POLICY, &a->policy), 0);
	assert_int_equal(line_of(config, "match.ports", KEY_UPSTREAM, a), 6);
	assert_int_equal(line_of(config, "match.paths", KEY_ROUTE, &a->routes[0]), 11);
	assert_int_equal(line_of(config, "listen", KEY_GLOBAL, &config->global), 0);
	config_unref(&config);
}

static void test_references(void **state)
{
	struct config *config = load("listen: 127.0.0.1:1\n"), *second = config_ref(config);

	(void)state;
	assert_int_equal(config->references, 2);
	config_unref(&config);
	assert_null(config);
	assert_int_equal(second->references, 1);
	assert_int_equal(second->global.listen.items[0].port, 1);
	config_unref(&second);
	config_unref(&second); /* nothing there is fine */
}

static void test_global_values(void **state)
{
	struct config *config =
		load("listen: [\"[0::1]:0\", unix:/run/x.sock]\n"
		     "admin: off\n"
		     "admin_hosts: [Admin.Example]\n"
		     "unmatched: deny\n"
		     "log: {level: warn, format: text, access: off}\n"
		     "client: {half_close: serve, idle_timeout: off}\n"
		     "egress: {connect_ports: any, tunnel_http: off, deny_addresses: [10.0.0.0/8, \"::1\"]}\n"
		     "dns: {servers: [10.0.0.2, \"[::1]:53\", \"fe80::1\"]}\n"
		     "upstreams: [{name: a, match: {hosts: [a.example]}}]\n");
	const struct global_rule *global = &config->global;

	(void)state;
	assert_int_equal(global->listen.n, 2);
	assert_string_equal(global->listen.items[0].text, "[::1]:0");
	assert_string_equal(global->listen.items[0].host, "::1");
	assert_string_equal(global->listen.items[1].unix_path, "/run/x.sock");
	assert_null(global->listen.items[1].host);
	assert_false(global->admin_is_on);
	assert_texts(&global->admin_hosts, "admin.example");
	assert_true(global->unmatched_deny);
	assert_int_equal(global->log_level, LOG_WARN);
	assert_true(global->log_text);
	assert_false(global->log_access);
	assert_true(global->client.half_close_serve);
	assert_int_equal(global->client.idle_timeout_ms, LIMIT_OFF);
	assert_true(global->egress.connect_any_port);
	assert_false(global->egress.tunnel_http);
	assert_int_equal(global->egress.n_deny, 2);
	assert_int_equal(global->egress.deny[1].prefix_length, 128);
	assert_texts(&global->dns.servers, "10.0.0.2 [::1]:53 fe80::1");
	config_unref(&config);
}

static void test_jitter_and_words(void **state)
{
	struct config *config =
		load("defaults:\n"
		     "  retry: {backoff: {jitter: 0.25}, idempotency_key: off, nested: allow, hold_response: off}\n"
		     "  override: off\n"
		     "upstreams:\n"
		     "  - {name: a, match: {hosts: [a.example]}, retry: {backoff: {jitter: equal}}, override: any}\n");

	(void)state;
	assert_int_equal(config->defaults.retry.backoff.jitter, JITTER_FRACTION);
	assert_true(config->defaults.retry.backoff.jitter_fraction == 0.25);
	assert_null(config->defaults.retry.idempotency_key);
	assert_true(config->defaults.retry.nested_allow);
	assert_int_equal(config->defaults.retry.hold_response_bytes, LIMIT_OFF);
	assert_int_equal(config->defaults.override, OVERRIDE_OFF);
	assert_int_equal(config->upstreams[0].policy.retry.backoff.jitter, JITTER_EQUAL);
	assert_int_equal(config->upstreams[0].policy.override, OVERRIDE_ANY);
	assert_string_equal(value("retry.backoff.jitter", KEY_POLICY, &config->defaults), "25%");
	assert_string_equal(value("retry.idempotency_key", KEY_POLICY, &config->defaults), "off");
	config_unref(&config);
}

static void test_environment(void **state)
{
	struct config *config;

	(void)state;
	setenv("EVENKEEL_TEST_TOTAL", "7s", 1);
	setenv("EVENKEEL_TEST_EMPTY", "", 1);
	setenv("EVENKEEL_TEST_NESTED", "${EVENKEEL_TEST_TOTAL}", 1);
	config = load("upstreams:\n"
		      "  - name: a${EVENKEEL_TEST_EMPTY}b${EVENKEEL_TEST_EMPTY:-c}\n"
		      "    match: {hosts: [a.example]}\n"
		      "    timeouts: {total: \"${EVENKEEL_TEST_TOTAL}\"}\n"
		      "    tls: {ca_file: \"/$x/$${EVENKEEL_TEST_TOTAL}\", client_cert: \"${EVENKEEL_TEST_NESTED}\", "
		      "client_key: k}\n");
	assert_string_equal(config->upstreams[0].name, "abc");
	assert_int_equal(config->upstreams[0].policy.timeouts.total_ms, 7000);
	assert_string_equal(config->upstreams[0].tls.ca_file, "/$x/${EVENKEEL_TEST_TOTAL}");
	assert_string_equal(config->upstreams[0].tls.client_cert, "${EVENKEEL_TEST_TOTAL}");
	config_unref(&config);
}

/* What comes from the environment is a value, never YAML. */
static void test_environment_is_not_yaml(void **state)
{
	(void)state;
	setenv("EVENKEEL_TEST_YAML", "5s, attempt: 1ms", 1);
	assert_fault("defaults: {timeouts: {total: \"${EVENKEEL_TEST_YAML}\"}}\n", 1, 30, 0,
		"timeouts.total: \"5s, attempt: 1ms\": write the digits without separators (from "
		"\"${EVENKEEL_TEST_YAML}\")");
	setenv("EVENKEEL_TEST_YAML", "5s\nadmin: off", 1);
	assert_fault("defaults: {timeouts: {total: \"${EVENKEEL_TEST_YAML}\"}}\n", 1, 30, 0,
		"timeouts.total: a line break or control character can't be part of the value (from "
		"\"${EVENKEEL_TEST_YAML}\")");
}

static void test_places(void **state)
{
	(void)state;
	assert_fault("defauts: {}\n", 1, 1, 0, "unknown key \"defauts\" at the top level; did you mean defaults?");
	assert_fault(
		"defaults: {timeouts: {  total: 5}}\n", 1, 32, 0, "timeouts.total: \"5\" has no unit: write 5s or 5ms");
	assert_fault("x-é: é\ndefaults: {x: é, }\n", 2, 12, 0, "unknown key \"x\" in defaults");
	assert_fault("defaults:\n  timeouts: {total: 20s}\n  timeouts: {total: 20s}\n", 3, 3, 2,
		"duplicate key \"timeouts\": it is on line 2 already");
	assert_fault("defaults:\n  timeouts:\n    total: 2s\n    connect: 1s\n    attempt: 3s\n", 5, 5, 3,
		"timeouts.attempt 3s is longer than timeouts.total 2s: one slow attempt takes all the time there is");
}

/* An aliased mistake is one mistake, at the place where it is written. */
static void test_alias_faults_are_not_doubled(void **state)
{
	(void)state;
	assert_fault("x-t: &t {total: 5}\n"
		     "upstreams:\n"
		     "  - {name: a, match: {hosts: [a.example]}, timeouts: *t}\n"
		     "  - {name: b, match: {hosts: [b.example]}, timeouts: *t}\n",
		1, 17, 0, "timeouts.total: \"5\" has no unit: write 5s or 5ms");
}

static void test_secrets_are_hidden(void **state)
{
	struct config *config = load("listen: 127.0.0.1:1\n");
	const struct header_field fields[] = {
		{"Authorization", "Bearer geheim"}, {"X-Api-Key", "geheim"}, {"X-A", "b"}};
	struct policy policy = config->defaults;

	(void)state;
	policy.request_headers.set = fields;
	policy.request_headers.n_set = 3;
	assert_string_equal(value("headers.request.set", KEY_POLICY, &policy),
		"{Authorization: \"(hidden)\", X-Api-Key: \"(hidden)\", X-A: \"b\"}");
	config_unref(&config);
}

static void assert_unreadable(const char *path, const char *message)
{
	struct fault_list faults;

	fault_list_init(&faults);
	assert_null(config_load(path, &faults));
	assert_int_equal(faults.n, 1);
	assert_int_equal(faults.n_errors, 1);
	assert_int_equal(faults.items[0].line, 0);
	assert_string_equal(faults.items[0].message, message);
	assert_string_equal(faults.items[0].file, path);
	fault_list_clear(&faults);
}

static void test_unreadable_files(void **state)
{
	char folder[] = "/tmp/evenkeel-test-XXXXXX", path[100];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/none.yaml", folder);
	assert_unreadable(path, "can't be read: No such file or directory");
	assert_unreadable(folder, "can't be read: it is a directory");
	assert_unreadable("/dev/zero", "can't be read: it is larger than 1 MiB");
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(ftruncate(fd, 1024 * 1024 + 1), 0);
	close(fd);
	assert_unreadable(path, "can't be read: it is larger than 1 MiB");
	unlink(path);
	rmdir(folder);
}

/* As with `evenkeel check <(generate)`. */
static void test_a_pipe_is_read(void **state)
{
	struct fault_list faults;
	struct config *config;
	char path[64];
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "admin: off\n", 11), 11);
	close(ends[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	fault_list_init(&faults);
	config = config_load(path, &faults);
	assert_non_null(config);
	assert_false(config->global.admin_is_on);
	config_unref(&config);
	fault_list_clear(&faults);
	close(ends[0]);
}

static void test_a_list_is_reused(void **state)
{
	struct fault_list faults;
	struct config *config;

	(void)state;
	fault_list_init(&faults);
	assert_null(config_load_text("one.yaml", "a: 1\nb: 2\n", 10, &faults));
	assert_int_equal(faults.n_errors, 2);
	config = config_load_text("two.yaml", "listen: 127.0.0.1:1", 19, &faults);
	assert_non_null(config);
	assert_int_equal(faults.n, 0);
	assert_int_equal(faults.n_errors, 0);
	assert_string_equal(faults.file, "two.yaml");
	config_unref(&config);
	fault_list_clear(&faults);
}

/* The dump without the comments that say where values came from. */
static char *dump_of(const struct config *config)
{
	char *text = NULL, *out;
	size_t n;
	FILE *stream = open_memstream(&text, &n);

	config_dump_yaml(stream, config);
	fclose(stream);
	out = text;
	for (char *c = text; *c; c++) {
		if (!strncmp(c, " # line ", 8))
			c += strcspn(c, "\n");
		*out++ = *c;
	}
	*out = '\0';
	return text;
}

/* The dump of any config is a policy file that loads to the same dump. */
static void test_dump_round_trip(void **state)
{
	struct config *config = load(merged), *again;
	char *first = dump_of(config), *second;

	(void)state;
	again = load(first);
	second = dump_of(again);
	assert_string_equal(strchr(first, '\n'), strchr(second, '\n')); /* but for the name of the file */
	assert_int_equal(again->upstreams[0].routes[0].policy.timeouts.attempt_ms, LIMIT_OFF);
	assert_texts(&again->upstreams[0].hosts, "a.example *.a.example ::1");
	free(first);
	free(second);
	config_unref(&config);
	config_unref(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_built_in),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_upstream_and_route),
		cmocka_unit_test(test_origins),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_global_values),
		cmocka_unit_test(test_jitter_and_words),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_environment_is_not_yaml),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_alias_faults_are_not_doubled),
		cmocka_unit_test(test_secrets_are_hidden),
		cmocka_unit_test(test_unreadable_files),
		cmocka_unit_test(test_a_pipe_is_read),
		cmocka_unit_test(test_a_list_is_reused),
		cmocka_unit_test(test_dump_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
