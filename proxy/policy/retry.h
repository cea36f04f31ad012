/*
 * The verdict: does this attempt get a successor, when, and if not, why not, in one word.
 * Pure over (policy, facts, now, rng); the one thing it changes is the budget, last and only when all else agrees.
 */
#ifndef EVENKEEL_POLICY_RETRY_H
#define EVENKEEL_POLICY_RETRY_H

#include "../base/mono.h"
#include "../base/rng.h"
#include "budget.h"
#include "outcome.h"

/* Word for word what logs and error bodies say as `verdict`. VERDICT_RETRY never reaches a user as the last word. */
enum verdict {
	VERDICT_RETRY,
	VERDICT_OK,          /* nothing to mend */
	VERDICT_NOT_LISTED,  /* this kind or status is not in retry.on, or is final by nature */
	VERDICT_METHOD,      /* not safe to repeat: method not in retry.methods and no idempotency key */
	VERDICT_BODY,        /* the request body was not kept (over request_buffer) */
	VERDICT_ATTEMPTS,
	VERDICT_BUDGET,
	VERDICT_DEADLINE,    /* the delay would not fit */
	VERDICT_BREAKER,
	VERDICT_RETRY_AFTER, /* the origin asks for a longer wait than retry_after.max or the deadline allow */
	VERDICT_COMMITTED,   /* bytes have gone to the client */
	VERDICT_NESTED,      /* the request is itself a retry of a proxy before us */
	VERDICT_CANCELLED,
	VERDICT_DRAINING,
	VERDICT_OBSERVE,     /* would have been retried, but `mode: observe` only says so */
	N_VERDICTS
};

extern const char *const verdict_words[N_VERDICTS];

struct retry_facts {
	enum outcome outcome;
	int status;                  /* OUTCOME_RESPONSE */
	bool is_committed, is_client_gone, is_draining_hard; /* the last: past drain.timeout; a plain drain may retry */
	struct slice method;
	bool has_idempotency_key;
	bool is_nested;              /* the request bore Evenkeel-Previous-Attempts */
	bool is_body_replayable;
	int64_t n_attempts;          /* made so far, this one included */
	int64_t max_attempts;        /* after Evenkeel-Max-Attempts */
	int64_t previous_delay_ms;
	int64_t retry_after_ms;      /* parsed, -1: none */
	struct mono origin_quiet_until; /* shared Retry-After of this origin; unset: none */
	struct mono total_at;        /* MONO_NEVER: no total deadline */
	bool would_breaker_admit;
};

struct retry_decision {
	enum verdict verdict;
	int64_t delay_ms;            /* VERDICT_RETRY */
	bool is_budget_spent;
};

/*
 * In this order: committed? client gone? past the drain? success (OK)? listed? nested? safe (unsent: always; sent:
 * method or key)? body? attempts? Retry-After within its max? delay fits before total_at? breaker? budget token last.
 * A retry whose delay would end at or after total_at is DEADLINE (RETRY_AFTER when the wait was the origin's wish).
 */
struct retry_decision retry_decide(const struct retry_rule *rule, const struct retry_facts *facts, struct budget *budget,
				   struct mono now, struct rng *rng);

/* May the request be sent twice at all (method listed, or it bears the idempotency key)? */
bool retry_is_repeatable(const struct retry_rule *rule, struct slice method, bool has_idempotency_key);

/* Is the outcome (or status) one that counts as the upstream's failure, for breaker and statistics? */
bool retry_is_failure(enum outcome outcome, int status);

/*
 * Evenkeel-Timeout and Evenkeel-Max-Attempts under `override`. Each returns false when the value is no valid one (400).
 * tighten: only downwards; off: ignored.
 */
bool override_timeout(enum override override, struct slice value, int64_t *total_ms);
bool override_max_attempts(enum override override, struct slice value, int64_t *max_attempts);

#endif
