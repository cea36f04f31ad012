#include "response.h"

#include "head_read.h"
#include "known_fields.h"
#include "octet.h"
#include "second_look.h"

enum response_stage { AT_START, AT_FIELDS, AT_INTERIM, AT_BODY, AT_END, AT_ERROR };

static void response_start(struct response *response)
{
	/* Not the index of fields, which is large and is written before it is read. */
	memset((char *)response + sizeof(response->head), 0, sizeof(*response) - sizeof(response->head));
	response->keep_alive_timeout_ms = -1;
}

void response_init(struct response *response)
{
	head_init(&response->head);
	response_start(response);
}

void response_clear(struct response *response)
{
	head_clear(&response->head);
	response_start(response);
}

void response_reader_init(struct response_reader *reader, struct response *response, size_t max_header_bytes,
	bool to_head, bool to_connect, bool asked_upgrade)
{
	head_init(&reader->trailers);
	reader->response = response;
	reader->max_header_bytes = max_header_bytes < UINT32_MAX ? max_header_bytes : UINT32_MAX;
	reader->error = (struct read_error){0};
	reader->to_head = to_head;
	reader->to_connect = to_connect;
	reader->asked_upgrade = asked_upgrade;
	reader->has_bytes = reader->is_complete = false;
	reader->stage = AT_START;
	reader->line_at = 0;
	reader->n_interim = 0;
	body_reader_start(&reader->body, BODY_NONE, 0);
}

void response_reader_clear(struct response_reader *reader)
{
	head_clear(&reader->trailers);
	reader->response = NULL;
}

static enum read_event fail(struct response_reader *reader, const char *detail)
{
	reader->stage = AT_ERROR;
	reader->error.detail = detail;
	return READ_ERROR;
}

static enum read_event end(struct response_reader *reader)
{
	reader->stage = AT_END;
	reader->is_complete = true;
	return READ_END;
}

/* HTTP/1.x SP three digits, then nothing or SP and a reason (RFC 9112 4). */
static enum read_event take_status_line(struct response_reader *reader, struct slice line)
{
	struct response *response = reader->response;
	const char *at = line.data;

	if (line.length < 8 || memcmp(at, "HTTP/", 5) != 0 || !octet_is(at[5], OCTET_DIGIT) || at[6] != '.' ||
		!octet_is(at[7], OCTET_DIGIT))
		return fail(reader, "the response doesn't start with an HTTP version (RFC 9112 4)");
	if (at[5] != '1')
		return fail(reader, "the response isn't HTTP/1.x (RFC 9112 2.3)");
	response->minor_version = at[7] == '0' ? 0 : 1;
	if (line.length < 12 || at[8] != ' ' || at[9] == '0' || !octets_are((struct slice){at + 9, 3}, OCTET_DIGIT) ||
		(line.length > 12 && at[12] != ' '))
		return fail(reader, "bad status code in the response (RFC 9112 4)");
	response->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
	response->reason = line.length > 13 ? (struct slice){at + 13, line.length - 13} : (struct slice){"", 0};
	if (!octets_are(response->reason, OCTET_VALUE))
		return fail(reader, "control character in the reason phrase (RFC 9112 4)");
	reader->stage = AT_FIELDS;
	return READ_MORE;
}

/* Does a message to this request with this status end with its head (RFC 9112 6.3, rules 1 and 2)? */
static bool has_no_body(const struct response_reader *reader, int status)
{
	return reader->to_head || status < 200 || status == 204 || status == 304 ||
	       (reader->to_connect && status < 300);
}

static const char *judge_framing(
	struct response_reader *reader, const struct known_fields *known, struct second_look *look)
{
	struct response *response = reader->response;
	const char *fault = known_fields_framing(known, &response->head, response->minor_version, &look->is_chunked,
		&look->has_length, &look->content_length);

	if (fault)
		return fault;
	response->has_content_length = look->has_length;
	response->content_length = look->content_length;
	if (has_no_body(reader, response->status))
		response->framing = BODY_NONE;
	else
		response->framing = look->is_chunked ? BODY_CHUNKED : look->has_length ? BODY_LENGTH : BODY_UNTIL_CLOSE;
	return NULL;
}

/* Keep-Alive: timeout=5, max=100 (RFC 2068 19.7.1). */
static int64_t read_keep_alive_timeout_ms(struct slice list)
{
	struct slice element;
	uint64_t seconds;

	while (octets_next_element(&list, &element)) {
		if (element.length < 8 || strncasecmp(element.data, "timeout=", 8) != 0)
			continue;
		if (!octets_read_decimal(octets_trim((struct slice){element.data + 8, element.length - 8}), &seconds))
			return -1;
		return seconds < 1000000 ? (int64_t)seconds * 1000 : 1000000000;
	}
	return -1;
}

static void judge_connection(struct response *response, const struct known_fields *known)
{
	response->is_upgrade = response->status == 101;
	response->is_keep_alive = !known->says_close && (response->minor_version > 0 || known->says_keep_alive) &&
				  response->framing != BODY_UNTIL_CLOSE && !response->is_upgrade;
	if (known->n[FIELD_KEEP_ALIVE] > 0)
		response->keep_alive_timeout_ms =
			read_keep_alive_timeout_ms(known_field_value(known, &response->head, FIELD_KEEP_ALIVE));
}

static enum read_event take_head(struct response_reader *reader)
{
	struct response *response = reader->response;
	struct second_look look = {.is_response = true, .status = response->status};
	struct known_fields known;
	bool is_unknown_method;

	if (response->reason.length > 0)
		response->reason.data = response->head.raw.data + 13; /* raw may have moved since */
	known_fields_find(&known, &response->head);
	const char *fault = judge_framing(reader, &known, &look);
	if (!fault)
		fault = second_look_at_head(&response->head, &look, &is_unknown_method);
	if (fault)
		return fail(reader, fault);
	if (response->status == 101 && !reader->asked_upgrade)
		return fail(reader, "101 although no upgrade was asked for (RFC 9110 15.2.2)");
	judge_connection(response, &known);
	if (response->status < 200 && response->status != 101) {
		if (++reader->n_interim > RESPONSE_MAX_INTERIM)
			return fail(reader, "too many interim responses");
		reader->stage = AT_INTERIM;
		return READ_INTERIM;
	}
	body_reader_start(&reader->body, response->framing, response->content_length);
	reader->stage = AT_BODY;
	return READ_HEAD;
}

static enum read_event take_line(struct response_reader *reader, struct slice line)
{
	if (reader->stage == AT_START)
		return take_status_line(reader, line);
	if (line.length == 0)
		return take_head(reader);
	const char *fault = head_read_field(&reader->response->head, line);
	return fault ? fail(reader, fault) : READ_MORE;
}

static enum read_event read_head(struct response_reader *reader, const char **at, size_t *left)
{
	struct slice line;

	for (;;) {
		switch (head_read_line(
			&reader->response->head, reader->max_header_bytes, at, left, &reader->line_at, &line)) {
		case HEAD_READ_MORE:
			return READ_MORE;
		case HEAD_READ_TOO_LARGE:
			reader->error.is_too_large = true;
			return fail(reader, "the response's header section is over the limit");
		case HEAD_READ_BARE_LF:
			return fail(reader, "a line of the response's head ends in a bare LF (RFC 9112 2.2)");
		case HEAD_READ_LINE:
			break;
		}
		enum read_event event = take_line(reader, line);
		if (event != READ_MORE)
			return event;
	}
}

enum read_event response_reader_next(struct response_reader *reader, const char **at, size_t *left, struct slice *body)
{
	enum read_event event;

	if (*left > 0)
		reader->has_bytes = true;
	switch ((enum response_stage)reader->stage) {
	case AT_INTERIM:
		response_clear(reader->response);
		reader->line_at = 0;
		reader->stage = AT_START;
		return read_head(reader, at, left);
	case AT_START:
	case AT_FIELDS:
		return read_head(reader, at, left);
	case AT_BODY:
		event = body_reader_next(
			&reader->body, &reader->trailers, reader->max_header_bytes, at, left, body, &reader->error);
		if (event == READ_ERROR)
			return fail(reader, reader->error.detail);
		return event == READ_END ? end(reader) : event;
	case AT_END:
		return READ_END;
	case AT_ERROR:
		break;
	}
	return READ_ERROR;
}

uint64_t response_reader_length_left(const struct response_reader *reader)
{
	bool is_in_body = reader->stage == AT_BODY && reader->response->framing == BODY_LENGTH;
	return is_in_body ? body_reader_length_left(&reader->body) : 0;
}

void response_reader_skip(struct response_reader *reader, uint64_t n)
{
	body_reader_skip(&reader->body, n);
}

enum read_event response_reader_eof(struct response_reader *reader, bool is_clean)
{
	struct slice nothing = {"", 0};
	const char *at = "";
	size_t left = 0;

	switch ((enum response_stage)reader->stage) {
	case AT_BODY:
		if (reader->response->framing == BODY_UNTIL_CLOSE)
			return is_clean ? end(reader)
					: fail(reader, "the connection broke in a body that its end delimits");
		if (response_reader_next(reader, &at, &left, &nothing) == READ_END)
			return READ_END;
		return fail(reader, "the connection ended before the body was complete (RFC 9112 8)");
	case AT_END:
		return READ_END;
	case AT_ERROR:
		return READ_ERROR;
	case AT_INTERIM:
	case AT_START:
	case AT_FIELDS:
		break;
	}
	return fail(reader, reader->has_bytes ? "the connection ended before the head was complete (RFC 9112 8)"
					      : "the connection ended without a response");
}
