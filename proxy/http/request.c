#include "request.h"

#include "../base/check.h"
#include "head_read.h"
#include "known_fields.h"
#include "octet.h"
#include "second_look.h"

enum request_stage { AT_START, AT_FIELDS, AT_BODY, AT_END, AT_ERROR };

void request_init(struct request *request)
{
	head_init(&request->head);
	/* Not the index of fields, which is large and is written before it is read. */
	memset((char *)request + sizeof(request->head), 0, sizeof(*request) - sizeof(request->head));
}

void request_clear(struct request *request)
{
	head_clear(&request->head);
	request_init(request);
}

void request_reader_init(struct request_reader *reader, struct request *request, size_t max_header_bytes)
{
	head_init(&reader->trailers);
	reader->max_header_bytes = max_header_bytes < UINT32_MAX ? max_header_bytes : UINT32_MAX;
	request_reader_reset(reader, request);
}

void request_reader_reset(struct request_reader *reader, struct request *request)
{
	head_clear(&reader->trailers);
	reader->request = request;
	reader->error = (struct read_error){0};
	reader->stage = AT_START;
	reader->n_leading_octets = 0;
	reader->line_at = 0;
	body_reader_start(&reader->body, BODY_NONE, 0);
}

void request_reader_clear(struct request_reader *reader)
{
	head_clear(&reader->trailers);
	reader->request = NULL;
}

bool request_reader_is_idle(const struct request_reader *reader)
{
	return reader->stage == AT_START && reader->request->head.raw.end == 0;
}

bool request_reader_is_end_due(const struct request_reader *reader)
{
	return reader->stage == AT_BODY && body_reader_is_at_end(&reader->body);
}

static enum read_event fail(struct request_reader *reader, int status, const char *detail)
{
	reader->stage = AT_ERROR;
	reader->error =
		(struct read_error){.status = status, .is_too_large = status == 431 || status == 414, .detail = detail};
	return READ_ERROR;
}

/* "HTTP/1.x" with one digit. 0, or the status to answer. */
static int read_version(struct slice text, int *minor_version)
{
	if (text.length != 8 || memcmp(text.data, "HTTP/", 5) != 0 || !octet_is(text.data[5], OCTET_DIGIT) ||
		text.data[6] != '.' || !octet_is(text.data[7], OCTET_DIGIT))
		return 400;
	if (text.data[5] != '1')
		return 505;
	*minor_version = text.data[7] == '0' ? 0 : 1;
	return 0;
}

/* METHOD SP target SP version, with exactly those two spaces (RFC 9112 3). */
static enum read_event take_request_line(struct request_reader *reader, struct slice line)
{
	struct request *request = reader->request;
	const char *end = line.data + line.length;
	const char *after_method = memchr(line.data, ' ', line.length);

	if (!after_method)
		return fail(reader, 400, "request line without a target (RFC 9112 3)");
	request->method = (struct slice){line.data, (size_t)(after_method - line.data)};
	if (request->method.length == 0 || !octets_are(request->method, OCTET_TOKEN))
		return fail(reader, 400, "method is not a token (RFC 9110 9.1)");
	const char *target = after_method + 1;
	const char *after_target = memchr(target, ' ', (size_t)(end - target));
	if (!after_target)
		return fail(reader, 400, "request line without a version (RFC 9112 3)");
	request->target_text = (struct slice){target, (size_t)(after_target - target)};
	if (request->target_text.length == 0 || !octets_are(request->target_text, OCTET_TARGET))
		return fail(reader, 400, "white space or a control character in the request target (RFC 9112 3.2)");
	int status = read_version(
		(struct slice){after_target + 1, (size_t)(end - after_target - 1)}, &request->minor_version);
	if (status == 400)
		return fail(reader, 400, "the request line doesn't end in one HTTP version (RFC 9112 2.3)");
	if (status == 505)
		return fail(reader, 505, "only HTTP/1.x is spoken here (RFC 9110 15.6.6)");
	reader->stage = AT_FIELDS;
	return READ_MORE;
}

/* Slices into raw are only good once raw doesn't move any more. */
static void settle_slices(struct request *request)
{
	size_t target_at = request->method.length + 1;

	request->method.data = request->head.raw.data;
	request->target_text.data = request->head.raw.data + target_at;
}

static const char *check_host(const struct request *request, const struct known_fields *known)
{
	struct target scratch;
	struct slice host = known_field_value(known, &request->head, FIELD_HOST);

	if (known->n[FIELD_HOST] > 1)
		return "more than one Host field (RFC 9112 3.2)";
	if (known->n[FIELD_HOST] == 0)
		return request->minor_version > 0 ? "no Host field (RFC 9112 3.2)" : NULL;
	/* The target's authority rules; an empty field is then of no harm (RFC 9112 3.2.2). */
	if (host.length == 0 && (request->target.form == TARGET_ABSOLUTE || request->target.form == TARGET_AUTHORITY))
		return NULL;
	return target_parse_host(host, &scratch);
}

static void judge_connection(struct request *request, const struct known_fields *known)
{
	const struct head *head = &request->head;
	bool says_close = known->says_close, says_keep_alive = known->says_keep_alive;

	if (known->n[FIELD_PROXY_CONNECTION] > 0) {
		says_close |= head_has_token(head, SLICE("proxy-connection"), SLICE("close"));
		says_keep_alive |= head_has_token(head, SLICE("proxy-connection"), SLICE("keep-alive"));
	}
	request->is_keep_alive = !says_close && (request->minor_version > 0 || says_keep_alive);
	request->wants_upgrade = request->minor_version > 0 && known->says_upgrade &&
				 known_field_value(known, head, FIELD_UPGRADE).length > 0 && !request->is_connect;
	request->accepts_trailers = known->n[FIELD_TE] > 0 && head_has_token(head, SLICE("te"), SLICE("trailers"));
	request->expects_continue = known->n[FIELD_EXPECT] > 0 && request->minor_version > 0 &&
				    (request->framing == BODY_CHUNKED || request->content_length > 0) &&
				    head_has_token(head, SLICE("expect"), SLICE("100-continue"));
}

static const char *judge_framing(struct request *request, const struct known_fields *known, struct second_look *look)
{
	const char *fault = known_fields_framing(known, &request->head, request->minor_version, &look->is_chunked,
		&look->has_length, &look->content_length);

	if (fault)
		return fault;
	if (request->is_connect && (look->is_chunked || look->has_length))
		return "CONNECT with Content-Length or Transfer-Encoding (RFC 9110 9.3.6)";
	request->framing = look->is_chunked ? BODY_CHUNKED : look->has_length ? BODY_LENGTH : BODY_NONE;
	request->content_length = look->content_length;
	return NULL;
}

static enum read_event take_head(struct request_reader *reader)
{
	struct request *request = reader->request;
	struct second_look look = {.is_response = false};
	struct known_fields known;
	bool is_unknown_method;
	const char *fault;

	settle_slices(request);
	known_fields_find(&known, &request->head);
	request->is_head = slice_equals(request->method, SLICE("HEAD"));
	request->is_connect = slice_equals(request->method, SLICE("CONNECT"));
	if ((fault = target_parse(request->target_text, request->is_connect, &request->target)) ||
		(fault = check_host(request, &known)) || (fault = judge_framing(request, &known, &look)))
		return fail(reader, 400, fault);
	fault = second_look_at_head(&request->head, &look, &is_unknown_method);
	if (is_unknown_method || slice_equals(request->method, SLICE("PRI")))
		return fail(reader, 501, "unknown method (RFC 9110 9.1)");
	if (fault)
		return fail(reader, 400, fault);
	if (request->target.form == TARGET_ASTERISK && !slice_equals(request->method, SLICE("OPTIONS")))
		return fail(reader, 400, "only OPTIONS may ask for \"*\" (RFC 9112 3.2.4)");
	judge_connection(request, &known);
	body_reader_start(&reader->body, request->framing, request->content_length);
	reader->stage = AT_BODY;
	return READ_HEAD;
}

/* Empty lines before the request line. READ_HEAD: there is an octet of the request line. */
static enum read_event skip_leading_crlf(struct request_reader *reader, const char **at, size_t *left)
{
	while (*left > 0) {
		bool is_after_cr = reader->n_leading_octets % 2 == 1;
		char octet = **at;

		if (is_after_cr && octet != '\n')
			return fail(reader, 400, "bare CR before the request line (RFC 9112 2.2)");
		if (!is_after_cr && octet != '\r')
			return octet_is(octet, OCTET_TOKEN)
				       ? READ_HEAD
				       : fail(reader, 400, "the request doesn't start with a method (RFC 9112 3)");
		if (reader->n_leading_octets == 2 * REQUEST_MAX_LEADING_CRLF)
			return fail(reader, 400, "too many empty lines before the request line (RFC 9112 2.2)");
		reader->n_leading_octets++;
		++*at;
		--*left;
	}
	return READ_MORE;
}

static enum read_event take_line(struct request_reader *reader, struct slice line)
{
	if (reader->stage == AT_START)
		return take_request_line(reader, line);
	if (line.length == 0)
		return take_head(reader);
	const char *fault = head_read_field(&reader->request->head, line);
	return fault ? fail(reader, 400, fault) : READ_MORE;
}

static enum read_event read_head(struct request_reader *reader, const char **at, size_t *left)
{
	struct head *head = &reader->request->head;
	struct slice line;

	if (head->raw.end == 0) {
		enum read_event event = skip_leading_crlf(reader, at, left);
		if (event != READ_HEAD)
			return event;
	}
	for (;;) {
		switch (head_read_line(head, reader->max_header_bytes, at, left, &reader->line_at, &line)) {
		case HEAD_READ_MORE:
			return READ_MORE;
		case HEAD_READ_TOO_LARGE:
			return reader->stage == AT_START ? fail(reader, 414, "the request line is over the limit")
							 : fail(reader, 431, "the header section is over the limit");
		case HEAD_READ_BARE_LF:
			return fail(reader, 400, "a line ends in a bare LF (RFC 9112 2.2)");
		case HEAD_READ_LINE:
			break;
		}
		enum read_event event = take_line(reader, line);
		if (event != READ_MORE)
			return event;
	}
}

enum read_event request_reader_next(struct request_reader *reader, const char **at, size_t *left, struct slice *body)
{
	enum read_event event;

	switch ((enum request_stage)reader->stage) {
	case AT_START:
	case AT_FIELDS:
		return read_head(reader, at, left);
	case AT_BODY:
		event = body_reader_next(
			&reader->body, &reader->trailers, reader->max_header_bytes, at, left, body, &reader->error);
		if (event == READ_ERROR)
			return fail(reader, reader->error.is_too_large ? 431 : 400, reader->error.detail);
		if (event == READ_END)
			reader->stage = AT_END;
		return event;
	case AT_END:
		return READ_END;
	case AT_ERROR:
		break;
	}
	return READ_ERROR;
}
