#include "quantiles.h"

#include <math.h>

#define UNIT_BITS 3   /* buckets of 8 us at the start */
#define SHARE_BITS 4  /* 16 buckets to each doubling */
#define SHARES (1 << SHARE_BITS)

static size_t bucket_of(int64_t elapsed_us)
{
	if (elapsed_us < SHARES << UNIT_BITS)
		return elapsed_us < 0 ? 0 : (size_t)elapsed_us >> UNIT_BITS;
	unsigned shift = 63 - SHARE_BITS - (unsigned)__builtin_clzll((uint64_t)elapsed_us); /* to SHARES..2 * SHARES - 1 */
	size_t bucket = (size_t)(shift - UNIT_BITS) * SHARES + (size_t)(elapsed_us >> shift);
	return bucket < QUANTILES_BUCKETS ? bucket : QUANTILES_BUCKETS - 1;
}

/* The middle of a bucket that isn't the last. */
static int64_t middle_us(size_t bucket)
{
	size_t doubling = bucket < SHARES ? 0 : bucket / SHARES - 1;
	int64_t width = (int64_t)1 << (doubling + UNIT_BITS);
	int64_t place = (int64_t)(bucket < SHARES ? bucket : bucket % SHARES + SHARES);
	return place * width + width / 2;
}

static void halve(struct quantiles *quantiles)
{
	quantiles->n = 0;
	for (size_t i = 0; i < QUANTILES_BUCKETS; i++) {
		quantiles->counts[i] /= 2;
		quantiles->n += quantiles->counts[i];
	}
}

void quantiles_add(struct quantiles *quantiles, int64_t elapsed_us)
{
	uint32_t *count = &quantiles->counts[bucket_of(elapsed_us)];
	if (*count == UINT32_MAX)
		halve(quantiles);
	++*count;
	quantiles->n++;
	if (elapsed_us > quantiles->max_us)
		quantiles->max_us = elapsed_us;
}

void quantiles_merge(struct quantiles *quantiles, const struct quantiles *from)
{
	unsigned shift = 0;
	for (size_t i = 0; i < QUANTILES_BUCKETS; i++)
		if ((uint64_t)quantiles->counts[i] + from->counts[i] > UINT32_MAX)
			shift = 1;
	quantiles->n = 0;
	for (size_t i = 0; i < QUANTILES_BUCKETS; i++) {
		quantiles->counts[i] = (uint32_t)(((uint64_t)quantiles->counts[i] + from->counts[i]) >> shift);
		quantiles->n += quantiles->counts[i];
	}
	if (from->max_us > quantiles->max_us)
		quantiles->max_us = from->max_us;
}

int64_t quantiles_at_us(const struct quantiles *quantiles, double share)
{
	double wanted = ceil(share * (double)quantiles->n - 1e-9); /* 0.9 x 10 is 9, whatever the last bit says */
	uint64_t rank = wanted < 1 ? 1 : (uint64_t)wanted, passed = 0;
	if (quantiles->n == 0)
		return 0;
	for (size_t i = 0; i < QUANTILES_BUCKETS - 1; i++) {
		passed += quantiles->counts[i];
		if (passed < rank)
			continue;
		int64_t middle = middle_us(i);
		return middle < quantiles->max_us ? middle : quantiles->max_us;
	}
	return quantiles->max_us;
}

uint64_t quantiles_n_reaching(const struct quantiles *quantiles, int64_t limit_us)
{
	uint64_t n = 0;
	if (limit_us > quantiles->max_us)
		return 0;
	for (size_t i = bucket_of(limit_us); i < QUANTILES_BUCKETS; i++)
		n += quantiles->counts[i];
	return n;
}
