#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../../proxy/base/metrics.h"

static char *page; /* the rendered exposition, NUL-terminated */

static void render(bool is_openmetrics)
{
	struct buffer out = { 0 };

	metrics_render(&out, is_openmetrics);
	free(page);
	page = strndup(buffer_start(&out), buffer_length(&out));
	buffer_clear(&out);
}

static int clear(void **state)
{
	(void)state;
	metrics_clear();
	free(page);
	page = NULL;
	memset(&process_metrics, 0, sizeof process_metrics);
	return 0;
}

/* Is this one of the lines? */
static bool has_line(const char *line)
{
	size_t length = strlen(line);

	for (const char *at = page; (at = strstr(at, line)); at++)
		if ((at == page || at[-1] == '\n') && at[length] == '\n')
			return true;
	return false;
}

#define assert_line(line) \
	do { \
		if (!has_line(line)) \
			fail_msg("not there: %s", line); \
	} while (0)

static void names_are_made_once(void **state)
{
	(void)state;
	struct upstream_metrics *a = metrics_upstream("a"), *b = metrics_upstream("b");

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(metrics_upstream("a"), a);
	assert_ptr_equal(metrics_first(), a);
	assert_ptr_equal(a->next, b);
	assert_null(b->next);
}

static void durations_fall_into_buckets(void **state)
{
	(void)state;
	struct upstream_metrics *metrics = metrics_upstream("a");

	histogram_observe_us(&metrics->request_seconds, 1000);      /* on the bound: le */
	histogram_observe_us(&metrics->request_seconds, 1001);
	histogram_observe_us(&metrics->request_seconds, 60000001);  /* past the last */
	histogram_observe_us(&metrics->request_seconds, -5);        /* a clock that stepped: 0 */
	render(false);
	assert_line("evenkeel_request_duration_seconds_bucket{upstream=\"a\",le=\"0.001\"} 2");
	assert_line("evenkeel_request_duration_seconds_bucket{upstream=\"a\",le=\"0.0025\"} 3");
	assert_line("evenkeel_request_duration_seconds_bucket{upstream=\"a\",le=\"60\"} 3");
	assert_line("evenkeel_request_duration_seconds_bucket{upstream=\"a\",le=\"+Inf\"} 4");
	assert_line("evenkeel_request_duration_seconds_sum{upstream=\"a\"} 60.002002");
	assert_line("evenkeel_request_duration_seconds_count{upstream=\"a\"} 4");
	assert_line("evenkeel_attempt_duration_seconds_count{upstream=\"a\"} 0");
}

static void attempts_are_counted_plainly(void **state)
{
	(void)state;
	struct upstream_metrics *metrics = metrics_upstream("a");

	histogram_observe_count(&metrics->attempts_per_request, 1);
	histogram_observe_count(&metrics->attempts_per_request, 3);
	histogram_observe_count(&metrics->attempts_per_request, 9);
	render(false);
	assert_line("evenkeel_attempts_per_request_bucket{upstream=\"a\",le=\"1\"} 1");
	assert_line("evenkeel_attempts_per_request_bucket{upstream=\"a\",le=\"3\"} 2");
	assert_line("evenkeel_attempts_per_request_bucket{upstream=\"a\",le=\"8\"} 2");
	assert_line("evenkeel_attempts_per_request_bucket{upstream=\"a\",le=\"+Inf\"} 3");
	assert_line("evenkeel_attempts_per_request_sum{upstream=\"a\"} 13");
}

static void each_counter_has_its_name(void **state)
{
	(void)state;
	struct upstream_metrics *m = metrics_upstream("a");

	m->requests_by_code[200] = 1;
	m->requests_by_code[599] = 2;
	m->requests_cancelled = 3;
	m->requests_aborted = 4;
	m->attempts[ATTEMPT_LABEL_2XX] = 5;
	m->attempts[ATTEMPT_LABEL_REJECTED] = 6;
	m->retries_by_kind[ATTEMPT_LABEL_RESET] = 7;
	m->retries_by_status[503 - 400] = 8;
	m->suppressed[SUPPRESSED_NESTED] = 9;
	m->timeouts[TIMEOUT_LABEL_TUNNEL_TOTAL] = 10;
	m->cancelled = 11;
	m->backoff_us = 1500001;
	m->connections_active = 12, m->connections_idle = 13, m->connections_connecting = 14;
	m->pending = 15, m->in_flight = 16;
	m->pool_rejected[POOL_REJECTED_RATE_LIMIT] = 17;
	m->connections_opened = 18, m->connections_reused = 19;
	m->breaker_half_open = 1;
	m->hedges_won = 20, m->hedges_lost = 21;
	m->opaque_tunnels = 22;
	m->tunnels_active = 23;
	m->tunnel_bytes_sent = 24, m->tunnel_bytes_received = 25;
	process_metrics.client_connections = 26;
	process_metrics.buffered_bytes = 27;
	process_metrics.draining = true;
	process_metrics.reloads_ok = 28, process_metrics.reloads_failed = 29;
	process_metrics.reload_last_success_wall_ms = 1500;
	render(false);
	assert_line("evenkeel_requests_total{upstream=\"a\",code=\"200\"} 1");
	assert_line("evenkeel_requests_total{upstream=\"a\",code=\"599\"} 2");
	assert_null(strstr(page, "code=\"404\"")); /* never seen: no series */
	assert_line("evenkeel_requests_total{upstream=\"a\",code=\"cancelled\"} 3");
	assert_line("evenkeel_requests_total{upstream=\"a\",code=\"aborted\"} 4");
	assert_line("evenkeel_attempts_total{upstream=\"a\",outcome=\"2xx\"} 5");
	assert_line("evenkeel_attempts_total{upstream=\"a\",outcome=\"rejected\"} 6");
	assert_line("evenkeel_attempts_total{upstream=\"a\",outcome=\"dns_failure\"} 0");
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"reset\"} 7");
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"503\"} 8");
	assert_line("evenkeel_retries_suppressed_total{upstream=\"a\",reason=\"nested\"} 9");
	assert_line("evenkeel_retries_suppressed_total{upstream=\"a\",reason=\"budget\"} 0");
	assert_line("evenkeel_timeouts_total{upstream=\"a\",kind=\"tunnel_total\"} 10");
	assert_line("evenkeel_timeouts_total{upstream=\"a\",kind=\"total\"} 0");
	assert_line("evenkeel_cancelled_total{upstream=\"a\"} 11");
	assert_line("evenkeel_backoff_seconds_total{upstream=\"a\"} 1.500001");
	assert_line("evenkeel_pool_connections{upstream=\"a\",state=\"active\"} 12");
	assert_line("evenkeel_pool_connections{upstream=\"a\",state=\"idle\"} 13");
	assert_line("evenkeel_pool_connections{upstream=\"a\",state=\"connecting\"} 14");
	assert_line("evenkeel_pool_pending{upstream=\"a\"} 15");
	assert_line("evenkeel_in_flight{upstream=\"a\"} 16");
	assert_line("evenkeel_pool_rejected_total{upstream=\"a\",reason=\"rate_limit\"} 17");
	assert_line("evenkeel_connections_opened_total{upstream=\"a\"} 18");
	assert_line("evenkeel_connections_reused_total{upstream=\"a\"} 19");
	assert_line("evenkeel_breaker_state{upstream=\"a\"} 1");
	assert_line("evenkeel_hedges_total{upstream=\"a\",won=\"true\"} 20");
	assert_line("evenkeel_hedges_total{upstream=\"a\",won=\"false\"} 21");
	assert_line("evenkeel_opaque_tunnels_total{upstream=\"a\"} 22");
	assert_line("evenkeel_tunnels_active{upstream=\"a\"} 23");
	assert_line("evenkeel_tunnel_bytes_total{upstream=\"a\",direction=\"up\"} 24");
	assert_line("evenkeel_tunnel_bytes_total{upstream=\"a\",direction=\"down\"} 25");
	assert_line("evenkeel_client_connections 26");
	assert_line("evenkeel_buffered_bytes 27");
	assert_line("evenkeel_draining 1");
	assert_line("evenkeel_config_reloads_total{result=\"success\"} 28");
	assert_line("evenkeel_config_reloads_total{result=\"failure\"} 29");
	assert_line("evenkeel_config_last_success_timestamp_seconds 1.500000");
	assert_non_null(strstr(page, "evenkeel_build_info{version=\""));
}

static void worst_breaker_counts(void **state)
{
	(void)state;
	struct upstream_metrics *m = metrics_upstream("a");

	render(false);
	assert_line("evenkeel_breaker_state{upstream=\"a\"} 0");
	m->breaker_closed = 5, m->breaker_half_open = 2, m->breaker_open = 1;
	render(false);
	assert_line("evenkeel_breaker_state{upstream=\"a\"} 2");
}

static void observed_is_marked(void **state)
{
	(void)state;
	struct upstream_metrics *m = metrics_upstream("a");

	render(false);
	assert_null(strstr(page, "{upstream=\"a\",reason=\"reset\",mode="));
	m->observed_retries = 5;
	m->observed_retries_by_status[503 - 400] = 2;
	m->observed_retries_by_kind[ATTEMPT_LABEL_RESET] = 1;
	m->observed_timeouts[TIMEOUT_LABEL_TOTAL] = 4;
	render(false);
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"503\",mode=\"observe\"} 2");
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"reset\",mode=\"observe\"} 1");
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"other\",mode=\"observe\"} 2");
	assert_line("evenkeel_retries_total{upstream=\"a\",reason=\"reset\"} 0");
	assert_line("evenkeel_timeouts_total{upstream=\"a\",kind=\"total\",mode=\"observe\"} 4");
	assert_line("evenkeel_timeouts_total{upstream=\"a\",kind=\"total\"} 0");
}

static void label_values_are_escaped(void **state)
{
	(void)state;
	metrics_upstream("a\"b\\c\nd")->cancelled = 1;
	render(false);
	assert_line("evenkeel_cancelled_total{upstream=\"a\\\"b\\\\c\\nd\"} 1");
}

static double number_after(const char *name)
{
	const char *at = strstr(page, name);

	assert_non_null(at);
	return strtod(at + strlen(name), NULL);
}

static void the_process_is_described(void **state)
{
	(void)state;
	render(false);
	double start = number_after("\nprocess_start_time_seconds "), now = (double)time(NULL);
	assert_true(start > now - 3600 && start < now + 2);
	assert_true(number_after("\nprocess_resident_memory_bytes ") > 100000);
	assert_true(number_after("\nprocess_max_fds ") > 3);
	int first = (int)number_after("\nprocess_open_fds ");
	int more = dup(0);
	assert_true(more >= 0);
	render(false);
	assert_int_equal((int)number_after("\nprocess_open_fds "), first + 1);
	close(more);
	assert_true(number_after("\nprocess_cpu_seconds_total ") >= 0);
}

/* HELP and TYPE once for each family, and its samples right below them. */
static void families_are_whole(void **state)
{
	(void)state;
	char family[128] = "", seen[100][128];
	size_t n_seen = 0;

	metrics_upstream("a");
	metrics_upstream("b");
	render(false);
	for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n")) {
		if (sscanf(line, "# HELP %127s", family) == 1) {
			assert_null(strpbrk(line, "\"\\")); /* OpenMetrics would have them escaped */
			for (size_t i = 0; i < n_seen; i++)
				assert_string_not_equal(seen[i], family);
			strcpy(seen[n_seen++], family);
		} else if (strncmp(line, "# TYPE ", 7) == 0) {
			assert_int_equal(strncmp(line + 7, family, strlen(family)), 0);
		} else {
			assert_int_equal(strncmp(line, family, strlen(family)), 0);
		}
	}
	assert_int_equal(n_seen, 37);
}

static void openmetrics_form(void **state)
{
	(void)state;
	metrics_upstream("a")->cancelled = 1;
	render(true);
	assert_line("# TYPE evenkeel_cancelled counter");
	assert_line("evenkeel_cancelled_total{upstream=\"a\"} 1");
	assert_line("# TYPE evenkeel_build info");
	assert_line("# TYPE process_cpu_seconds counter");
	assert_line("evenkeel_request_duration_seconds_bucket{upstream=\"a\",le=\"1.0\"} 0");
	assert_string_equal(page + strlen(page) - 7, "\n# EOF\n");
	render(false);
	assert_line("# TYPE evenkeel_cancelled_total counter");
	assert_line("# TYPE evenkeel_build_info gauge");
	assert_null(strstr(page, "# EOF"));
}

#define METRICS_TEST(test) cmocka_unit_test_teardown(test, clear)

int main(int n_arguments, char **arguments)
{
	if (n_arguments == 2 && strcmp(arguments[1], "--print") == 0) { /* for promtool check metrics */
		metrics_upstream("a")->observed_retries = 1;
		metrics_upstream("-")->requests_by_code[400] = 1;
		render(false);
		fputs(page, stdout);
		return clear(NULL);
	}
	const struct CMUnitTest tests[] = {
		METRICS_TEST(names_are_made_once),
		METRICS_TEST(durations_fall_into_buckets),
		METRICS_TEST(attempts_are_counted_plainly),
		METRICS_TEST(each_counter_has_its_name),
		METRICS_TEST(worst_breaker_counts),
		METRICS_TEST(observed_is_marked),
		METRICS_TEST(label_values_are_escaped),
		METRICS_TEST(the_process_is_described),
		METRICS_TEST(families_are_whole),
		METRICS_TEST(openmetrics_form),
	};
	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
