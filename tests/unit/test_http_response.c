/* Reading an origin's bytes: framing by RFC 9112 6.3, interim responses, ends. Labels are those of the cases' kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "http_feed.h"

struct response_case {
	const char *label;
	struct slice bytes;
	struct feed_answer answer;
	const char *outcome; /* the whole transcript */
};

#define CASE(label, answer, bytes, outcome)                                                                            \
	{                                                                                                              \
		label, {bytes, sizeof(bytes) - 1}, answer, outcome                                                     \
	}
#define OPEN                                                                                                           \
	{                                                                                                              \
		.ending = FEED_OPEN                                                                                    \
	}
#define FIN                                                                                                            \
	{                                                                                                              \
		.ending = FEED_CLEAN_EOF                                                                               \
	}
#define RST                                                                                                            \
	{                                                                                                              \
		.ending = FEED_BROKEN                                                                                  \
	}
#define TO_HEAD                                                                                                        \
	{                                                                                                              \
		.to_head = true                                                                                        \
	}
#define TO_CONNECT                                                                                                     \
	{                                                                                                              \
		.to_connect = true                                                                                     \
	}
#define ASKED                                                                                                          \
	{                                                                                                              \
		.asked_upgrade = true                                                                                  \
	}

static void expect_case(const struct response_case *c, size_t limit)
{
	for (size_t first = 0; first < c->bytes.length; first++) {
		char *text = feed_response(c->bytes.data, c->bytes.length, first, 0, limit, &c->answer);
		if (strcmp(text, c->outcome) != 0)
			print_error("%s, cut at %zu:\n%s--- expected:\n%s", c->label, first, text, c->outcome);
		assert_string_equal(text, c->outcome);
		free(text);
	}
	for (size_t step = 1; step < 4; step++) {
		char *text = feed_response(c->bytes.data, c->bytes.length, step, step, limit, &c->answer);
		if (strcmp(text, c->outcome) != 0)
			print_error("%s, in steps of %zu\n", c->label, step);
		assert_string_equal(text, c->outcome);
		free(text);
	}
}

static void expect_cases(const struct response_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_case(&cases[i], FEED_LIMIT);
}
#define EXPECT_CASES(cases) expect_cases(cases, sizeof(cases) / sizeof((cases)[0]))

static void bodies_are_framed_by_the_rules(void **state)
{
	(void)state;
	static const struct response_case cases[] = {
		CASE("length", OPEN, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
			"200 [OK] 1.1 length 5 length keep-alive -1\n[Content-Length][5]\nbody hello\nend\n"),
		CASE("length 0", OPEN, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			"200 [OK] 1.1 length 0 length keep-alive -1\n[Content-Length][0]\nend\n"),
		CASE("chunked", OPEN,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
			"200 [OK] 1.1 chunked 0 keep-alive -1\n[Transfer-Encoding][Chunked]\nbody hello\nend\n"),
		CASE("C13", OPEN,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: foo\r\n\r\n",
			"200 [OK] 1.1 chunked 0 keep-alive -1\n[Transfer-Encoding][chunked]\nbody a\ntrailer "
			"[X-T][foo]\nend\n"),
		CASE("C3 FIN", FIN, "HTTP/1.1 200 OK\r\n\r\nhello", "200 [OK] 1.1 until-close 0 -1\nbody hello\nend\n"),
		CASE("C3 RST", RST, "HTTP/1.1 200 OK\r\n\r\nhello",
			"200 [OK] 1.1 until-close 0 -1\nbody hello\nerror 0 the connection broke in a body that its "
			"end delimits\n"),
		CASE("C11", FIN, "HTTP/1.0 200 OK\r\n\r\nhi", "200 [OK] 1.0 until-close 0 -1\nbody hi\nend\n"),
		CASE("C11 kept", OPEN, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
			"200 [OK] 1.0 length 2 length keep-alive "
			"-1\n[Connection][keep-alive]\n[Content-Length][2]\nbody hi\nend\n"),
		CASE("C5", TO_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 1192\r\n\r\n",
			"200 [OK] 1.1 none 1192 length keep-alive -1\n[Content-Length][1192]\nend\n"),
		CASE("C5 chunked", TO_HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			"200 [OK] 1.1 none 0 keep-alive -1\n[Transfer-Encoding][chunked]\nend\n"),
		CASE("304", OPEN, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
			"304 [Not Modified] 1.1 none 9 length keep-alive -1\n[Content-Length][9]\nend\n"),
		CASE("204", OPEN, "HTTP/1.1 204 No Content\r\n\r\n",
			"204 [No Content] 1.1 none 0 keep-alive -1\nend\n"),
		CASE("2xx to CONNECT", TO_CONNECT, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
			"200 [OK] 1.1 none 9 length keep-alive -1\n[Content-Length][9]\nend\n"),
		CASE("403 to CONNECT", TO_CONNECT, "HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx",
			"403 [No] 1.1 length 1 length keep-alive -1\n[Content-Length][1]\nbody x\nend\n"),
		CASE("close", OPEN, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
			"200 [OK] 1.1 length 0 length -1\n[Connection][close]\n[Content-Length][0]\nend\n"),
		CASE("Keep-Alive", OPEN,
			"HTTP/1.1 200 OK\r\nKeep-Alive: max=5, Timeout=15\r\nContent-Length: 0\r\n\r\n",
			"200 [OK] 1.1 length 0 length keep-alive 15000\n[Keep-Alive][max=5, "
			"Timeout=15]\n[Content-Length][0]\nend\n"),
		CASE("Keep-Alive huge", OPEN,
			"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=9223372036854775807\r\nContent-Length: 0\r\n\r\n",
			"200 [OK] 1.1 length 0 length keep-alive "
			"1000000000\n[Keep-Alive][timeout=9223372036854775807]\n[Content-Length][0]\nend\n"),
		CASE("Keep-Alive bad", OPEN, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=-1\r\nContent-Length: 0\r\n\r\n",
			"200 [OK] 1.1 length 0 length keep-alive "
			"-1\n[Keep-Alive][timeout=-1]\n[Content-Length][0]\nend\n"),
	};
	EXPECT_CASES(cases);
}

static void odd_but_legal_status_lines(void **state)
{
	(void)state;
	static const struct response_case cases[] = {
		CASE("no reason", OPEN, "HTTP/1.1 204\r\n\r\n", "204 [] 1.1 none 0 keep-alive -1\nend\n"),
		CASE("empty reason", OPEN, "HTTP/1.1 204 \r\n\r\n", "204 [] 1.1 none 0 keep-alive -1\nend\n"),
		CASE("odd reason", TO_HEAD, "HTTP/1.1 999 \xc3\xa4\t  b \r\n\r\n",
			"999 [\xc3\xa4\t  b ] 1.1 none 0 keep-alive -1\nend\n"),
		CASE("1.3", OPEN, "HTTP/1.3 204 x\r\n\r\n", "204 [x] 1.1 none 0 keep-alive -1\nend\n"),
	};
	EXPECT_CASES(cases);
}

static void ambiguous_or_broken_responses_are_refused(void **state)
{
	(void)state;
#define FIELDS(fields) "HTTP/1.1 200 OK\r\n" fields "\r\n\r\n"
#define NO_VERSION "error 0 the response doesn't start with an HTTP version (RFC 9112 4)\n"
#define BAD_STATUS "error 0 bad status code in the response (RFC 9112 4)\n"
#define BAD_CODING "error 0 Transfer-Encoding other than exactly one \"chunked\" (RFC 9112 6.1)\n"
#define BARE_LF "error 0 a line of the response's head ends in a bare LF (RFC 9112 2.2)\n"
	static const struct response_case cases[] = {
		CASE("C7 foo", OPEN, FIELDS("Content-Length: foo"),
			"error 0 Content-Length is not a number (RFC 9110 8.6)\n"),
		CASE("C7 differing", OPEN, FIELDS("Content-Length: 5\r\nContent-Length: 6"),
			"error 0 more than one Content-Length (RFC 9112 6.3)\n"),
		CASE("C7 identical", OPEN, FIELDS("Content-Length: 5\r\nContent-Length: 5"),
			"error 0 more than one Content-Length (RFC 9112 6.3)\n"),
		CASE("C7 both", OPEN, FIELDS("Content-Length: 5\r\nTransfer-Encoding: chunked"),
			"error 0 both Content-Length and Transfer-Encoding (RFC 9112 6.1)\n"),
		CASE("C7 TE foo", OPEN, FIELDS("Transfer-Encoding: foo"), BAD_CODING),
		CASE("C7 twice", OPEN, FIELDS("Transfer-Encoding: chunked, chunked"), BAD_CODING),
		CASE("C7 1.0", OPEN, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			"error 0 Transfer-Encoding in an HTTP/1.0 message (RFC 9112 6.1)\n"),
		CASE("garbage", OPEN, "SSH-2.0-OpenSSH\r\n", NO_VERSION),
		CASE("0.9", OPEN, "hello\r\n", NO_VERSION),
		CASE("leading CRLF", OPEN, "\r\nHTTP/1.1 200 OK\r\n\r\n", NO_VERSION),
		CASE("ICY", OPEN, "ICY 200 OK\r\n\r\n", NO_VERSION),
		CASE("2.0", OPEN, "HTTP/2.0 200 OK\r\n\r\n", "error 0 the response isn't HTTP/1.x (RFC 9112 2.3)\n"),
		CASE("two digits", OPEN, "HTTP/1.1 20\r\n\r\n", BAD_STATUS),
		CASE("four digits", OPEN, "HTTP/1.1 2000 OK\r\n\r\n", BAD_STATUS),
		CASE("099", OPEN, "HTTP/1.1 099 x\r\n\r\n", BAD_STATUS),
		CASE("+20", OPEN, "HTTP/1.1 +20 x\r\n\r\n", BAD_STATUS),
		CASE("two spaces", OPEN, "HTTP/1.1  200 x\r\n\r\n", BAD_STATUS),
		CASE("200OK", OPEN, "HTTP/1.1 200OK\r\n\r\n", BAD_STATUS),
		CASE("1.32", OPEN, "HTTP/1.32 200 OK\r\n\r\n", BAD_STATUS),
		CASE("CR in the reason", OPEN, "HTTP/1.1 200 O\rK\r\n\r\n",
			"error 0 control character in the reason phrase (RFC 9112 4)\n"),
		CASE("bare LF", OPEN, "HTTP/1.1 200 OK\nContent-Length: 0\n\n", BARE_LF),
		CASE("bare LF late", OPEN, "HTTP/1.1 200 OK\r\nA: b\n\r\n", BARE_LF),
		CASE("folding", OPEN, FIELDS("A: b\r\n c"),
			"error 0 line folding or white space before a field name (RFC 9112 5.2)\n"),
		CASE("space before colon", OPEN, FIELDS("Content-Length : 5"),
			"error 0 white space in or after a field name (RFC 9112 5.1)\n"),
		CASE("NUL", OPEN, FIELDS("A: \0"),
			"error 0 control character (NUL, bare CR or the like) in a field value (RFC 9110 5.5)\n"),
		CASE("H7 not asked", OPEN, "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
			"error 0 101 although no upgrade was asked for (RFC 9110 15.2.2)\n"),
	};
	EXPECT_CASES(cases);
}

static void ends_that_come_too_early(void **state)
{
	(void)state;
#define SHORT "error 0 the connection ended before the body was complete (RFC 9112 8)\n"
#define SHORT_HEAD "error 0 the connection ended before the head was complete (RFC 9112 8)\n"
#define CHUNKED_HEAD "200 [OK] 1.1 chunked 0 keep-alive -1\n[Transfer-Encoding][chunked]\n"
	static const struct response_case cases[] = {
		CASE("C1", FIN, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789",
			"200 [OK] 1.1 length 100 length keep-alive -1\n[Content-Length][100]\nbody 0123456789\n" SHORT),
		CASE("no last chunk", FIN, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
			CHUNKED_HEAD "body a\n" SHORT),
		CASE("no end of trailers", FIN, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
			CHUNKED_HEAD "body a\n" SHORT),
		CASE("D11", FIN, "HTTP/1.1 20", SHORT_HEAD),
		CASE("in fields", FIN, "HTTP/1.1 200 OK\r\nContent-Len", SHORT_HEAD),
		CASE("after an interim one", FIN, "HTTP/1.1 100 Continue\r\n\r\n",
			"interim 100 [Continue] 1.1 none 0 keep-alive -1\n" SHORT_HEAD),
		CASE("complete", FIN, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
			"200 [OK] 1.1 length 1 length keep-alive -1\n[Content-Length][1]\nbody a\nend\n"),
		CASE("complete, then RST", RST, "HTTP/1.1 204 N\r\n\r\n", "204 [N] 1.1 none 0 keep-alive -1\nend\n"),
	};
	EXPECT_CASES(cases);
}

static void interim_responses(void **state)
{
	(void)state;
	static const struct response_case cases[] = {
		CASE("H5 three", OPEN,
			"HTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
			"1\r\n\r\na",
			"interim 103 [E] 1.1 none 0 keep-alive -1\n[Link][a]\ninterim 100 [C] 1.1 none 0 keep-alive "
			"-1\n"
			"200 [OK] 1.1 length 1 length keep-alive -1\n[Content-Length][1]\nbody a\nend\n"),
		CASE("H7 asked", ASKED, "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nbytes",
			"101 [S] 1.1 none 0 switch -1\n[Connection][upgrade]\n[Upgrade][x]\nend\n"),
	};
	EXPECT_CASES(cases);
}

static void a_flood_of_interim_responses_ends(void **state)
{
	struct buffer flood = {0};
	const struct feed_answer answer = OPEN;

	(void)state;
	for (int i = 0; i < RESPONSE_MAX_INTERIM; i++)
		buffer_printf(&flood, "HTTP/1.1 102 P\r\n\r\n");
	buffer_printf(&flood, "HTTP/1.1 204 N\r\n\r\n");
	char *text = feed_response(buffer_start(&flood), buffer_length(&flood), 0, 0, FEED_LIMIT, &answer);
	assert_non_null(strstr(text, "\n204 [N] 1.1 none 0 keep-alive -1\nend\n"));
	free(text);
	buffer_reset(&flood);
	for (int i = 0; i <= RESPONSE_MAX_INTERIM; i++)
		buffer_printf(&flood, "HTTP/1.1 102 P\r\n\r\n");
	text = feed_response(buffer_start(&flood), buffer_length(&flood), 0, 0, FEED_LIMIT, &answer);
	assert_non_null(strstr(text, "\nerror 0 too many interim responses\n"));
	free(text);
	buffer_clear(&flood);
}

static void heads_over_the_limit(void **state)
{
	struct buffer text = {0};

	(void)state;
	buffer_printf(&text, "HTTP/1.1 200 OK\r\nA: %0400d\r\n\r\n", 0);
	struct response_case c = {
		"C9", buffer_slice(&text), OPEN, "error 0 too-large the response's header section is over the limit\n"};
	expect_case(&c, 300);
	c.outcome = "error 0 too-large the response's header section is over the limit\n";
	expect_case(&c, c.bytes.length - 1);
	buffer_clear(&text);
}

static void a_large_head_is_read_whole(void **state)
{
	struct buffer text = {0};
	struct response response;
	struct response_reader reader;
	struct slice body;

	(void)state;
	buffer_printf(&text, "HTTP/1.1 200 Fine\r\nContent-Length: 0\r\n");
	for (int i = 0; i < 1000; i++)
		buffer_printf(&text, "F%d: %d\r\n", i, i);
	buffer_printf(&text, "\r\n");
	const char *at = buffer_start(&text);
	size_t left = buffer_length(&text);
	response_init(&response);
	response_reader_init(&reader, &response, FEED_LIMIT, false, false, false);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_HEAD);
	/* The bytes have moved since the status line was read. */
	assert_ptr_equal(response.reason.data, response.head.raw.data + 13);
	assert_true(slice_equals(response.reason, SLICE("Fine")));
	assert_int_equal(response.head.n_fields, 1001);
	assert_true(slice_equals(head_get(&response.head, SLICE("F999")), SLICE("999")));
	response_reader_clear(&reader);
	response_clear(&response);
	buffer_clear(&text);
}

static void bytes_after_the_end_stay(void **state)
{
	static const struct {
		const char *bytes;
		bool asked_upgrade, has_body;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naEXTRA", false, true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nEXTRA", false,
			true}, /* C15 */
		{"HTTP/1.1 204 N\r\n\r\nEXTRA", false, false},
		{"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nEXTRA", true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct response response;
		struct response_reader reader;
		const char *at = cases[i].bytes;
		size_t left = strlen(at);
		struct slice body;

		response_init(&response);
		response_reader_init(&reader, &response, FEED_LIMIT, false, false, cases[i].asked_upgrade);
		assert_false(reader.has_bytes);
		assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_HEAD);
		assert_true(reader.has_bytes);
		if (cases[i].has_body) {
			assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_BODY);
			assert_true(slice_equals(body, SLICE("a")));
		}
		assert_false(reader.is_complete);
		for (int n = 0; n < 2; n++) {
			assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_END);
			assert_true(reader.is_complete);
			assert_string_equal(at, "EXTRA");
			assert_int_equal(left, 5);
		}
		response_reader_clear(&reader);
		response_clear(&response);
	}
}

static void an_end_without_a_byte_says_so(void **state)
{
	struct response response;
	struct response_reader reader;

	(void)state;
	response_init(&response);
	response_reader_init(&reader, &response, FEED_LIMIT, false, false, false);
	assert_int_equal(response_reader_eof(&reader, true), READ_ERROR);
	assert_false(reader.has_bytes);
	assert_string_equal(reader.error.detail, "the connection ended without a response");
	assert_int_equal(response_reader_eof(&reader, true), READ_ERROR);
	response_reader_clear(&reader);
	response_clear(&response);
}

/* Part of a body may be taken from the socket by somebody else: the reader counts it, and nothing but the rest is left. */
static void a_body_of_known_length_may_be_skipped(void **state)
{
	struct response response;
	struct response_reader reader;
	const char *at = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab";
	size_t left = strlen(at);
	struct slice body;

	(void)state;
	response_init(&response);
	response_reader_init(&reader, &response, FEED_LIMIT, false, false, false);
	assert_int_equal(response_reader_length_left(&reader), 0);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_HEAD);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_BODY);
	assert_int_equal(response_reader_length_left(&reader), 8);
	response_reader_skip(&reader, 5);
	assert_int_equal(response_reader_length_left(&reader), 3);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_MORE);
	response_reader_skip(&reader, 3);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_END);
	assert_int_equal(response_reader_length_left(&reader), 0);
	response_reader_clear(&reader);
	response_clear(&response);
}

static void only_a_known_length_can_be_skipped(void **state)
{
	struct response response;
	struct response_reader reader;
	const char *at = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nab";
	size_t left = strlen(at);
	struct slice body;

	(void)state;
	response_init(&response);
	response_reader_init(&reader, &response, FEED_LIMIT, false, false, false);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_HEAD);
	assert_int_equal(response_reader_next(&reader, &at, &left, &body), READ_BODY);
	assert_int_equal(response_reader_length_left(&reader), 0);
	response_reader_clear(&reader);
	response_clear(&response);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_framed_by_the_rules),
		cmocka_unit_test(odd_but_legal_status_lines),
		cmocka_unit_test(ambiguous_or_broken_responses_are_refused),
		cmocka_unit_test(ends_that_come_too_early),
		cmocka_unit_test(interim_responses),
		cmocka_unit_test(a_flood_of_interim_responses_ends),
		cmocka_unit_test(heads_over_the_limit),
		cmocka_unit_test(a_large_head_is_read_whole),
		cmocka_unit_test(bytes_after_the_end_stay),
		cmocka_unit_test(an_end_without_a_byte_says_so),
		cmocka_unit_test(a_body_of_known_length_may_be_skipped),
		cmocka_unit_test(only_a_known_length_can_be_skipped),
	};
	return cmocka_run_group_tests_name("http response", tests, NULL, NULL);
}
