/*
 * The circuit breaker of one origin: CLOSED -> OPEN -> HALF_OPEN -> CLOSED | OPEN. Pure in virtual time.
 *
 * CLOSED opens on `consecutive` failures in a row, or when at least min_requests of the window were reported and
 * failure_ratio of them failed. OPEN refuses for open_for; the first admission after that makes it HALF_OPEN, where
 * half_open requests at once are let through as trials: one good answer closes it, one failure opens it anew.
 * Every admission is owed exactly one breaker_report or breaker_forget. Report when the answer's head is there: a
 * trial that waits for a long body would keep everyone else out.
 */
#ifndef EVENKEEL_POLICY_BREAKER_H
#define EVENKEEL_POLICY_BREAKER_H

#include "../../config/policy.h"
#include "../base/mono.h"

#define BREAKER_SLOTS 10

enum breaker_state { BREAKER_CLOSED, BREAKER_HALF_OPEN, BREAKER_OPEN };

struct breaker {
	enum breaker_state state;
	struct mono opened;
	int64_t consecutive;  /* failures in a row */
	int64_t n_trials;     /* HALF_OPEN: let through and not yet judged */
	uint64_t requests[BREAKER_SLOTS], failures[BREAKER_SLOTS];
	int64_t slot;
};

void breaker_init(struct breaker *breaker);
bool breaker_would_admit(const struct breaker *breaker, const struct breaker_rule *rule, struct mono now);
/* Takes a place (HALF_OPEN: a trial, which breaker_report or breaker_forget gives back). */
bool breaker_admit(struct breaker *breaker, const struct breaker_rule *rule, struct mono now);
void breaker_report(struct breaker *breaker, const struct breaker_rule *rule, bool is_failure, struct mono now);
void breaker_forget(struct breaker *breaker); /* admitted, but ended without a verdict (cancelled) */
/* For the Retry-After of a refusal; 0 when it would admit now. */
int64_t breaker_retry_after_ms(const struct breaker *breaker, const struct breaker_rule *rule, struct mono now);

#endif
