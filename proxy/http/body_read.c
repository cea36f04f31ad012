#include "body_read.h"

#include "../base/check.h"
#include "head_read.h"
#include "octet.h"

enum body_state {
	BODY_AT_SIZE,  /* hex digits of a chunk's size */
	BODY_AT_BLANK, /* white space after it: only an extension may follow */
	BODY_AT_EXTENSION,
	BODY_AT_SIZE_LF,
	BODY_IN_DATA,
	BODY_AT_DATA_CR,
	BODY_AT_DATA_LF,
	BODY_IN_TRAILERS,
	BODY_AT_END,
};

#define MAX_SIZE_DIGITS 16

void body_reader_start(struct body_reader *reader, enum body_framing framing, uint64_t content_length)
{
	*reader = (struct body_reader){.framing = framing, .n_left = content_length};
	switch (framing) {
	case BODY_NONE:
		reader->state = BODY_AT_END;
		break;
	case BODY_LENGTH:
		reader->state = content_length > 0 ? BODY_IN_DATA : BODY_AT_END;
		break;
	case BODY_CHUNKED:
		reader->state = BODY_AT_SIZE;
		break;
	case BODY_UNTIL_CLOSE:
		reader->state = BODY_IN_DATA;
		reader->n_left = UINT64_MAX;
		break;
	}
}

static int hex_digit(char octet)
{
	if (octet >= '0' && octet <= '9')
		return octet - '0';
	octet |= 0x20;
	return octet >= 'a' && octet <= 'f' ? octet - 'a' + 10 : -1;
}

static const char *after_size(struct body_reader *reader, char octet)
{
	if (octet == '\r' && reader->state == BODY_AT_SIZE)
		reader->state = BODY_AT_SIZE_LF;
	else if (octet == ';')
		reader->state = BODY_AT_EXTENSION;
	else if (octet_is_blank(octet))
		reader->state = BODY_AT_BLANK;
	else
		return "invalid chunk size (RFC 9112 7.1)";
	return NULL;
}

static const char *take_size_octet(struct body_reader *reader, char octet)
{
	int digit = hex_digit(octet);

	if (digit < 0)
		return reader->n_size_digits > 0 ? after_size(reader, octet) : "invalid chunk size (RFC 9112 7.1)";
	if (reader->n_size_digits == MAX_SIZE_DIGITS || reader->n_left > (INT64_MAX >> 4))
		return "chunk size is too large (RFC 9112 7.1)";
	reader->n_size_digits++;
	reader->n_left = reader->n_left << 4 | (uint64_t)digit;
	return NULL;
}

static const char *take_extension_octet(struct body_reader *reader, char octet)
{
	if (octet == '\r') {
		reader->state = BODY_AT_SIZE_LF;
		return NULL;
	}
	return octet_is(octet, OCTET_VALUE) ? NULL : "invalid chunk extension (RFC 9112 7.1.1)";
}

static const char *end_size_line(struct body_reader *reader, char octet)
{
	if (octet != '\n')
		return "a chunk's size line doesn't end in CRLF (RFC 9112 7.1)";
	reader->state = reader->n_left > 0 ? BODY_IN_DATA : BODY_IN_TRAILERS;
	reader->n_size_digits = 0;
	reader->n_extension = 0;
	return NULL;
}

static const char *end_data(struct body_reader *reader, char octet)
{
	bool is_at_cr = reader->state == BODY_AT_DATA_CR;

	if (octet != (is_at_cr ? '\r' : '\n'))
		return "chunk data is longer than its size says (RFC 9112 7.1)";
	reader->state = is_at_cr ? BODY_AT_DATA_LF : BODY_AT_SIZE;
	return NULL;
}

/* One octet of the framing around chunks. NULL, or what is wrong. */
static const char *take_octet(struct body_reader *reader, char octet)
{
	if ((reader->state == BODY_AT_EXTENSION || reader->state == BODY_AT_BLANK) &&
		++reader->n_extension > BODY_MAX_EXTENSION)
		return "chunk extensions are too long";
	switch ((enum body_state)reader->state) {
	case BODY_AT_SIZE:
		return take_size_octet(reader, octet);
	case BODY_AT_BLANK:
		return after_size(reader, octet);
	case BODY_AT_EXTENSION:
		return take_extension_octet(reader, octet);
	case BODY_AT_SIZE_LF:
		return end_size_line(reader, octet);
	default:
		return end_data(reader, octet);
	}
}

static enum read_event take_data(struct body_reader *reader, const char **at, size_t *left, struct slice *body)
{
	size_t n = *left < reader->n_left ? *left : (size_t)reader->n_left;

	if (n == 0)
		return READ_MORE;
	*body = (struct slice){*at, n};
	*at += n;
	*left -= n;
	if (reader->framing == BODY_UNTIL_CLOSE)
		return READ_BODY;
	reader->n_left -= n;
	if (reader->n_left == 0)
		reader->state = reader->framing == BODY_CHUNKED ? BODY_AT_DATA_CR : BODY_AT_END;
	return READ_BODY;
}

static enum read_event fail(struct read_error *error, const char *detail, bool is_too_large)
{
	error->detail = detail;
	error->is_too_large = is_too_large;
	return READ_ERROR;
}

static enum read_event take_trailers(struct body_reader *reader, struct head *trailers, size_t max_bytes,
	const char **at, size_t *left, struct read_error *error)
{
	struct slice line;

	for (;;) {
		switch (head_read_line(trailers, max_bytes, at, left, &reader->line_at, &line)) {
		case HEAD_READ_MORE:
			return READ_MORE;
		case HEAD_READ_TOO_LARGE:
			return fail(error, "the trailer section is over the limit", true);
		case HEAD_READ_BARE_LF:
			return fail(error, "a trailer line ends in a bare LF (RFC 9112 2.2)", false);
		case HEAD_READ_LINE:
			break;
		}
		if (line.length == 0) {
			reader->state = BODY_AT_END;
			return READ_END;
		}
		const char *fault = head_read_field(trailers, line);
		if (fault)
			return fail(error, fault, false);
	}
}

enum read_event body_reader_next(struct body_reader *reader, struct head *trailers, size_t max_trailer_bytes,
	const char **at, size_t *left, struct slice *body, struct read_error *error)
{
	for (;;) {
		if (reader->state == BODY_AT_END)
			return READ_END;
		if (reader->state == BODY_IN_DATA)
			return take_data(reader, at, left, body);
		if (reader->state == BODY_IN_TRAILERS)
			return take_trailers(reader, trailers, max_trailer_bytes, at, left, error);
		if (*left == 0)
			return READ_MORE;
		const char *fault = take_octet(reader, **at);
		if (fault)
			return fail(error, fault, false);
		++*at;
		--*left;
	}
}

bool body_reader_is_at_end(const struct body_reader *reader)
{
	return reader->state == BODY_AT_END;
}

uint64_t body_reader_length_left(const struct body_reader *reader)
{
	return reader->framing == BODY_LENGTH && reader->state == BODY_IN_DATA ? reader->n_left : 0;
}

void body_reader_skip(struct body_reader *reader, uint64_t n)
{
	CHECK(n <= body_reader_length_left(reader));
	reader->n_left -= n;
	if (reader->n_left == 0)
		reader->state = BODY_AT_END;
}
