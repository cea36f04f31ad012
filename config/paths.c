#include "paths.h"

#include <stdbool.h>
#include <string.h>

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/*
 * Encoded, these mean something else than raw: the reserved characters (RFC 3986 2.2) and the percent sign. Blanks and
 * control characters stay encoded too, so that the result is one word.
 */
static bool must_stay_encoded(int c)
{
	return c <= ' ' || c == 0x7f || strchr("%:/?#[]@!$&'()*+,;=", c);
}

static size_t decode(const char *in, size_t n, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t written = 0;

	for (size_t i = 0; i < n; i++) {
		int high = in[i] == '%' && i + 2 < n ? hex_value(in[i + 1]) : -1;
		int low = high >= 0 ? hex_value(in[i + 2]) : -1;

		if (low < 0) {
			out[written++] = in[i];
			continue;
		}
		if (!must_stay_encoded(high * 16 + low)) {
			out[written++] = (char)(high * 16 + low);
		} else {
			out[written++] = '%';
			out[written++] = digits[high];
			out[written++] = digits[low];
		}
		i += 2;
	}
	return written;
}

static size_t segment_length(const char *at, const char *end)
{
	const char *slash = memchr(at, '/', (size_t)(end - at));

	return (size_t)((slash ? slash : end) - at);
}

/* Drops the last segment and the slash before it, as `..` asks for. */
static size_t drop_segment(const char *path, size_t length)
{
	while (length > 0 && path[length - 1] != '/')
		length--;
	return length > 0 ? length - 1 : 0;
}

/*
 * Segments are taken with the slash before them: "/a/../b" is "/a" "/.." "/b". A dot segment at the end leaves its
 * slash, so that "/a/.." is "/" and "/a/b/." is "/a/b/".
 */
static size_t remove_dot_segments(char *path, size_t n)
{
	const char *at = path, *end = path + n;
	size_t written = 0;

	if (n == 0 || path[0] != '/')
		return n; /* "*" of OPTIONS, or a pattern that begins with a star: no hierarchy to walk */
	while (at < end) {
		size_t length = segment_length(at + 1, end);
		bool is_dot = length == 1 && at[1] == '.';
		bool is_dot_dot = length == 2 && at[1] == '.' && at[2] == '.';
		bool is_last = at + 1 + length == end;

		if (is_dot_dot)
			written = drop_segment(path, written);
		if (!is_dot && !is_dot_dot) {
			memmove(path + written, at, length + 1);
			written += length + 1;
		} else if (is_last) {
			path[written++] = '/';
		}
		at += length + 1;
	}
	return written;
}

size_t path_normalise(const char *in, size_t n, char *out)
{
	return remove_dot_segments(out, decode(in, n, out));
}
