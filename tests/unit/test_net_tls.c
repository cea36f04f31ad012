/* TLS to origins against a real server: what verifies, what each fault is called, ends and cuts, resumption, contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../proxy/base/clock.h"
#include "net_room.h"
#include "net_tls_server.h"

static struct net_room room;
static struct resolver *resolver;
static struct test_identity authority, other_authority, good;
static char folder[] = "/tmp/evenkeel-tls-XXXXXX";
static char ca_path[64], path_a[64], path_b[64];

struct call {
	struct dial *dial;
	struct dial_result result;
	unsigned n_done;
	struct stream stream;
	char seen[64];
	size_t n_seen, n_total, read_at_most;
	bool pauses, is_wrong;
	long end;
	unsigned n_readable;
};

static void on_done(void *owner, struct dial_result *result)
{
	struct call *call = owner;
	call->n_done++;
	call->result = *result;
	call->dial = NULL;
	loop_stop(room.loop);
}

static const struct dial_ops dial_ops = { NULL, on_done };

static struct tls_rule rule_for(const char *ca_file)
{
	return (struct tls_rule){ .originate = true, .verify = true, .ca_file = ca_file, .min_version = TLS_1_2 };
}

static void call_with(struct call *call, const struct tls_rule *rule, const struct test_server *server, const char *name)
{
	char error[256] = "";
	struct tls_context *context = tls_context_get(rule, error, sizeof(error));
	assert_string_equal(error, "");
	struct dial_order order = { .host = "127.0.0.1", .port = server->port, .connect_ms = 1000, .tls_handshake_ms = 2000,
				    .tls = context, .server_name = name };
	if (server->behaviour == SERVER_STAYS_SILENT)
		order.tls_handshake_ms = 150;
	memset(call, 0, sizeof(*call));
	call->stream.fd = -1;
	call->dial = dial_start(room.loop, resolver, &order, &dial_ops, call);
	tls_context_unref(&context);
	net_room_run(&room, 5000);
	assert_int_equal(call->n_done, 1);
}

static void assert_failed(const struct call *call, enum dial_status status, const char *detail)
{
	assert_string_equal(call->result.detail, detail);
	assert_int_equal(call->result.status, status);
	assert_int_equal(call->result.fd, -1);
	assert_null(call->result.tls);
}

static void on_readable(void *owner)
{
	struct call *call = owner;
	static char bytes[65536];
	size_t room_left = call->read_at_most > 0 ? call->read_at_most : sizeof(bytes);
	call->n_readable++;
	long n = stream_read(&call->stream, bytes, room_left);
	for (long i = 0; i < n; i++) {
		if (call->n_seen < sizeof(call->seen) - 1)
			call->seen[call->n_seen++] = bytes[i];
		size_t at = call->n_total++;
		call->is_wrong |= call->pauses && bytes[i] != (char)(at * 7 + at / 251);
	}
	if (n > 0 && call->pauses) {
		stream_pause_reading(&call->stream);
		stream_resume_reading(&call->stream);
	}
	if (n > 0 || n == STREAM_AGAIN)
		return;
	call->end = n;
	stream_pause_reading(&call->stream);
	loop_stop(room.loop);
}

static void on_writable(void *owner)
{
	(void)owner;
	loop_stop(room.loop);
}

static const struct stream_ops stream_ops = { on_readable, on_writable };

static void open_stream(struct call *call)
{
	assert_string_equal(call->result.status == DIAL_OK ? "" : call->result.detail, "");
	assert_int_equal(call->result.status, DIAL_OK);
	assert_true(mono_reached(call->result.connected, call->result.secured));
	call->end = 1;
	stream_open(&call->stream, room.loop, call->result.fd, call->result.tls, &stream_ops, call);
}

static void hang_up(struct call *call)
{
	if (call->result.status != DIAL_OK)
		return;
	if (call->stream.fd < 0)
		open_stream(call);
	stream_close(&call->stream, false);
}

/* One call to a server with this identity; what came of it is for the caller to look at. */
static void call_identity(struct call *call, const struct test_identity *identity, const struct tls_rule *rule,
			  const char *name)
{
	struct test_server server;
	test_server_init(&server, identity, SERVER_ECHOES);
	test_server_start(&server);
	call_with(call, rule, &server, name);
	hang_up(call);
	test_server_clear(&server);
}

static void assert_call(const struct test_certificate_order *order, const struct test_identity *issuer, const char *name,
			const char *expected)
{
	struct test_identity identity = test_identity_new(order, issuer);
	struct tls_rule rule = rule_for(ca_path);
	struct call call;
	call_identity(&call, &identity, &rule, name);
	if (expected == NULL)
		assert_string_equal(call.result.status == DIAL_OK ? "" : call.result.detail, "");
	else
		assert_failed(&call, DIAL_TLS_CERTIFICATE, expected);
	test_identity_clear(&identity);
}

#define CERTIFICATE(...) (&(struct test_certificate_order){ __VA_ARGS__ })

static void a_good_certificate_is_accepted_and_bytes_flow(void **state)
{
	(void)state;
	struct test_server server;
	struct call call;
	struct tls_rule rule = rule_for(ca_path);
	struct iovec pieces[] = { { "", 0 }, { "hel", 3 }, { "lo", 2 } };
	test_server_init(&server, &good, SERVER_ECHOES);
	test_server_start(&server);
	call_with(&call, &rule, &server, "good.test");
	open_stream(&call);
	assert_int_equal(stream_writev(&call.stream, pieces, 3), 5);
	stream_shutdown(&call.stream);
	net_room_run(&room, 2000);
	assert_string_equal(call.seen, "hello");
	assert_int_equal(call.end, STREAM_EOF);
	hang_up(&call);
	test_server_stop(&server);
	assert_string_equal(server.server_name, "good.test");
	assert_true(server.was_ended_by_notify);
	test_server_clear(&server);
}

static void an_ip_literal_is_checked_as_such_and_not_sent_as_sni(void **state)
{
	(void)state;
	struct test_server server;
	struct call call;
	struct tls_rule rule = rule_for(ca_path);
	test_server_init(&server, &good, SERVER_ECHOES);
	strcpy(server.server_name, "unset");
	test_server_start(&server);
	call_with(&call, &rule, &server, NULL);
	hang_up(&call);
	test_server_stop(&server);
	assert_string_equal(server.server_name, "");
	test_server_clear(&server);
	assert_call(CERTIFICATE(.names = "IP:192.0.2.1,DNS:127.0.0.1"), &authority, NULL,
		    "name mismatch: wanted 127.0.0.1, certificate is for 192.0.2.1, 127.0.0.1");
}

static void names_match_as_they_should(void **state)
{
	(void)state;
	assert_call(CERTIFICATE(.names = "DNS:*.b.test"), &authority, "x.b.test", NULL);
	assert_call(CERTIFICATE(.names = "DNS:X.B.Test"), &authority, "x.b.test", NULL);
	assert_call(CERTIFICATE(.names = "DNS:x.b.test"), &authority, "x.b.test.", NULL);
	assert_call(CERTIFICATE(.names = "DNS:a.test,DNS:*.b.test"), &authority, "api.test",
		    "name mismatch: wanted api.test, certificate is for a.test, *.b.test");
	assert_call(CERTIFICATE(.names = "DNS:*.b.test"), &authority, "y.x.b.test",
		    "name mismatch: wanted y.x.b.test, certificate is for *.b.test");
	assert_call(CERTIFICATE(.names = "DNS:x*.b.test"), &authority, "xy.b.test",
		    "name mismatch: wanted xy.b.test, certificate is for x*.b.test");
	assert_call(CERTIFICATE(.common_name = "cn.test"), &authority, "cn.test",
		    "name mismatch: wanted cn.test, certificate is for nothing (no subjectAltName)");
	assert_call(CERTIFICATE(.names = "DNS:a,DNS:b,DNS:c,DNS:d,DNS:e,DNS:f,DNS:g"), &authority, "z",
		    "name mismatch: wanted z, certificate is for a, b, c, d, e and 2 more");
}

static void times_are_checked(void **state)
{
	(void)state;
	assert_call(CERTIFICATE(.names = "DNS:a.test", .not_before = "20230101000000Z", .not_after = "20240102030405Z"),
		    &authority, "a.test", "expired since 2024-01-02T03:04:05Z");
	assert_call(CERTIFICATE(.names = "DNS:a.test", .not_before = "21240102030405Z", .not_after = "21250101000000Z"),
		    &authority, "a.test", "not valid before 2124-01-02T03:04:05Z");
}

static void who_signed_is_checked(void **state)
{
	(void)state;
	assert_call(CERTIFICATE(.names = "DNS:a.test"), &other_authority, "a.test",
		    "unknown issuer CN=Other Root (or the peer doesn't send its intermediate)");
	assert_call(CERTIFICATE(.names = "DNS:a.test"), NULL, "a.test", "self-signed certificate CN=leaf");
}

static void a_chain_to_an_unknown_root_names_the_root(void **state)
{
	(void)state;
	struct test_identity leaf = test_identity_new(CERTIFICATE(.names = "DNS:a.test"), &other_authority);
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	test_server_init(&server, &leaf, SERVER_ECHOES);
	X509_up_ref(other_authority.certificate);
	SSL_CTX_add0_chain_cert(server.context, other_authority.certificate);
	test_server_start(&server);
	call_with(&call, &rule, &server, "a.test");
	assert_failed(&call, DIAL_TLS_CERTIFICATE, "unknown issuer CN=Other Root (the peer sent it, but it isn't trusted)");
	test_server_clear(&server);
	test_identity_clear(&leaf);
}

static void a_certificate_in_ca_file_is_trusted_itself(void **state)
{
	(void)state;
	struct test_identity leaf = test_identity_new(CERTIFICATE(.names = "DNS:a.test"), &other_authority);
	struct tls_rule rule = rule_for(path_a);
	struct call call;
	test_write_certificate(path_a, leaf.certificate);
	call_identity(&call, &leaf, &rule, "a.test");
	assert_int_equal(call.result.status, DIAL_OK);
	test_identity_clear(&leaf);
}

static void verify_off_takes_anything(void **state)
{
	(void)state;
	struct test_identity bad = test_identity_new(CERTIFICATE(.not_after = "20240102030405Z"), NULL);
	struct tls_rule rule = rule_for(ca_path);
	struct call call;
	rule.verify = false;
	call_identity(&call, &bad, &rule, "a.test");
	assert_int_equal(call.result.status, DIAL_OK);
	test_identity_clear(&bad);
}

static void pins_hold(void **state)
{
	(void)state;
	char leaf[64], root[64], other[64], expected[220];
	const char *pins[2] = { other, leaf };
	struct tls_rule rule = rule_for(ca_path);
	struct call call;
	test_pin(good.certificate, leaf);
	test_pin(authority.certificate, root);
	test_pin(other_authority.certificate, other);
	rule.pins = (struct string_list){ pins, 2 };
	call_identity(&call, &good, &rule, "good.test");
	assert_int_equal(call.result.status, DIAL_OK);
	pins[1] = root; /* any of the verified chain */
	call_identity(&call, &good, &rule, "good.test");
	assert_int_equal(call.result.status, DIAL_OK);
	rule.pins.n = 1;
	snprintf(expected, sizeof(expected), "pin mismatch: none of tls.pins is in the chain; the certificate's own is %s", leaf);
	call_identity(&call, &good, &rule, "good.test");
	assert_failed(&call, DIAL_TLS_CERTIFICATE, expected);
	rule.verify = false; /* the pin is then all that counts, and only the leaf's */
	call_identity(&call, &good, &rule, "wrong.test");
	assert_failed(&call, DIAL_TLS_CERTIFICATE, expected);
	pins[0] = leaf;
	call_identity(&call, &good, &rule, "wrong.test");
	assert_int_equal(call.result.status, DIAL_OK);
	pins[0] = leaf; /* a pin does not stand in for verification */
	rule.verify = true;
	call_identity(&call, &good, &rule, "wrong.test");
	assert_int_equal(call.result.status, DIAL_TLS_CERTIFICATE);
}

static void peers_that_misbehave_are_named(void **state)
{
	(void)state;
	static const struct {
		enum test_behaviour behaviour;
		enum dial_status status;
		const char *reason;
	} rows[] = {
		{ SERVER_SPEAKS_HTTP, DIAL_TLS_FAILED, "the peer doesn't speak TLS on this port (wrong version number)" },
		{ SERVER_STAYS_SILENT, DIAL_TLS_TIMEOUT, "not done within 150 ms" },
	};
	struct tls_rule rule = rule_for(ca_path);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct test_server server;
		struct call call;
		char expected[256];
		test_server_init(&server, &good, rows[i].behaviour);
		test_server_start(&server);
		call_with(&call, &rule, &server, "good.test");
		snprintf(expected, sizeof(expected), "TLS handshake with 127.0.0.1:%u: %s", server.port, rows[i].reason);
		assert_failed(&call, rows[i].status, expected);
		test_server_clear(&server);
	}
}

static void cancel(void *owner, enum dial_phase phase)
{
	struct call *call = owner;
	call->n_readable++;
	if (phase == DIAL_SECURING && call->pauses)
		dial_cancel(&call->dial);
}

static void cancelling_a_handshake_is_silent(void **state)
{
	(void)state;
	static const struct dial_ops ops = { cancel, on_done };
	char error[200];
	struct tls_rule rule = rule_for(ca_path);
	struct tls_context *context = tls_context_get(&rule, error, sizeof(error));
	struct test_server server;
	test_server_init(&server, &good, SERVER_STAYS_SILENT);
	test_server_start(&server);
	for (int i = 0; i < 2; i++) { /* while it goes on, and when it is about to start */
		struct dial_order order = { .host = "127.0.0.1", .port = server.port, .connect_ms = 1000,
					    .tls_handshake_ms = 150, .tls = context };
		struct call call = { .pauses = i == 1 };
		call.dial = dial_start(room.loop, resolver, &order, &ops, &call);
		net_room_turn(&room, 50);
		assert_int_equal(call.n_readable, 2); /* phases */
		assert_int_equal(call.dial != NULL, i == 0);
		dial_cancel(&call.dial);
		net_room_turn(&room, 200);
		assert_int_equal(call.n_done, 0);
	}
	test_server_clear(&server);
	tls_context_unref(&context);
}

static void a_peer_that_closes_during_the_handshake_is_told(void **state)
{
	(void)state;
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	test_server_init(&server, &good, SERVER_CLOSES);
	test_server_start(&server);
	call_with(&call, &rule, &server, "good.test");
	assert_int_equal(call.result.status, DIAL_TLS_CLOSED); /* FIN or RST, by timing */
	assert_true(strstr(call.result.detail, "closed the connection") != NULL ||
		    strstr(call.result.detail, "reset by peer") != NULL || strstr(call.result.detail, "Broken pipe") != NULL);
	test_server_clear(&server);
}

static void versions_are_held_to(void **state)
{
	(void)state;
	static const struct {
		enum tls_version min;
		int server;
		enum dial_status status;
	} rows[] = {
		{ TLS_1_3, TLS1_2_VERSION, DIAL_TLS_FAILED }, { TLS_1_3, TLS1_3_VERSION, DIAL_OK },
		{ TLS_1_2, TLS1_2_VERSION, DIAL_OK }, { TLS_1_2, TLS1_1_VERSION, DIAL_TLS_FAILED },
		{ TLS_1_1, TLS1_1_VERSION, DIAL_OK }, { TLS_1_0, TLS1_VERSION, DIAL_OK },
		{ TLS_1_1, TLS1_VERSION, DIAL_TLS_FAILED },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct test_server server;
		struct call call;
		struct tls_rule rule = rule_for(ca_path);
		rule.min_version = rows[i].min;
		test_server_init(&server, &good, SERVER_ECHOES);
		SSL_CTX_set_security_level(server.context, 0);
		SSL_CTX_set_cipher_list(server.context, "ALL:@SECLEVEL=0");
		SSL_CTX_set_min_proto_version(server.context, TLS1_VERSION);
		SSL_CTX_set_max_proto_version(server.context, rows[i].server);
		test_server_start(&server);
		call_with(&call, &rule, &server, "good.test");
		if (call.result.status != rows[i].status)
			fail_msg("row %zu: %d %s", i, call.result.status, call.result.detail);
		hang_up(&call);
		test_server_clear(&server);
	}
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_length, const unsigned char *in, unsigned n, void *what)
{
	(void)ssl;
	assert_int_equal(n, 9);
	assert_memory_equal(in, "\x08http/1.1", 9); /* all that is offered */
	*out = what;
	*out_length = (unsigned char)strlen(what);
	return SSL_TLSEXT_ERR_OK;
}

static void only_http_1_1_may_be_chosen(void **state)
{
	(void)state;
	static char protocols[][16] = { "http/1.1", "h2" };
	struct tls_rule rule = rule_for(ca_path);
	for (int i = 0; i < 2; i++) {
		struct test_server server;
		struct call call;
		test_server_init(&server, &good, SERVER_ECHOES);
		SSL_CTX_set_alpn_select_cb(server.context, choose, protocols[i]);
		test_server_start(&server);
		call_with(&call, &rule, &server, "good.test");
		assert_int_equal(call.result.status, i == 0 ? DIAL_OK : DIAL_TLS_FAILED);
		hang_up(&call);
		test_server_clear(&server);
	}
}

static void a_client_certificate_is_shown(void **state)
{
	(void)state;
	struct test_identity client = test_identity_new(CERTIFICATE(.common_name = "client"), &authority);
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	char expected[200];
	test_write_certificate(path_a, client.certificate);
	test_write_key(path_b, client.key, NULL);
	test_server_init(&server, &good, SERVER_ECHOES);
	SSL_CTX_set_max_proto_version(server.context, TLS1_2_VERSION); /* 1.3 tells of a refusal only after the handshake */
	SSL_CTX_set_verify(server.context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_load_verify_file(server.context, ca_path);
	test_server_start(&server);
	call_with(&call, &rule, &server, "good.test");
	snprintf(expected, sizeof(expected), "TLS handshake with 127.0.0.1:%u: the peer refused with alert \"handshake failure\"",
		 server.port);
	assert_failed(&call, DIAL_TLS_FAILED, expected);
	rule.client_cert = path_a;
	rule.client_key = path_b;
	call_with(&call, &rule, &server, "good.test");
	assert_int_equal(call.result.status, DIAL_OK);
	hang_up(&call);
	test_server_stop(&server);
	assert_true(server.has_peer_certificate);
	test_server_clear(&server);
	test_identity_clear(&client);
}

static void call_and_read(struct call *call, enum test_behaviour behaviour, size_t read_at_most, bool pauses)
{
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	test_server_init(&server, &good, behaviour);
	test_server_start(&server);
	call_with(call, &rule, &server, "good.test");
	call->read_at_most = read_at_most;
	call->pauses = pauses;
	open_stream(call);
	if (behaviour == SERVER_SENDS_AFTER_END)
		stream_shutdown(&call->stream);
	net_room_run(&room, 10000);
	hang_up(call);
	test_server_clear(&server);
}

static void an_end_and_a_cut_are_told_apart(void **state)
{
	(void)state;
	struct call call;
	call_and_read(&call, SERVER_ENDS, 0, false);
	assert_string_equal(call.seen, "complete");
	assert_int_equal(call.end, STREAM_EOF);
	call_and_read(&call, SERVER_CUTS, 0, false);
	assert_string_equal(call.seen, "partial");
	assert_int_equal(call.end, STREAM_TRUNCATED);
}

static void bytes_inside_the_tls_layer_are_not_forgotten(void **state)
{
	(void)state;
	struct call call;
	call_and_read(&call, SERVER_ENDS, 1, false);
	assert_string_equal(call.seen, "complete");
	assert_int_equal(call.n_total, 8);
	assert_int_equal(call.end, STREAM_EOF);
}

static void reading_goes_on_after_our_end(void **state)
{
	(void)state;
	struct call call;
	call_and_read(&call, SERVER_SENDS_AFTER_END, 0, false);
	assert_string_equal(call.seen, "late");
	assert_int_equal(call.end, STREAM_EOF);
}

static void a_flood_arrives_whole_through_pauses(void **state)
{
	(void)state;
	struct call call;
	call_and_read(&call, SERVER_FLOODS, 5000, true);
	assert_int_equal(call.n_total, 4 * 1024 * 1024);
	assert_false(call.is_wrong);
	assert_int_equal(call.end, STREAM_EOF);
}

static void a_full_socket_takes_the_rest_later(void **state)
{
	(void)state;
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	enum { N = 3 * 1024 * 1024 };
	char *bytes = malloc(N);
	size_t sent = 0;
	unsigned n_full = 0;
	for (size_t i = 0; i < N; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	test_server_init(&server, &good, SERVER_ECHOES);
	test_server_start(&server);
	call_with(&call, &rule, &server, "good.test");
	call.pauses = true; /* and compares */
	open_stream(&call);
	int small = 16384;
	assert_int_equal(setsockopt(call.stream.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	while (sent < N) {
		struct iovec pieces[2] = { { bytes + sent, N - sent < 10 ? N - sent : 10 }, { NULL, 0 } };
		pieces[1].iov_base = bytes + sent + pieces[0].iov_len;
		pieces[1].iov_len = N - sent - pieces[0].iov_len;
		ssize_t n = stream_writev(&call.stream, pieces, 2);
		assert_true(n > 0 || n == STREAM_AGAIN);
		if (n > 0) {
			sent += (size_t)n;
			continue;
		}
		n_full++;
		stream_want_write(&call.stream);
		net_room_run(&room, 5000);
	}
	stream_shutdown(&call.stream);
	net_room_run(&room, 10000);
	assert_true(n_full > 0);
	assert_int_equal(call.n_total, N);
	assert_false(call.is_wrong);
	hang_up(&call);
	test_server_stop(&server);
	assert_true(server.was_ended_by_notify);
	test_server_clear(&server);
	free(bytes);
}

static void tickets_do_not_make_an_idle_connection_look_readable(void **state)
{
	(void)state;
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	test_server_init(&server, &good, SERVER_ECHOES);
	test_server_start(&server);
	call_with(&call, &rule, &server, "good.test");
	open_stream(&call);
	usleep(50000); /* TLS 1.3 sends them after the handshake */
	assert_false(stream_is_readable_now(&call.stream));
	assert_false(stream_is_peer_gone(&call.stream));
	assert_int_equal(stream_write(&call.stream, "x", 1), 1);
	usleep(50000);
	assert_true(stream_is_readable_now(&call.stream));
	net_room_turn(&room, 30); /* looking took nothing away */
	assert_string_equal(call.seen, "x");
	hang_up(&call);
	test_server_clear(&server);
}

static void resume_with(int version)
{
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call calls[3];
	char error[200];
	struct tls_context *keep = tls_context_get(&rule, error, sizeof(error)); /* the cache is the context's */
	test_server_init(&server, &good, SERVER_ENDS);
	SSL_CTX_set_max_proto_version(server.context, version);
	test_server_start(&server);
	for (int i = 0; i < 3; i++) {
		/* The third asks for another name: its session is not to be shared. */
		call_with(&calls[i], &rule, &server, i < 2 ? "good.test" : "also.test");
		open_stream(&calls[i]);
		assert_int_equal(tls_is_resumed(calls[i].stream.tls), i == 1);
		net_room_run(&room, 2000);
		assert_string_equal(calls[i].seen, "complete");
		hang_up(&calls[i]);
	}
	test_server_stop(&server);
	assert_int_equal(server.n_handshakes, 3);
	assert_int_equal(server.n_resumed, 1);
	test_server_clear(&server);
	tls_context_unref(&keep);
}

static void sessions_are_resumed_with_the_same_peer_only(void **state)
{
	(void)state;
	resume_with(TLS1_3_VERSION);
	resume_with(TLS1_2_VERSION);
}

static void a_write_to_a_peer_that_reset_is_an_error_and_no_signal(void **state)
{
	(void)state;
	struct tls_rule rule = rule_for(ca_path);
	struct test_server server;
	struct call call;
	ssize_t n = 1;
	test_server_init(&server, &good, SERVER_CUTS);
	test_server_start(&server);
	signal(SIGPIPE, SIG_DFL); /* would end this program */
	call_with(&call, &rule, &server, "good.test");
	open_stream(&call);
	shutdown(call.stream.fd, SHUT_WR);
	for (int i = 0; i < 100 && n > 0; i++)
		n = stream_write(&call.stream, "x", 1);
	assert_int_equal(n, STREAM_ERROR);
	assert_int_equal(call.stream.last_errno, EPIPE);
	net_room_run(&room, 2000); /* what had come before can still be read */
	assert_string_equal(call.seen, "partial");
	hang_up(&call);
	test_server_clear(&server);
}

static void contexts_are_known_by_content(void **state)
{
	(void)state;
	char error[256];
	struct tls_rule rule = rule_for(path_a), named = rule_for(path_a);
	named.server_name = "other.test";
	test_write_certificate(path_a, authority.certificate);
	struct tls_context *a = tls_context_get(&rule, error, sizeof(error));
	struct tls_context *same = tls_context_get(&rule, error, sizeof(error));
	struct tls_context *other = tls_context_get(&named, error, sizeof(error));
	assert_non_null(a);
	assert_ptr_equal(a, same);
	assert_int_equal(tls_context_identity(a), tls_context_identity(same));
	assert_true(tls_context_identity(a) != tls_context_identity(other));
	rule.ca_file = ca_path; /* another file with the same bytes */
	struct tls_context *moved = tls_context_get(&rule, error, sizeof(error));
	assert_ptr_equal(a, moved);
	test_write_certificate(path_a, other_authority.certificate);
	rule.ca_file = path_a; /* the same file with other bytes */
	struct tls_context *changed = tls_context_get(&rule, error, sizeof(error));
	assert_true(tls_context_identity(a) != tls_context_identity(changed));
	struct tls_context **all[] = { &a, &same, &other, &moved, &changed };
	for (size_t i = 0; i < 5; i++) {
		tls_context_unref(all[i]);
		assert_null(*all[i]);
	}
}

static void assert_refused(const struct tls_rule *rule, const char *format, const char *path, const char *second)
{
	char error[256] = "", expected[256];
	snprintf(expected, sizeof(expected), format, path, second);
	assert_null(tls_context_get(rule, error, sizeof(error)));
	assert_string_equal(error, expected);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void files_that_are_no_good_are_named(void **state)
{
	(void)state;
	struct test_identity client = test_identity_new(CERTIFICATE(.common_name = "client"), &authority);
	struct tls_rule rule = rule_for("/nonexistent/ca.pem");
	const char *pins[] = { "sha256/short" };
	assert_refused(&rule, "tls.ca_file: %s: No such file or directory", rule.ca_file, "");
	rule.ca_file = folder;
	assert_refused(&rule, "tls.ca_file: %s: Is a directory", folder, "");
	rule.ca_file = path_a;
	test_write_key(path_a, client.key, NULL);
	assert_refused(&rule, "tls.ca_file: %s: no PEM certificate is in it", path_a, "");
	rule.ca_file = ca_path;
	rule.client_cert = path_a;
	rule.client_key = path_b;
	test_write_key(path_b, good.key, NULL);
	assert_refused(&rule, "tls.client_cert: %s: no PEM certificate is in it", path_a, "");
	test_write_certificate(path_a, client.certificate);
	assert_refused(&rule, "tls.client_key: %s: it doesn't belong to tls.client_cert %s", path_b, path_a);
	test_write_key(path_b, client.key, "secret");
	assert_refused(&rule, "tls.client_key: %s: it is encrypted, and nobody is there to give the passphrase", path_b, "");
	rule.client_key = NULL; /* expected in the certificate's file then */
	assert_refused(&rule, "tls.client_key: %s: no PEM private key is in it", path_a, "");
	rule.client_cert = NULL;
	rule.client_key = path_b;
	assert_refused(&rule, "tls.client_key: %s: there is no tls.client_cert that it could belong to", path_b, "");
	rule.client_key = NULL;
	rule.pins = (struct string_list){ pins, 1 };
	assert_refused(&rule, "tls.pins: %s: expected sha256/ and 44 characters of base64", pins[0], "");
	test_identity_clear(&client);
}
#pragma GCC diagnostic pop

static int set_up(void **state)
{
	(void)state;
	struct dns_rule dns = { .timeout_ms = 1000, .max_ttl_ms = 1000, .negative_ttl_ms = 1000 };
	net_room_open(&room);
	resolver = resolver_new(room.loop, &dns);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	resolver_free(&resolver);
	net_room_close(&room);
	return 0;
}

static int set_up_all(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN); /* for the server's thread */
	assert_non_null(mkdtemp(folder));
	snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", folder);
	snprintf(path_a, sizeof(path_a), "%s/a.pem", folder);
	snprintf(path_b, sizeof(path_b), "%s/b.pem", folder);
	authority = test_identity_new(CERTIFICATE(.common_name = "Test Root", .is_authority = true), NULL);
	other_authority = test_identity_new(CERTIFICATE(.common_name = "Other Root", .is_authority = true), NULL);
	good = test_identity_new(CERTIFICATE(.names = "DNS:good.test,DNS:also.test,IP:127.0.0.1"), &authority);
	test_write_certificate(ca_path, authority.certificate);
	return 0;
}

static int tear_down_all(void **state)
{
	(void)state;
	unlink(ca_path);
	unlink(path_a);
	unlink(path_b);
	rmdir(folder);
	test_identity_clear(&authority);
	test_identity_clear(&other_authority);
	test_identity_clear(&good);
	return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_good_certificate_is_accepted_and_bytes_flow),
		T(an_ip_literal_is_checked_as_such_and_not_sent_as_sni),
		T(names_match_as_they_should),
		T(times_are_checked),
		T(who_signed_is_checked),
		T(a_chain_to_an_unknown_root_names_the_root),
		T(a_certificate_in_ca_file_is_trusted_itself),
		T(verify_off_takes_anything),
		T(pins_hold),
		T(peers_that_misbehave_are_named),
		T(cancelling_a_handshake_is_silent),
		T(a_peer_that_closes_during_the_handshake_is_told),
		T(versions_are_held_to),
		T(only_http_1_1_may_be_chosen),
		T(a_client_certificate_is_shown),
		T(an_end_and_a_cut_are_told_apart),
		T(bytes_inside_the_tls_layer_are_not_forgotten),
		T(reading_goes_on_after_our_end),
		T(a_flood_arrives_whole_through_pauses),
		T(a_full_socket_takes_the_rest_later),
		T(tickets_do_not_make_an_idle_connection_look_readable),
		T(sessions_are_resumed_with_the_same_peer_only),
		T(a_write_to_a_peer_that_reset_is_an_error_and_no_signal),
		cmocka_unit_test(contexts_are_known_by_content),
		cmocka_unit_test(files_that_are_no_good_are_named),
	};
	return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
