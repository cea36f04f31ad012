#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../config/keys.h"
#include "../../proxy/explain/explain.h"
#include "explain_expected.h"

static struct config *load(const char *text)
{
	struct fault_list faults;

	fault_list_init(&faults);
	struct config *config = config_load_text("policy.yaml", text, strlen(text), &faults);
	for (size_t i = 0; !config && i < faults.n; i++)
		if (faults.items[i].severity == FAULT_ERROR)
			fail_msg("line %u: %s", faults.items[i].line, faults.items[i].message);
	fault_list_clear(&faults);
	return config;
}

/* The explanation, NUL-terminated; to be freed. */
static char *explained(const struct config *config, const char *method, const char *url, bool as_json)
{
	struct buffer out = {0};
	char error[EXPLAIN_ERROR_BYTES] = "";

	if (!explain(config, slice_of(method), slice_of(url), as_json, &out, error, sizeof(error)))
		fail_msg("%s %s: %s", method, url, error);
	buffer_append(&out, "", 1);
	char *text = strdup(buffer_start(&out));
	buffer_clear(&out);
	return text;
}

static void expect_explained(
	const char *policy, const char *method, const char *url, const char *head, const char *tail)
{
	struct config *config = policy ? load(policy) : config_load(NULL, NULL);
	char *text = explained(config, method, url, false);
	char *values = strstr(text, "\npolicy:\n"), *limits = strstr(text, "\nlimits:\n");

	assert_non_null(values);
	assert_non_null(limits);
	*values = '\0';
	assert_string_equal(text, head);
	assert_string_equal(limits + 1, tail);
	free(text);
	config_unref(&config);
}

static void whole_texts(void **state)
{
	(void)state;
	expect_explained(policy_text, "POST", "http://u:p@api.pay.test/a/../ch%61rges?q=1", request_head, request_tail);
	expect_explained(policy_text, "GET", "http://api.pay.test:8443/", port_head, port_tail);
	expect_explained(policy_text, "HEAD", "http://b.test", many_head, many_tail);
	expect_explained(policy_text, "CONNECT", "api.pay.test:443", tunnel_head, tunnel_tail);
	expect_explained(policy_text, "PATCH", "https://Other.Example./x", unmatched_head, unmatched_tail);
	expect_explained(policy_text, "CONNECT", "[2001:db8:0::1]:82", inside_head, inside_tail);
	expect_explained(policy_text, "GET", "http://x.pay.test/stream/1", stream_head, stream_tail);
}

static void expect_part(const char *policy, const char *method, const char *url, const char *part)
{
	struct config *config = policy ? load(policy) : config_load(NULL, NULL);
	char *text = explained(config, method, url, false);

	if (!strstr(text, part))
		fail_msg("no \"%s\" in:\n%s", part, text);
	free(text);
	config_unref(&config);
}

/* Each value of each scope once, with where it was set last. */
static void values_and_where_they_come_from(void **state)
{
	(void)state;
	static const char charges[] = "http://api.pay.test/charges";

	expect_part(policy_text, "POST", charges,
		"\n  timeouts.total: 8s                                              policy.yaml:8\n");
	expect_part(policy_text, "POST", charges,
		"\n  timeouts.attempt: 4s                                            policy.yaml:3\n");
	expect_part(policy_text, "POST", charges,
		"\n  timeouts.pool_wait: 1s                                          built-in\n");
	expect_part(policy_text, "POST", charges,
		"\n  retry.max_attempts: 1                                           policy.yaml:11\n");
	expect_part(policy_text, "POST", charges, "\nroute routes[0]:\n  name: \"routes[0]\"  ");
	expect_part(policy_text, "POST", charges,
		"\n  match.paths: [/charges, /refunds/*]                             policy.yaml:10\n");
	expect_part(policy_text, "POST", charges,
		"\nupstream pay:\n  name: pay                                                       policy.yaml:5\n");
	expect_part(policy_text, "POST", charges,
		"\n  tls.originate: on                                               policy.yaml:7\n");
	expect_part(policy_text, "POST", charges,
		"\n  egress.connect_ports: [443]                                     policy.yaml:1\n");
	expect_part(policy_text, "POST", charges,
		"\n  retry.on: [dns_failure, connect_failure, reset, attempt_timeout, incomplete_body, 429, 502, 503, "
		"504]  built-in\n");
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		n++;
	return n;
}

/* A key that is added to the table is shown without anybody thinking of it. */
static void every_policy_key_is_shown_once(void **state)
{
	(void)state;
	struct config *config = load("upstreams:\n"
				     "  - name: a\n"
				     "    match: {hosts: [a.test]}\n"
				     "    retry: {budget: off}\n"
				     "    routes: [{name: r}]\n");
	char *text = explained(config, "GET", "http://a.test/", false);
	size_t n_seen = 0;

	for (size_t i = 0; i < n_keys; i++) {
		char line[KEY_MAX_PATH_BYTES + 8];
		bool is_below_off = strstr(keys[i].path, "retry.budget.") || strstr(keys[i].path, "breaker.") ||
				    strstr(keys[i].path, "hedge.") || strstr(keys[i].path, "rate_limit.");

		if (!key_has_value(&keys[i]) || !(keys[i].scope & KEY_POLICY))
			continue;
		snprintf(line, sizeof(line), "\n  %s: ", keys[i].path);
		assert_int_equal(count(text, line), is_below_off ? 0 : 1);
		n_seen++;
	}
	assert_true(n_seen > 40);
	assert_int_equal(count(text, "\n  retry.budget: off  "), 1);
	free(text);
	config_unref(&config);
}

static void denied(void **state)
{
	(void)state;
	static const char policy[] = "unmatched: deny\n"
				     "egress: {connect_ports: [443], tunnel_http: off}\n"
				     "upstreams: [{name: a, match: {hosts: [a.test]}}]\n";
	struct config *config = load(policy);
	char *text = explained(config, "GET", "http://b.test/", false);

	char *process = strstr(text, "\nprocess:\n");
	assert_non_null(process);
	*process = '\0';
	assert_string_equal(text, "GET http://b.test/\n"
				  "\n"
				  "upstream: none\n"
				  "  no entry of upstreams matches b.test:80, and unmatched is deny: 403 "
				  "http_request_denied  policy.yaml:1\n"
				  "  not a: host is none of a.test  policy.yaml:3\n"
				  "answer: 403 http_request_denied\n");
	free(text);
	text = explained(config, "CONNECT", "a.test:8080", false);
	*strstr(text, "\nupstream a:\n") = '\0';
	assert_string_equal(text,
		"CONNECT a.test:8080\n"
		"\n"
		"upstream: a\n"
		"  host a.test is listed by name  policy.yaml:3\n"
		"answer: 403 http_request_denied\n"
		"note: CONNECT to port 8080 is refused: it is neither in egress.connect_ports nor in the "
		"upstream's match.ports, and egress.tunnel_http is off.\n");
	free(text);
	config_unref(&config);
}

static void special_cases(void **state)
{
	(void)state;
	expect_part(NULL, "CONNECT", "h.test:8080",
		"\nroute: none\n  each request inside the tunnel finds its own\n"
		"connects to: http://h.test:8080\n"
		"note: The CONNECT is answered 200 at once and must then speak HTTP/1: each request inside gets "
		"policy, retries "
		"and errors as any other. To see its route, explain METHOD http://h.test:8080/PATH.\n");
	expect_part(NULL, "GET", "http://10.0.0.1/",
		"\nnote: An address within egress.deny_addresses is answered 403 destination_ip_prohibited.\n");
	expect_part(NULL, "OPTIONS", "http://h.test", "OPTIONS http://h.test\n");
	expect_part("upstreams: [{name: a, match: {hosts: [h.test]}, routes: [{match: {paths: [\"*\"]}, name: r}]}]",
		"OPTIONS", "http://h.test", "path * matches *  policy.yaml:1\n");
	expect_part("defaults: {override: any}", "GET", "http://h.test/", "\nnote: override is any: ");
	expect_part("defaults: {retry: {idempotency_key: off}}", "POST", "http://h.test/",
		"\nnote: POST is not in retry.methods: once a byte of it was sent, it is never repeated.\n");
	expect_part("defaults: {retry: {on: [reset]}}", "GET", "http://h.test/",
		"\nnote: attempt_timeout is not in retry.on: an attempt that timeouts.attempt cuts is the last one. ");
	expect_part("defaults: {timeouts: {connect: 10s, pool_wait: 40s}}", "GET", "http://h.test/",
		"\n  timeouts.connect          10s    TCP connect, each address tried: timeouts.attempt comes first\n");
	expect_part("defaults: {timeouts: {connect: 10s, pool_wait: 40s}}", "GET", "http://h.test/",
		"\n  timeouts.pool_wait        40s    waiting for a slot or connection: timeouts.total comes first\n");
	expect_part("defaults: {timeouts: {total: off}, retry: {retry_after: {max: off}}}", "GET", "http://h.test/",
		"\nlongest wait: 33.3s = 3 x (1s for a slot + 10s attempt) + 300ms of back-off; unbounded when the "
		"origin asks for "
		"it by Retry-After, for retry.retry_after.max is off\n"
		"application's own timeout: none is long enough for certain; set timeouts.total\n");
	expect_part("defaults: {hedge: {after: 250ms}}", "GET", "http://h.test/",
		"\nnote: hedge: beside an attempt that has no answer after 250ms a second one is started; it counts as "
		"one of "
		"max_attempts.\n");
	expect_part("defaults: {mode: observe}", "GET", "http://h.test/",
		"\nnote: mode is observe: limits and retries are only decided, logged and counted; nothing is cut or "
		"repeated.\n");
	expect_part("defaults: {mode: observe}", "GET", "http://h.test/",
		"\n  timeouts.pool_wait        1s     waiting for a slot or connection: only counted\n"
		"  dns.timeout               2s     name resolution: 504 dns_timeout\n"
		"  timeouts.connect          1s     TCP connect, each address tried: only counted\n");
	expect_part("defaults: {mode: observe}", "GET", "http://h.test/",
		"\nlongest wait: unbounded, for mode is observe\n"
		"application's own timeout: none is long enough for certain; mode: enforce bounds the wait\n");
	expect_part("defaults: {timeouts: {total: 11s1ms}, retry: {backoff: {jitter: equal}}}", "GET", "http://h.test/",
		"\n  attempt 2   not begun after the longest back-off (50ms to 100ms): timeouts.total would be over "
		"first\n"
		"longest wait: 11.001s, by timeouts.total\n");
}

/* A client that knows no proxy asks there; so does whoever wants it explained. */
static void local_ports_stand_for_their_upstream(void **state)
{
	(void)state;
	static const char policy[] = "upstreams:\n"
				     "  - name: pay\n"
				     "    match: {hosts: [\"*.pay.test\", api.pay.test]}\n"
				     "    tls: {originate: on}\n"
				     "    listen: [127.0.0.1:9001, \"[::]:9002\", unix:/tmp/x.sock]\n"
				     "    routes: [{name: r, match: {paths: [/x]}}]\n"
				     "  - name: plain\n"
				     "    match: {hosts: [\"[2001:db8::1]\"], ports: [8081, 8080]}\n"
				     "    listen: 127.0.0.1:9003\n"
				     "  - name: moved\n"
				     "    match: {hosts: [moved.test], ports: [80, 81]}\n"
				     "    tls: {originate: on}\n"
				     "    port: 8443\n"
				     "    listen: 127.0.0.1:9004\n";

	expect_part(policy, "GET", "http://127.0.0.1:9001/x",
		"GET http://127.0.0.1:9001/x\n"
		"\n"
		"upstream: pay\n"
		"  port 9001 of this machine is its own (listen)  policy.yaml:5\n"
		"  not plain: port 9001 is not its own  policy.yaml:7\n"
		"  not moved: port 9001 is not its own  policy.yaml:10\n"
		"route: r\n"
		"  the first that matches: any method, path /x matches /x  policy.yaml:6\n"
		"connects to: https://api.pay.test:443\n");
	expect_part(policy, "GET", "http://localhost:9001/", "\nconnects to: https://api.pay.test:443\n");
	expect_part(policy, "GET", "http://127.8.9.1:9001/", "\nconnects to: http://127.8.9.1:9001\n");
	expect_part(policy, "GET", "http://127.8.9.1:9002/", "\nupstream: pay\n");
	expect_part(policy, "GET", "http://[::1]:9002/", "\nupstream: pay\n");
	expect_part(policy, "GET", "http://127.0.0.1:9003/", "\nconnects to: http://[2001:db8::1]:8081\n");
	expect_part(policy, "GET", "http://127.0.0.1:9004/", "\nconnects to: https://moved.test:8443\n");
	expect_part(policy, "GET", "http://127.0.0.1:9005/", "\nupstream: default\n");
	expect_part(policy, "GET", "https://127.0.0.1:9001/", "\nupstream: default\n");
	expect_part(policy, "CONNECT", "127.0.0.1:9001", "\nupstream: default\n");
}

static void bad_requests_say_why(void **state)
{
	(void)state;
	static const struct {
		const char *method, *url, *why;
	} cases[] = {
		{"GET", "", "empty request target (RFC 9112 3.2)"},
		{"GET", "h.test", "bad request target (RFC 9112 3.2)"},
		{"GET", "/path", "no host in it"},
		{"OPTIONS", "*", "no host in it"},
		{"GET", "ftp://h.test/", "only http and https URLs are served"},
		{"GET", "http:///x", "empty host (RFC 9110 4.2.1)"},
		{"GET", "http://h.test:0/", "port is not within 1-65535"},
		{"GET", "http://h.test/#x", "fragment in the request target (RFC 9110 7.1)"},
		{"GET", "http://h.test/a b", "white space or a control character in the request target (RFC 9112 3.2)"},
		{"CONNECT", "h.test", "CONNECT needs host:port (RFC 9112 3.2.3)"},
		{"CONNECT", "http://h.test:80/", "port is empty or too long (RFC 3986 3.2.3)"},
		{"", "http://h.test/", "bad method: it must be a token such as GET (RFC 9110 9.1)"},
		{"GE T", "http://h.test/", "bad method: it must be a token such as GET (RFC 9110 9.1)"},
		{"GET\n", "http://h.test/", "bad method: it must be a token such as GET (RFC 9110 9.1)"},
	};
	struct config *config = config_load(NULL, NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buffer out = {0};
		char error[EXPLAIN_ERROR_BYTES], wanted[EXPLAIN_ERROR_BYTES];

		snprintf(wanted, sizeof(wanted),
			"%s: write METHOD http://HOST[:PORT][/PATH] (or https://), or CONNECT HOST:PORT", cases[i].why);
		assert_false(explain(
			config, slice_of(cases[i].method), slice_of(cases[i].url), false, &out, error, sizeof(error)));
		assert_string_equal(error, wanted);
		assert_int_equal(buffer_length(&out), 0);
	}
	config_unref(&config);
}

static void expect_json(const struct config *config, const char *method, const char *url, const char *part)
{
	char *text = explained(config, method, url, true);

	if (!strstr(text, part))
		fail_msg("no %s in:\n%s", part, text);
	assert_int_equal(text[strlen(text) - 1], '\n');
	free(text);
}

static void json(void **state)
{
	(void)state;
	struct config *config = load(policy_text);

	expect_json(config, "POST", "http://u:p@api.pay.test/charges?q=1",
		"{\"method\":\"POST\",\"url\":\"http://api.pay.test/"
		"charges\",\"kind\":\"request\",\"upstream\":\"pay\","
		"\"upstream_reason\":\"host api.pay.test is listed by name\",\"upstream_origin\":\"policy.yaml:6\","
		"\"other_upstreams\":[{\"upstream\":\"pay-8443\",\"reason\":\"api.pay.test matches, but port 80 is "
		"none of 8443, "
		"9443\",\"origin\":\"policy.yaml:17\"},");
	expect_json(config, "POST", "http://api.pay.test/charges",
		",\"route\":\"routes[0]\",\"route_reason\":\"the first that matches: method POST is listed, path "
		"/charges matches "
		"/charges\",\"route_origin\":\"policy.yaml:10\",\"other_routes\":[{\"route\":\"stream\",");
	expect_json(config, "POST", "http://api.pay.test/charges",
		",\"connects_to\":\"https://api.pay.test:443\",\"notes\":[\"");
	expect_json(config, "POST", "http://api.pay.test/charges",
		"\"values\":[{\"group\":\"policy\",\"key\":\"timeouts.total\",\"value\":\"8s\",\"origin\":\"policy."
		"yaml:8\"},"
		"{\"group\":\"policy\",\"key\":\"timeouts.attempt\",\"value\":\"4s\",\"origin\":\"policy.yaml:3\"},");
	expect_json(config, "GET", "http://api.pay.test:8443",
		",{\"limit\":\"timeouts.attempt\",\"ms\":4000,\"span\":\"slot taken to last body "
		"byte\",\"overtaken_by\":null,\"only_counted\":false,"
		"\"retried\":true,\"status\":504,\"error\":\"http_response_timeout\"},");
	expect_json(config, "GET", "http://api.pay.test:8443",
		",\"timeline\":{\"max_attempts\":3,\"attempts\":[{\"attempt\":1,\"backoff_min_ms\":0,\"backoff_max_"
		"ms\":0,"
		"\"start_ms\":0,\"slot_ms\":1000,\"end_ms\":5000,\"cut_by\":\"attempt\"},{\"attempt\":2,\"backoff_min_"
		"ms\":0,"
		"\"backoff_max_ms\":100,\"start_ms\":5100,\"slot_ms\":6100,\"end_ms\":10000,\"cut_by\":\"total\"}],"
		"\"longest_ms\":10000,\"longest_is_total\":true,\"without_total_ms\":15300,"
		"\"without_total_with_retry_after_ms\":75300,\"unbounded_by\":null,\"application_timeout_ms\":10500}}"
		"\n");
	expect_json(config, "GET", "http://api.pay.test/stream/x",
		"\"end_ms\":null,\"cut_by\":\"nothing\"}],\"longest_ms\":null,\"longest_is_total\":false,\"without_"
		"total_ms\":null,"
		"\"without_total_with_retry_after_ms\":null,\"unbounded_by\":\"timeouts.attempt\",\"application_"
		"timeout_ms\":null}}\n");
	expect_json(config, "CONNECT", "api.pay.test:443", ",\"kind\":\"opaque_tunnel\",");
	expect_json(config, "CONNECT", "api.pay.test:444", ",\"kind\":\"http_tunnel\",");
	config_unref(&config);
	config = load("unmatched: deny");
	expect_json(config, "GET", "http://a.test", ",\"kind\":\"host_denied\",\"upstream\":null,");
	expect_json(config, "GET", "http://a.test",
		",\"status\":403,\"error\":\"http_request_denied\",\"notes\":[],\"values\":[");
	config_unref(&config);
}

/* It appends: what the caller has in the buffer stays. */
static void output_is_appended(void **state)
{
	(void)state;
	struct config *config = config_load(NULL, NULL);
	struct buffer out = {0};
	char error[EXPLAIN_ERROR_BYTES];

	buffer_append_slice(&out, SLICE("before"));
	assert_true(explain(config, SLICE("GET"), SLICE("http://a.test/"), true, &out, error, sizeof(error)));
	assert_memory_equal(buffer_start(&out), "before{\"method\":\"GET\",", 22);
	buffer_clear(&out);
	config_unref(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_texts),
		cmocka_unit_test(values_and_where_they_come_from),
		cmocka_unit_test(every_policy_key_is_shown_once),
		cmocka_unit_test(denied),
		cmocka_unit_test(special_cases),
		cmocka_unit_test(local_ports_stand_for_their_upstream),
		cmocka_unit_test(bad_requests_say_why),
		cmocka_unit_test(json),
		cmocka_unit_test(output_is_appended),
	};
	return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
