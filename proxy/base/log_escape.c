#include "log_escape.h"

#include <stdint.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Looked up, not worked out: every byte of every access line is asked. */
static const bool plain[256] = {
	[' ' ... '"' - 1] = true,
	['"' + 1 ... '\\' - 1] = true,
	['\\' + 1 ... '~'] = true,
};

static bool is_plain(unsigned char c)
{
	return plain[c];
}

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Length of the UTF-8 sequence at s, 0 when it is none (RFC 3629: no overlong forms, surrogates, or past U+10FFFF). */
static size_t sequence_length(const unsigned char *s, size_t left)
{
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return left >= 2 && is_continuation(s[1]) ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef) {
		unsigned char low = s[0] == 0xe0 ? 0xa0 : 0x80, high = s[0] == 0xed ? 0x9f : 0xbf;
		return left >= 3 && s[1] >= low && s[1] <= high && is_continuation(s[2]) ? 3 : 0;
	}
	if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		unsigned char low = s[0] == 0xf0 ? 0x90 : 0x80, high = s[0] == 0xf4 ? 0x8f : 0xbf;
		return left >= 4 && s[1] >= low && s[1] <= high && is_continuation(s[2]) && is_continuation(s[3]) ? 4 : 0;
	}
	return 0;
}

static size_t escape_control(char *out, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	static const char letters[] = "btn.fr"; /* \b \t \n . \f \r are 8 to 13 */

	out[0] = '\\';
	if (c == '"' || c == '\\') {
		out[1] = (char)c;
		return 2;
	}
	if (c >= 8 && c <= 13 && c != 11) {
		out[1] = letters[c - 8];
		return 2;
	}
	memcpy(out + 1, "u00", 3);
	out[4] = digits[c >> 4];
	out[5] = digits[c & 15];
	return 6;
}

/* One character that isn't plain: sets *n_used, returns how much was written (at most 6 bytes). */
static size_t escape_one(char *out, const unsigned char *s, size_t left, size_t *n_used)
{
	*n_used = 1;
	if (s[0] < 0x80)
		return escape_control(out, s[0]);
	size_t length = sequence_length(s, left);
	if (length == 0) {
		memcpy(out, REPLACEMENT, 3);
		return 3;
	}
	*n_used = length;
	if (length == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return escape_control(out, s[1]);
	memcpy(out, s, length);
	return length;
}

size_t log_escape(char *out, size_t room, struct slice value)
{
	const unsigned char *s = (const unsigned char *)value.data;
	size_t n = 0, i = 0;

	while (i < value.length) {
		size_t run = i;
		while (run < value.length && is_plain(s[run]))
			run++;
		if (run > i) {
			if (run - i > room - n)
				return SIZE_MAX;
			memcpy(out + n, s + i, run - i);
			n += run - i;
			i = run;
			continue;
		}
		if (room - n < 6)
			return SIZE_MAX;
		size_t n_used;
		n += escape_one(out + n, s + i, value.length - i, &n_used);
		i += n_used;
	}
	return n;
}

bool log_is_bare(struct slice value)
{
	for (size_t i = 0; i < value.length; i++) {
		unsigned char c = (unsigned char)value.data[i];
		if (!is_plain(c) || c == ' ' || c == '=')
			return false;
	}
	return value.length > 0;
}

struct slice log_cut(struct slice value, size_t max)
{
	if (value.length <= max)
		return value;
	size_t n = max;
	while (n > 0 && max - n < 3 && is_continuation((unsigned char)value.data[n]))
		n--;
	/* value.data[n] now begins a sequence, or the bytes are no UTF-8 anyway */
	return (struct slice){ value.data, n };
}
