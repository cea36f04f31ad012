/*
 * One line per event on stderr: JSON (default) or logfmt-like text. Never blocks: lines gather in a bounded buffer,
 * log_flush() (called by the loop once a turn) writes what the reader takes, and when the buffer is full lines are
 * dropped and their number is logged as event "log_dropped" as soon as there is room.
 *
 *     struct log_line line;
 *     if (log_begin(&line, LOG_INFO, "retry")) {
 *         log_string(&line, "id", id);
 *         log_integer(&line, "attempt", 2);
 *         log_end(&line);
 *     }
 *
 * Values are escaped here; non-UTF-8 bytes become U+FFFD. A value longer than LOG_MAX_VALUE_BYTES is cut ("...").
 * What doesn't fit into LOG_MAX_LINE_BYTES is left out, field by field, and the line then bears "cut":true.
 * A reader that goes away must not kill the process: SIGPIPE has to be ignored.
 * Credentials must not be handed in (see log_url, which drops userinfo and, unless the level is debug, the query).
 */
#ifndef EVENKEEL_BASE_LOG_H
#define EVENKEEL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "../../config/policy.h" /* enum log_level */
#include "slice.h"

#define LOG_MAX_VALUE_BYTES 2048
#define LOG_MAX_LINE_BYTES 16384

struct log_line {
	char text[LOG_MAX_LINE_BYTES];
	size_t length;
	bool is_cut;
};

void log_open(int fd); /* once, at start; takes its own non-blocking description of fd where the kernel allows */
void log_configure(enum log_level level, bool is_text);
bool log_is_on(enum log_level level);

bool log_begin(struct log_line *line, enum log_level level, const char *event); /* false: level is off, line unused */
void log_string(struct log_line *line, const char *key, const char *value);     /* NULL: the field is left out */
void log_slice(struct log_line *line, const char *key, struct slice value);
void log_integer(struct log_line *line, const char *key, int64_t value);
void log_ms(struct log_line *line, const char *key, int64_t value_us); /* microseconds in, "12.345" ms out */
void log_bool(struct log_line *line, const char *key, bool value);
void log_url(struct log_line *line, const char *key, struct slice url);
void log_end(struct log_line *line);

/* Shorthand: an event with one "message" field. */
void log_message(enum log_level level, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

bool log_flush(void);          /* writes what fits; true when nothing is left */
void log_flush_blocking(int64_t max_ms); /* at exit: waits for a slow reader at most so long */
uint64_t log_n_dropped(void);

#endif
