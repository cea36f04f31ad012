/* xoshiro256** 1.0 (Blackman and Vigna, public domain), seeded through splitmix64. */
#include "rng.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15U);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int n)
{
	return (x << n) | (x >> (64 - n));
}

void rng_init(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->state[i] = splitmix64(&seed);
}

void rng_init_random(struct rng *rng)
{
	uint64_t seed;

	/* 8 bytes come whole or not at all; "not" is an old kernel, where time and pid must do: it is no secret. */
	if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		seed = ((uint64_t)now.tv_sec << 32) ^ (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 20);
	}
	rng_init(rng, seed);
}

uint64_t rng_u64(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

double rng_unit(struct rng *rng)
{
	return (double)(rng_u64(rng) >> 11) * 0x1p-53;
}
