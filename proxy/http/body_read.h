/*
 * Taking the framing off a message body: Content-Length, chunked (RFC 9112 7.1) or until the connection ends.
 *
 * llhttp 8.1 isn't used here: it refuses trailers that RFC 9110 6.5.1 tells to ignore (Content-Length) and white space
 * that RFC 9112 7.1.1 tells to parse ("5 ;a"), and as Debian's header compiles it, it takes "5 CR CR" for "5 CR LF".
 */
#ifndef EVENKEEL_HTTP_BODY_READ_H
#define EVENKEEL_HTTP_BODY_READ_H

#include <stdint.h>

#include "head.h"
#include "read_event.h"

#define BODY_MAX_EXTENSION 1024 /* bytes of chunk extensions per chunk; they are dropped */

struct body_reader {
	enum body_framing framing;
	uint64_t n_left;       /* bytes to come: of the body, or of the chunk under work */
	uint8_t state;         /* private to body_read.c, as is all that follows */
	uint8_t n_size_digits;
	uint32_t n_extension;
	uint32_t line_at;      /* in trailers->raw */
};

void body_reader_start(struct body_reader *reader, enum body_framing framing, uint64_t content_length);

/*
 * READ_MORE, READ_BODY, READ_END or READ_ERROR (error->detail and is_too_large set). Trailers are bounded by
 * max_trailer_bytes and indexed in trailers. READ_END is repeated and consumes nothing.
 */
enum read_event body_reader_next(struct body_reader *reader, struct head *trailers, size_t max_trailer_bytes,
				 const char **at, size_t *left, struct slice *body, struct read_error *error);

/* All of the body is taken: the next event is READ_END, without a further byte. */
bool body_reader_is_at_end(const struct body_reader *reader);
/* BODY_LENGTH: what is still to come, and to count some of it as read elsewhere. */
uint64_t body_reader_length_left(const struct body_reader *reader);
void body_reader_skip(struct body_reader *reader, uint64_t n);

#endif
