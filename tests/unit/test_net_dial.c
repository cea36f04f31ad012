/* Dialling: happy eyeballs, what each failure is called, the deny list, and cancelling at every stage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proxy/base/clock.h"
#include "../../proxy/net/connecting.h"
#include "net_room.h"

#define A 1
#define AAAA 28
#define GIVES(n, t, ...) .name = n, .type = t, .ttl_s = 60, .addresses = { __VA_ARGS__ }
#define FAILS(n, t, code) .name = n, .type = t, .rcode = code

static struct net_room room;
static struct dns_stub stub;
static struct resolver *resolver;

struct call { /* one dial and what came of it */
	struct dial *dial;
	struct dial_result result;
	unsigned n_done;
	enum dial_phase phases[4];
	size_t n_phases;
	struct mono start;
	int64_t took_ms;
	bool cancels_in_phase, cancels_in_done;
};

static struct dns_record records[] = {
	{ GIVES("both.x.test", A, "127.0.0.1") }, { GIVES("both.x.test", AAAA, "::1") },
	{ GIVES("four.x.test", A, "127.0.0.1") }, { .name = "four.x.test", .type = AAAA },
	{ GIVES("far.x.test", A, "127.0.0.1") }, { GIVES("far.x.test", AAAA, "2001:db8::1") },
	{ GIVES("metadata.x.test", A, "169.254.169.254") }, { .name = "metadata.x.test", .type = AAAA },
	{ FAILS("broken.x.test", A, 2) }, { FAILS("broken.x.test", AAAA, 2) },
	{ FAILS("silent.x.test", A, -1) }, { FAILS("silent.x.test", AAAA, -1) },
	{ GIVES("mixed.x.test", A, "169.254.169.254", "127.0.0.1") }, { .name = "mixed.x.test", .type = AAAA },
};

static int set_up(void **state)
{
	(void)state;
	net_room_open(&room);
	dns_stub_open(&stub, &room, records, sizeof(records) / sizeof(records[0]));
	struct dns_rule rule = dns_stub_rule(&stub);
	rule.timeout_ms = 300;
	resolver = resolver_new(room.loop, &rule);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	resolver_free(&resolver);
	dns_stub_close(&stub);
	net_room_close(&room);
	return 0;
}

static void on_phase(void *owner, enum dial_phase phase)
{
	struct call *call = owner;
	assert_true(call->n_phases < 4);
	call->phases[call->n_phases++] = phase;
	if (call->dial != NULL)
		assert_int_equal(dial_phase(call->dial), phase);
	if (call->cancels_in_phase)
		dial_cancel(&call->dial);
}

static void on_done(void *owner, struct dial_result *result)
{
	struct call *call = owner;
	assert_non_null(call->dial); /* dial_start has returned */
	call->n_done++;
	call->result = *result;
	call->took_ms = mono_elapsed_ms(call->start, clock_now());
	if (call->cancels_in_done)
		dial_cancel(&call->dial);
	call->dial = NULL;
	loop_stop(room.loop);
}

static const struct dial_ops ops = { on_phase, on_done };

static void call_to(struct call *call, const char *host, uint16_t port, const struct cidr *deny, size_t n_deny)
{
	struct dial_order order = { .host = host, .port = port, .connect_ms = 400, .tls_handshake_ms = 400,
				    .deny = deny, .n_deny = n_deny };
	memset(call, 0, sizeof(*call));
	call->start = clock_now();
	call->dial = dial_start(room.loop, resolver, &order, &ops, call);
}

static void call_and_wait(struct call *call, const char *host, uint16_t port)
{
	call_to(call, host, port, NULL, 0);
	net_room_run(&room, 5000);
	assert_int_equal(call->n_done, 1);
}

static void assert_result(const struct call *call, enum dial_status status, const char *detail)
{
	assert_int_equal(call->n_done, 1);
	assert_int_equal(call->result.status, status);
	assert_string_equal(call->result.detail, detail);
	assert_null(call->result.tls);
	assert_true(status == DIAL_OK ? call->result.fd >= 0 : call->result.fd == -1);
}

static void assert_connected_to(struct call *call, const char *address, uint16_t port)
{
	char text[64], expected[80];
	snprintf(expected, sizeof(expected), strchr(address, ':') != NULL ? "[%s]:%u" : "%s:%u", address, port);
	assert_result(call, DIAL_OK, expected);
	address_format(&call->result.address, text, sizeof(text));
	assert_string_equal(text, address);
	assert_int_equal(send(call->result.fd, "hello", 5, MSG_NOSIGNAL), 5);
	assert_true(mono_reached(call->start, call->result.resolved));
	assert_true(mono_reached(call->result.resolved, call->result.connected));
	assert_false(mono_is_set(call->result.secured));
	close(call->result.fd);
}

static void a_literal_is_dialled(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	int listener = net_listen(AF_INET, &port);
	call_to(&call, "127.0.0.1", port, NULL, 0);
	assert_int_equal(call.n_done, 0);
	assert_int_equal(call.n_phases, 0);
	net_room_run(&room, 2000);
	assert_connected_to(&call, "127.0.0.1", port);
	assert_int_equal(call.n_phases, 1);
	assert_int_equal(call.phases[0], DIAL_CONNECTING);
	close(listener);
}

static void ipv6_is_preferred(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	int six = net_listen(AF_INET6, &port);
	int four = net_listen(AF_INET, &port);
	call_and_wait(&call, "both.x.test", port);
	assert_connected_to(&call, "::1", port);
	close(six);
	close(four);
}

static void a_refused_address_gives_way_to_the_next_at_once(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	int closed = net_closed_port(AF_INET6, &port);
	int four = net_listen(AF_INET, &port);
	call_and_wait(&call, "both.x.test", port);
	assert_true(call.took_ms < 200);
	assert_connected_to(&call, "127.0.0.1", port);
	close(closed);
	close(four);
}

static void an_unroutable_family_gives_way_at_once(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	int four = net_listen(AF_INET, &port);
	call_and_wait(&call, "far.x.test", port);
	assert_true(call.took_ms < 390); /* no route, or (where there is one) a silent peer and the 250 ms of RFC 8305 */
	assert_connected_to(&call, "127.0.0.1", port);
	close(four);
}

static void refusal_is_told_with_its_address(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	char expected[100];
	int closed = net_closed_port(AF_INET, &port);
	call_and_wait(&call, "four.x.test", port);
	snprintf(expected, sizeof(expected), "connect to 127.0.0.1:%u failed: Connection refused", port);
	assert_result(&call, DIAL_REFUSED, expected);
	close(closed);
}

static void what_a_reachable_address_said_outweighs_a_missing_route(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	char expected[100];
	int closed = net_closed_port(AF_INET, &port);
	records[5].addresses[0] = "ff0e::1"; /* multicast: no TCP there, whatever the routes */
	call_and_wait(&call, "far.x.test", port);
	records[5].addresses[0] = "2001:db8::1";
	snprintf(expected, sizeof(expected), "connect to 127.0.0.1:%u failed: Connection refused", port);
	assert_result(&call, DIAL_REFUSED, expected);
	close(closed);
}

static void an_unreachable_address_is_told_so(void **state)
{
	(void)state;
	struct call call;
	call_and_wait(&call, "255.255.255.255", 80);
	assert_int_equal(call.result.status, DIAL_UNREACHABLE);
	assert_non_null(strstr(call.result.detail, "connect to 255.255.255.255:80 failed: "));
	assert_int_equal(call.result.fd, -1);
}

/* A listener whose queue is full does not answer. */
static int listen_and_fill(uint16_t *port, int fillers[4])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	*port = ntohs(address.sin_port);
	for (int i = 0; i < 4; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
	}
	usleep(20000);
	return listener;
}

static void silence_is_a_timeout_of_connect_ms(void **state)
{
	(void)state;
	struct call call;
	uint16_t port;
	int fillers[4];
	char expected[100];
	int listener = listen_and_fill(&port, fillers);
	call_and_wait(&call, "127.0.0.1", port);
	snprintf(expected, sizeof(expected), "connect to 127.0.0.1:%u failed: no answer within 400 ms", port);
	assert_result(&call, DIAL_TIMEOUT, expected);
	assert_true(call.took_ms >= 400 && call.took_ms < 1000);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
}

static void a_slow_address_is_joined_by_the_next_after_250_ms(void **state)
{
	(void)state;
	struct call call;
	uint16_t port;
	int fillers[4];
	int listener = listen_and_fill(&port, fillers);
	struct sockaddr_in second = { .sin_family = AF_INET, .sin_port = htons(port) };
	int other = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &second.sin_addr), 1);
	assert_int_equal(bind(other, (struct sockaddr *)&second, sizeof(second)), 0);
	assert_int_equal(listen(other, 4), 0);
	records[2].addresses[1] = "127.0.0.2";
	call_and_wait(&call, "four.x.test", port);
	records[2].addresses[1] = NULL;
	assert_true(call.took_ms >= 250 && call.took_ms < 390);
	assert_connected_to(&call, "127.0.0.2", port);
	close(other);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
}

static void addresses_of_equal_worth_take_turns(void **state)
{
	(void)state;
	static const char *const expected[] = { "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1" };
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t length = sizeof(any);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &length), 0);
	records[2].addresses[1] = "127.0.0.2";
	records[2].addresses[2] = "127.0.0.3";
	for (int i = 0; i < 4; i++) {
		struct call call;
		call_and_wait(&call, "four.x.test", ntohs(any.sin_port));
		assert_connected_to(&call, expected[i], ntohs(any.sin_port));
	}
	records[2].addresses[1] = records[2].addresses[2] = NULL;
	close(listener);
}

static void resolving_failures_keep_their_kind(void **state)
{
	(void)state;
	struct call call;
	call_and_wait(&call, "gone.x.test", 80);
	assert_result(&call, DIAL_DNS_NO_NAME, "no such name: gone.x.test");
	call_and_wait(&call, "2130706433", 80);
	assert_result(&call, DIAL_DNS_NO_NAME, "no such name: 2130706433");
	call_and_wait(&call, "broken.x.test", 80);
	assert_result(&call, DIAL_DNS_FAILED, "the DNS query for broken.x.test failed");
	call_and_wait(&call, "silent.x.test", 80);
	assert_result(&call, DIAL_DNS_TIMEOUT, "no answer in time to the DNS query for silent.x.test");
	assert_true(call.took_ms >= 300 && call.took_ms < 900);
	assert_int_equal(call.n_phases, 0);
}

static const struct cidr link_local = { .address = { 169, 254 }, .prefix_length = 16 };

static void a_denied_address_is_not_dialled(void **state)
{
	(void)state;
	struct call call;
	call_to(&call, "metadata.x.test", 80, &link_local, 1);
	net_room_run(&room, 2000);
	assert_result(&call, DIAL_DENIED, "169.254.169.254 is in egress.deny_addresses");
	call_to(&call, "::ffff:169.254.169.254", 80, &link_local, 1);
	net_room_run(&room, 2000);
	assert_result(&call, DIAL_DENIED, "::ffff:169.254.169.254 is in egress.deny_addresses");
	static const char *const old_spellings[] = { "2852039166", "0xa9fea9fe", "0xa9.0xfe.43518", "0251.0376.0251.0376", "169.254.43518" };
	for (size_t i = 0; i < sizeof(old_spellings) / sizeof(old_spellings[0]); i++) {
		char line[128];
		call_to(&call, old_spellings[i], 80, &link_local, 1);
		net_room_run(&room, 2000);
		snprintf(line, sizeof(line), "%s stands for an address in egress.deny_addresses", old_spellings[i]);
		assert_result(&call, DIAL_DENIED, line);
	}
	call_to(&call, "2130706433", 80, &link_local, 1);
	net_room_run(&room, 2000);
	assert_result(&call, DIAL_DNS_NO_NAME, "no such name: 2130706433");
}

static void a_denied_address_does_not_keep_from_the_others(void **state)
{
	(void)state;
	struct call call;
	uint16_t port = 0;
	int four = net_listen(AF_INET, &port);
	call_to(&call, "mixed.x.test", port, &link_local, 1);
	net_room_run(&room, 2000);
	assert_true(call.took_ms < 200);
	assert_connected_to(&call, "127.0.0.1", port);
	close(four);
}

static void cancelling_is_silent_at_every_stage(void **state)
{
	(void)state;
	struct call call;
	uint16_t port;
	int fillers[4];
	int listener = listen_and_fill(&port, fillers);
	call_to(&call, "silent.x.test", 80, NULL, 0);
	dial_cancel(&call.dial); /* resolving */
	dial_cancel(&call.dial);
	assert_null(call.dial);
	net_room_turn(&room, 20);
	assert_int_equal(call.n_done, 0);
	call_to(&call, "127.0.0.1", port, NULL, 0);
	dial_cancel(&call.dial); /* before anything happened */
	net_room_turn(&room, 20);
	assert_int_equal(call.n_done + call.n_phases, 0);
	call_to(&call, "127.0.0.1", port, NULL, 0);
	net_room_turn(&room, 50);
	assert_int_equal(dial_phase(call.dial), DIAL_CONNECTING);
	dial_cancel(&call.dial); /* connecting */
	net_room_turn(&room, 450);
	assert_int_equal(call.n_done, 0);
	call_to(&call, "127.0.0.1", port, NULL, 0);
	call.cancels_in_phase = true;
	net_room_turn(&room, 50);
	assert_int_equal(call.n_done, 0);
	assert_int_equal(call.n_phases, 1);
	call_to(&call, "gone.x.test", port, NULL, 0);
	call.cancels_in_done = true; /* too late, and harmless */
	net_room_run(&room, 2000);
	assert_int_equal(call.n_done, 1);
	close(listener);
	for (int i = 0; i < 4; i++)
		close(fillers[i]);
}

static void running_out_of_descriptors_is_told(void **state)
{
	(void)state;
	struct call call;
	struct rlimit old, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	int next = dup(0);
	none = (struct rlimit){ (rlim_t)next, old.rlim_max };
	close(next);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	call_and_wait(&call, "127.0.0.1", 80);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_result(&call, DIAL_NO_DESCRIPTORS, "connect to 127.0.0.1:80 failed: Too many open files");
}

static void a_socket_connected_with_itself_is_told_from_others(void **state)
{
	(void)state;
	uint16_t port = 0;
	int fds[2];
	struct address address;
	socklen_t length = sizeof(address.socket);
	int echo = net_closed_port(AF_INET, &port);
	assert_true(address_parse("127.0.0.1", &address));
	address.socket.v4.sin_port = htons(port);
	assert_int_equal(connect(echo, &address.socket.any, sizeof(address.socket.v4)), 0);
	assert_true(connecting_is_echo(echo, &address));
	close(echo);
	net_pair(fds);
	assert_int_equal(getpeername(fds[0], &address.socket.any, &length), 0);
	assert_false(connecting_is_echo(fds[0], &address));
	close(fds[0]);
	close(fds[1]);
}

static void denied(const char *address, bool is_expected, const struct cidr *deny, size_t n)
{
	struct address parsed;
	assert_true(address_parse(address, &parsed));
	if (address_is_denied(&parsed, deny, n) != is_expected)
		fail_msg("%s: expected %s", address, is_expected ? "denied" : "allowed");
}

static void ipv4_rules_hold_in_every_wrapping(void **state)
{
	(void)state;
	static const struct cidr deny[] = {
		{ .address = { 169, 254 }, .prefix_length = 16 },
		{ .address = { 10 }, .prefix_length = 9 },
		{ .address = { 127, 0, 0, 1 }, .prefix_length = 32 },
	};
	static const char *const bad[] = {
		"169.254.0.0", "169.254.255.255", "10.127.255.255", "127.0.0.1", "0.0.0.0", "::ffff:169.254.1.1",
		"::169.254.169.254", "::ffff:0:169.254.1.1", "64:ff9b::a9fe:101", "64:ff9b:1::a00:1", "2002:a9fe:101::1",
		"2001:0:1:2:3:4:5601:fefe" /* Teredo: 169.254.1.1 inverted */, "::ffff:0.0.0.0",
	};
	static const char *const good[] = {
		"169.253.255.255", "169.255.0.0", "10.128.0.0", "127.0.0.2", "::1", "::ffff:10.128.0.0", "64:ff9b::808:808",
		"2002:808:808::1", "2001:db8::a9fe:101", "2001:db8::1", "8.8.8.8",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		denied(bad[i], true, deny, 3);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		denied(good[i], false, deny, 3);
	denied("169.254.1.1", false, NULL, 0);
}

static void ipv6_rules_hold(void **state)
{
	(void)state;
	static const struct cidr deny[] = {
		{ .is_v6 = true, .address = { 0xfe, 0x80 }, .prefix_length = 10 },
		{ .is_v6 = true, .address = { 0xfd, 0, 0x0e, 0xc2, [14] = 2, [15] = 0x54 }, .prefix_length = 128 },
		{ .is_v6 = true, .address = { [15] = 1 }, .prefix_length = 128 },
		{ .is_v6 = true, .address = { [10] = 0xff, 0xff, 172, 16 }, .prefix_length = 108 },
	};
	static const char *const bad[] = {
		"fe80::1", "febf:ffff::", "fd00:ec2::254", "::1", "::", "::ffff:172.16.0.1", "172.31.255.255",
	};
	static const char *const good[] = { "fec0::1", "fd00:ec2::255", "::2", "172.32.0.1", "127.0.0.1", "2001:db8::1" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		denied(bad[i], true, deny, 4);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		denied(good[i], false, deny, 4);
}

static void a_rule_of_length_zero_denies_all_of_its_family(void **state)
{
	(void)state;
	static const struct cidr all_v4 = { .prefix_length = 0 }, all_v6 = { .is_v6 = true, .prefix_length = 0 };
	denied("8.8.8.8", true, &all_v4, 1);
	denied("::ffff:8.8.8.8", true, &all_v4, 1);
	denied("2001:db8::1", false, &all_v4, 1);
	denied("2001:db8::1", true, &all_v6, 1);
	denied("8.8.8.8", false, &all_v6, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_literal_is_dialled),
		T(ipv6_is_preferred),
		T(a_refused_address_gives_way_to_the_next_at_once),
		T(an_unroutable_family_gives_way_at_once),
		T(refusal_is_told_with_its_address),
		T(what_a_reachable_address_said_outweighs_a_missing_route),
		T(an_unreachable_address_is_told_so),
		T(silence_is_a_timeout_of_connect_ms),
		T(a_slow_address_is_joined_by_the_next_after_250_ms),
		T(addresses_of_equal_worth_take_turns),
		T(resolving_failures_keep_their_kind),
		T(a_denied_address_is_not_dialled),
		T(a_denied_address_does_not_keep_from_the_others),
		T(cancelling_is_silent_at_every_stage),
		T(running_out_of_descriptors_is_told),
		T(a_socket_connected_with_itself_is_told_from_others),
		cmocka_unit_test(ipv4_rules_hold_in_every_wrapping),
		cmocka_unit_test(ipv6_rules_hold),
		cmocka_unit_test(a_rule_of_length_zero_denies_all_of_its_family),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
