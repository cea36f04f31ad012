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

/* Without the optional white space (RFC 9110 5.6.3: SP and HTAB) around a field value. */
static inline struct slice slice_trim(struct slice s)
{
	while (s.length > 0 && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = (struct slice){ s.data + 1, s.length - 1 };
	while (s.length > 0 && (s.data[s.length - 1] == ' ' || s.data[s.length - 1] == '\t'))
		s.length--;
	return s;
}

#endif
