/*
 * The retry budget of one origin: retries are bounded to a share of its requests, so that they can't storm.
 * Each request earns `ratio` of a retry, good for `window`; `reserve` retries are there from the start and are refilled
 * by what is earned; min_per_second adds a trickle. Virtual time; no allocation; constant memory.
 *
 * Each share is in one place only. A new one first refills the reserve, where it keeps; what the reserve doesn't need
 * goes to the present tenth of the window and is lost when that tenth leaves the window (after 0.9 to 1 windows). The
 * trickle goes there too. Spent first is what is lost first: the oldest tenth, then newer ones, the reserve last. So
 * retries in any span of time are at most reserve + ratio x requests + min_per_second x time, where requests and time
 * are those of the span and of the one window before it.
 *
 * A reload that changes the rule takes nothing away but a reserve over the new one, and grants nothing at once.
 */
#ifndef EVENKEEL_POLICY_BUDGET_H
#define EVENKEEL_POLICY_BUDGET_H

#include "../../config/policy.h"
#include "../base/mono.h"

#define BUDGET_SLOTS 10 /* the window in tenths */

struct budget {
	double earned[BUDGET_SLOTS]; /* by slot of the window */
	int64_t slot;                /* number of the slot that is being filled; -1: never used */
	double reserve;              /* what is left of it */
	struct mono trickled;        /* up to when the trickle has been added */
	int64_t window_ms;           /* the slots are numbered for it */
	bool is_started;
};

void budget_init(struct budget *budget);
void budget_earn(struct budget *budget, const struct budget_rule *rule, struct mono now); /* one first attempt */
bool budget_spend(struct budget *budget, const struct budget_rule *rule, struct mono now); /* false: none left, nothing spent */
double budget_left(struct budget *budget, const struct budget_rule *rule, struct mono now); /* INFINITY: off */

#endif
