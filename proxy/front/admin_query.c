/* One parameter of a request's query, decoded as forms encode it. */
#include "admin.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(struct slice text, struct buffer *out)
{
	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i] == '+' ? ' ' : text.data[i];
		if (c == '%') {
			int high = i + 2 < text.length ? hex_digit(text.data[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(text.data[i + 2]) : -1;
			if (low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		buffer_append(out, &c, 1);
	}
	return true;
}

/* Cuts the next piece off, up to `end` or the last byte. */
static struct slice cut_off(struct slice *rest, char end)
{
	const char *at = rest->length > 0 ? memchr(rest->data, end, rest->length) : NULL;
	struct slice piece = { rest->data, at ? (size_t)(at - rest->data) : rest->length };
	size_t n = piece.length + (at != NULL);
	*rest = (struct slice){ rest->data + n, rest->length - n };
	return piece;
}

enum query_result admin_query(const struct request *request, const char *name, struct buffer *value)
{
	struct slice rest = request->target.path;
	enum query_result result = QUERY_MISSING;
	cut_off(&rest, '?');
	while (rest.length > 0) {
		struct slice text = cut_off(&rest, '&');
		if (!slice_equals(cut_off(&text, '='), slice_of(name)))
			continue;
		if (result == QUERY_FOUND || !decode(text, value))
			return QUERY_BAD;
		result = QUERY_FOUND;
	}
	return result;
}
