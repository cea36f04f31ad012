/*
 * The longest way through a policy: every attempt waits as long as it may for a slot, lasts as long as it may and
 * fails, every back-off is drawn at its longest. Pure.
 */
#ifndef EVENKEEL_EXPLAIN_TIMELINE_H
#define EVENKEEL_EXPLAIN_TIMELINE_H

#include "../../config/policy.h"

#define TIMELINE_MAX_STEPS 100

enum timeline_cut {
	TIMELINE_ATTEMPT,   /* timeouts.attempt ends it */
	TIMELINE_TOTAL,     /* timeouts.total ends it, and the exchange with it */
	TIMELINE_NOTHING,   /* no limit ends it */
	TIMELINE_NOT_BEGUN, /* its back-off would not be over before timeouts.total is */
};

/* Milliseconds since the first request byte; LIMIT_OFF: never. */
struct timeline_step {
	int64_t backoff_min_ms, backoff_max_ms; /* before it; both 0 at the first */
	int64_t start_ms;                       /* begins to wait for a slot */
	int64_t slot_ms;                        /* has it */
	int64_t end_ms;
	enum timeline_cut cut;
};

struct timeline {
	struct timeline_step steps[TIMELINE_MAX_STEPS];
	size_t n_steps;
	int64_t max_attempts;       /* 1 when nothing may be retried */
	int64_t slot_wait_ms;       /* for each attempt: pool_wait, twice when a rate limit waits as well */
	int64_t backoffs_ms;        /* all of them at their longest */
	int64_t plain_ms;           /* all slots, attempts and back-offs, were there no total; LIMIT_OFF: unbounded */
	int64_t asked_ms;           /* the same when the origin asks for the longest Retry-After each time */
	int64_t longest_ms;         /* that, or total if it comes first; LIMIT_OFF: unbounded */
	bool is_by_total;           /* longest_ms is timeouts.total */
	const char *unbounded_by;   /* the key that leaves plain_ms or asked_ms unbounded; NULL: none */
	int64_t client_timeout_ms;  /* for the application's own timeout: longest_ms and a bit; LIMIT_OFF: none fits */
};

/* n_retry: 1 before the first retry. The least and the greatest delay that backoff_delay_ms can give there. */
struct backoff_range {
	int64_t min_ms, max_ms;
};
struct backoff_range timeline_backoff(const struct backoff_rule *rule, int64_t n_retry);

void timeline_make(struct timeline *timeline, const struct policy *policy);

#endif
