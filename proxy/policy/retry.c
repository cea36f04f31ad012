#include "retry.h"

#include "backoff.h"

const char *const verdict_words[N_VERDICTS] = {
	[VERDICT_RETRY] = "retry",
	[VERDICT_OK] = "ok",
	[VERDICT_NOT_LISTED] = "not_listed",
	[VERDICT_METHOD] = "method",
	[VERDICT_BODY] = "body",
	[VERDICT_ATTEMPTS] = "attempts",
	[VERDICT_BUDGET] = "budget",
	[VERDICT_DEADLINE] = "deadline",
	[VERDICT_BREAKER] = "breaker",
	[VERDICT_RETRY_AFTER] = "retry_after",
	[VERDICT_COMMITTED] = "committed",
	[VERDICT_NESTED] = "nested",
	[VERDICT_CANCELLED] = "cancelled",
	[VERDICT_DRAINING] = "draining",
	[VERDICT_OBSERVE] = "observe",
};

bool retry_is_repeatable(const struct retry_rule *rule, struct slice method, bool has_idempotency_key)
{
	if (has_idempotency_key && rule->idempotency_key)
		return true;
	for (size_t i = 0; i < rule->methods.n; i++)
		if (slice_equals(slice_of(rule->methods.items[i]), method))
			return true;
	return false;
}

/*
 * The origin's doing: an answer of 5xx, or an attempt that broke. A name that doesn't exist, a full pool of our own or
 * a client that left says nothing about the origin, and a kept-alive connection that it closed is its good right.
 * Where the total deadline struck while the client was slow, the caller forgets instead of reporting.
 */
bool retry_is_failure(enum outcome outcome, int status)
{
	switch (outcome) {
	case OUTCOME_RESPONSE:
		return status >= 500;
	case OUTCOME_STALE:
		return false;
	case OUTCOME_TOTAL_TIMEOUT:
		return true;
	default:
		return outcome_facts[outcome].kind != RETRY_KIND_NONE;
	}
}

static bool is_listed(const struct retry_on *on, const struct retry_facts *facts)
{
	if (facts->outcome == OUTCOME_RESPONSE)
		return retry_on_status(on, facts->status);
	return (on->kinds & (uint32_t)outcome_facts[facts->outcome].kind) != 0;
}

/* Everything that needs neither a clock nor a token. VERDICT_RETRY: nothing speaks against it so far. */
static enum verdict judge(const struct retry_rule *rule, const struct retry_facts *facts)
{
	if (facts->is_committed)
		return VERDICT_COMMITTED;
	if (facts->is_client_gone || facts->outcome == OUTCOME_CANCELLED)
		return VERDICT_CANCELLED;
	if (facts->is_draining_hard)
		return VERDICT_DRAINING;
	if (facts->outcome == OUTCOME_RESPONSE && facts->status < 400)
		return VERDICT_OK;
	if (!is_listed(&rule->on, facts))
		return VERDICT_NOT_LISTED;
	if (facts->is_nested && !rule->nested_allow)
		return VERDICT_NESTED;
	if (!outcome_facts[facts->outcome].is_unsent &&
	    !retry_is_repeatable(rule, facts->method, facts->has_idempotency_key))
		return VERDICT_METHOD;
	if (!facts->is_body_replayable)
		return VERDICT_BODY;
	if (facts->n_attempts >= facts->max_attempts)
		return VERDICT_ATTEMPTS;
	return VERDICT_RETRY;
}

/* How long the origin asked not to be bothered: by this answer, or by one to another request. 0: it didn't. */
static int64_t quiet_ms(const struct retry_rule *rule, const struct retry_facts *facts, struct mono now)
{
	int64_t wish_ms = 0;

	if (!rule->retry_after.honor)
		return 0;
	if (facts->outcome == OUTCOME_RESPONSE && facts->retry_after_ms > 0)
		wish_ms = facts->retry_after_ms;
	if (rule->retry_after.shared && mono_is_set(facts->origin_quiet_until)) {
		int64_t left_ms = mono_left_ms(now, facts->origin_quiet_until);
		if (left_ms > wish_ms)
			wish_ms = left_ms;
	}
	return wish_ms;
}

static bool fits(struct mono now, int64_t delay_ms, struct mono total_at)
{
	return mono_is_never(total_at) || mono_before(mono_add_ms(now, delay_ms), total_at);
}

/*
 * Everyone who got the same Retry-After would come back at the same moment; so, unless jitter is off, up to a tenth of
 * the wish is put on top, but no more than the back-off itself would be.
 */
static int64_t spread_ms(const struct backoff_rule *rule, int64_t n_retry, int64_t wish_ms, struct rng *rng)
{
	int64_t most = wish_ms / 10, plain = backoff_plain_ms(rule, n_retry);

	if (rule->jitter == JITTER_NONE)
		return 0;
	return (int64_t)((double)(plain < most ? plain : most) * rng_unit(rng));
}

/* Sets *delay_ms; VERDICT_RETRY when it can be waited for. */
static enum verdict choose_delay(const struct retry_rule *rule, const struct retry_facts *facts, struct mono now,
				 struct rng *rng, int64_t *delay_ms)
{
	int64_t wish_ms = quiet_ms(rule, facts, now);

	if (rule->retry_after.max_ms >= 0 && wish_ms > rule->retry_after.max_ms)
		return VERDICT_RETRY_AFTER;
	if (wish_ms > 0 && !fits(now, wish_ms, facts->total_at))
		return VERDICT_RETRY_AFTER;
	*delay_ms = backoff_delay_ms(&rule->backoff, facts->n_attempts, facts->previous_delay_ms, rng);
	if (wish_ms > 0 && *delay_ms < wish_ms) {
		int64_t spread = spread_ms(&rule->backoff, facts->n_attempts, wish_ms, rng);
		*delay_ms = fits(now, wish_ms + spread, facts->total_at) ? wish_ms + spread : wish_ms;
	}
	return fits(now, *delay_ms, facts->total_at) ? VERDICT_RETRY : VERDICT_DEADLINE;
}

struct retry_decision retry_decide(const struct retry_rule *rule, const struct retry_facts *facts, struct budget *budget,
				   struct mono now, struct rng *rng)
{
	struct retry_decision decision = { .verdict = judge(rule, facts) };
	int64_t delay_ms = 0;

	if (decision.verdict == VERDICT_RETRY)
		decision.verdict = choose_delay(rule, facts, now, rng, &delay_ms);
	if (decision.verdict != VERDICT_RETRY)
		return decision;
	if (!facts->would_breaker_admit) {
		decision.verdict = VERDICT_BREAKER;
	} else if (!budget_spend(budget, &rule->budget, now)) {
		decision.verdict = VERDICT_BUDGET;
	} else {
		decision.delay_ms = delay_ms;
		decision.is_budget_spent = rule->budget.is_on;
	}
	return decision;
}
