#include "second_look.h"

#include <llhttp.h>

static int on_value(llhttp_t *parser)
{
	++*(size_t *)parser->data;
	return 0;
}

static int on_head(llhttp_t *parser)
{
	(void)parser;
	return HPE_PAUSED; /* bodies are read by body_read.c; llhttp never sees them */
}

static const llhttp_settings_t settings = {
	.on_header_value_complete = on_value,
	.on_headers_complete = on_head,
};

static bool is_same_framing(const llhttp_t *parser, const struct second_look *first)
{
	bool is_chunked = parser->flags & F_CHUNKED;
	bool has_length = parser->flags & F_CONTENT_LENGTH;

	if (is_chunked != first->is_chunked || has_length != first->has_length)
		return false;
	if (has_length && parser->content_length != first->content_length)
		return false;
	return !first->is_response || parser->status_code == first->status;
}

const char *second_look_at_head(const struct head *head, const struct second_look *first, bool *is_unknown_method)
{
	size_t n_values = 0;
	llhttp_t parser;

	llhttp_init(&parser, first->is_response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
	parser.data = &n_values;
	/* HTTP/1.2 and up read as 1.1 (RFC 9110 2.5); the first look has made sure of "HTTP/1." and a digit. */
	parser.lenient_flags = LENIENT_VERSION;
	llhttp_errno_t error = llhttp_execute(&parser, head->raw.data, head->raw.end);
	/* INVALID_CONSTANT: one that llhttp knows from RTSP, since the version is sound. */
	*is_unknown_method = !first->is_response && (error == HPE_INVALID_METHOD || error == HPE_INVALID_CONSTANT);
	if (error != HPE_PAUSED)
		return error == HPE_OK ? "the head doesn't end where it seems to (RFC 9112 2.1)"
				       : llhttp_get_error_reason(&parser);
	if (llhttp_get_error_pos(&parser) != head->raw.data + head->raw.end || n_values != head->n_fields)
		return "the head doesn't end where it seems to (RFC 9112 2.1)";
	if (!is_same_framing(&parser, first))
		return "ambiguous message framing (RFC 9112 6.3)";
	return NULL;
}
