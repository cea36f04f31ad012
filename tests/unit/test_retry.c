#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

#include "../../proxy/policy/retry.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })
#define NOW AT(100000)

static struct retry_rule rule;
static struct retry_facts facts;
static struct budget budget;
static struct rng rng;

static const char *const built_in_methods[] = { "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE" };

static void list_status(int status)
{
	rule.on.statuses[(status - 400) / 64] |= UINT64_C(1) << ((status - 400) % 64);
}

/* The built-in rule, and a GET that was answered 503 at its first attempt with plenty of time left. */
static int set_up(void **state)
{
	(void)state;
	rule = (struct retry_rule){
		.max_attempts = 3,
		.on.kinds = RETRY_DNS_FAILURE | RETRY_CONNECT_FAILURE | RETRY_RESET | RETRY_ATTEMPT_TIMEOUT | RETRY_INCOMPLETE_BODY,
		.methods = { built_in_methods, 6 },
		.idempotency_key = "Idempotency-Key",
		.backoff = { .base_ms = 100, .multiplier = 2, .max_ms = 5000, .jitter = JITTER_NONE },
		.retry_after = { .honor = true, .max_ms = 30000, .shared = true },
		.budget = { .is_on = true, .ratio = 0.2, .reserve = 10, .window_ms = 10000 },
	};
	list_status(429);
	list_status(502);
	list_status(503);
	list_status(504);
	facts = (struct retry_facts){
		.outcome = OUTCOME_RESPONSE, .status = 503, .method = SLICE("GET"), .is_body_replayable = true,
		.n_attempts = 1, .max_attempts = 3, .retry_after_ms = -1, .total_at = AT(130000), .would_breaker_admit = true,
	};
	budget_init(&budget);
	rng_init(&rng, 1);
	return 0;
}

static struct retry_decision decide(void)
{
	return retry_decide(&rule, &facts, &budget, NOW, &rng);
}

static const char *verdict(void)
{
	return verdict_words[decide().verdict];
}

static int64_t tokens(void)
{
	return lround(budget_left(&budget, &rule.budget, NOW));
}

static void a_listed_status_is_retried(void **state)
{
	(void)state;
	struct retry_decision decision = decide();

	assert_int_equal(decision.verdict, VERDICT_RETRY);
	assert_int_equal(decision.delay_ms, 100);
	assert_true(decision.is_budget_spent);
	assert_int_equal(tokens(), 9);
	facts.n_attempts = 2;
	assert_int_equal(decide().delay_ms, 200);
}

static void statuses(void **state)
{
	(void)state;
	const struct {
		int status;
		const char *verdict;
	} cases[] = {
		{ 200, "ok" }, { 204, "ok" }, { 304, "ok" }, { 101, "ok" }, { 301, "ok" },
		{ 400, "not_listed" }, { 404, "not_listed" }, { 408, "not_listed" }, { 409, "not_listed" },
		{ 500, "not_listed" }, { 501, "not_listed" }, { 505, "not_listed" }, { 599, "not_listed" }, { 600, "not_listed" },
		{ 429, "retry" }, { 502, "retry" }, { 503, "retry" }, { 504, "retry" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		set_up(state);
		facts.status = cases[i].status;
		assert_string_equal(verdict(), cases[i].verdict);
	}
}

static void outcomes(void **state)
{
	(void)state;
	const struct {
		enum outcome outcome;
		const char *get, *post;
	} cases[] = {
		{ OUTCOME_DNS_FAILURE, "retry", "retry" },      { OUTCOME_DNS_TIMEOUT, "retry", "retry" },
		{ OUTCOME_DNS_NO_NAME, "not_listed", "not_listed" }, { OUTCOME_ADDRESS_DENIED, "not_listed", "not_listed" },
		{ OUTCOME_CONNECT_REFUSED, "retry", "retry" },  { OUTCOME_CONNECT_TIMEOUT, "retry", "retry" },
		{ OUTCOME_TLS_TIMEOUT, "retry", "retry" },      { OUTCOME_TLS_CERTIFICATE, "not_listed", "not_listed" },
		{ OUTCOME_RESET, "retry", "method" },           { OUTCOME_STALE, "retry", "method" },
		{ OUTCOME_ATTEMPT_TIMEOUT, "retry", "method" }, { OUTCOME_HEADERS_TIMEOUT, "retry", "method" },
		{ OUTCOME_INCOMPLETE_BODY, "retry", "method" }, { OUTCOME_BAD_RESPONSE, "not_listed", "not_listed" },
		{ OUTCOME_POOL_WAIT, "not_listed", "not_listed" }, { OUTCOME_MAX_PENDING, "not_listed", "not_listed" },
		{ OUTCOME_BREAKER_OPEN, "not_listed", "not_listed" }, { OUTCOME_TOTAL_TIMEOUT, "not_listed", "not_listed" },
		{ OUTCOME_CANCELLED, "cancelled", "cancelled" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		set_up(state);
		facts.outcome = cases[i].outcome;
		facts.status = 0;
		assert_string_equal(verdict(), cases[i].get);
		facts.method = SLICE("POST");
		assert_string_equal(verdict(), cases[i].post);
	}
}

static void tls_and_bad_responses_when_listed(void **state)
{
	(void)state;
	rule.on.kinds |= RETRY_TLS_FAILURE | RETRY_BAD_RESPONSE;
	facts.outcome = OUTCOME_TLS_CERTIFICATE;
	assert_string_equal(verdict(), "retry");
	facts.outcome = OUTCOME_BAD_RESPONSE;
	assert_string_equal(verdict(), "retry");
	facts.method = SLICE("POST");
	assert_string_equal(verdict(), "method");
}

static void methods_and_keys(void **state)
{
	(void)state;
	const char *const unsafe[] = { "POST", "PATCH", "CONNECT", "get", "GE", "GETX", "BREW", "" };

	for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) {
		facts.method = slice_of(unsafe[i]);
		facts.has_idempotency_key = false;
		assert_string_equal(verdict(), "method");
		facts.has_idempotency_key = true;
		assert_string_equal(verdict(), "retry");
	}
	rule.idempotency_key = NULL;
	assert_string_equal(verdict(), "method");
	assert_false(retry_is_repeatable(&rule, SLICE("POST"), true));
	assert_true(retry_is_repeatable(&rule, SLICE("DELETE"), false));
}

/* Each check in its turn: with all that speak against it set, taking the first away lets the next one speak. */
static void the_order_of_the_checks(void **state)
{
	(void)state;
	facts.is_committed = facts.is_client_gone = facts.is_draining_hard = facts.is_nested = true;
	facts.status = 200;
	facts.method = SLICE("POST");
	facts.is_body_replayable = false;
	facts.n_attempts = 3;
	facts.retry_after_ms = 40000;
	facts.would_breaker_admit = false;
	rule.budget.reserve = 0;
	assert_string_equal(verdict(), "committed");
	facts.is_committed = false;
	assert_string_equal(verdict(), "cancelled");
	facts.is_client_gone = false;
	assert_string_equal(verdict(), "draining");
	facts.is_draining_hard = false;
	assert_string_equal(verdict(), "ok");
	facts.status = 404;
	assert_string_equal(verdict(), "not_listed");
	facts.status = 503;
	assert_string_equal(verdict(), "nested");
	facts.is_nested = false;
	assert_string_equal(verdict(), "method");
	facts.method = SLICE("PUT");
	assert_string_equal(verdict(), "body");
	facts.is_body_replayable = true;
	assert_string_equal(verdict(), "attempts");
	facts.n_attempts = 2;
	assert_string_equal(verdict(), "retry_after");
	facts.retry_after_ms = -1;
	facts.total_at = AT(100200);
	assert_string_equal(verdict(), "deadline");
	facts.total_at = AT(100201);
	assert_string_equal(verdict(), "breaker");
	facts.would_breaker_admit = true;
	assert_string_equal(verdict(), "budget");
	rule.budget.is_on = false;
	struct retry_decision decision = decide();
	assert_int_equal(decision.verdict, VERDICT_RETRY);
	assert_false(decision.is_budget_spent);
}

static void only_a_retry_spends(void **state)
{
	(void)state;
	facts.would_breaker_admit = false;
	for (int i = 0; i < 50; i++)
		assert_string_equal(verdict(), "breaker");
	assert_int_equal(tokens(), 10);
	facts.would_breaker_admit = true;
	for (int i = 0; i < 10; i++)
		assert_string_equal(verdict(), "retry");
	assert_string_equal(verdict(), "budget");
}

static void nested_may_be_allowed(void **state)
{
	(void)state;
	facts.is_nested = true;
	assert_string_equal(verdict(), "nested");
	rule.nested_allow = true;
	assert_string_equal(verdict(), "retry");
}

static void one_attempt_is_never_retried(void **state)
{
	(void)state;
	facts.max_attempts = 1;
	assert_string_equal(verdict(), "attempts");
	facts.outcome = OUTCOME_CONNECT_REFUSED;
	assert_string_equal(verdict(), "attempts");
}

static void the_origins_wish_is_the_least(void **state)
{
	(void)state;
	facts.retry_after_ms = 2000;
	assert_int_equal(decide().delay_ms, 2000);
	facts.retry_after_ms = 50; /* shorter than the back-off */
	assert_int_equal(decide().delay_ms, 100);
	facts.retry_after_ms = 0;
	assert_int_equal(decide().delay_ms, 100);
	facts.retry_after_ms = 30000;
	facts.total_at = MONO_NEVER;
	assert_int_equal(decide().delay_ms, 30000);
	facts.retry_after_ms = 30001;
	assert_string_equal(verdict(), "retry_after");
	facts.retry_after_ms = INT64_MAX / 4;
	assert_string_equal(verdict(), "retry_after");
	rule.retry_after.max_ms = LIMIT_OFF;
	assert_int_equal(decide().delay_ms, INT64_MAX / 4);
	facts.total_at = AT(130000);
	assert_string_equal(verdict(), "retry_after");
	rule.retry_after.honor = false;
	assert_int_equal(decide().delay_ms, 100);
}

/* With jitter on, those who were told the same don't come back together, and none comes early. */
static void wishes_are_spread(void **state)
{
	(void)state;
	int64_t least = INT64_MAX, most = 0;

	rule.backoff.jitter = JITTER_FULL;
	rule.budget.is_on = false;
	facts.retry_after_ms = 2000;
	for (int i = 0; i < 2000; i++) {
		int64_t delay = decide().delay_ms;
		least = delay < least ? delay : least;
		most = delay > most ? delay : most;
	}
	assert_int_equal(least, 2000);
	assert_int_equal(most, 2099); /* no more than the back-off itself: 100 ms */
	facts.total_at = AT(102001); /* only the bare wish fits */
	for (int i = 0; i < 100; i++)
		assert_int_equal(decide().delay_ms, 2000);
	facts.total_at = AT(102000);
	assert_string_equal(verdict(), "retry_after");
}

static void a_quiet_origin_is_left_in_peace(void **state)
{
	(void)state;
	facts.outcome = OUTCOME_CONNECT_REFUSED; /* whatever the reason for this retry */
	facts.origin_quiet_until = AT(103000);
	assert_int_equal(decide().delay_ms, 3000);
	facts.origin_quiet_until = AT(99000); /* over */
	assert_int_equal(decide().delay_ms, 100);
	facts.origin_quiet_until = AT(131000);
	assert_string_equal(verdict(), "retry_after");
	facts.origin_quiet_until = AT(103000);
	rule.retry_after.shared = false;
	assert_int_equal(decide().delay_ms, 100);
}

static void a_wish_counts_with_a_response_only(void **state)
{
	(void)state;
	facts.retry_after_ms = 2000;
	facts.outcome = OUTCOME_RESET;
	assert_int_equal(decide().delay_ms, 100);
}

static void a_delay_that_does_not_fit_is_not_slept(void **state)
{
	(void)state;
	facts.total_at = AT(100100);
	assert_string_equal(verdict(), "deadline");
	facts.total_at = AT(100101);
	assert_string_equal(verdict(), "retry");
	facts.total_at = AT(99000);
	rule.backoff.base_ms = 0;
	assert_string_equal(verdict(), "deadline");
	facts.total_at = MONO_NEVER;
	assert_string_equal(verdict(), "retry");
}

static void what_counts_as_failure(void **state)
{
	(void)state;
	assert_false(retry_is_failure(OUTCOME_RESPONSE, 200));
	assert_false(retry_is_failure(OUTCOME_RESPONSE, 429));
	assert_true(retry_is_failure(OUTCOME_RESPONSE, 500));
	assert_true(retry_is_failure(OUTCOME_RESPONSE, 503));
	assert_true(retry_is_failure(OUTCOME_CONNECT_REFUSED, 0));
	assert_true(retry_is_failure(OUTCOME_ATTEMPT_TIMEOUT, 0));
	assert_true(retry_is_failure(OUTCOME_TOTAL_TIMEOUT, 0));
	assert_false(retry_is_failure(OUTCOME_STALE, 0));
	assert_false(retry_is_failure(OUTCOME_CANCELLED, 0));
	assert_false(retry_is_failure(OUTCOME_POOL_WAIT, 0));
	assert_false(retry_is_failure(OUTCOME_BREAKER_OPEN, 0));
	assert_false(retry_is_failure(OUTCOME_DNS_NO_NAME, 0));
	assert_false(retry_is_failure(OUTCOME_CLIENT_SLOW, 0));
}

#define RETRY_TEST(test) cmocka_unit_test_setup(test, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RETRY_TEST(a_listed_status_is_retried),
		RETRY_TEST(statuses),
		RETRY_TEST(outcomes),
		RETRY_TEST(tls_and_bad_responses_when_listed),
		RETRY_TEST(methods_and_keys),
		RETRY_TEST(the_order_of_the_checks),
		RETRY_TEST(only_a_retry_spends),
		RETRY_TEST(nested_may_be_allowed),
		RETRY_TEST(one_attempt_is_never_retried),
		RETRY_TEST(the_origins_wish_is_the_least),
		RETRY_TEST(wishes_are_spread),
		RETRY_TEST(a_quiet_origin_is_left_in_peace),
		RETRY_TEST(a_wish_counts_with_a_response_only),
		RETRY_TEST(a_delay_that_does_not_fit_is_not_slept),
		RETRY_TEST(what_counts_as_failure),
	};
	return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
