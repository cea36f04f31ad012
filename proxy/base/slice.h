/* A borrowed run of bytes. Never NUL-terminated by promise; never owns. */
#ifndef EVENKEEL_BASE_SLICE_H
#define EVENKEEL_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
	const char *data;
	size_t length;
};

#define SLICE(literal) ((struct slice){ (literal), sizeof(literal) - 1 })
#define SLICE_ARGS(s) (int)(s).length, (s).data /* for printf's %.*s */

static inline struct slice slice_of(const char *text) { return (struct slice){ text, strlen(text) }; }

static inline bool slice_equals(struct slice a, struct slice b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

/* ASCII case-insensitive, as field names and hosts compare. */
static inline bool slice_equals_nocase(struct slice a, struct slice b)
{
	return a.length == b.length && (a.length == 0 || strncasecmp(a.data, b.data, a.length) == 0);
}

#endif
