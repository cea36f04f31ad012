/*
 * How durations were distributed, in fixed memory: a log-linear histogram of microseconds. Buckets of 8 us up to
 * 128 us, then 16 to each doubling, up to 2^30 us (18 minutes): what is read from it is within 3.2 % (below 128 us:
 * within 4 us). Counting is a few instructions; nothing is allocated.
 */
#ifndef EVENKEEL_BASE_QUANTILES_H
#define EVENKEEL_BASE_QUANTILES_H

#include <stddef.h>
#include <stdint.h>

#define QUANTILES_BUCKETS (16 + 23 * 16 + 1) /* the last one: 2^30 us and more */
#define QUANTILES_PRECISION 0.0625           /* width of a bucket, as a share of the value */

struct quantiles { /* all zero: empty */
	uint32_t counts[QUANTILES_BUCKETS];
	uint64_t n;     /* the sum of counts; all of them are halved when one would overflow */
	int64_t max_us; /* exact */
};

void quantiles_add(struct quantiles *quantiles, int64_t elapsed_us); /* below zero counts as zero */

/* Adds all of from. */
void quantiles_merge(struct quantiles *quantiles, const struct quantiles *from);

/*
 * The duration that a share (0 to 1) of all reached at most, by nearest rank: the middle of its bucket, never above the
 * greatest. 0 when empty.
 */
int64_t quantiles_at_us(const struct quantiles *quantiles, double share);

/* How many took limit_us or longer. Those in limit_us's own bucket count: it errs towards too many, by what is
 * less than QUANTILES_PRECISION short of the limit, and never forgets one that a limit cut off. */
uint64_t quantiles_n_reaching(const struct quantiles *quantiles, int64_t limit_us);

#endif
