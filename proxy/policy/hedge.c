#include "hedge.h"

static bool is_possible(const struct hedge_rule *rule, const struct hedge_facts *facts)
{
	if (!rule->is_on || facts->n_hedges >= rule->max || !mono_is_set(facts->last_began))
		return false;
	if (facts->has_head || facts->is_committed || facts->is_client_gone || facts->is_draining_hard)
		return false;
	if (!facts->is_repeatable || !facts->is_body_complete || facts->is_nested)
		return false;
	return facts->max_attempts < 0 || facts->n_attempts < facts->max_attempts;
}

struct mono hedge_at(const struct hedge_rule *rule, const struct hedge_facts *facts)
{
	if (!is_possible(rule, facts))
		return MONO_NEVER;
	struct mono at = mono_add_ms(facts->last_began, rule->after_ms);
	if (mono_is_set(facts->origin_quiet_until) && mono_before(at, facts->origin_quiet_until))
		at = facts->origin_quiet_until;
	return mono_before(at, facts->total_at) ? at : MONO_NEVER;
}

enum hedge_verdict hedge_decide(const struct hedge_rule *rule, const struct budget_rule *budget_rule,
				const struct hedge_facts *facts, struct budget *budget, struct mono now)
{
	struct mono at = hedge_at(rule, facts);

	if (mono_is_never(at) || mono_reached(facts->total_at, now))
		return HEDGE_NEVER;
	if (!mono_reached(at, now))
		return HEDGE_WAIT;
	if (!facts->would_breaker_admit)
		return HEDGE_NEVER;
	return budget_spend(budget, budget_rule, now) ? HEDGE_SEND : HEDGE_BUDGET;
}
