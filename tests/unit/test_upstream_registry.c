/* Origins: found again, told apart, reconciled after a reload, forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../proxy/base/clock.h"
#include "upstream_room.h"

static const char *const hosts[] = { "127.0.0.1" };
static const char *const other_hosts[] = { "other.example" };
static const char *const any_hosts[] = { "*" };

struct registry_test {
	struct room room;
	struct server server;
	struct upstream_def upstream;
	struct upstream_def upstreams[2]; /* of the config that is reconciled with */
	struct config config;
};

static struct registry_test test;

static int set_up(void **state)
{
	*state = &test;
	room_open(&test.room, NULL);
	server_open(&test.server, &test.room);
	test.upstream = upstream_named("kept", hosts, 1);
	test.upstreams[0] = test.upstream;
	memset(&test.config, 0, sizeof(test.config));
	test.config.upstreams = test.upstreams;
	test.config.n_upstreams = 1;
	test.config.unmatched = upstream_named("default", NULL, 0);
	test.config.global.limits.upstream_connections = 1000;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	server_close(&test.server);
	room_close(&test.room);
	assert_int_equal(process_metrics.upstream_connections, 0);
	assert_int_equal(metrics_upstream("kept")->breaker_closed, 0);
	assert_int_equal(metrics_upstream("kept")->breaker_open, 0);
	return 0;
}

static struct origin *get(const struct upstream_def *upstream, bool is_tls, const char *host, uint16_t port)
{
	char error[256] = "";
	enum outcome refused;
	struct origin *origin = registry_get(test.room.registry, upstream, is_tls, host, port, &refused, error, sizeof(error));
	assert_string_equal(error, "");
	return origin;
}

/* An origin with one idle connection, referenced. */
static struct origin *with_idle_connection(struct wish *wish)
{
	struct origin *origin = get(&test.upstream, false, "127.0.0.1", test.server.port);
	wish_init(wish, origin);
	wish_hold(wish, &test.room);
	pool_release(&wish->lease, true, -1);
	assert_int_equal(origin->n_idle, 1);
	return origin;
}

static void test_same_key_same_origin(void **state)
{
	(void)state;
	struct upstream_def second = upstream_named("second", hosts, 1);
	struct origin *origins[] = {
		get(&test.upstream, false, "127.0.0.1", 80), get(&test.upstream, false, "127.0.0.1", 81),
		get(&test.upstream, false, "127.0.0.2", 80), get(&test.upstream, true, "127.0.0.1", 80),
		get(&second, false, "127.0.0.1", 80),
	};
	for (size_t i = 0; i < 5; i++)
		for (size_t j = 0; j < i; j++)
			assert_ptr_not_equal(origins[i], origins[j]);
	struct origin *again = get(&test.upstream, false, "127.0.0.1", 80);
	assert_ptr_equal(again, origins[0]);
	assert_int_equal(again->n_users, 2);
	assert_null(again->tls);
	assert_non_null(origins[3]->tls);
	assert_int_equal(again->limits.max_pending, 256);
	origin_unref(&again);
	for (size_t i = 0; i < 5; i++)
		origin_unref(&origins[i]);
	assert_null(origins[0]);
}

static void test_tls_identity_tells_origins_apart(void **state)
{
	(void)state;
	struct upstream_def verified = test.upstream, same = test.upstream, named = test.upstream;
	verified.tls.verify = true;
	verified.tls.min_version = TLS_1_2;
	test.upstream.tls.min_version = same.tls.min_version = named.tls.min_version = TLS_1_2;
	named.tls.server_name = "other.example";
	struct origin *first = get(&test.upstream, true, "127.0.0.1", 443);
	struct origin *second = get(&verified, true, "127.0.0.1", 443);
	struct origin *third = get(&same, true, "127.0.0.1", 443);
	struct origin *fourth = get(&named, true, "127.0.0.1", 443);
	assert_ptr_not_equal(first, second);
	assert_ptr_equal(first, third);
	assert_ptr_not_equal(first, fourth);
	assert_string_equal(fourth->server_name, "other.example");
	origin_unref(&first);
	origin_unref(&second);
	origin_unref(&third);
	origin_unref(&fourth);
}

static void test_unreadable_tls_file_is_an_error(void **state)
{
	(void)state;
	char error[256] = "";
	test.upstream.tls.verify = true;
	test.upstream.tls.ca_file = "/nonexistent/missing.pem";
	test.upstream.tls.min_version = TLS_1_2;
	enum outcome refused = OUTCOME_RESPONSE;
	assert_null(registry_get(test.room.registry, &test.upstream, true, "127.0.0.1", 443, &refused, error, sizeof(error)));
	assert_int_equal(refused, OUTCOME_TLS_FAILURE);
	assert_non_null(strstr(error, "missing"));
}

static void test_many_origins_are_all_found(void **state)
{
	(void)state;
	static struct origin *origins[1000];
	for (size_t i = 0; i < 1000; i++)
		origins[i] = get(&test.upstream, false, "127.0.0.1", (uint16_t)(1000 + i));
	for (size_t i = 0; i < 1000; i++) {
		struct origin *again = get(&test.upstream, false, "127.0.0.1", (uint16_t)(1000 + i));
		assert_ptr_equal(again, origins[i]);
		origin_unref(&again);
	}
	assert_int_equal(test.room.registry->n_origins, 1000);
	assert_int_equal(metrics_upstream("kept")->breaker_closed, 1000);
	for (size_t i = 0; i < 1000; i++)
		origin_unref(&origins[i]);
}

static void test_unchanged_upstream_keeps_its_connections(void **state)
{
	(void)state;
	struct wish wish;
	struct origin *origin = with_idle_connection(&wish);
	test.upstreams[0].policy.pool.max_in_flight = 7;
	registry_reconcile(test.room.registry, &test.config);
	assert_false(origin->is_retired);
	assert_int_equal(origin->n_idle, 1);
	assert_int_equal(origin->limits.max_in_flight, 7);
	struct origin *again = get(&test.upstreams[0], false, "127.0.0.1", test.server.port);
	assert_ptr_equal(again, origin);
	origin_unref(&again);
	assert_int_equal(wish_acquire(&wish), LEASE_HELD);
	pool_release(&wish.lease, true, -1);
	origin_unref(&origin);
	assert_int_equal(test.server.n_accepted, 1);
}

static void test_busy_connections_of_a_retired_origin_end(void **state)
{
	(void)state;
	struct wish idle, busy, late;
	struct origin *origin = with_idle_connection(&idle);
	wish_init(&busy, origin);
	wish_init(&late, origin);
	wish_hold(&busy, &test.room);
	wish_hold(&idle, &test.room);
	pool_release(&idle.lease, true, -1);
	test.upstreams[0].name = "renamed";
	registry_reconcile(test.room.registry, &test.config);
	assert_true(origin->is_retired);
	assert_int_equal(origin->n_idle, 0);
	assert_int_equal(origin->n_leased, 1);
	assert_int_equal(origin->metrics->breaker_closed, 0);
	struct origin *fresh = get(&test.upstream, false, "127.0.0.1", test.server.port);
	assert_ptr_not_equal(fresh, origin);
	origin_unref(&fresh);
	assert_int_equal(wish_acquire(&late), LEASE_CONNECTING); /* a retry of one that began before */
	assert_true(room_run_until(&test.room, &late.n_ready, 1));
	pool_release(&late.lease, true, -1);
	pool_release(&busy.lease, true, -1);
	assert_all_given_back(&test.room, origin);
	origin_unref(&origin); /* and so it is freed: the leak checker would tell */
	room_run(&test.room, 2);
	assert_true(list_is_empty(&test.room.registry->retired));
}

static bool is_retired_by_reload(struct origin *origin)
{
	registry_reconcile(test.room.registry, &test.config);
	bool is_retired = origin->is_retired;
	origin_unref(&origin);
	return is_retired;
}

static void test_host_that_moved_to_another_upstream(void **state)
{
	(void)state;
	test.upstreams[0].hosts = (struct string_list){ other_hosts, 1 };
	assert_true(is_retired_by_reload(get(&test.upstream, false, "127.0.0.1", 80)));
	test.upstreams[0].hosts = (struct string_list){ any_hosts, 1 };
	test.upstreams[1] = upstream_named("exact", hosts, 1);
	test.config.n_upstreams = 2;
	assert_true(is_retired_by_reload(get(&test.upstream, false, "127.0.0.1", 80)));
	assert_false(is_retired_by_reload(get(&test.upstream, false, "127.0.0.2", 80)));
}

/* The client names port 80, the policy says that 443 is dialed. */
static void test_originating_upstream_is_recognised(void **state)
{
	(void)state;
	static const uint16_t ports[] = { 80 };
	test.upstreams[0].ports = ports;
	test.upstreams[0].n_ports = 1;
	test.upstreams[0].tls.min_version = test.upstream.tls.min_version = TLS_1_2;
	assert_false(is_retired_by_reload(get(&test.upstream, true, "127.0.0.1", 443)));
}

/* `port:` names another port than the client does, and another upstream has the rest of the host's ports. */
static void test_upstream_with_ports_and_another_to_dial_is_recognised(void **state)
{
	(void)state;
	static const uint16_t ports[] = { 8080 };
	test.upstreams[0].ports = ports;
	test.upstreams[0].n_ports = 1;
	test.upstreams[1] = upstream_named("the rest", hosts, 1);
	test.config.n_upstreams = 2;
	assert_false(is_retired_by_reload(get(&test.upstream, false, "127.0.0.1", 8443)));
}

static void test_changed_tls_retires(void **state)
{
	(void)state;
	test.upstream.tls.min_version = TLS_1_2;
	test.upstreams[0].tls.min_version = TLS_1_2;
	struct origin *plain = get(&test.upstream, false, "127.0.0.1", 80);
	assert_false(is_retired_by_reload(get(&test.upstream, true, "127.0.0.1", 443)));
	test.upstreams[0].tls.min_version = TLS_1_3;
	assert_true(is_retired_by_reload(get(&test.upstream, true, "127.0.0.1", 443)));
	test.upstreams[0].tls.server_name = "other.example";
	test.upstreams[0].tls.min_version = TLS_1_2;
	assert_true(is_retired_by_reload(get(&test.upstream, true, "127.0.0.1", 443)));
	assert_false(plain->is_retired); /* has no TLS to change */
	origin_unref(&plain);
}

static void test_unmatched_hosts_have_an_upstream_too(void **state)
{
	(void)state;
	test.config.n_upstreams = 0;
	assert_false(is_retired_by_reload(get(&test.config.unmatched, false, "127.0.0.1", 80)));
	test.config.global.unmatched_deny = true;
	assert_true(is_retired_by_reload(get(&test.config.unmatched, false, "127.0.0.1", 80)));
}

static void sweep_now(void)
{
	test.room.registry->sweep_timer.on_due(test.room.registry->sweep_timer.owner);
}

static void test_unused_origins_are_forgotten(void **state)
{
	(void)state;
	struct origin *origin = get(&test.upstream, false, "127.0.0.1", 80), *old = origin;
	origin_unref(&origin);
	assert_int_equal(test.room.registry->n_origins, 1);
	assert_false(mono_is_never(test.room.registry->sweep_timer.due));
	sweep_now();
	assert_int_equal(test.room.registry->n_origins, 1); /* not long enough */
	old->last_used.us -= ORIGIN_IDLE_MS * 1000LL;
	old->breaker.state = BREAKER_OPEN;
	sweep_now();
	assert_int_equal(test.room.registry->n_origins, 1); /* its breaker is remembered for longer */
	old->breaker.state = BREAKER_CLOSED;
	old->quiet_until = mono_add_ms(clock_now(), 1000);
	sweep_now();
	assert_int_equal(test.room.registry->n_origins, 1); /* it asked for quiet */
	old->quiet_until = clock_now();
	sweep_now();
	assert_int_equal(test.room.registry->n_origins, 0);
	room_run(&test.room, 2);
	assert_true(list_is_empty(&test.room.registry->retired));
	assert_true(mono_is_never(test.room.registry->sweep_timer.due));
}

static void test_used_origins_are_not_forgotten(void **state)
{
	(void)state;
	struct origin *origin = get(&test.upstream, false, "127.0.0.1", 80);
	origin->last_used.us -= ORIGIN_IDLE_MS * 1000LL;
	sweep_now();
	assert_false(origin->is_retired);
	origin_unref(&origin);
}

static void test_the_number_of_origins_is_bounded(void **state)
{
	(void)state;
	char host[32], error[256] = "";
	static struct origin *origins[REGISTRY_MAX_ORIGINS];
	for (int i = 0; i < REGISTRY_MAX_ORIGINS; i++) {
		snprintf(host, sizeof(host), "h%d.example", i);
		origins[i] = get(&test.upstream, false, host, 80);
	}
	enum outcome refused = OUTCOME_RESPONSE;
	assert_null(registry_get(test.room.registry, &test.upstream, false, "one-more.example", 80, &refused, error, sizeof(error)));
	assert_int_equal(refused, OUTCOME_MAX_PENDING);
	assert_non_null(strstr(error, "10000"));
	assert_null(registry_get(test.room.registry, &test.upstream, true, "one-more.example", 443, &refused, error, sizeof(error)));
	assert_int_equal(refused, OUTCOME_MAX_PENDING); /* that it would be asked by TLS is not to blame */
	origins[3]->quiet_until.us = 1; /* to be known again by */
	origin_unref(&origins[7]);
	origin_unref(&origins[3]);
	struct origin *one_more = get(&test.upstream, false, "one-more.example", 80);
	assert_non_null(one_more); /* in the place of the one that is unused for longest */
	origins[3] = get(&test.upstream, false, "h3.example", 80);
	assert_int_equal(origins[3]->quiet_until.us, 1);
	assert_int_equal(test.room.registry->n_origins, REGISTRY_MAX_ORIGINS);
	origin_unref(&one_more);
	for (int i = 0; i < REGISTRY_MAX_ORIGINS; i++)
		origin_unref(&origins[i]); /* the 8th is NULL by now */
}

static void test_breaker_gauges_follow(void **state)
{
	(void)state;
	struct origin *origin = get(&test.upstream, false, "127.0.0.1", 80);
	struct upstream_metrics *metrics = origin->metrics;
	assert_int_equal(metrics->breaker_closed, 1);
	origin->breaker.state = BREAKER_OPEN;
	origin_sync_breaker(origin);
	origin_sync_breaker(origin);
	assert_int_equal(metrics->breaker_closed, 0);
	assert_int_equal(metrics->breaker_open, 1);
	origin->breaker.state = BREAKER_HALF_OPEN;
	origin_sync_breaker(origin);
	assert_int_equal(metrics->breaker_open, 0);
	assert_int_equal(metrics->breaker_half_open, 1);
	test.upstreams[0].name = "renamed";
	registry_reconcile(test.room.registry, &test.config);
	origin->breaker.state = BREAKER_OPEN;
	origin_sync_breaker(origin); /* a retired one counts no more */
	assert_int_equal(metrics->breaker_half_open + metrics->breaker_open + metrics->breaker_closed, 0);
	origin_unref(&origin);
}

static void count_visit(void *owner, const struct origin *origin)
{
	(void)origin;
	++*(int *)owner;
}

static void test_each_visits_all(void **state)
{
	(void)state;
	struct origin *first = get(&test.upstream, false, "127.0.0.1", 80);
	struct origin *second = get(&test.upstream, false, "127.0.0.1", 81);
	int n = 0;
	registry_each(test.room.registry, count_visit, &n);
	assert_int_equal(n, 2);
	origin_unref(&first);
	origin_unref(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_same_key_same_origin, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_tls_identity_tells_origins_apart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unreadable_tls_file_is_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_origins_are_all_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unchanged_upstream_keeps_its_connections, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_busy_connections_of_a_retired_origin_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_host_that_moved_to_another_upstream, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_originating_upstream_is_recognised, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_upstream_with_ports_and_another_to_dial_is_recognised, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changed_tls_retires, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unmatched_hosts_have_an_upstream_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unused_origins_are_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_used_origins_are_not_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_number_of_origins_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_breaker_gauges_follow, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_each_visits_all, set_up, tear_down),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_clear();
	return failed;
}
