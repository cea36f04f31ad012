/* What is said about timeouts, word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "proxy/front/advice.h"

struct scene {
	struct policy policy;
	struct upstream_metrics metrics;
	struct latency latency;
};

static struct scene scene;

static int set_up(void **state)
{
	(void)state;
	latency_clear(&scene.latency);
	memset(&scene, 0, sizeof(scene));
	scene.policy.timeouts = (struct timeouts){
		.total_ms = 30000, .attempt_ms = 10000, .pool_wait_ms = 1000, .connect_ms = 1000, .tls_handshake_ms = 2000,
		.response_headers_ms = LIMIT_OFF, .body_idle_ms = 10000, .stream_total_ms = LIMIT_OFF,
		.tunnel_idle_ms = 300000, .tunnel_total_ms = LIMIT_OFF,
	};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	latency_clear(&scene.latency);
	return 0;
}

static void observe(enum latency_phase phase, int n, int64_t elapsed_ms)
{
	for (int i = 0; i < n; i++)
		latency_add(&scene.latency, phase, elapsed_ms * 1000);
}

static const struct advice_subject *subject_of(const char *key)
{
	for (size_t i = 0; i < N_ADVICE_SUBJECTS; i++)
		if (strcmp(advice_subjects[i].key, key) == 0)
			return &advice_subjects[i];
	fail();
	return NULL;
}

/* enough_ms -1: none may be named */
static void assert_advice(const char *key, enum advice_verdict verdict, int64_t enough_ms, const char *sentence)
{
	struct buffer out = { 0 };
	struct advice advice = advice_find(&scene.policy, &scene.metrics, &scene.latency, subject_of(key));
	advice_word(&advice, &out);
	buffer_append(&out, "", 1);
	assert_string_equal(buffer_start(&out), sentence);
	assert_int_equal(advice.verdict, verdict);
	assert_int_equal(advice.enough_ms, enough_ms);
	buffer_clear(&out);
}

static void test_nothing_and_little(void **state)
{
	(void)state;
	assert_advice("total", ADVICE_UNSEEN, -1, "Nothing to go by: no exchanges so far.");
	assert_advice("tls_handshake", ADVICE_UNSEEN, -1, "Nothing to go by: no TLS handshakes so far.");
	observe(LATENCY_TOTAL, 99, 40000);
	assert_advice("total", ADVICE_FEW, -1, "Too few exchanges to judge: 99 so far, the slowest took 40.0s.");
	scene.metrics.timeouts[TIMEOUT_LABEL_TUNNEL_IDLE] = 3;
	assert_advice("tunnel_idle", ADVICE_UNMEASURED, -1, "Ended 3 tunnels; silences of tunnels are not measured.");
}

static void test_never_reached(void **state)
{
	(void)state;
	observe(LATENCY_CONNECT, 999, 64);
	assert_advice("connect", ADVICE_FITTING, -1, "Never reached: the slowest of 999 connects took 64.0ms.");
	observe(LATENCY_CONNECT, 1, 64); /* now there are enough to name a limit, but 1 s isn't ten times 500 ms */
	assert_advice("connect", ADVICE_FITTING, 500, "Never reached: the slowest of 1000 connects took 64.0ms.");
	observe(LATENCY_ATTEMPT, 1000, 128);
	assert_advice("attempt", ADVICE_LOOSE, 1000, "Never reached: the slowest of 1000 attempts took 128ms. 1s would still "
						     "have cut none, and would end a stalled one sooner.");
	observe(LATENCY_QUEUE, 1000, 0); /* a quiet pool is no reason for a shorter wait */
	assert_advice("pool_wait", ADVICE_FITTING, 100, "Never reached: the slowest of 1000 waits for a slot took 0.00ms.");
}

static void test_off(void **state)
{
	(void)state;
	observe(LATENCY_FIRST_BYTE, 100, 256);
	assert_advice("response_headers", ADVICE_OFF, -1, "Off. The slowest of 100 waits for response headers took 256ms.");
	observe(LATENCY_FIRST_BYTE, 900, 256);
	assert_advice("response_headers", ADVICE_OFF, 2000,
		      "Off. The slowest of 1000 waits for response headers took 256ms. 2s would have cut none.");
}

static void test_cutting(void **state)
{
	(void)state;
	scene.policy.timeouts.attempt_ms = 300;
	scene.metrics.timeouts[TIMEOUT_LABEL_ATTEMPT] = 100;
	observe(LATENCY_ATTEMPT, 900, 16);
	observe(LATENCY_ATTEMPT, 100, 301);
	assert_advice("attempt", ADVICE_CUTTING, -1,
		      "100 of 1000 attempts (10%) took that long or came within 6% of it (cut: 100). Half took at most "
		      "16.1ms, 99% at most 301ms. If they were still wanted, raise it; mode: observe shows how long they "
		      "would have taken.");
}

static void test_observing(void **state)
{
	(void)state;
	scene.policy.mode = MODE_OBSERVE;
	scene.policy.timeouts.attempt_ms = 300;
	scene.metrics.observed_timeouts[TIMEOUT_LABEL_ATTEMPT] = 100;
	observe(LATENCY_ATTEMPT, 900, 16);
	observe(LATENCY_ATTEMPT, 100, 2048);
	assert_advice("attempt", ADVICE_CUTTING, 20000,
		      "100 of 1000 attempts (10%) took that long or came within 6% of it (would have been cut: 100). Half took "
		      "at most 16.1ms, 99% at most 2048ms. With 20s nothing seen so far would have been cut.");
}

static void test_outliers(void **state)
{
	(void)state;
	scene.policy.timeouts.connect_ms = 500;
	scene.metrics.timeouts[TIMEOUT_LABEL_CONNECT] = 1;
	observe(LATENCY_CONNECT, 1999, 16);
	observe(LATENCY_CONNECT, 1, 501);
	assert_advice("connect", ADVICE_RARE, -1,
		      "1 of 2000 connects (0.05%) took that long or came within 6% of it (cut: 1). Half took at most 16.1ms, "
		      "99% at most 16.1ms. Only outliers: leave it unless those were still wanted.");
}

static void test_no_wait_at_all(void **state)
{
	(void)state;
	observe(LATENCY_QUEUE, 999, 0);
	observe(LATENCY_QUEUE, 1, 2);
	assert_int_equal(advice_n_reaching(scene.latency.phases[LATENCY_QUEUE], 0), 1);
	assert_int_equal(advice_n_reaching(scene.latency.phases[LATENCY_QUEUE], LIMIT_OFF), 0);
	assert_int_equal(advice_n_reaching(NULL, 10), 0);
}

/* Each row reads its own member: no two keys share one. */
static void test_table(void **state)
{
	(void)state;
	struct timeouts timeouts = {
		.total_ms = 1, .attempt_ms = 2, .pool_wait_ms = 3, .connect_ms = 4, .tls_handshake_ms = 5,
		.response_headers_ms = 6, .body_idle_ms = 7, .stream_total_ms = 8, .tunnel_idle_ms = 9, .tunnel_total_ms = 10,
	};
	for (size_t i = 0; i < N_ADVICE_SUBJECTS; i++) {
		assert_int_equal(advice_limit_ms(&timeouts, &advice_subjects[i]), i + 1);
		assert_int_equal(advice_subjects[i].label, i);
	}
	for (enum advice_verdict verdict = 0; verdict < N_ADVICE_VERDICTS; verdict++)
		assert_non_null(advice_verdict_words[verdict]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_and_little, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_never_reached, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cutting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_observing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_outliers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_wait_at_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_table, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
