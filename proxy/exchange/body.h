/*
 * The request's body on its way to the origin: kept from its first byte as long as it fits request_buffer (so that a
 * retry can send it again), streamed with back-pressure once it doesn't.
 */
#ifndef EVENKEEL_EXCHANGE_BODY_H
#define EVENKEEL_EXCHANGE_BODY_H

#include <stdint.h>

#include "../base/buffer.h"
#include "../http/head.h"

#define BODY_HIGH_WATER_BYTES (64 * 1024) /* unsent bytes at which a streamed body's client is told to stop */
#define BODY_LOW_WATER_BYTES (16 * 1024)

struct request_body {
	struct buffer bytes;         /* from offset `dropped` on */
	uint64_t dropped;            /* bytes that are sent and no longer kept; 0: everything is still here */
	uint64_t received;
	bool is_complete;
	bool is_kept;                /* still fits: nothing is dropped when it is sent */
	const struct head *trailers; /* borrowed; NULL: none */
	int64_t max_kept_bytes;      /* limits.request_buffer */
	int64_t max_buffered_bytes;  /* limits.buffered_bytes, over all exchanges */
};

void request_body_init(struct request_body *body, int64_t max_kept_bytes, int64_t max_buffered_bytes);
void request_body_clear(struct request_body *body);
void request_body_append(struct request_body *body, struct slice data);
/* What is there from offset `sent` on. */
struct slice request_body_from(const struct request_body *body, uint64_t sent);
/* Everything before `sent` has left: dropped unless the body is kept. */
void request_body_sent(struct request_body *body, uint64_t sent);
/* Can an attempt send it from its first byte? */
static inline bool request_body_is_replayable(const struct request_body *body) { return body->dropped == 0; }

#endif
