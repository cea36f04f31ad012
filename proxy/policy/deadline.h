/*
 * Which limit comes next. An exchange has one timer; this computes when it must fire and what it then means, from the
 * policy and the stamps of what happened. Pure.
 */
#ifndef EVENKEEL_POLICY_DEADLINE_H
#define EVENKEEL_POLICY_DEADLINE_H

#include "../../config/policy.h"
#include "../base/mono.h"

enum limit {
	LIMIT_NONE,
	LIMIT_TOTAL,
	LIMIT_ATTEMPT,
	LIMIT_POOL_WAIT,
	LIMIT_CONNECT,          /* over all addresses of the attempt; each address tried also gets its share in net/dial */
	LIMIT_TLS_HANDSHAKE,
	LIMIT_RESPONSE_HEADERS,
	LIMIT_BODY_IDLE,
	LIMIT_STREAM_TOTAL,
	LIMIT_BACKOFF,          /* not a time-out: the back-off is over */
};

enum deadline_phase { /* of the current attempt; the exchange's state maps onto it */
	PHASE_BACKOFF,
	PHASE_QUEUED,
	PHASE_RESOLVING, /* bounded by dns.timeout inside net/resolve; total and attempt bind here */
	PHASE_CONNECTING,
	PHASE_SECURING,
	PHASE_SENDING,
	PHASE_WAITING_HEAD,
	PHASE_READING_BODY,
	PHASE_FLUSHING, /* the response is complete here, but the client has not taken all of it */
};

struct deadline_facts {
	enum deadline_phase phase;
	struct mono started;        /* first request byte in */
	struct mono queued;         /* this attempt began to wait for a slot */
	struct mono attempt_began;  /* it got its slot; unset while queued */
	struct mono phase_began;    /* CONNECTING, SECURING */
	struct mono request_sent;   /* WAITING_HEAD: last request byte out */
	struct mono head_complete;  /* READING_BODY */
	struct mono last_read;      /* READING_BODY: last byte from the upstream, or when reading was resumed */
	bool is_reading_paused;     /* the client is slow: body_idle doesn't run, the client's slowness isn't the upstream's */
	bool is_stream;             /* the content type is in stream_types: total and attempt no longer bind */
	struct mono backoff_until;  /* PHASE_BACKOFF */
	int64_t total_ms;           /* after Evenkeel-Timeout; LIMIT_OFF: none */
};

struct deadline {
	enum limit limit; /* LIMIT_NONE: nothing binds, at is never */
	struct mono at;
};

/* The earliest limit. On a tie the wider one (total before attempt before the rest) is named. */
struct deadline deadline_next(const struct timeouts *timeouts, const struct deadline_facts *facts);

/* When the whole exchange must be over. */
struct mono deadline_total(const struct deadline_facts *facts);

#endif
