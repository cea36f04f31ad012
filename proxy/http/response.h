/* Reading responses: bytes in, events out (see request.h for the events). Framing by RFC 9112 6.3. */
#ifndef EVENKEEL_HTTP_RESPONSE_H
#define EVENKEEL_HTTP_RESPONSE_H

#include "request.h"

#define RESPONSE_MAX_INTERIM 64 /* more 1xx than this before the final head: bad response */

struct response {
	struct head head;
	int status;
	struct slice reason; /* into head.raw; may be empty */
	int minor_version;
	enum body_framing framing; /* as it will be read: BODY_NONE for HEAD, 1xx, 204, 304 and 2xx to CONNECT */
	bool has_content_length;   /* the field is there (it crosses unchanged even when no body follows) */
	uint64_t content_length;
	bool is_keep_alive;        /* the origin lets the connection be used again */
	int64_t keep_alive_timeout_ms; /* Keep-Alive: timeout=N; -1: not said */
	bool is_upgrade;           /* 101 */
};

void response_init(struct response *response);
void response_clear(struct response *response);

struct response_reader {
	struct response *response; /* borrowed: filled until READ_HEAD; a READ_INTERIM head is in it until the next call */
	struct head trailers;
	size_t max_header_bytes;
	struct read_error error;
	bool to_head, to_connect, asked_upgrade;
	bool has_bytes;            /* at least one byte came in: the request was certainly read */
	bool is_complete;          /* READ_END was returned */
	uint8_t stage;             /* private to response.c, as is all that follows */
	uint32_t line_at;
	unsigned n_interim;
	struct body_reader body;
};

/* to_head / to_connect: what it answers. asked_upgrade: a 101 is legal; else it is a bad response. */
void response_reader_init(struct response_reader *reader, struct response *response, size_t max_header_bytes,
			  bool to_head, bool to_connect, bool asked_upgrade);
void response_reader_clear(struct response_reader *reader);

enum read_event response_reader_next(struct response_reader *reader, const char **at, size_t *left, struct slice *body);

/* Bytes of a body of known length that are still to come; 0 before the head, in other framings and at the end. */
uint64_t response_reader_length_left(const struct response_reader *reader);
/* n of them, at most that many, have gone another way (spliced). When none is left the next call of _next says READ_END. */
void response_reader_skip(struct response_reader *reader, uint64_t n);

/*
 * The peer ended its side. is_clean: a FIN on plain TCP or close_notify on TLS. READ_END when that completes the message
 * (BODY_UNTIL_CLOSE and clean), READ_ERROR otherwise (has_bytes and whether the head was complete tell how far it came).
 */
enum read_event response_reader_eof(struct response_reader *reader, bool is_clean);

#endif
