#include "rate.h"

#include <math.h>

#define ALMOST 1e-9

static double burst_of(const struct rate_rule *rule)
{
	return rule->burst < 1 ? 1 : (double)rule->burst;
}

void rate_init(struct rate *rate)
{
	*rate = (struct rate){ 0 };
}

static void fill(struct rate *rate, const struct rate_rule *rule, struct mono now)
{
	if (!rate->is_started) {
		*rate = (struct rate){ .tokens = burst_of(rule), .filled = now, .is_started = true };
		return;
	}
	if (now.us <= rate->filled.us)
		return;
	rate->tokens += rule->per_second * (double)(now.us - rate->filled.us) / 1e6;
	rate->tokens = fmin(rate->tokens, burst_of(rule));
	rate->filled = now;
}

/* Below zero, tokens count who waits: each taker on credit waits for its own token, so they go in the order they came. */
int64_t rate_take(struct rate *rate, const struct rate_rule *rule, int64_t max_wait_ms, struct mono now)
{
	int64_t wait_ms = 0;

	if (!rule->is_on)
		return 0;
	fill(rate, rule, now);
	if (rate->tokens < 1 - ALMOST) {
		double ms = rule->per_second > 0 ? ceil((1 - ALMOST - rate->tokens) * 1000 / rule->per_second) : INFINITY;
		if (!(ms < (double)(INT64_MAX / 4)) || (max_wait_ms >= 0 && ms > (double)max_wait_ms))
			return -1;
		wait_ms = (int64_t)ms;
	}
	rate->tokens -= 1;
	return wait_ms;
}

void rate_give_back(struct rate *rate, const struct rate_rule *rule)
{
	if (rule->is_on && rate->is_started)
		rate->tokens = fmin(rate->tokens + 1, burst_of(rule));
}
