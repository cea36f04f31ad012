/*
 * The retry budget of one origin: retries are bounded to a share of its requests, so that they can't storm.
 * Each request earns `ratio` of a retry, good for `window`; `reserve` retries are there from the start and are refilled
 * by what is earned; min_per_second adds a trickle. Virtual time; no allocation; constant memory.
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
	bool is_started;
};

void budget_init(struct budget *budget);
void budget_earn(struct budget *budget, const struct budget_rule *rule, struct mono now); /* one first attempt */
bool budget_spend(struct budget *budget, const struct budget_rule *rule, struct mono now); /* false: none left, nothing spent */
double budget_left(struct budget *budget, const struct budget_rule *rule, struct mono now);

#endif
