#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "check.h"
#include "clock.h"
#include "log_escape.h"
#include "log_write.h"

#define TIME_LENGTH 24           /* 2026-11-29T20:01:02.345Z */
#define LINE_END_RESERVE 16      /* `,"cut":true}` and the newline always fit */
#define LOG_DROPPED_MAX_BYTES 160

static struct {
	enum log_level level;
	bool is_text;
	uint64_t n_dropped, n_dropped_unreported;
} settings = { .level = LOG_INFO };

static const char *const level_words[] = { "debug", "info", "warn", "error" };

void log_open(int fd)
{
	log_sink_open(fd);
}

void log_configure(enum log_level level, bool is_text)
{
	settings.level = level;
	settings.is_text = is_text;
}

bool log_is_on(enum log_level level)
{
	return level >= settings.level;
}

uint64_t log_n_dropped(void)
{
	return settings.n_dropped;
}

/* Breaking a second down into a date costs more than the rest of a line, so it is kept for as long as it is true. */
static void time_write(char out[TIME_LENGTH])
{
	static int64_t cached_second = INT64_MIN;
	static char cached[64];
	int64_t now_ms = clock_wall_ms(), second = now_ms / 1000;
	int ms = (int)(now_ms % 1000);

	if (second != cached_second) {
		time_t when = (time_t)second;
		struct tm parts;
		gmtime_r(&when, &parts);
		snprintf(cached, sizeof cached, "%04d-%02d-%02dT%02d:%02d:%02d.", parts.tm_year + 1900, parts.tm_mon + 1,
			 parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
		cached_second = second;
	}
	memcpy(out, cached, 20);
	out[20] = (char)('0' + ms / 100);
	out[21] = (char)('0' + ms / 10 % 10);
	out[22] = (char)('0' + ms % 10);
	out[23] = 'Z';
}

static size_t line_room(const struct log_line *line)
{
	return LOG_MAX_LINE_BYTES - LINE_END_RESERVE - line->length;
}

static bool put(struct log_line *line, const char *text, size_t length)
{
	if (length > line_room(line))
		return false;
	memcpy(line->text + line->length, text, length);
	line->length += length;
	return true;
}

/* `,"key":` or ` key=` */
static bool put_key(struct log_line *line, const char *key)
{
	size_t length = strlen(key);

	if (settings.is_text)
		return put(line, " ", 1) && put(line, key, length) && put(line, "=", 1);
	return put(line, ",\"", 2) && put(line, key, length) && put(line, "\":", 2);
}

/* A field is there whole or not at all, so that the line stays well formed. */
static void undo(struct log_line *line, size_t length)
{
	line->length = length;
	line->is_cut = true;
}

/* A field whose value needs no quotes in either format. */
static void put_raw_field(struct log_line *line, const char *key, const char *text, size_t length)
{
	size_t before = line->length;

	if (!put_key(line, key) || !put(line, text, length))
		undo(line, before);
}

static bool put_escaped(struct log_line *line, struct slice value)
{
	size_t n = log_escape(line->text + line->length, line_room(line), value);

	if (n == SIZE_MAX)
		return false;
	line->length += n;
	return true;
}

static void put_header(struct log_line *line, enum log_level level, const char *event)
{
	char now[TIME_LENGTH];
	const char *word = level_words[level];

	time_write(now);
	line->length = 0;
	line->is_cut = false;
	if (settings.is_text) {
		put(line, "ts=", 3);
		put(line, now, TIME_LENGTH);
		put(line, " level=", 7);
		put(line, word, strlen(word));
	} else {
		put(line, "{\"ts\":\"", 7);
		put(line, now, TIME_LENGTH);
		put(line, "\",\"level\":\"", 11);
		put(line, word, strlen(word));
		put(line, "\"", 1);
	}
	log_string(line, "event", event);
}

bool log_begin(struct log_line *line, enum log_level level, const char *event)
{
	if (!log_is_on(level))
		return false;
	put_header(line, level, event);
	return true;
}

void log_string(struct log_line *line, const char *key, const char *value)
{
	if (value)
		log_slice(line, key, slice_of(value));
}

void log_slice(struct log_line *line, const char *key, struct slice value)
{
	size_t before = line->length;
	struct slice shown = log_cut(value, LOG_MAX_VALUE_BYTES);
	bool is_cut = shown.length < value.length;
	bool is_quoted = !settings.is_text || is_cut || !log_is_bare(shown);

	if (put_key(line, key) && (!is_quoted || put(line, "\"", 1)) && put_escaped(line, shown) &&
	    (!is_cut || put(line, "...", 3)) && (!is_quoted || put(line, "\"", 1)))
		return;
	undo(line, before);
}

/* Decimal digits before *end, at least n_least of them; returns where they begin. */
static char *digits_before(char *end, uint64_t value, int n_least)
{
	for (; value > 0 || n_least > 0; value /= 10, n_least--)
		*--end = (char)('0' + value % 10);
	return end;
}

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

void log_integer(struct log_line *line, const char *key, int64_t value)
{
	char text[24], *end = text + sizeof text, *start = digits_before(end, magnitude(value), 1);

	if (value < 0)
		*--start = '-';
	put_raw_field(line, key, start, (size_t)(end - start));
}

void log_ms(struct log_line *line, const char *key, int64_t value_us)
{
	char text[32], *end = text + sizeof text, *start = digits_before(end, magnitude(value_us) % 1000, 3);

	*--start = '.';
	start = digits_before(start, magnitude(value_us) / 1000, 1);
	if (value_us < 0)
		*--start = '-';
	put_raw_field(line, key, start, (size_t)(end - start));
}

void log_bool(struct log_line *line, const char *key, bool value)
{
	put_raw_field(line, key, value ? "true" : "false", value ? 4 : 5);
}

static void line_finish(struct log_line *line)
{
	const char *mark = settings.is_text ? " cut=true" : ",\"cut\":true";

	if (line->is_cut) {
		memcpy(line->text + line->length, mark, strlen(mark));
		line->length += strlen(mark);
	}
	if (!settings.is_text)
		line->text[line->length++] = '}';
	line->text[line->length++] = '\n';
}

/* The reader learns of a gap where the gap is: before any line that comes after it. */
static void report_dropped(void)
{
	struct log_line line;

	if (settings.n_dropped_unreported == 0)
		return;
	put_header(&line, LOG_WARN, "log_dropped");
	log_integer(&line, "dropped", (int64_t)settings.n_dropped_unreported);
	line_finish(&line);
	CHECK(line.length <= LOG_DROPPED_MAX_BYTES);
	log_sink_append(line.text, line.length);
	settings.n_dropped_unreported = 0;
}

static void count_dropped(uint64_t n)
{
	settings.n_dropped += n;
	settings.n_dropped_unreported += n;
}

void log_end(struct log_line *line)
{
	line_finish(line);
	size_t needed = line->length + (settings.n_dropped_unreported > 0 ? LOG_DROPPED_MAX_BYTES : 0);

	if (!log_sink_has_room(needed)) {
		uint64_t n_lost = 0;
		log_sink_write(&n_lost);
		count_dropped(n_lost);
		needed = line->length + LOG_DROPPED_MAX_BYTES;
	}
	if (!log_sink_has_room(needed)) {
		count_dropped(1);
		return;
	}
	report_dropped();
	log_sink_append(line->text, line->length);
}

void log_message(enum log_level level, const char *event, const char *format, ...)
{
	struct log_line line;
	char text[LOG_MAX_VALUE_BYTES + 2];
	va_list arguments;

	if (!log_begin(&line, level, event))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	log_string(&line, "message", text);
	log_end(&line);
}

/*
 * A gap caused by a slow reader is reported as soon as there is room for more than the report itself. One caused by
 * a reader that is gone waits for the next line: reporting it at once would only make the next loss.
 */
bool log_flush(void)
{
	uint64_t n_lost = 0;
	bool is_done = log_sink_write(&n_lost);

	if (n_lost > 0) {
		count_dropped(n_lost);
		return true;
	}
	if (settings.n_dropped_unreported > 0 && log_sink_has_room(LOG_MAX_LINE_BYTES)) {
		report_dropped();
		is_done = log_sink_write(&n_lost);
		count_dropped(n_lost);
	}
	return is_done;
}

void log_flush_blocking(int64_t max_ms)
{
	struct mono until = mono_add_ms(clock_now(), max_ms > 0 ? max_ms : 0);

	while (!log_flush()) {
		int64_t left_ms = mono_left_ms(clock_now(), until);
		if (left_ms == 0)
			return;
		log_sink_wait(left_ms);
	}
}
