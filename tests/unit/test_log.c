#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../../proxy/base/clock.h"
#include "../../proxy/base/log.h"

static int ends[2]; /* of a pipe: the log writes to [1] */
static char text[600 * 1024];

static int pipe_open(void **state)
{
	(void)state;
	if (pipe(ends) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		return -1;
	log_open(ends[1]);
	log_configure(LOG_INFO, false);
	return 0;
}

static int pipe_close(void **state)
{
	(void)state;
	while (!log_flush() && read(ends[0], text, sizeof text) > 0)
		;
	int away = open("/dev/null", O_WRONLY | O_CLOEXEC);
	log_open(away); /* the log keeps a description of its own */
	close(away);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static size_t take(void)
{
	size_t length = 0;

	for (;;) {
		bool is_done = log_flush();
		ssize_t n = read(ends[0], text + length, sizeof text - 1 - length);
		if (n > 0)
			length += (size_t)n;
		if (n <= 0 && is_done)
			break;
	}
	text[length] = '\0';
	return length;
}

/* The line from its event on: the time before it can't be known. */
static const char *take_fields(void)
{
	take();
	const char *place = strstr(text, "event");
	assert_non_null(place);
	return place;
}

static void json_line(void **state)
{
	(void)state;
	struct log_line line;

	assert_true(log_begin(&line, LOG_WARN, "retry"));
	log_string(&line, "id", "a\"b\\c\n\t\x01");
	log_string(&line, "none", NULL);
	log_integer(&line, "attempt", -2);
	log_integer(&line, "least", INT64_MIN);
	log_ms(&line, "delay_ms", 12345);
	log_bool(&line, "reused", true);
	log_end(&line);
	take();
	int year, month, day, hour, minute, second, ms, n = 0;
	assert_int_equal(sscanf(text, "{\"ts\":\"%4d-%2d-%2dT%2d:%2d:%2d.%3dZ\",\"level\":\"warn\",%n", &year, &month, &day,
				&hour, &minute, &second, &ms, &n), 7);
	assert_true(n > 0);
	struct tm parts = { .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour,
			    .tm_min = minute, .tm_sec = second };
	int64_t apart = clock_wall_ms() / 1000 - (int64_t)timegm(&parts);
	assert_true(apart >= 0 && apart <= 5);
	assert_string_equal(text + n, "\"event\":\"retry\",\"id\":\"a\\\"b\\\\c\\n\\t\\u0001\",\"attempt\":-2,"
				      "\"least\":-9223372036854775808,\"delay_ms\":12.345,\"reused\":true}\n");
}

static void text_line(void **state)
{
	(void)state;
	struct log_line line;

	log_configure(LOG_INFO, true);
	log_begin(&line, LOG_INFO, "request");
	log_string(&line, "method", "GET");
	log_string(&line, "empty", "");
	log_string(&line, "blank", "a b");
	log_string(&line, "equals", "a=b");
	log_string(&line, "quote", "a\"b\nlevel=error");
	log_integer(&line, "status", 200);
	log_end(&line);
	assert_string_equal(take_fields(), "event=request method=GET empty=\"\" blank=\"a b\" equals=\"a=b\" "
					   "quote=\"a\\\"b\\nlevel=error\" status=200\n");
	assert_int_equal(strncmp(text, "ts=2", 4), 0);
	assert_non_null(strstr(text, "Z level=info event="));
}

static void expect_shown(const char *value, const char *shown)
{
	struct log_line line;
	char expected[256];

	log_begin(&line, LOG_INFO, "e");
	log_string(&line, "v", value);
	log_end(&line);
	snprintf(expected, sizeof expected, "event\":\"e\",\"v\":\"%s\"}\n", shown);
	assert_string_equal(take_fields(), expected);
}

static void bad_utf8_is_replaced(void **state)
{
	(void)state;
#define BAD "\xef\xbf\xbd"
	expect_shown("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	expect_shown("a\xff" "b", "a" BAD "b");
	expect_shown("\xc0\xaf", BAD BAD);             /* overlong */
	expect_shown("\xed\xa0\x80", BAD BAD BAD);     /* surrogate */
	expect_shown("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* past U+10FFFF */
	expect_shown("\xe2\x82", BAD BAD);             /* cut off */
	expect_shown("\xc2\x9b" "31m", "\\u009b31m");  /* C1: a terminal would obey it */
	expect_shown("\x7f", "\\u007f");
}

static void nul_in_a_slice(void **state)
{
	(void)state;
	struct log_line line;

	log_begin(&line, LOG_INFO, "e");
	log_slice(&line, "v", (struct slice){ "a\0b", 3 });
	log_end(&line);
	assert_string_equal(take_fields(), "event\":\"e\",\"v\":\"a\\u0000b\"}\n");
}

static void expect_url(const char *url, const char *shown)
{
	struct log_line line;
	char expected[512];

	log_begin(&line, LOG_INFO, "e");
	log_url(&line, "url", slice_of(url));
	log_end(&line);
	snprintf(expected, sizeof expected, "event\":\"e\",\"url\":\"%s\"}\n", shown);
	assert_string_equal(take_fields(), expected);
}

static void urls_lose_credentials_and_query(void **state)
{
	(void)state;
	expect_url("http://h.example/a?token=1", "http://h.example/a");
	expect_url("http://user:pw@h.example:8080/a@b", "http://h.example:8080/a@b");
	expect_url("http://u:p@w@h.example/", "http://h.example/");
	expect_url("http://h.example?x@y", "http://h.example");
	expect_url("http://h.example/#frag", "http://h.example/");
	expect_url("/users/@me?x=1", "/users/@me");
	expect_url("h.example:443", "h.example:443");
	expect_url("u:p@h.example:443", "h.example:443");
	expect_url("http:/u:p@h.example/", "h.example/");
	expect_url("http:///u:p@h.example/", "h.example/");
	expect_url("*", "*");
	expect_url("", "");
	log_configure(LOG_DEBUG, false);
	expect_url("http://u:p@h.example/a?b=1", "http://h.example/a?b=1");
}

static void long_values_are_cut_between_characters(void **state)
{
	(void)state;
	struct log_line line;
	static char value[4000];

	memset(value, 'a', 2047);
	memcpy(value + 2047, "\xc3\xa9", 2); /* the limit falls inside it */
	memset(value + 2049, 'b', 1000);
	log_begin(&line, LOG_INFO, "e");
	log_string(&line, "v", value);
	log_end(&line);
	const char *fields = take_fields();
	assert_int_equal(strspn(fields + strlen("event\":\"e\",\"v\":\""), "a"), 2047);
	assert_string_equal(fields + strlen("event\":\"e\",\"v\":\"") + 2047, "...\"}\n");
}

static void a_line_too_long_stays_well_formed(void **state)
{
	(void)state;
	struct log_line line;
	static char value[2001];

	memset(value, 1, 2000); /* six bytes each when escaped */
	log_begin(&line, LOG_INFO, "e");
	log_string(&line, "first", value);
	log_string(&line, "second", value);
	log_integer(&line, "status", 200);
	log_end(&line);
	size_t length = take();
	assert_true(length <= LOG_MAX_LINE_BYTES);
	assert_non_null(strstr(text, "\"first\":"));
	assert_null(strstr(text, "\"second\":"));
	assert_string_equal(text + length - strlen(",\"status\":200,\"cut\":true}\n"), ",\"status\":200,\"cut\":true}\n");
}

static void levels(void **state)
{
	(void)state;
	struct log_line line;

	log_configure(LOG_WARN, false);
	assert_false(log_begin(&line, LOG_INFO, "e"));
	assert_true(log_is_on(LOG_ERROR));
	log_message(LOG_INFO, "e", "unseen");
	log_message(LOG_ERROR, "e", "%d seen", 1);
	assert_string_equal(take_fields(), "event\":\"e\",\"message\":\"1 seen\"}\n");
	assert_non_null(strstr(text, "\"level\":\"error\""));
}

/* The reader sleeps: the writer goes on, lines are dropped, and the gap is told where it is. */
static void a_slow_reader_costs_lines_and_not_time(void **state)
{
	(void)state;
	uint64_t before = log_n_dropped();
	struct mono began = clock_now();
	int n_lines = 5000, n_seen = 0, next = 0;

	for (int i = 0; i < n_lines; i++) {
		log_message(LOG_INFO, "fill", "%d %0150d", i, 0);
		log_flush();
	}
	assert_true(mono_elapsed_ms(began, clock_now()) < 3000);
	uint64_t n_dropped = log_n_dropped() - before;
	assert_true(n_dropped > 0);
	take();
	for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
		int number;
		unsigned long long told;
		assert_int_equal(at[strlen(at) - 1], '}'); /* no torn line */
		if (sscanf(strstr(at, "event"), "event\":\"fill\",\"message\":\"%d ", &number) == 1) {
			assert_int_equal(number, next); /* what is there is in order, from the first on */
			next++;
			n_seen++;
		} else {
			assert_int_equal(sscanf(strstr(at, "event"), "event\":\"log_dropped\",\"dropped\":%llu}", &told), 1);
			assert_true(told == n_dropped);
			next = -1;
		}
	}
	assert_int_equal(next, -1); /* the gap was told, and last */
	assert_int_equal(n_seen + (int)n_dropped, n_lines);
}

static void o_nonblock_is_not_forced_on_others(void **state)
{
	(void)state;
	assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
}

static void a_reader_that_is_gone_does_not_hurt(void **state)
{
	(void)state;
	uint64_t before = log_n_dropped();

	close(ends[0]);
	log_message(LOG_INFO, "e", "lost");
	assert_true(log_flush());
	assert_int_equal(log_n_dropped() - before, 1);
	assert_int_equal(pipe(ends), 0);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	log_open(ends[1]);
	log_message(LOG_INFO, "e", "heard");
	take();
	const char *gap = strstr(text, "\"log_dropped\",\"dropped\":1}\n");
	assert_non_null(gap);
	assert_non_null(strstr(gap, "\"heard\""));
}

static void a_socket_is_not_waited_for(void **state)
{
	(void)state;
	int pair[2];
	uint64_t before = log_n_dropped();

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	log_open(pair[1]);
	struct mono began = clock_now();
	for (int i = 0; i < 10000; i++)
		log_message(LOG_INFO, "fill", "%0150d", i);
	assert_true(mono_elapsed_ms(began, clock_now()) < 3000);
	assert_true(log_n_dropped() > before);
	began = clock_now();
	log_flush_blocking(50);
	int64_t waited_ms = mono_elapsed_ms(began, clock_now());
	assert_true(waited_ms >= 50 && waited_ms < 500);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	while (!log_flush())
		assert_true(read(pair[0], text, sizeof text) > 0);
	close(pair[0]);
	close(pair[1]);
}

/* Two writers of one file, as in `evenkeel >log 2>&1`: neither writes over the other. */
static void a_file_is_appended_to(void **state)
{
	(void)state;
	char path[] = "/tmp/test_log.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "before\n", 7), 7);
	log_open(fd);
	log_message(LOG_INFO, "e", "ours");
	log_flush_blocking(1000);
	assert_int_equal(write(fd, "after\n", 6), 6);
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n] = '\0';
	assert_int_equal(strncmp(text, "before\n{", 8), 0);
	assert_non_null(strstr(text, "\"message\":\"ours\"}\nafter\n"));
	log_open(ends[1]);
	close(fd);
	unlink(path);
}

#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, pipe_open, pipe_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(json_line),
		LOG_TEST(text_line),
		LOG_TEST(bad_utf8_is_replaced),
		LOG_TEST(nul_in_a_slice),
		LOG_TEST(urls_lose_credentials_and_query),
		LOG_TEST(long_values_are_cut_between_characters),
		LOG_TEST(a_line_too_long_stays_well_formed),
		LOG_TEST(levels),
		LOG_TEST(a_slow_reader_costs_lines_and_not_time),
		LOG_TEST(o_nonblock_is_not_forced_on_others),
		LOG_TEST(a_reader_that_is_gone_does_not_hurt),
		LOG_TEST(a_socket_is_not_waited_for),
		LOG_TEST(a_file_is_appended_to),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
