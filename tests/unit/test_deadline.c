#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/policy/deadline.h"

#define AT(ms) ((struct mono){ (ms) * INT64_C(1000) })

static const struct timeouts timeouts = {
	.total_ms = 99, /* not this one: what the request may have changed is in the facts */
	.attempt_ms = 10000, .pool_wait_ms = 1000, .connect_ms = 1000, .tls_handshake_ms = 2000,
	.response_headers_ms = 3000, .body_idle_ms = 4000, .stream_total_ms = 60000,
};

/* Started at 1000, attempt at 2000. */
static struct deadline_facts facts_in(enum deadline_phase phase)
{
	return (struct deadline_facts){
		.phase = phase, .started = AT(1000), .queued = AT(1500), .attempt_began = AT(2000), .phase_began = AT(2100),
		.request_sent = AT(2200), .head_complete = AT(2300), .last_read = AT(2400), .backoff_until = AT(5000),
		.total_ms = 30000,
	};
}

static void expect_limit(const struct timeouts *rule, const struct deadline_facts *facts, enum limit limit, int64_t at_ms)
{
	struct deadline next = deadline_next(rule, facts);

	assert_int_equal(next.limit, limit);
	assert_int_equal(next.at.us, at_ms * 1000);
}

static void each_phase_has_its_limit(void **state)
{
	(void)state;
	const struct {
		enum deadline_phase phase;
		enum limit limit;
		int64_t at_ms;
	} cases[] = {
		{ PHASE_BACKOFF, LIMIT_BACKOFF, 5000 },          { PHASE_QUEUED, LIMIT_POOL_WAIT, 2500 },
		{ PHASE_RESOLVING, LIMIT_ATTEMPT, 12000 },       { PHASE_CONNECTING, LIMIT_CONNECT, 3100 },
		{ PHASE_SECURING, LIMIT_TLS_HANDSHAKE, 4100 },   { PHASE_SENDING, LIMIT_ATTEMPT, 12000 },
		{ PHASE_WAITING_HEAD, LIMIT_RESPONSE_HEADERS, 5200 }, { PHASE_READING_BODY, LIMIT_BODY_IDLE, 6400 },
		{ PHASE_FLUSHING, LIMIT_TOTAL, 31000 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct deadline_facts facts = facts_in(cases[i].phase);
		expect_limit(&timeouts, &facts, cases[i].limit, cases[i].at_ms);
	}
}

static void attempt_binds_from_its_slot_to_its_last_byte(void **state)
{
	(void)state;
	struct timeouts rule = timeouts;
	rule.attempt_ms = 300;
	struct deadline_facts facts;

	for (int phase = PHASE_RESOLVING; phase <= PHASE_READING_BODY; phase++) {
		facts = facts_in((enum deadline_phase)phase);
		expect_limit(&rule, &facts, LIMIT_ATTEMPT, 2300);
	}
	facts = facts_in(PHASE_QUEUED);
	expect_limit(&rule, &facts, LIMIT_POOL_WAIT, 2500);
	facts = facts_in(PHASE_BACKOFF);
	expect_limit(&rule, &facts, LIMIT_BACKOFF, 5000);
	facts = facts_in(PHASE_FLUSHING);
	expect_limit(&rule, &facts, LIMIT_TOTAL, 31000);
}

static void total_binds_everywhere(void **state)
{
	(void)state;
	for (int phase = PHASE_BACKOFF; phase <= PHASE_FLUSHING; phase++) {
		struct deadline_facts facts = facts_in((enum deadline_phase)phase);
		facts.total_ms = 50;
		expect_limit(&timeouts, &facts, LIMIT_TOTAL, 1050);
		assert_int_equal(deadline_total(&facts).us, 1050000);
	}
}

static void off_is_never(void **state)
{
	(void)state;
	struct timeouts off = { LIMIT_OFF, LIMIT_OFF, LIMIT_OFF, LIMIT_OFF, LIMIT_OFF, LIMIT_OFF, LIMIT_OFF,
				{ NULL, 0 }, LIMIT_OFF, LIMIT_OFF, LIMIT_OFF };

	for (int phase = PHASE_QUEUED; phase <= PHASE_FLUSHING; phase++) {
		struct deadline_facts facts = facts_in((enum deadline_phase)phase);
		facts.total_ms = LIMIT_OFF;
		struct deadline next = deadline_next(&off, &facts);
		assert_int_equal(next.limit, LIMIT_NONE);
		assert_true(mono_is_never(next.at));
		assert_true(mono_is_never(deadline_total(&facts)));
	}
}

static void streams_outlast_total_and_attempt(void **state)
{
	(void)state;
	struct timeouts rule = timeouts;
	struct deadline_facts facts = facts_in(PHASE_READING_BODY);

	facts.is_stream = true;
	facts.total_ms = 2000;
	rule.attempt_ms = 500;
	expect_limit(&rule, &facts, LIMIT_BODY_IDLE, 6400);
	assert_true(mono_is_never(deadline_total(&facts)));
	facts.last_read = AT(70000);
	expect_limit(&rule, &facts, LIMIT_STREAM_TOTAL, 62300);
	facts.phase = PHASE_FLUSHING;
	expect_limit(&rule, &facts, LIMIT_STREAM_TOTAL, 62300);
	rule.stream_total_ms = LIMIT_OFF;
	assert_int_equal(deadline_next(&rule, &facts).limit, LIMIT_NONE);
}

/* The type of the answer that is about to be retried says nothing about the next one. */
static void only_an_open_answer_is_a_stream(void **state)
{
	(void)state;
	struct deadline_facts facts = facts_in(PHASE_WAITING_HEAD);

	facts.is_stream = true;
	facts.total_ms = 2000;
	expect_limit(&timeouts, &facts, LIMIT_TOTAL, 3000);
	assert_int_equal(deadline_total(&facts).us, 3000000);
}

static void a_slow_client_is_not_a_silent_upstream(void **state)
{
	(void)state;
	struct deadline_facts facts = facts_in(PHASE_READING_BODY);

	facts.is_reading_paused = true;
	expect_limit(&timeouts, &facts, LIMIT_ATTEMPT, 12000);
	facts.is_reading_paused = false;
	facts.last_read = MONO_ZERO; /* nothing yet: silence counts from the head */
	expect_limit(&timeouts, &facts, LIMIT_BODY_IDLE, 6300);
}

static void ties_name_the_wider(void **state)
{
	(void)state;
	struct timeouts rule = timeouts;
	struct deadline_facts facts = facts_in(PHASE_CONNECTING);

	rule.attempt_ms = 1100; /* 3100, as connect */
	expect_limit(&rule, &facts, LIMIT_ATTEMPT, 3100);
	facts.total_ms = 2100;
	expect_limit(&rule, &facts, LIMIT_TOTAL, 3100);
}

static void unset_stamps_start_no_clock(void **state)
{
	(void)state;
	struct deadline_facts facts = { .phase = PHASE_WAITING_HEAD, .started = AT(1000), .total_ms = 30000 };

	expect_limit(&timeouts, &facts, LIMIT_TOTAL, 31000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_phase_has_its_limit),
		cmocka_unit_test(attempt_binds_from_its_slot_to_its_last_byte),
		cmocka_unit_test(total_binds_everywhere),
		cmocka_unit_test(off_is_never),
		cmocka_unit_test(streams_outlast_total_and_attempt),
		cmocka_unit_test(only_an_open_answer_is_a_stream),
		cmocka_unit_test(a_slow_client_is_not_a_silent_upstream),
		cmocka_unit_test(ties_name_the_wider),
		cmocka_unit_test(unset_stamps_start_no_clock),
	};
	return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
