/* Whom a request is for: every form of target, on the main port, on an upstream's own, and inside a tunnel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/front/destination.h"

static const char policies[] =
	"unmatched: allow\n"
	"upstreams:\n"
	"  - name: plain\n"
	"    match: {hosts: [plain.test, \"[::1]\"]}\n"
	"  - name: secure\n"
	"    match: {hosts: [api.test, \"*.api.test\"]}\n"
	"    tls: {originate: on}\n"
	"    listen: 127.0.0.1:9001\n"
	"    routes:\n"
	"      - match: {methods: [POST], paths: [\"/charge\"]}\n"
	"  - name: moved\n"
	"    match: {hosts: [moved.test], ports: [8080]}\n"
	"    tls: {originate: on}\n"
	"    port: 8443\n"
	"    listen: 127.0.0.1:9002\n";

struct room {
	struct config *config;
	struct front front;
	struct listener listener;
	struct wire wire;
	struct wire_message message;
	struct wire_authority inner;
	struct client client;
	struct refusal refusal;
};

static struct config *current_config(void *owner)
{
	return ((struct room *)owner)->config;
}

static void set_up(struct room *room, enum listener_role role, const char *upstream)
{
	struct fault_list faults;
	memset(room, 0, sizeof(*room));
	fault_list_init(&faults);
	room->config = config_load_text("test", policies, strlen(policies), &faults);
	if (!room->config)
		fail_msg("%s", faults.items[0].message);
	fault_list_clear(&faults);
	room->front.hooks = (struct front_hooks){ .owner = room, .current_config = current_config };
	room->listener = (struct listener){ .front = &room->front, .role = role, .upstream = (char *)upstream, .port = 3128 };
	room->wire.front = &room->front;
	room->wire.listener = &room->listener;
	room->wire.stream.fd = -1;
	room->wire.message = &room->message;
	room->client.wire = &room->wire;
	room->client.config = room->config;
}

static void tear_down(struct room *room)
{
	for (size_t i = 0; i < room->client.n_owned; i++)
		free(room->client.owned[i]);
	request_reader_clear(&room->message.reader);
	request_clear(&room->message.request);
	config_unref(&room->config);
}

static bool ask(struct room *room, const char *text)
{
	const char *at = text;
	size_t left = strlen(text);
	struct slice body;
	request_init(&room->message.request);
	request_reader_init(&room->message.reader, &room->message.request, 65536);
	assert_int_equal(request_reader_next(&room->message.reader, &at, &left, &body), READ_HEAD);
	return destination_find(&room->client, &room->refusal);
}

static void assert_slice(struct slice got, const char *wanted)
{
	assert_int_equal(got.length, strlen(wanted));
	assert_memory_equal(got.data, wanted, got.length);
}

struct wanted {
	const char *request;
	const char *host;
	uint16_t port;
	bool is_tls;
	const char *path, *host_field, *url, *upstream;
};

static void check(enum listener_role role, const char *local, const struct wanted *wanted, const char *inner_host,
		  uint16_t inner_port)
{
	struct room room;
	set_up(&room, role, local);
	if (inner_host) {
		room.inner = (struct wire_authority){ (char *)inner_host, (char *)inner_host, inner_port };
		room.wire.inner = &room.inner;
	}
	assert_true(ask(&room, wanted->request));
	const struct exchange_order *order = &room.client.order;
	assert_string_equal(order->host, wanted->host);
	assert_int_equal(order->port, wanted->port);
	assert_int_equal(order->is_tls, wanted->is_tls);
	assert_slice(order->path, wanted->path);
	assert_slice(order->host_field, wanted->host_field);
	assert_slice(order->url, wanted->url);
	assert_string_equal(order->match.upstream->name, wanted->upstream);
	assert_non_null(order->match.policy);
	tear_down(&room);
}

#define HOST "\r\nHost: other.test\r\n\r\n"

static void test_main_port(void **state)
{
	(void)state;
	static const struct wanted cases[] = {
		{ "GET http://Plain.test/a?b HTTP/1.1" HOST, "plain.test", 80, false, "/a?b", "Plain.test",
		  "http://Plain.test/a?b", "plain" },
		{ "GET http://u:p@plain.test:8080?q HTTP/1.1" HOST, "plain.test", 8080, false, "/?q", "plain.test:8080",
		  "http://u:p@plain.test:8080?q", "plain" },
		{ "GET http://plain.test HTTP/1.1" HOST, "plain.test", 80, false, "/", "plain.test", "http://plain.test", "plain" },
		{ "OPTIONS http://plain.test HTTP/1.1" HOST, "plain.test", 80, false, "*", "plain.test", "http://plain.test", "plain" },
		{ "GET https://plain.test/ HTTP/1.1" HOST, "plain.test", 443, true, "/", "plain.test", "https://plain.test/", "plain" },
		{ "GET http://[::1]:81/ HTTP/1.1" HOST, "::1", 81, false, "/", "[::1]:81", "http://[::1]:81/", "plain" },
		{ "GET http://api.test/ HTTP/1.1" HOST, "api.test", 443, true, "/", "api.test", "http://api.test/", "secure" },
		{ "GET http://api.test:80/ HTTP/1.1" HOST, "api.test", 443, true, "/", "api.test", "http://api.test:80/", "secure" },
		{ "GET http://x.api.test:8000/ HTTP/1.1" HOST, "x.api.test", 8000, true, "/", "x.api.test:8000",
		  "http://x.api.test:8000/", "secure" },
		{ "GET http://moved.test:8080/ HTTP/1.1" HOST, "moved.test", 8443, true, "/", "moved.test:8443",
		  "http://moved.test:8080/", "moved" },
		{ "GET /p HTTP/1.1\r\nHost: plain.test:81\r\n\r\n", "plain.test", 81, false, "/p", "plain.test:81",
		  "http://plain.test:81/p", "plain" },
		{ "OPTIONS * HTTP/1.1\r\nHost: plain.test\r\n\r\n", "plain.test", 80, false, "*", "plain.test",
		  "http://plain.test", "plain" },
		{ "CONNECT Plain.test:443 HTTP/1.1" HOST, "plain.test", 443, false, "/", "Plain.test:443", "Plain.test:443", "plain" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(LISTENER_PROXY, NULL, &cases[i], NULL, 0);
}

static void test_local_port(void **state)
{
	(void)state;
	static const struct wanted secure = { "GET /x?y HTTP/1.1" HOST, "api.test", 443, true, "/x?y", "api.test",
					      "https://api.test/x?y", "secure" };
	static const struct wanted moved = { "GET / HTTP/1.0\r\n\r\n", "moved.test", 8443, true, "/", "moved.test:8443",
					     "https://moved.test:8443/", "moved" };
	static const struct wanted named = { "GET http://localhost:3128/x HTTP/1.1" HOST, "api.test", 443, true, "/x",
					     "api.test", "https://api.test/x", "secure" };
	check(LISTENER_UPSTREAM, "secure", &secure, NULL, 0);
	check(LISTENER_UPSTREAM, "moved", &moved, NULL, 0);
	check(LISTENER_UPSTREAM, "secure", &named, NULL, 0);
}

static void test_inside_a_tunnel(void **state)
{
	(void)state;
	static const struct wanted origin = { "GET /x HTTP/1.1" HOST, "plain.test", 81, false, "/x", "plain.test:81",
					      "http://plain.test:81/x", "plain" };
	static const struct wanted absolute = { "GET http://plain.test:81/x HTTP/1.1" HOST, "plain.test", 81, false, "/x",
						"plain.test:81", "http://plain.test:81/x", "plain" };
	check(LISTENER_PROXY, NULL, &origin, "plain.test", 81);
	check(LISTENER_PROXY, NULL, &absolute, "plain.test", 81);
}

static void check_refused(const char *inner_host, const char *request, int status, const char *error, bool must_close)
{
	struct room room;
	set_up(&room, LISTENER_PROXY, NULL);
	if (inner_host) {
		room.inner = (struct wire_authority){ (char *)inner_host, (char *)inner_host, 81 };
		room.wire.inner = &room.inner;
	}
	assert_false(ask(&room, request));
	assert_int_equal(room.refusal.status, status);
	assert_string_equal(room.refusal.error, error);
	assert_int_equal(room.refusal.must_close, must_close);
	assert_true(strlen(room.refusal.detail) > 10);
	tear_down(&room);
}

static void test_refused(void **state)
{
	(void)state;
	const char *bad = "http_request_error";
	check_refused(NULL, "GET / HTTP/1.0\r\n\r\n", 400, bad, true);
	check_refused(NULL, "GET / HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n", 400, bad, true);
	check_refused(NULL, "GET / HTTP/1.1\r\nHost: [::1]:3128\r\n\r\n", 400, bad, true);
	check_refused(NULL, "GET / HTTP/1.1\r\nHost: localhost:3128\r\n\r\n", 400, bad, true);
	check_refused(NULL, "GET http://127.0.0.1:3128/ HTTP/1.1" HOST, 502, "proxy_loop_detected", false);
	check_refused("plain.test", "GET http://evil.test:81/ HTTP/1.1" HOST, 400, bad, true);
	check_refused("plain.test", "GET http://plain.test/ HTTP/1.1" HOST, 400, bad, true);
	check_refused("plain.test", "GET https://plain.test:81/ HTTP/1.1" HOST, 400, bad, true);
	check_refused("plain.test", "CONNECT plain.test:81 HTTP/1.1" HOST, 400, bad, true);
}

static void test_route(void **state)
{
	(void)state;
	struct room room;
	set_up(&room, LISTENER_PROXY, NULL);
	assert_true(ask(&room, "POST http://api.test/x/../%63harge?n=1 HTTP/1.1" HOST));
	assert_ptr_equal(room.client.order.match.route, &room.client.order.match.upstream->routes[0]);
	assert_ptr_equal(room.client.order.match.policy, &room.client.order.match.route->policy);
	assert_slice(room.client.order.path, "/x/../%63harge?n=1");
	tear_down(&room);
	set_up(&room, LISTENER_PROXY, NULL);
	assert_true(ask(&room, "GET http://api.test/charge HTTP/1.1" HOST));
	assert_null(room.client.order.match.route);
	tear_down(&room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_main_port),
		cmocka_unit_test(test_local_port),
		cmocka_unit_test(test_inside_a_tunnel),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_route),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
