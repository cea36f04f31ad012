/*
 * Reading requests: bytes in, events out. The one gate through which a client's bytes come: what leaves here as
 * READ_HEAD is complete, unambiguous and within limits; everything else is READ_ERROR with the status to answer.
 */
#ifndef EVENKEEL_HTTP_REQUEST_H
#define EVENKEEL_HTTP_REQUEST_H

#include <stdint.h>

#include "body_read.h"
#include "head.h"
#include "read_event.h"
#include "target.h"

#define REQUEST_MAX_LEADING_CRLF 2 /* empty lines tolerated before a request line (RFC 9112 2.2) */

struct request {
	struct head head;
	struct slice method;      /* into head.raw */
	struct slice target_text; /* into head.raw */
	struct target target;
	int minor_version;        /* HTTP/1.x: 0 or 1 (a higher minor reads as 1, RFC 9110 2.5) */
	enum body_framing framing; /* BODY_NONE, BODY_LENGTH or BODY_CHUNKED */
	uint64_t content_length;  /* BODY_LENGTH */
	bool is_head, is_connect;
	bool is_keep_alive;       /* what the client wishes, by version and Connection / Proxy-Connection */
	bool expects_continue;    /* Expect: 100-continue from an HTTP/1.1 client with a body */
	bool wants_upgrade;       /* Connection: upgrade with an Upgrade field */
	bool accepts_trailers;    /* TE: trailers */
};

void request_init(struct request *request);
void request_clear(struct request *request);

struct request_reader {
	struct request *request; /* borrowed: filled until READ_HEAD */
	struct head trailers;    /* fields after a chunked body, framing and routing fields still in it */
	size_t max_header_bytes; /* start line and fields; trailers too */
	struct read_error error;
	uint8_t stage;           /* private to request.c, as is all that follows */
	uint8_t n_leading_octets;
	uint32_t line_at;
	struct body_reader body;
};

/* max_header_bytes: limits.header_bytes. The reader can be used for one message after another (request_reader_reset). */
void request_reader_init(struct request_reader *reader, struct request *request, size_t max_header_bytes);
void request_reader_reset(struct request_reader *reader, struct request *request);
void request_reader_clear(struct request_reader *reader);

/*
 * Consumes from (*at, *left) up to the next event and moves both on. After READ_HEAD of a request without a body the
 * next call returns READ_END without consuming. After READ_END nothing is consumed until request_reader_reset: the
 * bytes left are the next pipelined request's. Has the reader got the first byte of a message yet: request_reader_is_idle.
 */
enum read_event request_reader_next(struct request_reader *reader, const char **at, size_t *left, struct slice *body);
bool request_reader_is_idle(const struct request_reader *reader);
/* The whole message is taken and only READ_END is still to come, without a further byte. */
bool request_reader_is_end_due(const struct request_reader *reader);

/* Fields of a trailer section that may cross (RFC 9110 6.5.1): not framing, routing, authentication, hop-by-hop. */
bool trailer_may_cross(struct slice name);

#endif
