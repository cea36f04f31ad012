#include "json.h"

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

static void begin_member(struct buffer *out, const char *name)
{
	struct slice so_far = buffer_slice(out);
	bool is_first = so_far.length == 0 || so_far.data[so_far.length - 1] == '{';
	buffer_printf(out, "%s\"%s\":", is_first ? "" : ",", name);
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
