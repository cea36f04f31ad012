#include "timeline.h"

#include "../policy/backoff.h"

#define CLIENT_MARGIN_MS 500
#define CLIENT_ROUND_MS 100

/* The widest range that decorrelated jitter reaches: each delay as long as it can be makes room for the next. */
static struct backoff_range decorrelated(const struct backoff_rule *rule, int64_t n_retry)
{
	int64_t low = rule->base_ms < rule->max_ms ? rule->base_ms : rule->max_ms, high = rule->base_ms;

	for (int64_t i = 0; i < n_retry && high < rule->max_ms; i++)
		high = high > rule->max_ms / 3 ? rule->max_ms : high * 3;
	return (struct backoff_range){low, high < rule->max_ms ? high : rule->max_ms};
}

struct backoff_range timeline_backoff(const struct backoff_rule *rule, int64_t n_retry)
{
	int64_t d = backoff_plain_ms(rule, n_retry);

	switch (rule->jitter) {
	case JITTER_FULL:
		return (struct backoff_range){0, d};
	case JITTER_EQUAL:
		return (struct backoff_range){d / 2, d};
	case JITTER_DECORRELATED:
		return decorrelated(rule, n_retry);
	case JITTER_FRACTION:
		return (struct backoff_range){(int64_t)((double)d * (1 - rule->jitter_fraction) + 0.5),
			(int64_t)((double)d * (1 + rule->jitter_fraction) + 0.5)};
	case JITTER_NONE:
		break;
	}
	return (struct backoff_range){d, d};
}

static bool may_retry(const struct policy *policy)
{
	const struct retry_on *on = &policy->retry.on;

	return policy->mode == MODE_ENFORCE &&
	       (on->kinds | on->statuses[0] | on->statuses[1] | on->statuses[2] | on->statuses[3]) != 0;
}

/* The sum, or LIMIT_OFF when either is off. */
static int64_t plus(int64_t a_ms, int64_t b_ms)
{
	return a_ms < 0 || b_ms < 0 ? LIMIT_OFF : a_ms + b_ms;
}

static bool comes_first(int64_t limit_ms, int64_t other_ms)
{
	return limit_ms >= 0 && (other_ms < 0 || limit_ms <= other_ms);
}

/* On a tie the wider limit is named, as policy/deadline does. */
static void end_step(struct timeline_step *step, const struct timeline *timeline, int64_t attempt_ms, int64_t total_ms)
{
	step->slot_ms = plus(step->start_ms, timeline->slot_wait_ms);
	step->end_ms = plus(step->slot_ms, attempt_ms);
	step->cut = step->end_ms < 0 ? TIMELINE_NOTHING : TIMELINE_ATTEMPT;
	if (comes_first(total_ms, step->end_ms)) {
		step->end_ms = total_ms;
		step->cut = TIMELINE_TOTAL;
	}
	if (comes_first(total_ms, step->slot_ms))
		step->slot_ms = total_ms;
}

static void lay_out(struct timeline *timeline, const struct policy *policy, int64_t attempt_ms, int64_t total_ms)
{
	int64_t at_ms = 0;

	for (int64_t n = 1; n <= timeline->max_attempts; n++) {
		struct timeline_step *step = &timeline->steps[timeline->n_steps++];
		struct backoff_range wait = {0, 0};

		if (n > 1)
			wait = timeline_backoff(&policy->retry.backoff, n - 1);
		*step = (struct timeline_step){
			.backoff_min_ms = wait.min_ms, .backoff_max_ms = wait.max_ms, .start_ms = at_ms + wait.max_ms};
		if (n > 1 && total_ms >= 0 && step->start_ms >= total_ms) {
			step->cut = TIMELINE_NOT_BEGUN;
			step->slot_ms = step->end_ms = step->start_ms;
			return;
		}
		end_step(step, timeline, attempt_ms, total_ms);
		if (step->cut != TIMELINE_ATTEMPT)
			return;
		at_ms = step->end_ms;
	}
}

/* How long a wait becomes when the origin asks for the longest one that is granted: spread as policy/retry does. */
static int64_t asked_wait_ms(const struct retry_rule *rule, int64_t n_retry, int64_t backoff_ms)
{
	int64_t wish_ms = rule->retry_after.max_ms, spread_ms = wish_ms / 10, plain_ms;

	if (!rule->retry_after.honor || (wish_ms >= 0 && wish_ms <= backoff_ms))
		return backoff_ms;
	if (wish_ms < 0)
		return LIMIT_OFF;
	plain_ms = backoff_plain_ms(&rule->backoff, n_retry);
	if (plain_ms < spread_ms)
		spread_ms = plain_ms;
	return wish_ms + (rule->backoff.jitter == JITTER_NONE ? 0 : spread_ms);
}

static void sum_up(struct timeline *timeline, const struct policy *policy, int64_t attempt_ms)
{
	int64_t asked_waits_ms = 0;

	for (int64_t n = 1; n < timeline->max_attempts; n++) {
		int64_t backoff_ms = timeline_backoff(&policy->retry.backoff, n).max_ms;

		timeline->backoffs_ms += backoff_ms;
		asked_waits_ms = plus(asked_waits_ms, asked_wait_ms(&policy->retry, n, backoff_ms));
	}
	timeline->plain_ms = plus(timeline->slot_wait_ms, attempt_ms);
	if (timeline->plain_ms >= 0)
		timeline->plain_ms = timeline->plain_ms * timeline->max_attempts;
	timeline->asked_ms = plus(timeline->plain_ms, asked_waits_ms);
	timeline->plain_ms = plus(timeline->plain_ms, timeline->backoffs_ms);
	if (attempt_ms < 0)
		timeline->unbounded_by = policy->mode == MODE_OBSERVE ? "mode" : "timeouts.attempt";
	else if (timeline->slot_wait_ms < 0)
		timeline->unbounded_by = "timeouts.pool_wait";
	else if (timeline->asked_ms < 0)
		timeline->unbounded_by = "retry.retry_after.max";
}

static int64_t client_timeout_ms(int64_t longest_ms)
{
	int64_t margin_ms = longest_ms / 20 > CLIENT_MARGIN_MS ? longest_ms / 20 : CLIENT_MARGIN_MS;

	return (longest_ms + margin_ms + CLIENT_ROUND_MS - 1) / CLIENT_ROUND_MS * CLIENT_ROUND_MS;
}

void timeline_make(struct timeline *timeline, const struct policy *policy)
{
	bool is_enforced = policy->mode == MODE_ENFORCE;
	int64_t attempt_ms = is_enforced ? policy->timeouts.attempt_ms : LIMIT_OFF;
	int64_t total_ms = is_enforced ? policy->timeouts.total_ms : LIMIT_OFF;

	*timeline = (struct timeline){.max_attempts = may_retry(policy) ? policy->retry.max_attempts : 1,
		.slot_wait_ms = is_enforced ? policy->timeouts.pool_wait_ms : LIMIT_OFF};
	if (timeline->max_attempts > TIMELINE_MAX_STEPS)
		timeline->max_attempts = TIMELINE_MAX_STEPS;
	if (policy->rate_limit.is_on && timeline->slot_wait_ms > 0)
		timeline->slot_wait_ms *= 2;
	lay_out(timeline, policy, attempt_ms, total_ms);
	sum_up(timeline, policy, attempt_ms);
	timeline->is_by_total = comes_first(total_ms, timeline->asked_ms);
	timeline->longest_ms = timeline->is_by_total ? total_ms : timeline->asked_ms;
	timeline->client_timeout_ms = timeline->longest_ms < 0 ? LIMIT_OFF : client_timeout_ms(timeline->longest_ms);
}
