/* The gate that a client's bytes come through: framing, syntax, limits. Labels are those of the cases' kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "http_feed.h"

struct request_case {
	const char *label;
	struct slice bytes;
	const char *outcome; /* the whole transcript */
};

#define CASE(label, bytes, outcome)                                                                                    \
	{                                                                                                              \
		label, {bytes, sizeof(bytes) - 1}, outcome                                                             \
	}
#define H "Host: h\r\n"
#define OK_HEAD "GET http://h/ 1.1 none 0 keep-alive\n[Host][h]\n"
#define POST_CHUNKED "POST http://h/ HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
#define POST_CHUNKED_HEAD "POST http://h/ 1.1 chunked 0 keep-alive\n[Host][h]\n[Transfer-Encoding][chunked]\n"

/* The same outcome whole, byte by byte, and cut once at each place. */
static void expect_case(const struct request_case *c, size_t limit)
{
	for (size_t first = 0; first < c->bytes.length; first++) {
		char *text = feed_request(c->bytes.data, c->bytes.length, first, 0, limit, NULL);
		if (strcmp(text, c->outcome) != 0)
			print_error("%s, cut at %zu:\n%s--- expected:\n%s", c->label, first, text, c->outcome);
		assert_string_equal(text, c->outcome);
		free(text);
	}
	for (size_t step = 1; step < 4; step++) {
		char *text = feed_request(c->bytes.data, c->bytes.length, step, step, limit, NULL);
		if (strcmp(text, c->outcome) != 0)
			print_error("%s, in steps of %zu\n", c->label, step);
		assert_string_equal(text, c->outcome);
		free(text);
	}
}

static void expect_cases(const struct request_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_case(&cases[i], FEED_LIMIT);
}
#define EXPECT_CASES(cases) expect_cases(cases, sizeof(cases) / sizeof((cases)[0]))

static void framing_that_is_in_doubt_is_refused(void **state)
{
	(void)state;
#define LENGTH(value) "POST http://h/ HTTP/1.1\r\n" H "Content-Length:" value "\r\n\r\nhello"
#define CODING(value) "POST http://h/ HTTP/1.1\r\n" H "Transfer-Encoding:" value "\r\n\r\n0\r\n\r\n"
#define BAD_LENGTH "error 400 Content-Length is not a number (RFC 9110 8.6)\n"
#define BAD_CODING "error 400 Transfer-Encoding other than exactly one \"chunked\" (RFC 9112 6.1)\n"
#define TWO_LENGTHS "error 400 more than one Content-Length (RFC 9112 6.3)\n"
#define BOTH "error 400 both Content-Length and Transfer-Encoding (RFC 9112 6.1)\n"
	static const struct request_case cases[] = {
		CASE("B3 length first",
			"POST http://h/ HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
			BOTH),
		CASE("B3 coding first",
			"POST http://h/ HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
			BOTH),
		CASE("B5 plus", LENGTH(" +5"), BAD_LENGTH),
		CASE("B5 minus", LENGTH(" -5"), BAD_LENGTH),
		CASE("B5 hex", LENGTH(" 0x5"), BAD_LENGTH),
		CASE("B5 underscore", LENGTH(" 5_0"), BAD_LENGTH),
		CASE("B5 two words", LENGTH(" 5 5"), BAD_LENGTH),
		CASE("B5 empty", LENGTH(""), BAD_LENGTH),
		CASE("B5 blank", LENGTH("  "), BAD_LENGTH),
		CASE("B5 list", LENGTH(" 5,6"), BAD_LENGTH),
		CASE("B5 same list", LENGTH(" 5, 5"), BAD_LENGTH),
		CASE("B5 differing", LENGTH(" 5\r\nContent-Length: 6"), TWO_LENGTHS),
		CASE("B5 twice", LENGTH(" 5\r\ncontent-length: 5"), TWO_LENGTHS),
		CASE("B6 2^64+1", LENGTH(" 18446744073709551617"), BAD_LENGTH),
		CASE("B6 2^63", LENGTH(" 9223372036854775808"), BAD_LENGTH),
		CASE("xchunked", CODING(" xchunked"), BAD_CODING),
		CASE("chunkedx", CODING(" chunkedx"), BAD_CODING),
		CASE("empty coding", CODING(""), BAD_CODING),
		CASE("gzip, chunked", CODING(" gzip, chunked"), BAD_CODING),
		CASE("chunked, gzip", CODING(" chunked, gzip"), BAD_CODING),
		CASE("quoted", CODING(" \"chunked\""), BAD_CODING),
		CASE("chunked twice", CODING(" chunked, chunked"), BAD_CODING),
		CASE("identity", CODING(" identity"), BAD_CODING),
		CASE("two fields", CODING(" chunked\r\nTransfer-Encoding: chunked"), BAD_CODING),
		CASE("chunked;q=1", CODING(" chunked;q=1"), BAD_CODING),
		CASE("0.4 chunked in 1.0",
			"POST http://h/ HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"error 400 Transfer-Encoding in an HTTP/1.0 message (RFC 9112 6.1)\n"),
		CASE("CONNECT with length", "CONNECT h:443 HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
			"error 400 CONNECT with Content-Length or Transfer-Encoding (RFC 9110 9.3.6)\n"),
		CASE("CONNECT chunked", "CONNECT h:443 HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n",
			"error 400 CONNECT with Content-Length or Transfer-Encoding (RFC 9110 9.3.6)\n"),
	};
	EXPECT_CASES(cases);
}

static void field_lines_are_strict(void **state)
{
	(void)state;
#define FIELD(line) "GET http://h/ HTTP/1.1\r\n" H line "\r\n\r\n"
#define BLANK_NAME "error 400 white space in or after a field name (RFC 9112 5.1)\n"
#define FOLDING "error 400 line folding or white space before a field name (RFC 9112 5.2)\n"
#define NOT_TOKEN "error 400 field name is not a token (RFC 9110 5.1)\n"
#define CONTROL "error 400 control character (NUL, bare CR or the like) in a field value (RFC 9110 5.5)\n"
#define BARE_LF "error 400 a line ends in a bare LF (RFC 9112 2.2)\n"
	static const struct request_case cases[] = {
		CASE("0.3 length", FIELD("Content-Length : 5"), BLANK_NAME),
		CASE("coding", FIELD("Transfer-Encoding\t: chunked"), BLANK_NAME),
		CASE("B11 empty name", FIELD(": x"), "error 400 empty field name (RFC 9112 5)\n"),
		CASE("B11 no colon", FIELD("abc"), "error 400 field line without a colon (RFC 9112 5)\n"),
		CASE("B11 name with space", FIELD("a b: x"), BLANK_NAME),
		CASE("B11 paren", FIELD("a(b: x"), NOT_TOKEN),
		CASE("B11 high", FIELD("\xc3\xa4: x"), NOT_TOKEN),
		CASE("B11 NUL", FIELD("a\0b: x"), NOT_TOKEN),
		CASE("B11 CR", FIELD("a\rb: x"), NOT_TOKEN),
		CASE("folding", FIELD("A: b\r\n c: d"), FOLDING),
		CASE("folding tab", FIELD("A: b\r\n\tc"), FOLDING),
		CASE("folding empty", FIELD("A: b\r\n "), FOLDING),
		CASE("space before first", "GET http://h/ HTTP/1.1\r\n " H "\r\n", FOLDING),
		CASE("NUL", FIELD("A: b\0c"), CONTROL),
		CASE("bare CR", FIELD("A: b\rc"), CONTROL),
		CASE("DEL", FIELD("A: \x7f"), CONTROL),
		CASE("CR before CRLF", FIELD("A: b\r"), CONTROL),
		CASE("vertical tab", FIELD("A: \v"), CONTROL),
		CASE("bare LF", "GET http://h/ HTTP/1.1\nHost: h\n\n", BARE_LF),
		CASE("bare LF in fields", "GET http://h/ HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", BARE_LF),
		CASE("bare LF at the end", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\n", BARE_LF),
		CASE("CR CR LF at the end", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\r\n", NOT_TOKEN),
	};
	EXPECT_CASES(cases);
}

static void request_lines_are_strict(void **state)
{
	(void)state;
#define NO_VERSION "error 400 request line without a version (RFC 9112 3)\n"
#define BAD_VERSION "error 400 the request line doesn't end in one HTTP version (RFC 9112 2.3)\n"
#define NO_METHOD "error 400 the request doesn't start with a method (RFC 9112 3)\n"
#define UNKNOWN "error 501 unknown method (RFC 9110 9.1)\n"
#define ONLY_1 "error 505 only HTTP/1.x is spoken here (RFC 9110 15.6.6)\n"
#define BAD_TARGET "error 400 white space or a control character in the request target (RFC 9112 3.2)\n"
#define LINE(line) line "\r\n" H "\r\n"
	static const struct request_case cases[] = {
		CASE("B13 1.32", LINE("GET http://h/ HTTP/1.32"), BAD_VERSION),
		CASE("B13 lower", LINE("GET http://h/ http/1.1"), BAD_VERSION),
		CASE("B13 x", LINE("GET http://h/ HTTP/1.1x"), BAD_VERSION),
		CASE("B13 2.0", LINE("GET http://h/ HTTP/2.0"), ONLY_1),
		CASE("B13 0.9 line", "GET http://h/\r\n", NO_VERSION),
		CASE("B13 0.9", LINE("GET http://h/ HTTP/0.9"), ONLY_1),
		CASE("B13 hello", "\x16\x03\x01\x02\x00\x01\x00", NO_METHOD),
		CASE("B13 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ONLY_1),
		CASE("PRI", LINE("PRI http://h/ HTTP/1.1"), UNKNOWN),
		CASE("B13 rtsp", LINE("PLAY rtsp://h/ RTSP/1.0"), BAD_VERSION),
		CASE("trailing space", LINE("GET http://h/ HTTP/1.1 "), BAD_VERSION),
		CASE("1.", LINE("GET http://h/ HTTP/1."), BAD_VERSION),
		CASE("two spaces", LINE("GET  http://h/ HTTP/1.1"), BAD_TARGET),
		CASE("two spaces late", LINE("GET http://h/  HTTP/1.1"), BAD_VERSION),
		CASE("tab", LINE("GET\thttp://h/ HTTP/1.1"), "error 400 method is not a token (RFC 9110 9.1)\n"),
		CASE("A13 space", LINE("GET http://h/a b HTTP/1.1"), BAD_VERSION),
		CASE("A13 CR", LINE("GET http://h/a\rb HTTP/1.1"), BAD_TARGET),
		CASE("A13 NUL", LINE("GET http://h/a\0b HTTP/1.1"), BAD_TARGET),
		CASE("only a word", "GET\r\n", "error 400 request line without a target (RFC 9112 3)\n"),
		CASE("leading space", " GET http://h/ HTTP/1.1\r\n", NO_METHOD),
		CASE("bare LF first", "\nGET http://h/ HTTP/1.1\r\n", NO_METHOD),
		CASE("bare CR first", "\rGET http://h/ HTTP/1.1\r\n",
			"error 400 bare CR before the request line (RFC 9112 2.2)\n"),
		CASE("three empty lines", "\r\n\r\n\r\nGET http://h/ HTTP/1.1\r\n",
			"error 400 too many empty lines before the request line (RFC 9112 2.2)\n"),
		CASE("D15 lower case", LINE("get http://h/ HTTP/1.1"), UNKNOWN),
		CASE("unknown", LINE("BREW http://h/ HTTP/1.1"), UNKNOWN),
		CASE("prefix of a known one", LINE("GETS http://h/ HTTP/1.1"), UNKNOWN),
		CASE("rtsp method", LINE("PLAY http://h/ HTTP/1.1"), UNKNOWN),
		CASE("response", "HTTP/1.1 200 OK\r\n", "error 400 method is not a token (RFC 9110 9.1)\n"),
		CASE("asterisk", LINE("GET * HTTP/1.1"), "error 400 only OPTIONS may ask for \"*\" (RFC 9112 3.2.4)\n"),
		CASE("A3", LINE("GET http://127.0.0.1:8#@evil/ HTTP/1.1"),
			"error 400 fragment in the request target (RFC 9110 7.1)\n"),
	};
	EXPECT_CASES(cases);
}

static void host_is_exactly_one_and_valid(void **state)
{
	(void)state;
#define BAD_HOST "error 400 bad Host field (RFC 9112 3.2)\n"
	static const struct request_case cases[] = {
		CASE("none", "GET http://h/ HTTP/1.1\r\n\r\n", "error 400 no Host field (RFC 9112 3.2)\n"),
		CASE("two", "GET http://h/ HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n",
			"error 400 more than one Host field (RFC 9112 3.2)\n"),
		CASE("two in 1.0", "GET http://h/ HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n",
			"error 400 more than one Host field (RFC 9112 3.2)\n"),
		CASE("list", "GET http://h/ HTTP/1.1\r\nHost: h, h\r\n\r\n", BAD_HOST),
		CASE("userinfo", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", BAD_HOST),
		CASE("path", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", BAD_HOST),
		CASE("port", "GET / HTTP/1.1\r\nHost: h:99999\r\n\r\n", BAD_HOST),
		CASE("empty in origin form", "GET / HTTP/1.1\r\nHost:\r\n\r\n", BAD_HOST),
		CASE("empty in absolute form", "GET http://h/ HTTP/1.1\r\nHost:\r\n\r\n",
			"GET http://h/ 1.1 none 0 keep-alive\n[Host][]\nend\n"),
		CASE("A1 differing", "GET http://h/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
			"GET http://h/ 1.1 none 0 keep-alive\n[Host][evil.example]\nend\n"),
		CASE("none in 1.0", "GET http://h/ HTTP/1.0\r\n\r\n", "GET http://h/ 1.0 none 0\nend\n"),
	};
	EXPECT_CASES(cases);
}

static void good_requests_come_through_whole(void **state)
{
	(void)state;
	static const struct request_case cases[] = {
		CASE("plain", "GET http://h/ HTTP/1.1\r\n" H "\r\n", OK_HEAD "end\n"),
		CASE("two empty lines first", "\r\n\r\nGET http://h/ HTTP/1.1\r\n" H "\r\n", OK_HEAD "end\n"),
		CASE("B13 1.2", "GET http://h/ HTTP/1.2\r\n" H "\r\n", OK_HEAD "end\n"),
		CASE("odd spacing and bytes",
			"GET http://h/ HTTP/1.1\r\n" H "a!#$%&'*+-.^_`|~:\t x \xc3\xa4\ty \t\r\nB:\r\nB:c\r\n\r\n",
			OK_HEAD "[a!#$%&'*+-.^_`|~][x \xc3\xa4\ty]\n[B][]\n[B][c]\nend\n"),
		CASE("A13 odd target", "GET http://h/\"<>|{}\xc3\xa9 HTTP/1.1\r\n" H "\r\n",
			"GET http://h/\"<>|{}\xc3\xa9 1.1 none 0 keep-alive\n[Host][h]\nend\n"),
		CASE("B1 HEAD with a body", "HEAD http://h/ HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nGET /",
			"HEAD http://h/ 1.1 length 5 keep-alive\n[Host][h]\n[Content-Length][5]\nbody GET /\nend\n"),
		CASE("B1 TRACE with a body", "TRACE http://h/ HTTP/1.1\r\n" H "Content-Length:5 \r\n\r\nGET /",
			"TRACE http://h/ 1.1 length 5 keep-alive\n[Host][h]\n[Content-Length][5]\nbody GET /\nend\n"),
		CASE("B17", "DELETE http://h/ HTTP/1.1\r\n" H "Content-Length: 005\r\n\r\nhello",
			"DELETE http://h/ 1.1 length 5 keep-alive\n[Host][h]\n[Content-Length][005]\nbody "
			"hello\nend\n"),
		CASE("empty body", "POST http://h/ HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
			"POST http://h/ 1.1 length 0 keep-alive\n[Host][h]\n[Content-Length][0]\nend\n"),
		CASE("Expect", "PUT http://h/ HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
			"PUT http://h/ 1.1 length 1 keep-alive "
			"continue\n[Host][h]\n[Expect][100-Continue]\n[Content-Length][1]\nbody x\nend\n"),
		CASE("H1 Expect in 1.0",
			"PUT http://h/ HTTP/1.0\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
			"PUT http://h/ 1.0 length 1\n[Host][h]\n[Expect][100-continue]\n[Content-Length][1]\nbody "
			"x\nend\n"),
		CASE("Expect without a body", "GET http://h/ HTTP/1.1\r\n" H "Expect: 100-continue\r\n\r\n",
			OK_HEAD "[Expect][100-continue]\nend\n"),
		CASE("close", "GET http://h/ HTTP/1.1\r\n" H "Connection: x, Close\r\n\r\n",
			"GET http://h/ 1.1 none 0\n[Host][h]\n[Connection][x, Close]\nend\n"),
		CASE("proxy close", "GET http://h/ HTTP/1.1\r\n" H "Proxy-Connection: close\r\n\r\n",
			"GET http://h/ 1.1 none 0\n[Host][h]\n[Proxy-Connection][close]\nend\n"),
		CASE("1.0 keep-alive", "GET http://h/ HTTP/1.0\r\nProxy-Connection: Keep-Alive\r\n\r\n",
			"GET http://h/ 1.0 none 0 keep-alive\n[Proxy-Connection][Keep-Alive]\nend\n"),
		CASE("TE", "GET http://h/ HTTP/1.1\r\n" H "TE: gzip, trailers\r\n\r\n",
			"GET http://h/ 1.1 none 0 keep-alive trailers\n[Host][h]\n[TE][gzip, trailers]\nend\n"),
		CASE("upgrade with a body",
			"POST http://h/ HTTP/1.1\r\n" H
			"Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\nabc",
			"POST http://h/ 1.1 length 3 keep-alive "
			"upgrade\n[Host][h]\n[Connection][Upgrade]\n[Upgrade][x]\n[Content-Length][3]\nbody "
			"abc\nend\n"),
		CASE("upgrade not named", "GET http://h/ HTTP/1.1\r\n" H "Upgrade: x\r\n\r\n",
			OK_HEAD "[Upgrade][x]\nend\n"),
		CASE("I3 CONNECT keeps what follows", "CONNECT h:443 HTTP/1.1\r\n" H "\r\n\x16\x03",
			"CONNECT h:443 1.1 none 0 keep-alive\n[Host][h]\nend\n"),
		CASE("OPTIONS *", "OPTIONS * HTTP/1.1\r\n" H "\r\n",
			"OPTIONS * 1.1 none 0 keep-alive\n[Host][h]\nend\n"),
		CASE("B15 pipelined",
			"GET http://h/ HTTP/1.1\r\n" H "\r\n" POST_CHUNKED
			"2\r\nhi\r\n0\r\n\r\nGET http://h/ HTTP/1.1\r\n" H "\r\n",
			OK_HEAD "end\n" POST_CHUNKED_HEAD "body hi\nend\n" OK_HEAD "end\n"),
	};
	EXPECT_CASES(cases);
}

static void chunked_bodies(void **state)
{
	(void)state;
#define CHUNKS(bytes) POST_CHUNKED bytes
#define BAD_SIZE POST_CHUNKED_HEAD "error 400 invalid chunk size (RFC 9112 7.1)\n"
#define TOO_LONG POST_CHUNKED_HEAD "error 400 chunk size is too large (RFC 9112 7.1)\n"
#define HELLO POST_CHUNKED_HEAD "body hello\n"
#define LONG_DATA HELLO "error 400 chunk data is longer than its size says (RFC 9112 7.1)\n"
	static const struct request_case cases[] = {
		CASE("two", CHUNKS("2\r\nhe\r\n03\r\nllo\r\n0\r\n\r\n"), HELLO "end\n"),
		CASE("hex", CHUNKS("1A\r\nabcdefghijklmnopqrstuvwxyz\r\n000\r\n\r\n"),
			POST_CHUNKED_HEAD "body abcdefghijklmnopqrstuvwxyz\nend\n"),
		CASE("0.5 extension", CHUNKS("5;a=b\r\nhello\r\n0;c=\"d;e\"\r\n\r\n"), HELLO "end\n"),
		CASE("extension with white space", CHUNKS("5 ; a = b\r\nhello\r\n0\r\n\r\n"), HELLO "end\n"),
		CASE("B7 0x5", CHUNKS("0x5\r\nhello"), BAD_SIZE),
		CASE("B7 +5", CHUNKS("+5\r\nhello"), BAD_SIZE),
		CASE("B7 -0", CHUNKS("-0\r\n\r\n"), BAD_SIZE),
		CASE("B7 leading space", CHUNKS(" 5\r\nhello"), BAD_SIZE),
		CASE("B7 trailing space", CHUNKS("5 \r\nhello"), BAD_SIZE),
		CASE("B7 5zz", CHUNKS("5zz\r\nhello"), BAD_SIZE),
		CASE("B7 empty", CHUNKS("\r\nhello"), BAD_SIZE),
		CASE("B7 overflow", CHUNKS("FFFFFFFFFFFFFFFFF\r\n"), TOO_LONG),
		CASE("B7 2^63", CHUNKS("8000000000000000\r\n"), TOO_LONG),
		CASE("B7 many zeros", CHUNKS("00000000000000005\r\n"), TOO_LONG),
		CASE("B7 bare LF", CHUNKS("5\nhello\r\n"), BAD_SIZE),
		CASE("CR CR", CHUNKS("5\r\rhello"),
			POST_CHUNKED_HEAD "error 400 a chunk's size line doesn't end in CRLF (RFC 9112 7.1)\n"),
		CASE("extension with bare LF", CHUNKS("5;a\nhello"),
			POST_CHUNKED_HEAD "error 400 invalid chunk extension (RFC 9112 7.1.1)\n"),
		CASE("only an extension", CHUNKS(";a\r\nhello"), BAD_SIZE),
		CASE("data too long", CHUNKS("5\r\nhelloX\r\n0\r\n\r\n"), LONG_DATA),
		CASE("data with bare LF", CHUNKS("5\r\nhello\n0\r\n\r\n"), LONG_DATA),
		CASE("B9 trailers",
			CHUNKS("5\r\nhello\r\n0\r\nX-T: 1\r\nHost: evil\r\nContent-Length: 9\r\nTransfer-Encoding: "
			       "x\r\n\r\nGET http://h/ HTTP/1.1\r\n" H "\r\n"),
			HELLO "trailer [X-T][1]\ntrailer [Host][evil]\ntrailer [Content-Length][9]\ntrailer "
			      "[Transfer-Encoding][x]\nend\n" OK_HEAD "end\n"),
		CASE("trailer bare LF", CHUNKS("0\r\nA: b\nC: d\r\n\r\n"),
			POST_CHUNKED_HEAD "error 400 a trailer line ends in a bare LF (RFC 9112 2.2)\n"),
		CASE("trailer end bare LF", CHUNKS("0\r\n\n"),
			POST_CHUNKED_HEAD "error 400 a trailer line ends in a bare LF (RFC 9112 2.2)\n"),
		CASE("trailer name", CHUNKS("0\r\nA : b\r\n\r\n"), POST_CHUNKED_HEAD BLANK_NAME),
		CASE("trailer folding", CHUNKS("0\r\nA: b\r\n c\r\n\r\n"), POST_CHUNKED_HEAD FOLDING),
		CASE("not ended", CHUNKS("5\r\nhello\r\n"), HELLO),
	};
	EXPECT_CASES(cases);
}

static char *filled(const char *before, size_t n, const char *after, size_t *length)
{
	size_t n_before = strlen(before), n_after = strlen(after);
	char *text = malloc(n_before + n + n_after + 1);

	assert_non_null(text);
	memcpy(text, before, n_before);
	memset(text + n_before, 'a', n);
	memcpy(text + n_before + n, after, n_after + 1);
	*length = n_before + n + n_after;
	return text;
}

static void expect_filled(const char *before, size_t n, const char *after, size_t limit, const char *outcome)
{
	size_t length;
	char *text = filled(before, n, after, &length);
	struct request_case c = {before, {text, length}, outcome};

	expect_case(&c, limit);
	free(text);
}

static void sections_over_the_limit_are_refused(void **state)
{
	(void)state;
#define OVER_414 "error 414 too-large the request line is over the limit\n"
#define OVER_431 "error 431 too-large the header section is over the limit\n"
	expect_filled("GET http://h/", 400, " HTTP/1.1\r\n" H "\r\n", 300, OVER_414);
	expect_filled("GET http://h/", 400, "", 300, OVER_414);
	expect_filled("GET http://h/ HTTP/1.1\r\n" H "A: ", 400, "\r\n\r\n", 300, OVER_431);
	expect_filled("GET http://h/ HTTP/1.1\r\n" H "A:\r\n", 400, "", 300, OVER_431);
	expect_filled(POST_CHUNKED "0\r\nA:", 400, "\r\n\r\n", 300,
		POST_CHUNKED_HEAD "error 431 too-large the trailer section is over the limit\n");
	expect_filled(POST_CHUNKED "5;", BODY_MAX_EXTENSION + 1, "\r\nhello\r\n0\r\n\r\n", 300,
		POST_CHUNKED_HEAD "error 400 chunk extensions are too long\n");
	expect_filled(POST_CHUNKED "5;", BODY_MAX_EXTENSION - 1, "\r\nhello\r\n0\r\n\r\n", 300, HELLO "end\n");
	/* To the byte: a head of exactly the limit is served, one byte less of limit refuses it. */
	struct request_case exact = CASE("exact", "GET http://h/ HTTP/1.1\r\n" H "\r\n", OK_HEAD "end\n");
	expect_case(&exact, exact.bytes.length);
	exact.outcome = OVER_431;
	expect_case(&exact, exact.bytes.length - 1);
}

static void many_fields_are_kept_in_order(void **state)
{
	struct buffer text = {0};
	struct request request;
	struct request_reader reader;
	struct slice body;
	size_t n = 5000;

	(void)state;
	buffer_printf(&text, "GET http://h/ HTTP/1.1\r\n" H);
	for (size_t i = 1; i < n; i++)
		buffer_printf(&text, "F%zu: %zu\r\n", i, i);
	buffer_printf(&text, "\r\n");
	request_init(&request);
	request_reader_init(&reader, &request, 1 << 20);
	const char *at = buffer_start(&text);
	size_t left = buffer_length(&text);
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_HEAD);
	assert_int_equal(request.head.n_fields, n);
	/* The bytes have moved since the request line was read. */
	assert_ptr_equal(request.method.data, request.head.raw.data);
	assert_true(slice_equals(request.method, SLICE("GET")));
	assert_true(slice_equals(request.target_text, SLICE("http://h/")));
	assert_true(slice_equals(request.target.host_text, SLICE("h")));
	assert_true(slice_equals(head_value(&request.head, 4711), SLICE("4711")));
	assert_true(slice_equals(head_get(&request.head, SLICE("f4999")), SLICE("4999")));
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_END);
	request_reader_clear(&reader);
	request_clear(&request);
	buffer_clear(&text);
}

static void bytes_after_the_end_stay(void **state)
{
	static const char bytes[] = "CONNECT h:443 HTTP/1.1\r\n" H "\r\ntunnel";
	struct request request;
	struct request_reader reader;
	struct slice body;
	const char *at = bytes;
	size_t left = sizeof(bytes) - 1;

	(void)state;
	request_init(&request);
	request_reader_init(&reader, &request, FEED_LIMIT);
	assert_true(request_reader_is_idle(&reader));
	assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_HEAD);
	assert_false(request_reader_is_idle(&reader));
	assert_int_equal(left, 6);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(request_reader_next(&reader, &at, &left, &body), READ_END);
		assert_int_equal(left, 6);
	}
	assert_memory_equal(at, "tunnel", 6);
	request_reader_reset(&reader, &request);
	request_reader_clear(&reader);
	request_clear(&request);
}

static void a_reader_is_idle_until_the_first_byte(void **state)
{
	bool is_idle;

	(void)state;
	free(feed_request("", 0, 0, 0, FEED_LIMIT, &is_idle));
	assert_true(is_idle);
	free(feed_request("\r\n\r", 3, 0, 0, FEED_LIMIT, &is_idle));
	assert_true(is_idle);
	free(feed_request("\r\nG", 3, 0, 0, FEED_LIMIT, &is_idle));
	assert_false(is_idle);
	free(feed_request("GET http://h/ HTTP/1.1\r\n" H "\r\n", 35, 0, 0, FEED_LIMIT, &is_idle));
	assert_true(is_idle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(framing_that_is_in_doubt_is_refused),
		cmocka_unit_test(field_lines_are_strict),
		cmocka_unit_test(request_lines_are_strict),
		cmocka_unit_test(host_is_exactly_one_and_valid),
		cmocka_unit_test(good_requests_come_through_whole),
		cmocka_unit_test(chunked_bodies),
		cmocka_unit_test(sections_over_the_limit_are_refused),
		cmocka_unit_test(many_fields_are_kept_in_order),
		cmocka_unit_test(bytes_after_the_end_stay),
		cmocka_unit_test(a_reader_is_idle_until_the_first_byte),
	};
	return cmocka_run_group_tests_name("http request", tests, NULL, NULL);
}
