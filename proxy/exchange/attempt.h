/*
 * One try: a lease, the request written on it, the response read from it.
 *
 *   QUEUED -> CONNECTING -> SENDING -> WAITING_HEAD -> READING_BODY -> ENDED
 *
 * SENDING may go straight to READING_BODY when the origin answers before it has the whole request. A new try is a new
 * attempt; nothing here retries. The attempt ends exactly once: through on_done, or silently through attempt_cancel.
 */
#ifndef EVENKEEL_EXCHANGE_ATTEMPT_H
#define EVENKEEL_EXCHANGE_ATTEMPT_H

#include "../http/h1_write.h"
#include "../upstream/pool.h"
#include "body.h"
#include "downstream.h"

#define ATTEMPT_SPLICE_BYTES (64 * 1024) /* less of a body than that isn't worth it */

enum attempt_state {
	ATTEMPT_NEW,
	ATTEMPT_QUEUED,
	ATTEMPT_CONNECTING,
	ATTEMPT_SENDING,
	ATTEMPT_WAITING_HEAD,
	ATTEMPT_READING_BODY,
	ATTEMPT_ENDED
};

struct attempt;

struct attempt_ops {
	void (*on_progress)(void *owner); /* its place in the queue or its dialing changed */
	void (*on_interim)(void *owner, struct attempt *attempt, const struct response *response); /* 1xx, 101 excepted */
	void (*on_head)(void *owner, struct attempt *attempt); /* attempt->response is complete but for its body */
	void (*on_body)(void *owner, struct attempt *attempt, struct slice data);
	/* A large rest of the body is on its way: downstream_ops.splice_body's bargain. */
	ssize_t (*on_splice)(void *owner, struct attempt *attempt, struct stream *from, uint64_t max);
	void (*on_sent)(void *owner); /* body bytes left: there may be room for more */
	/* The lease is HELD: for CONNECT as soon as it is connected; for an upgrade with the 101 in
	 * attempt->response. The owner moves the lease away before it returns. early: bytes behind the head. */
	void (*on_tunnel)(void *owner, struct attempt *attempt, struct slice early);
	/* The end. RESPONSE: complete, trailers in attempt->reader.trailers. The lease is given back already. */
	void (*on_done)(void *owner, struct attempt *attempt, enum outcome outcome, const char *detail);
	void (*on_event_end)(void *owner); /* after a batch of the above: re-arm, flush */
};

struct attempt_order { /* borrowed until the attempt ends */
	struct lease_order lease;
	const struct request *request;
	struct request_rewrite rewrite;
	struct request_body *body;
	size_t max_header_bytes;
};

struct attempt {
	enum attempt_state state;
	struct loop *loop;
	const struct attempt_ops *ops;
	void *owner;
	struct attempt_order order;
	struct lease lease;
	struct response response;
	struct response_reader reader;
	struct buffer out;         /* request bytes ready to leave: the head, chunks */
	uint64_t body_sent;        /* body bytes that left or stand in `out` */
	bool is_head_written, is_last_chunk_written;
	bool is_request_sent;      /* to its last byte */
	bool is_write_broken;      /* the origin takes no more; what it said may still be readable */
	bool may_have_more;        /* the last read took all that it had room for: there may be bytes behind the response */
	bool is_reading_paused;
	bool is_concluded;         /* its owner's: counted and measured, which is done once */
	struct mono queued, began, request_sent, head_complete, last_read, ended;
	int64_t longest_silence_us; /* between two reads of the body; while reading was paused: none */
	struct deferred deferred_end, deferred_free;
	enum outcome pending_outcome;
	const char *pending_detail;
};

/* Starts at once, but calls no op from within. owns: the caller, until attempt_free. */
struct attempt *attempt_start(struct loop *loop, const struct attempt_order *order, const struct attempt_ops *ops,
			      void *owner);
void attempt_more_body(struct attempt *attempt); /* the body grew or is complete */
void attempt_pause_reading(struct attempt *attempt);
void attempt_resume_reading(struct attempt *attempt);
/* Ends it without a word: connection closed or wait given up. Idempotent. */
void attempt_cancel(struct attempt *attempt);
/* Cancels if need be; the memory goes at the loop's safe point. Nulls the pointer. */
void attempt_free(struct attempt **attempt);

/* As the log names it. */
const char *attempt_state_word(enum attempt_state state);

#endif
