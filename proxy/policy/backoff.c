#include "backoff.h"

#include <math.h>

#define MAX_DELAY_MS (INT64_MAX / 4)

static int64_t to_ms(double ms)
{
	if (!(ms > 0)) /* NaN too */
		return 0;
	return ms >= (double)MAX_DELAY_MS ? MAX_DELAY_MS : (int64_t)ms;
}

/* A whole number of milliseconds, each from low to high equally likely. */
static int64_t between(int64_t low, int64_t high, struct rng *rng)
{
	if (high <= low)
		return low;
	int64_t drawn = low + to_ms(rng_unit(rng) * ((double)(high - low) + 1));
	return drawn > high ? high : drawn;
}

static int64_t max_of(const struct backoff_rule *rule)
{
	return rule->max_ms < 0 || rule->max_ms > MAX_DELAY_MS ? MAX_DELAY_MS : rule->max_ms;
}

int64_t backoff_plain_ms(const struct backoff_rule *rule, int64_t n_retry)
{
	int64_t max = max_of(rule);

	if (rule->base_ms <= 0)
		return 0;
	double d = (double)rule->base_ms * (n_retry > 1 ? pow(rule->multiplier, (double)(n_retry - 1)) : 1);
	int64_t ms = to_ms(d);
	return ms < max ? ms : max;
}

static int64_t decorrelated_ms(const struct backoff_rule *rule, int64_t previous_ms, struct rng *rng)
{
	int64_t max = max_of(rule), base = rule->base_ms > 0 ? rule->base_ms : 0;
	int64_t from = previous_ms > base ? previous_ms : base;
	int64_t high = from > max / 3 ? max : from * 3;

	return between(base < max ? base : max, high, rng);
}

int64_t backoff_delay_ms(const struct backoff_rule *rule, int64_t n_retry, int64_t previous_ms, struct rng *rng)
{
	int64_t d = backoff_plain_ms(rule, n_retry);
	double f = rule->jitter_fraction > 0 ? rule->jitter_fraction : 0;

	switch (rule->jitter) {
	case JITTER_FULL:
		return between(0, d, rng);
	case JITTER_EQUAL:
		return d / 2 + between(0, d - d / 2, rng);
	case JITTER_DECORRELATED:
		return decorrelated_ms(rule, previous_ms, rng);
	case JITTER_FRACTION:
		return to_ms((double)d * (1 - f + 2 * f * rng_unit(rng)) + 0.5);
	case JITTER_NONE:
		break;
	}
	return d;
}
