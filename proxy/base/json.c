#include "json.h"

#include <math.h>

#include "check.h"
#include "log_escape.h"

#define MAX_ESCAPED_BYTES 6 /* \u00XX for one byte */

void json_string(struct buffer *out, struct slice value)
{
	buffer_append(out, "\"", 1);
	if (value.length > 0) {
		size_t room = value.length * MAX_ESCAPED_BYTES;
		char *at = buffer_reserve(out, room);
		size_t n = log_escape(at, room, value);
		CHECK(n <= room);
		buffer_grow(out, n);
	}
	buffer_append(out, "\"", 1);
}

static void begin_item(struct buffer *out)
{
	struct slice so_far = buffer_slice(out);
	char before = so_far.length == 0 ? '{' : so_far.data[so_far.length - 1];
	if (before != '{' && before != '[')
		buffer_append(out, ",", 1);
}

static void begin_member(struct buffer *out, const char *name)
{
	begin_item(out);
	buffer_printf(out, "\"%s\":", name);
}

void json_member_slice(struct buffer *out, const char *name, struct slice value)
{
	begin_member(out, name);
	json_string(out, value);
}

void json_member_string(struct buffer *out, const char *name, const char *value)
{
	if (value) {
		json_member_slice(out, name, slice_of(value));
		return;
	}
	begin_member(out, name);
	buffer_append(out, "null", 4);
}

void json_member_integer(struct buffer *out, const char *name, int64_t value)
{
	begin_member(out, name);
	buffer_printf(out, "%lld", (long long)value);
}

void json_member_limit(struct buffer *out, const char *name, int64_t value)
{
	if (value < 0)
		json_member_string(out, name, NULL);
	else
		json_member_integer(out, name, value);
}

void json_member_bool(struct buffer *out, const char *name, bool value)
{
	begin_member(out, name);
	buffer_append_slice(out, value ? SLICE("true") : SLICE("false"));
}

void json_member_ms(struct buffer *out, const char *name, int64_t elapsed_us)
{
	begin_member(out, name);
	if (elapsed_us < 0)
		elapsed_us = 0;
	buffer_printf(out, "%lld.%03lld", (long long)(elapsed_us / 1000), (long long)(elapsed_us % 1000));
}

void json_member_number(struct buffer *out, const char *name, double value)
{
	begin_member(out, name);
	if (!isfinite(value)) {
		buffer_append(out, "null", 4);
		return;
	}
	size_t before = buffer_length(out);
	buffer_printf(out, "%.4f", value);
	struct slice text = buffer_slice(out);
	size_t n = text.length;
	while (n > before && text.data[n - 1] == '0')
		n--;
	if (text.data[n - 1] == '.')
		n--;
	out->end -= text.length - n;
}

void json_open(struct buffer *out, const char *name, char bracket)
{
	if (name)
		begin_member(out, name);
	else
		begin_item(out);
	buffer_append(out, &bracket, 1);
}

void json_close(struct buffer *out, char bracket)
{
	buffer_append(out, &bracket, 1);
}

void json_item_slice(struct buffer *out, struct slice value)
{
	begin_item(out);
	json_string(out, value);
}
