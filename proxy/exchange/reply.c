#include "reply.h"

#include "../base/json.h"

static void append_body(struct buffer *out, const struct reply_facts *facts)
{
	buffer_append(out, "{", 1);
	json_member_string(out, "type", "about:blank");
	json_member_string(out, "title", h1_reason(facts->status));
	json_member_integer(out, "status", facts->status);
	json_member_string(out, "detail", facts->detail);
	json_member_string(out, "error", facts->error);
	json_member_string(out, "upstream", facts->upstream);
	json_member_integer(out, "attempts", facts->n_attempts);
	if (facts->verdict)
		json_member_string(out, "verdict", facts->verdict);
	json_member_integer(out, "elapsed_ms", facts->elapsed_ms);
	json_member_slice(out, "request_id", facts->request_id);
	buffer_append(out, "}\n", 2);
}

/* An sf-string (RFC 8941 3.3.3): printable ASCII, quotes and backslashes escaped. */
static void append_sf_string(struct buffer *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		char c = *at >= 0x20 && *at <= 0x7e ? *at : '?';
		if (c == '"' || c == '\\')
			buffer_append(out, "\\", 1);
		buffer_append(out, &c, 1);
	}
}

static void append_field(struct buffer *out, const char *name, struct slice value)
{
	buffer_printf(out, "%s: ", name);
	for (size_t i = 0; i < value.length; i++) {
		unsigned char c = (unsigned char)value.data[i];
		buffer_append(out, c < 0x20 || c == 0x7f ? "?" : &value.data[i], 1);
	}
	buffer_append(out, "\r\n", 2);
}

void reply_compose(struct own_reply *reply, struct buffer *storage, const struct reply_facts *facts)
{
	buffer_append_slice(storage, SLICE("Content-Type: application/problem+json\r\nProxy-Status: evenkeel; error="));
	buffer_printf(storage, "%s; details=\"", facts->error);
	append_sf_string(storage, facts->detail);
	buffer_append_slice(storage, SLICE("\"\r\n"));
	if (facts->retry_after_s >= 0)
		buffer_printf(storage, "Retry-After: %lld\r\n", (long long)facts->retry_after_s);
	buffer_printf(storage, "Evenkeel-Attempts: %lld\r\n", (long long)facts->n_attempts);
	append_field(storage, "Evenkeel-Upstream", slice_of(facts->upstream));
	append_field(storage, "X-Request-Id", facts->request_id);
	size_t fields_length = buffer_length(storage);
	append_body(storage, facts);
	struct slice all = buffer_slice(storage);
	*reply = (struct own_reply){
		.status = facts->status,
		.fields = { all.data, fields_length },
		.body = { all.data + fields_length, all.length - fields_length },
		.must_close = facts->must_close,
	};
}
