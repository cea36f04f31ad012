/*
 * How a value is written into a log line: JSON string escapes in both formats, bad UTF-8 as U+FFFD, control bytes
 * (C1 ones too: a terminal obeys them) as \u00XX. Only log.c uses it.
 */
#ifndef EVENKEEL_BASE_LOG_ESCAPE_H
#define EVENKEEL_BASE_LOG_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "slice.h"

/* Writes into out (room bytes); returns the length, or SIZE_MAX when it doesn't fit. */
size_t log_escape(char *out, size_t room, struct slice value);

/* May the value stand without quotes in a key=value line? */
bool log_is_bare(struct slice value);

/* The value cut to at most max bytes, not inside a UTF-8 sequence. */
struct slice log_cut(struct slice value, size_t max);

#endif
