/* Answers that the front makes itself, before (or instead of) an exchange: composed, counted, logged, written. */
#ifndef EVENKEEL_FRONT_REFUSE_H
#define EVENKEEL_FRONT_REFUSE_H

#include "../exchange/reply.h"
#include "wire.h"

struct refusal {
	int status;
	const char *error;      /* RFC 9209 type */
	const char *detail;     /* a sentence for a person */
	const char *upstream;   /* NULL: "-", refused before a policy was found */
	const char *route;      /* NULL: none */
	bool must_close;
};

/* The request's head isn't complete or not valid: answered without evhttp ever hearing of it, then closed. */
void refuse_unread(struct wire *wire, int status, const char *detail);

/* BUSY, without a user: answers, and ends the request when the answer is out. */
void refuse_request(struct wire *wire, struct slice request_id, struct slice url, const struct refusal *refusal);

/*
 * Writes a reply of our own, whole: status line, Date, framing, fields, and the body unless it answers HEAD. Appends to
 * the wire's output; the caller flushes. is_keep_alive: what is announced.
 */
void reply_write(struct wire *wire, const struct own_reply *reply, const struct request *request, bool is_keep_alive);

#endif
