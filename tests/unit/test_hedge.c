#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "../../proxy/policy/hedge.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })

static const struct hedge_rule rule = { .is_on = true, .after_ms = 200, .max = 1 };
static const struct budget_rule budget_rule = { .is_on = true, .ratio = 0.2, .reserve = 1, .window_ms = 10000 };
static const struct hedge_facts slow_get = {
	.last_began = AT(1000), .is_repeatable = true, .is_body_complete = true, .n_attempts = 1, .max_attempts = 3,
	.would_breaker_admit = true, .total_at = AT(31000),
};

static enum hedge_verdict decide(const struct hedge_facts *facts, struct mono now)
{
	struct budget budget;

	budget_init(&budget);
	return hedge_decide(&rule, &budget_rule, facts, &budget, now);
}

static void a_slow_attempt_gets_one(void **state)
{
	(void)state;
	struct hedge_facts facts = slow_get;

	assert_int_equal(hedge_at(&rule, &facts).us, 1200000);
	assert_int_equal(decide(&facts, AT(1199)), HEDGE_WAIT);
	assert_int_equal(decide(&facts, AT(1200)), HEDGE_SEND);
	facts.n_hedges = 1;
	assert_true(mono_is_never(hedge_at(&rule, &facts)));
	assert_int_equal(decide(&facts, AT(1200)), HEDGE_NEVER);
	struct hedge_rule two = rule;
	two.max = 2;
	facts.last_began = AT(1200); /* the first hedge's own start */
	assert_int_equal(hedge_at(&two, &facts).us, 1400000);
}

static void what_forbids_one(void **state)
{
	(void)state;
	struct hedge_facts cases[11];

	for (int i = 0; i < 11; i++)
		cases[i] = slow_get;
	cases[0].is_repeatable = false;
	cases[1].is_body_complete = false;
	cases[2].has_head = true;
	cases[3].is_committed = true;
	cases[4].is_client_gone = true;
	cases[5].is_draining_hard = true;
	cases[6].is_nested = true;
	cases[7].n_attempts = 3;
	cases[8].last_began = MONO_ZERO;
	cases[9].total_at = AT(1200);
	cases[10].would_breaker_admit = false;
	for (int i = 0; i < 11; i++)
		assert_int_equal(decide(&cases[i], AT(5000)), HEDGE_NEVER);
	for (int i = 0; i < 10; i++)
		assert_true(mono_is_never(hedge_at(&rule, &cases[i])));
	struct hedge_rule off = rule;
	off.is_on = false;
	assert_true(mono_is_never(hedge_at(&off, &slow_get)));
	struct hedge_facts unbounded = slow_get;
	unbounded.n_attempts = 100;
	unbounded.max_attempts = LIMIT_OFF;
	assert_int_equal(decide(&unbounded, AT(5000)), HEDGE_SEND);
}

static void it_is_drawn_from_the_budget(void **state)
{
	(void)state;
	struct budget budget;

	budget_init(&budget);
	assert_int_equal(hedge_decide(&rule, &budget_rule, &slow_get, &budget, AT(1100)), HEDGE_WAIT);
	assert_int_equal((int)lround(budget_left(&budget, &budget_rule, AT(1100))), 1); /* waiting spends nothing */
	assert_int_equal(hedge_decide(&rule, &budget_rule, &slow_get, &budget, AT(1200)), HEDGE_SEND);
	assert_int_equal(hedge_decide(&rule, &budget_rule, &slow_get, &budget, AT(1200)), HEDGE_BUDGET);
}

static void a_quiet_origin_is_not_hedged(void **state)
{
	(void)state;
	struct hedge_facts facts = slow_get;

	facts.origin_quiet_until = AT(3000);
	assert_int_equal(hedge_at(&rule, &facts).us, 3000000);
	facts.origin_quiet_until = AT(1100);
	assert_int_equal(hedge_at(&rule, &facts).us, 1200000);
	facts.origin_quiet_until = AT(40000);
	assert_true(mono_is_never(hedge_at(&rule, &facts)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_attempt_gets_one),
		cmocka_unit_test(what_forbids_one),
		cmocka_unit_test(it_is_drawn_from_the_budget),
		cmocka_unit_test(a_quiet_origin_is_not_hedged),
	};
	return cmocka_run_group_tests_name("hedge", tests, NULL, NULL);
}
