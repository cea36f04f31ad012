#include "budget.h"

#include <math.h>

#define ALMOST 1e-9 /* five shares of 0.2 are one retry, whatever the last bit says */

static int64_t slot_us(const struct budget_rule *rule)
{
	int64_t window_ms = rule->window_ms < 1 ? 1 : rule->window_ms;

	return window_ms > INT64_MAX / 1000 ? INT64_MAX / BUDGET_SLOTS : window_ms * 1000 / BUDGET_SLOTS;
}

static double *slot_at(struct budget *budget, int64_t slot)
{
	return &budget->earned[(uint64_t)slot % BUDGET_SLOTS];
}

static double earned_total(const struct budget *budget)
{
	double total = 0;

	for (int i = 0; i < BUDGET_SLOTS; i++)
		total += budget->earned[i];
	return total;
}

void budget_init(struct budget *budget)
{
	*budget = (struct budget){ .slot = -1 };
}

static void start(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	budget->is_started = true;
	budget->reserve = (double)(rule->reserve > 0 ? rule->reserve : 0);
	budget->trickled = now;
	budget->slot = now.us / slot_us(rule);
	budget->window_ms = rule->window_ms;
}

/* A reload with another window renumbers the slots: what is left counts as earned now. */
static void renumber(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	double total = earned_total(budget);

	for (int i = 0; i < BUDGET_SLOTS; i++)
		budget->earned[i] = 0;
	budget->slot = now.us / slot_us(rule);
	*slot_at(budget, budget->slot) = total;
	budget->window_ms = rule->window_ms;
	budget->trickled = now;
}

/* Makes the present slot the newest: what is older than the window is lost, and each slot gets its trickle. */
static void advance(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	int64_t length_us = slot_us(rule), present = now.us / length_us;

	if (now.us <= budget->trickled.us)
		return;
	if (present - budget->slot >= BUDGET_SLOTS) { /* all that was is over; the trickle of the last window is not */
		for (int i = 0; i < BUDGET_SLOTS; i++)
			budget->earned[i] = 0;
		budget->slot = present - BUDGET_SLOTS + 1;
		budget->trickled.us = budget->slot * length_us;
	}
	for (;;) {
		int64_t end_us = budget->slot == present ? now.us : (budget->slot + 1) * length_us;
		if (end_us > budget->trickled.us && rule->min_per_second > 0)
			*slot_at(budget, budget->slot) += rule->min_per_second * (double)(end_us - budget->trickled.us) / 1e6;
		budget->trickled.us = end_us;
		if (budget->slot == present)
			return;
		budget->slot++;
		*slot_at(budget, budget->slot) = 0;
	}
}

static void bring_up_to(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	if (!budget->is_started)
		start(budget, rule, now);
	if (budget->window_ms != rule->window_ms)
		renumber(budget, rule, now);
	advance(budget, rule, now);
	if (budget->reserve > (double)rule->reserve) /* a reload lowered it */
		budget->reserve = (double)(rule->reserve > 0 ? rule->reserve : 0);
}

void budget_earn(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	if (!rule->is_on)
		return;
	bring_up_to(budget, rule, now);
	double share = rule->ratio, missing = (double)rule->reserve - budget->reserve;
	double refill = missing > 0 ? fmin(missing, share) : 0;
	budget->reserve += refill;
	*slot_at(budget, budget->slot) += share - refill;
}

/* Takes what it can of `wanted`; returns what is still wanted. */
static double take(double *from, double wanted)
{
	double taken = fmin(*from, wanted);

	*from -= taken;
	return wanted - taken;
}

bool budget_spend(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	double wanted = 1;

	if (!rule->is_on)
		return true;
	if (budget_left(budget, rule, now) < 1 - ALMOST)
		return false;
	for (int64_t slot = budget->slot - BUDGET_SLOTS + 1; slot <= budget->slot; slot++)
		wanted = take(slot_at(budget, slot), wanted);
	take(&budget->reserve, wanted);
	return true;
}

double budget_left(struct budget *budget, const struct budget_rule *rule, struct mono now)
{
	if (!rule->is_on)
		return INFINITY;
	bring_up_to(budget, rule, now);
	return earned_total(budget) + budget->reserve;
}
