#include "reply.h"

#include <stdio.h>

/* JSON string contents; bytes that are no printable ASCII become \u00XX, so the body is valid whatever came in. */
static void append_json(struct buffer *out, struct slice text)
{
	for (size_t i = 0; i < text.length; i++) {
		unsigned char c = (unsigned char)text.data[i];
		if (c == '"' || c == '\\')
			buffer_printf(out, "\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			buffer_printf(out, "\\u%04x", c);
		else
			buffer_append(out, &text.data[i], 1);
	}
}

static void append_member(struct buffer *out, const char *name, struct slice value)
{
	buffer_printf(out, ",\"%s\":\"", name);
	append_json(out, value);
	buffer_append(out, "\"", 1);
}

static void append_body(struct buffer *out, const struct reply_facts *facts)
{
	buffer_printf(out, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d", h1_reason(facts->status), facts->status);
	append_member(out, "detail", slice_of(facts->detail));
	append_member(out, "error", slice_of(facts->error));
	append_member(out, "upstream", slice_of(facts->upstream));
	buffer_printf(out, ",\"attempts\":%lld", (long long)facts->n_attempts);
	if (facts->verdict)
		append_member(out, "verdict", slice_of(facts->verdict));
	buffer_printf(out, ",\"elapsed_ms\":%lld", (long long)facts->elapsed_ms);
	append_member(out, "request_id", facts->request_id);
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
