/*
 * Text to number and back: durations in milliseconds, sizes in bytes, ratios, counts. Exact or refused: nothing is
 * rounded, no sign, no blank, no second spelling. `off` is not known here: whether it is allowed depends on the key.
 *
 * Each parser returns true, or false with one clause in why: what is wrong with the text and how to write it.
 */
#ifndef EVENKEEL_CONFIG_UNITS_H
#define EVENKEEL_CONFIG_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_WHY_BYTES 200
#define UNITS_TEXT_BYTES 48

bool units_parse_duration(const char *text, int64_t *ms, char why[static UNITS_WHY_BYTES]); /* "1m30s" */
bool units_parse_size(const char *text, int64_t *bytes, char why[static UNITS_WHY_BYTES]);  /* "64KiB" */
bool units_parse_ratio(const char *text, double *ratio, char why[static UNITS_WHY_BYTES]);  /* "20%" or "0.2" */
bool units_parse_count(const char *text, int64_t *n, char why[static UNITS_WHY_BYTES]);     /* "3" */
bool units_parse_number(const char *text, double *number, char why[static UNITS_WHY_BYTES]); /* "1.5" */

/* The canonical text, which the parsers read back to the same value. Below zero: "off". Return out. */
const char *units_format_duration(int64_t ms, char out[static UNITS_TEXT_BYTES]);
const char *units_format_size(int64_t bytes, char out[static UNITS_TEXT_BYTES]);
const char *units_format_ratio(double ratio, char out[static UNITS_TEXT_BYTES]);
const char *units_format_count(int64_t n, char out[static UNITS_TEXT_BYTES]);
const char *units_format_number(double number, char out[static UNITS_TEXT_BYTES]);

#endif
