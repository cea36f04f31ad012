/* What crosses, byte for byte, and what doesn't: requests, responses, chunks, trailers; hop-by-hop fields and loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../proxy/http/h1_write.h"
#include "../../proxy/http/hop.h"

static void read_request(struct request *request, const char *text)
{
	struct request_reader reader;
	const char *at = text;
	size_t left = strlen(text);
	struct slice body;

	request_init(request);
	request_reader_init(&reader, request, 65536);
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_HEAD);
	request_reader_clear(&reader);
}

static void read_response(struct response *response, const char *text, bool asked_upgrade)
{
	struct response_reader reader;
	const char *at = text;
	size_t left = strlen(text);
	struct slice body;

	response_init(response);
	response_reader_init(&reader, response, 65536, false, false, asked_upgrade);
	enum read_event event = response_reader_next(&reader, &at, &left, &body);
	assert_true(event == READ_HEAD || event == READ_INTERIM);
	response_reader_clear(&reader);
}

static void expect_text(struct buffer *out, const char *expected)
{
	buffer_append(out, "", 1);
	assert_string_equal(buffer_start(out), expected);
	buffer_clear(out);
}

static void expect_request(
	const char *text, const struct request_rewrite *rewrite, uint64_t length, const char *expected)
{
	struct request request;
	struct buffer out = {0};

	read_request(&request, text);
	h1_write_request(&out, &request, rewrite, length);
	expect_text(&out, expected);
	request_clear(&request);
}

static void expect_response(const char *text, const struct response_rewrite *rewrite, const char *expected)
{
	struct response response;
	struct buffer out = {0};

	read_response(&response, text, rewrite->forward_upgrade);
	h1_write_response(&out, &response, rewrite);
	expect_text(&out, expected);
	response_clear(&response);
}

#define REWRITE .host = SLICE("o:81"), .path = SLICE("/p?q"), .via_id = SLICE("ab12")
#define VIA "Via: 1.1 evenkeel (ab12)\r\n"

static void what_may_cross_crosses_byte_for_byte(void **state)
{
	const struct request_rewrite rewrite = {REWRITE};

	(void)state;
	expect_request("GET http://o:81/p?q HTTP/1.1\r\nHost: evil\r\nb:  2 \r\nA:1\r\nCookie: x\r\na: "
		       "\xc3\xa4\t.\r\nVia: 1.0 x\r\n\r\n",
		&rewrite, 0,
		"GET /p?q HTTP/1.1\r\nHost: o:81\r\nb:  2 \r\nA:1\r\nCookie: x\r\na: \xc3\xa4\t.\r\nVia: 1.0 x\r\n" VIA
		"\r\n");
	expect_request(
		"GET http://o:81/p?q HTTP/1.0\r\n\r\n", &rewrite, 0, "GET /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "\r\n");
}

static void hop_by_hop_fields_stay(void **state)
{
	const struct request_rewrite rewrite = {REWRITE};

	(void)state; /* A9 */
	expect_request("GET http://o:81/ HTTP/1.1\r\nHost: o\r\nProxy-Connection: Keep-Alive\r\nProxy-Authorization: "
		       "Basic x\r\n"
		       "Connection: keep-alive, X-Hop, close\r\nConnection: X-Two\r\nx-hop: 1\r\nX-Two: "
		       "2\r\nKeep-Alive: timeout=5\r\n"
		       "TE: trailers, gzip\r\nTrailer: T\r\nX-Stay: 3\r\nUpgrade: h2c\r\nProxy-Authenticate: "
		       "x\r\nEvenkeel-Timeout: 1s\r\n"
		       "Expect: 100-continue\r\nevenkeel-previous-attempts: 1\r\n\r\n",
		&rewrite, 0, "GET /p?q HTTP/1.1\r\nHost: o:81\r\nX-Stay: 3\r\n" VIA "\r\n");
}

static void essential_fields_cant_be_named_away(void **state)
{
	const struct request_rewrite rewrite = {REWRITE, .framing = BODY_LENGTH};

	(void)state; /* A11 */
	expect_request("POST http://o/ HTTP/1.1\r\nHost: o\r\nConnection: connection, proxy-connection, host, "
		       "content-length, transfer-encoding\r\n"
		       "Connection: X-Forwarded-For, Via, a\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nVia: 1.1 "
		       "y\r\nA: b\r\n\r\n",
		&rewrite, 5,
		"POST /p?q HTTP/1.1\r\nHost: o:81\r\nContent-Length: 5\r\nX-Forwarded-For: 1\r\nVia: 1.1 y\r\n" VIA
		"\r\n");
}

static void more_names_than_are_collected(void **state)
{
	struct buffer text = {0};
	const struct request_rewrite rewrite = {REWRITE};

	(void)state;
	buffer_printf(&text, "GET http://o/ HTTP/1.1\r\nHost: o\r\nConnection: Host");
	for (int i = 0; i < 3 * HOP_MAX_NAMES; i++)
		buffer_printf(&text, ", X-%d", i);
	buffer_printf(
		&text, ", Cookie\r\nX-0: a\r\nX-%d: b\r\nCookie: c\r\nX-99: d\r\n\r\n%c", 3 * HOP_MAX_NAMES - 1, 0);
	expect_request(buffer_start(&text), &rewrite, 0,
		"GET /p?q HTTP/1.1\r\nHost: o:81\r\nCookie: c\r\nX-99: d\r\n" VIA "\r\n");
	buffer_clear(&text);
}

static void bodies_are_announced_as_they_are_sent(void **state)
{
	struct request_rewrite rewrite = {REWRITE, .framing = BODY_CHUNKED};
	static const char chunked[] = "PUT http://o/ HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char length[] = "PUT http://o/ HTTP/1.1\r\nHost: o\r\nContent-Length:  5\r\n\r\n";

	(void)state;
	expect_request(
		chunked, &rewrite, 0, "PUT /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "Transfer-Encoding: chunked\r\n\r\n");
	expect_request(
		length, &rewrite, 0, "PUT /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "Transfer-Encoding: chunked\r\n\r\n");
	rewrite.framing = BODY_LENGTH;
	expect_request(chunked, &rewrite, 18446744073709551615u,
		"PUT /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "Content-Length: 18446744073709551615\r\n\r\n");
	expect_request(chunked, &rewrite, 0, "PUT /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "Content-Length: 0\r\n\r\n");
	expect_request(length, &rewrite, 5, "PUT /p?q HTTP/1.1\r\nHost: o:81\r\nContent-Length:  5\r\n" VIA "\r\n");
	rewrite.framing = BODY_NONE;
	expect_request(length, &rewrite, 0, "PUT /p?q HTTP/1.1\r\nHost: o:81\r\n" VIA "\r\n");
}

static void what_is_added_to_a_request(void **state)
{
	const struct header_field set[] = {{"X-Set", "new"}, {"Authorization", "Bearer t"}};
	const char *const removed[] = {"x-gone"};
	const struct header_edit edit = {.set = set, .n_set = 2, .remove = {removed, 1}};
	const struct request_rewrite rewrite = {REWRITE, .request_id = SLICE("id-1"), .n_previous_attempts = 12,
		.forward_expect = true, .forward_upgrade = true, .edit = &edit};

	(void)state;
	expect_request("GET http://o/ HTTP/1.1\r\nHost: o\r\nExpect: 100-continue\r\nx-set: old\r\nX-SET: "
		       "older\r\nX-Gone: 1\r\nA: b\r\n"
		       "X-Request-Id: theirs\r\nConnection: Upgrade\r\nUpgrade:  websocket\r\n\r\n",
		&rewrite, 0,
		"GET /p?q HTTP/1.1\r\nHost: o:81\r\nExpect: 100-continue\r\nA: b\r\n" VIA "X-Request-Id: id-1\r\n"
		"Evenkeel-Previous-Attempts: 12\r\nX-Set: new\r\nAuthorization: Bearer t\r\nConnection: "
		"upgrade\r\nUpgrade:  websocket\r\n\r\n");
}

static void responses_cross_and_are_added_to(void **state)
{
	const struct extra_field extra[] = {
		{SLICE("X-Request-Id"), SLICE("id")}, {SLICE("Evenkeel-Attempts"), SLICE("2")}};
	struct response_rewrite rewrite = {.via_id = SLICE("ab12"), .extra = extra, .n_extra = 2};
	static const char text[] =
		"HTTP/1.0 200 Fine  by me\r\nSet-Cookie: a\r\nset-cookie: b\r\nx-request-id: "
		"theirs\r\nEVENKEEL-ATTEMPTS: 9\r\n"
		"Connection: close, X-H\r\nX-H: 1\r\nKeep-Alive: 5\r\nContent-Length: 5\r\nEvenkeel-Other: x\r\n\r\n";
#define KEPT "HTTP/1.1 200 Fine  by me\r\nSet-Cookie: a\r\nset-cookie: b\r\n"
#define ADDED "Evenkeel-Other: x\r\n" VIA "X-Request-Id: id\r\nEvenkeel-Attempts: 2\r\n"

	(void)state;
	expect_response(text, &rewrite, KEPT "Content-Length: 5\r\n" ADDED "\r\n");
	rewrite.add_chunked = rewrite.add_close = true;
	expect_response(text, &rewrite, KEPT ADDED "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	rewrite.add_chunked = rewrite.add_close = false;
	rewrite.drop_length = rewrite.add_keep_alive = true;
	expect_response(text, &rewrite, KEPT ADDED "Connection: keep-alive\r\n\r\n");
}

static void responses_without_much(void **state)
{
	const struct header_field set[] = {{"Server", "s"}};
	const struct header_edit edit = {.set = set, .n_set = 1};
	struct response_rewrite rewrite = {.via_id = SLICE("ab12"), .edit = &edit};

	(void)state;
	expect_response("HTTP/1.1 204\r\nServer: x\r\n\r\n", &rewrite, "HTTP/1.1 204 \r\n" VIA "Server: s\r\n\r\n");
	expect_response(
		"HTTP/1.1 204 N\r\nContent-Length: 3\r\n\r\n", &rewrite, "HTTP/1.1 204 N\r\n" VIA "Server: s\r\n\r\n");
	rewrite = (struct response_rewrite){.via_id = SLICE("ab12"), .forward_upgrade = true, .add_close = true};
	expect_response("HTTP/1.1 101 S\r\nUpgrade: a\r\nConnection: upgrade\r\nX: y\r\n\r\n", &rewrite,
		"HTTP/1.1 101 S\r\nX: y\r\n" VIA "Connection: upgrade\r\nUpgrade: a\r\n\r\n");
}

static void interim_heads(void **state)
{
	struct response response;
	struct buffer out = {0};

	(void)state;
	read_response(&response, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\nX: y\r\n\r\n", false);
	h1_write_interim(&out, &response, SLICE("ab12"));
	expect_text(&out, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" VIA "\r\n");
	response_clear(&response);
}

static void chunks(void **state)
{
	struct buffer out = {0};
	char start[20];

	(void)state;
	assert_int_equal(h1_chunk_start(start, 1), 3);
	assert_memory_equal(start, "1\r\n", 3);
	assert_int_equal(h1_chunk_start(start, 0x1Fa0), 6);
	assert_memory_equal(start, "1FA0\r\n", 6);
	assert_int_equal(h1_chunk_start(start, SIZE_MAX), 18);
	assert_memory_equal(start, "FFFFFFFFFFFFFFFF\r\n", 18);
	h1_write_chunk(&out, SLICE("0123456789abcdef"));
	h1_write_chunk(&out, SLICE(""));
	h1_write_last_chunk(&out, NULL);
	expect_text(&out, "10\r\n0123456789abcdef\r\n0\r\n\r\n");
}

static void trailers_that_may_cross(void **state)
{
	static const char text[] =
		"PUT http://o/ HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T:  1\r\nhost: evil\r\n"
		"Content-Length: 9\r\nTransfer-Encoding: x\r\nSet-Cookie: a\r\nAUTHORIZATION: b\r\nEvenkeel-X: "
		"c\r\nDigest: d\r\n\r\n";
	struct request request;
	struct request_reader reader;
	struct buffer out = {0};
	const char *at = text;
	size_t left = sizeof(text) - 1;
	struct slice body;

	(void)state; /* B9 */
	request_init(&request);
	request_reader_init(&reader, &request, 65536);
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_HEAD);
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_END);
	assert_int_equal(left, 0);
	h1_write_last_chunk(&out, &reader.trailers);
	expect_text(&out, "0\r\nX-T:  1\r\nDigest: d\r\n\r\n");
	request_reader_clear(&reader);
	request_clear(&request);
	assert_true(trailer_may_cross(SLICE("grpc-status")));
	assert_false(trailer_may_cross(SLICE("TRAILER")));
	assert_false(trailer_may_cross(SLICE("evenkeel-x")));
}

static void one_field_at_a_time(void **state)
{
	struct request request;

	(void)state;
	read_request(&request, "GET http://o/ HTTP/1.1\r\nHost: o\r\nConnection: ,, a ,host\r\n\r\n");
	assert_true(hop_is_hop_by_hop(&request.head, SLICE("A")));
	assert_true(hop_is_hop_by_hop(&request.head, SLICE("te")));
	assert_true(hop_is_hop_by_hop(&request.head, SLICE("Proxy-Authorization")));
	assert_false(hop_is_hop_by_hop(&request.head, SLICE("Host")));
	assert_false(hop_is_hop_by_hop(&request.head, SLICE("B")));
	assert_true(head_has_token(&request.head, SLICE("connection"), SLICE("HOST")));
	assert_false(head_has_token(&request.head, SLICE("connection"), SLICE("")));
	request_clear(&request);
}

static void loops_are_seen(void **state)
{
	static const struct {
		const char *via;
		bool is_loop;
	} cases[] = {
		{"1.1 evenkeel (ab12)", true},
		{"1.0 a, 1.1 evenkeel  (ab12), 1.1 b", true},
		{"1.1 x (y)\r\nVIA: 1.1 evenkeel (ab12)", true},
		{"1.1 evenkeel (ab13)", false},
		{"1.1 evenkeel (ab123)", false},
		{"1.1 evenkeel (ab1", false},
		{"1.1 other (ab12)", false},
		{"1.1 evenkeel", false},
		{"(ab12)", false},
		{"", false},
		{"1.1 evenkeel(ab12)", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buffer text = {0};
		struct request request;

		buffer_printf(&text, "GET http://o/ HTTP/1.1\r\nHost: o\r\nVia: %s\r\n\r\n%c", cases[i].via, 0);
		read_request(&request, buffer_start(&text));
		if (hop_is_loop(&request.head, SLICE("ab12")) != cases[i].is_loop)
			fail_msg("%s", cases[i].via);
		request_clear(&request);
		buffer_clear(&text);
	}
}

static void reasons(void **state)
{
	(void)state;
	assert_string_equal(h1_reason(504), "Gateway Timeout");
	assert_string_equal(h1_reason(431), "Request Header Fields Too Large");
	assert_string_equal(h1_reason(299), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_cross_crosses_byte_for_byte),
		cmocka_unit_test(hop_by_hop_fields_stay),
		cmocka_unit_test(essential_fields_cant_be_named_away),
		cmocka_unit_test(more_names_than_are_collected),
		cmocka_unit_test(bodies_are_announced_as_they_are_sent),
		cmocka_unit_test(what_is_added_to_a_request),
		cmocka_unit_test(responses_cross_and_are_added_to),
		cmocka_unit_test(responses_without_much),
		cmocka_unit_test(interim_heads),
		cmocka_unit_test(chunks),
		cmocka_unit_test(trailers_that_may_cross),
		cmocka_unit_test(one_field_at_a_time),
		cmocka_unit_test(loops_are_seen),
		cmocka_unit_test(reasons),
	};
	return cmocka_run_group_tests_name("http write", tests, NULL, NULL);
}
