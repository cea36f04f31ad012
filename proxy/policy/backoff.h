/* How long to wait before attempt n + 1, and what Retry-After asks for. Pure over (rule, facts, rng). */
#ifndef EVENKEEL_POLICY_BACKOFF_H
#define EVENKEEL_POLICY_BACKOFF_H

#include "../../config/policy.h"
#include "../base/rng.h"
#include "../base/slice.h"

/*
 * n_retry: 1 before the first retry. previous_ms: the delay before the last retry (0 at first), for `decorrelated`.
 *   full          U(0, d)      d = min(max, base x multiplier^(n_retry - 1))
 *   equal         d/2 + U(0, d/2)
 *   decorrelated  U(base, min(max, 3 x max(base, previous))): the range is cut at max and not what is drawn, or
 *                 many delays would end up at exactly max
 *   none          d
 *   fraction f    d x U(1 - f, 1 + f), at most max x (1 + f)
 * Never negative; never overflows whatever n_retry.
 */
int64_t backoff_delay_ms(const struct backoff_rule *rule, int64_t n_retry, int64_t previous_ms, struct rng *rng);

/* d above: the delay without jitter. */
int64_t backoff_plain_ms(const struct backoff_rule *rule, int64_t n_retry);

/*
 * Retry-After (RFC 9110 10.2.3): delta-seconds or any of the three HTTP-date forms (5.6.7).
 * Returns the wait in ms from now_wall_ms, 0 for a date that is past; -1 when the value is junk (as if absent).
 * Numbers too large for the clock saturate at INT64_MAX / 4.
 */
int64_t retry_after_parse_ms(struct slice value, int64_t now_wall_ms);

/* HTTP-date to milliseconds since the epoch, 0 for one before it; -1 when it is none. now_wall_ms settles RFC 850's two-digit years. */
int64_t http_date_parse_ms(struct slice value, int64_t now_wall_ms);

#endif
