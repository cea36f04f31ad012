/*
 * Hedging: a second attempt beside a first one that is slow, for requests that may be repeated. Pure in virtual time.
 * The first usable answer wins and the others are cancelled; both is the exchange's work.
 */
#ifndef EVENKEEL_POLICY_HEDGE_H
#define EVENKEEL_POLICY_HEDGE_H

#include "../../config/policy.h"
#include "../base/mono.h"
#include "budget.h"

struct hedge_facts {
	int64_t n_hedges;          /* sent so far beside the present attempt */
	struct mono last_began;    /* the newest of the attempt and its hedges got its slot; unset: it is still queued */
	bool has_head;             /* one of them has an answer already */
	bool is_committed, is_client_gone, is_draining_hard;
	bool is_repeatable;        /* retry_is_repeatable() */
	bool is_body_complete;     /* the whole request body is here and kept: a hedge can't share an upload */
	bool is_nested;            /* itself a retry, and retry.nested refuses */
	int64_t n_attempts;        /* made so far, hedges included */
	int64_t max_attempts;      /* Evenkeel-Max-Attempts bounds hedges too; LIMIT_OFF: unbounded */
	bool would_breaker_admit;
	struct mono origin_quiet_until; /* a hedge is a retry to an origin that asked for quiet; unset: none */
	struct mono total_at;      /* MONO_NEVER: none */
};

enum hedge_verdict {
	HEDGE_NEVER,  /* not for this attempt: set no timer */
	HEDGE_WAIT,   /* ask again at hedge_at() */
	HEDGE_SEND,   /* now; a token of the budget is spent */
	HEDGE_BUDGET, /* it is time, but the budget is empty: not sent, don't ask again for this attempt */
};

/* When the next hedge is due; MONO_NEVER when there will be none, whatever the budget says. */
struct mono hedge_at(const struct hedge_rule *rule, const struct hedge_facts *facts);

/* The budget is asked last, so that a hedge that isn't sent never spends. */
enum hedge_verdict hedge_decide(const struct hedge_rule *rule, const struct budget_rule *budget_rule,
				const struct hedge_facts *facts, struct budget *budget, struct mono now);

#endif
