/* Errors of our own: problem+json (RFC 9457) and Proxy-Status (RFC 9209). */
#ifndef EVENKEEL_EXCHANGE_REPLY_H
#define EVENKEEL_EXCHANGE_REPLY_H

#include "../policy/retry.h"
#include "downstream.h"

struct reply_facts {
	int status;
	const char *error;       /* RFC 9209 type */
	const char *detail;      /* a sentence for a person: what happened and, where one is known, the mend */
	const char *upstream;    /* "-" before a policy was found */
	int64_t n_attempts;
	const char *verdict;     /* word; NULL: left out */
	int64_t elapsed_ms;
	struct slice request_id;
	int64_t retry_after_s;   /* -1: none */
	bool must_close;
};

/* Composes into storage (owned by the caller, cleared by it); reply borrows from storage. */
void reply_compose(struct own_reply *reply, struct buffer *storage, const struct reply_facts *facts);

#endif
