/* Writing HTTP/1.1 messages into a buffer: the kept bytes of a head, less what may not cross, plus what we add. */
#ifndef EVENKEEL_HTTP_H1_WRITE_H
#define EVENKEEL_HTTP_H1_WRITE_H

#include "../../config/policy.h"
#include "request.h"
#include "response.h"

struct extra_field {
	struct slice name, value;
};

/* What crosses to the origin and what is added, beside the client's own head. All borrowed. */
struct request_rewrite {
	struct slice host;           /* value of the rebuilt Host field, from the target (RFC 9112 3.2.2) */
	struct slice path;           /* request target in origin form; "*" for OPTIONS on the whole server */
	struct slice via_id;         /* instance id for "Via: 1.1 evenkeel (ID)" */
	struct slice request_id;     /* X-Request-Id to add; empty: the client's own crosses */
	int64_t n_previous_attempts; /* Evenkeel-Previous-Attempts: N, when > 0 */
	enum body_framing framing;   /* how the body will be sent; BODY_LENGTH keeps the client's Content-Length line */
	bool forward_expect;         /* let Expect: 100-continue cross */
	bool forward_upgrade;        /* Connection: upgrade and Upgrade cross */
	const struct header_edit *edit; /* policy headers.request; may be NULL */
};

/*
 * Evenkeel-* request headers never cross; nor do hop-by-hop fields; a body that was collected whole may be sent with its
 * Content-Length although it came chunked (then content_length says so and framing is BODY_LENGTH). With BODY_LENGTH the
 * client's own Content-Length line crosses when it says content_length; else the field is written anew.
 */
void h1_write_request(struct buffer *out, const struct request *request, const struct request_rewrite *rewrite,
		      uint64_t content_length);

struct response_rewrite {
	struct slice via_id;
	const struct extra_field *extra; /* Evenkeel-Attempts, Evenkeel-Upstream, X-Request-Id */
	size_t n_extra;
	bool add_chunked;       /* the body goes out chunked: "Transfer-Encoding: chunked" */
	bool add_close;         /* "Connection: close" */
	bool add_keep_alive;    /* HTTP/1.0 client that asked for it: "Connection: keep-alive" */
	bool forward_upgrade;   /* 101 */
	bool drop_length;       /* the length isn't known to be right: leave Content-Length out */
	const struct header_edit *edit;
};

/* Status line "HTTP/1.1 STATUS REASON" with the origin's own reason, then what may cross, then what is added. */
void h1_write_response(struct buffer *out, const struct response *response, const struct response_rewrite *rewrite);

/* 1xx: the head with hop-by-hop fields dropped and Via added. */
void h1_write_interim(struct buffer *out, const struct response *response, struct slice via_id);

/* Size line, data, CRLF; nothing when data is empty. */
void h1_write_chunk(struct buffer *out, struct slice data);
size_t h1_chunk_start(char out[static 20], size_t length);               /* "1F\r\n"; returns its length, for writev */
void h1_write_last_chunk(struct buffer *out, const struct head *trailers); /* NULL: none; drops what may not cross */

const char *h1_reason(int status); /* RFC 9110 15; "" for unknown ones */

#endif
