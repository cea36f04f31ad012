/* Chance as an argument: decisions take a struct rng so that tests can seed it. xoshiro256**; not for secrets. */
#ifndef EVENKEEL_BASE_RNG_H
#define EVENKEEL_BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state[4];
};

void rng_init(struct rng *rng, uint64_t seed); /* the same seed gives the same sequence */
void rng_init_random(struct rng *rng);         /* from getrandom(2) */
uint64_t rng_u64(struct rng *rng);
double rng_unit(struct rng *rng); /* uniform in [0, 1) */

#endif
