/* Token bucket of one origin (`rate_limit`). Pure in virtual time. */
#ifndef EVENKEEL_POLICY_RATE_H
#define EVENKEEL_POLICY_RATE_H

#include "../../config/policy.h"
#include "../base/mono.h"

struct rate {
	double tokens;
	struct mono filled;
	bool is_started;
};

void rate_init(struct rate *rate);
/* Takes one token now, or, if `wait_ms` more milliseconds would be needed, takes it on credit and returns that wait.
 * Returns -1 and takes nothing when the wait would exceed max_wait_ms (negative: no bound). */
int64_t rate_take(struct rate *rate, const struct rate_rule *rule, int64_t max_wait_ms, struct mono now);
void rate_give_back(struct rate *rate, const struct rate_rule *rule); /* cancelled while it waited */

#endif
