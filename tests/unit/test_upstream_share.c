/* limits.upstream_connections: eviction of idle connections, starved origins, fair turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "upstream_room.h"

static const char *const hosts[] = { "127.0.0.1" };

#define N_ORIGINS 4
#define N_WISHES 4

struct share_test {
	struct room room;
	struct server servers[N_ORIGINS];
	struct upstream_def upstream;
	struct origin *origins[N_ORIGINS];
	struct wish wishes[N_ORIGINS][N_WISHES]; /* [0][n]: of the first origin */
};

static struct share_test test;

static int set_up(void **state)
{
	*state = &test;
	room_open(&test.room, NULL);
	test.upstream = upstream_named("share", hosts, 1);
	for (size_t i = 0; i < N_ORIGINS; i++) {
		server_open(&test.servers[i], &test.room);
		test.origins[i] = origin_at(&test.room, &test.upstream, "127.0.0.1", test.servers[i].port);
		for (size_t j = 0; j < N_WISHES; j++)
			wish_init(&test.wishes[i][j], test.origins[i]);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ORIGINS; i++)
		for (size_t j = 0; j < N_WISHES; j++)
			pool_cancel(&test.wishes[i][j].lease);
	registry_close_idle(test.room.registry);
	for (size_t i = 0; i < N_ORIGINS; i++) {
		assert_all_given_back(&test.room, test.origins[i]);
		origin_unref(&test.origins[i]);
		server_close(&test.servers[i]);
	}
	room_close(&test.room);
	return 0;
}

static void test_evicts_the_longest_idle(void **state)
{
	(void)state;
	test.room.registry->max_connections = 2;
	wish_hold(&test.wishes[1][0], &test.room);
	wish_hold(&test.wishes[0][0], &test.room);
	pool_release(&test.wishes[1][0].lease, true, -1);
	pool_release(&test.wishes[0][0].lease, true, -1);
	assert_int_equal(wish_acquire(&test.wishes[2][0]), LEASE_CONNECTING);
	assert_int_equal(test.origins[1]->n_idle, 0);
	assert_int_equal(test.origins[0]->n_idle, 1);
	assert_int_equal(process_metrics.upstream_connections, 2);
}

static void test_starved_origin_gets_what_is_closed(void **state)
{
	(void)state;
	test.room.registry->max_connections = 2;
	wish_hold(&test.wishes[0][0], &test.room);
	wish_hold(&test.wishes[0][1], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	assert_true(list_is_linked(&test.origins[1]->starved_link));
	room_run(&test.room, 10);
	assert_int_equal(test.wishes[1][0].n_ready, 0);
	pool_release(&test.wishes[0][0].lease, false, -1);
	assert_true(room_run_until(&test.room, &test.wishes[1][0].n_ready, 1));
	assert_false(list_is_linked(&test.origins[1]->starved_link));
	assert_int_equal(registry_n_connections(test.room.registry), 2);
}

static void test_starved_origin_gets_what_becomes_idle(void **state)
{
	(void)state;
	test.room.registry->max_connections = 1;
	wish_hold(&test.wishes[0][0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	pool_release(&test.wishes[0][0].lease, true, -1);
	assert_true(room_run_until(&test.room, &test.wishes[1][0].n_ready, 1));
	assert_int_equal(test.origins[0]->n_idle, 0);
}

static void test_starved_origins_take_turns(void **state)
{
	(void)state;
	test.room.registry->max_connections = 1;
	wish_hold(&test.wishes[0][0], &test.room);
	for (size_t j = 0; j < 2; j++)
		for (size_t i = 1; i < 3; i++)
			assert_int_equal(wish_acquire(&test.wishes[i][j]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[0][1]), LEASE_QUEUED); /* those who starve come first */
	struct wish *before = &test.wishes[0][0];
	struct wish *const order[] = { &test.wishes[1][0], &test.wishes[2][0], &test.wishes[0][1], &test.wishes[1][1],
				       &test.wishes[2][1] };
	for (size_t i = 0; i < 5; i++) {
		pool_release(&before->lease, false, -1);
		before = order[i];
		assert_true(room_run_until(&test.room, &before->n_ready, 1));
		assert_int_equal(registry_n_connections(test.room.registry), 1);
	}
	for (size_t i = 1; i < 5; i++)
		assert_int_equal(order[i]->turn, order[i - 1]->turn + 1);
}

/* An origin that always has a next request for its connections must not keep them all for itself. */
static void test_busy_origin_yields_to_a_starved_one(void **state)
{
	(void)state;
	test.room.registry->max_connections = 3;
	for (size_t j = 0; j < 3; j++)
		wish_hold(&test.wishes[0][j], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[1][1]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[0][3]), LEASE_QUEUED);
	pool_release(&test.wishes[0][0].lease, true, -1); /* 3 against 0: closed */
	assert_true(room_run_until(&test.room, &test.wishes[1][0].n_ready, 1));
	assert_int_equal(test.wishes[0][3].n_ready, 0);
	pool_release(&test.wishes[0][1].lease, true, -1); /* 2 against 1: its own waiter gets it */
	assert_true(room_run_until(&test.room, &test.wishes[0][3].n_ready, 1));
	assert_true(test.wishes[0][3].lease.is_reused);
	assert_int_equal(test.wishes[1][1].n_ready, 0);
	assert_int_equal(test.servers[0].n_accepted, 3);
}

static void test_idle_one_for_a_waiter_is_not_evicted(void **state)
{
	(void)state;
	test.room.registry->max_connections = 1;
	wish_hold(&test.wishes[0][0], &test.room);
	test.origins[0]->limits.max_connections = 1;
	assert_int_equal(wish_acquire(&test.wishes[0][1]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	pool_release(&test.wishes[0][0].lease, true, -1);
	assert_true(room_run_until(&test.room, &test.wishes[0][1].n_ready, 1));
	assert_true(test.wishes[0][1].lease.is_reused);
	pool_release(&test.wishes[0][1].lease, true, -1);
	assert_true(room_run_until(&test.room, &test.wishes[1][0].n_ready, 1));
}

/* The same when starved origins have their turns first in the loop's round. */
static void test_idle_one_for_a_waiter_survives_a_starved_turn(void **state)
{
	(void)state;
	test.room.registry->max_connections = 2;
	test.origins[0]->limits.max_connections = 1;
	wish_hold(&test.wishes[0][0], &test.room);
	wish_hold(&test.wishes[2][0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[0][1]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[3][0]), LEASE_QUEUED);
	pool_release(&test.wishes[2][0].lease, false, -1);
	pool_release(&test.wishes[0][0].lease, true, -1);
	assert_true(room_run_until(&test.room, &test.wishes[0][1].n_ready, 1));
	assert_true(test.wishes[0][1].lease.is_reused);
	assert_true(room_run_until(&test.room, &test.wishes[1][0].n_ready, 1));
	assert_int_equal(test.wishes[3][0].n_ready, 0);
}

static void test_all_room_is_given_to_the_starved(void **state)
{
	(void)state;
	test.room.registry->max_connections = 2;
	wish_hold(&test.wishes[0][0], &test.room);
	wish_hold(&test.wishes[0][1], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[1][1]), LEASE_QUEUED);
	pool_release(&test.wishes[0][0].lease, false, -1);
	pool_release(&test.wishes[0][1].lease, false, -1);
	assert_true(room_run_until(&test.room, &test.wishes[1][1].n_ready, 1));
	assert_int_equal(test.origins[1]->n_leased, 2);
}

static void test_cancelled_waiter_no_longer_starves(void **state)
{
	(void)state;
	test.room.registry->max_connections = 1;
	wish_hold(&test.wishes[0][0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_QUEUED);
	pool_cancel(&test.wishes[1][0].lease);
	assert_false(list_is_linked(&test.origins[1]->starved_link));
	pool_cancel(&test.wishes[0][0].lease);
	assert_int_equal(wish_acquire(&test.wishes[2][0]), LEASE_CONNECTING);
}

static void test_refused_one_does_not_starve(void **state)
{
	(void)state;
	test.room.registry->max_connections = 1;
	test.origins[1]->limits.max_pending = 0;
	wish_hold(&test.wishes[0][0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1][0]), LEASE_NONE);
	assert_false(list_is_linked(&test.origins[1]->starved_link));
	pool_cancel(&test.wishes[0][0].lease);
	assert_int_equal(wish_acquire(&test.wishes[2][0]), LEASE_CONNECTING);
}

static void test_limit_that_falls_closes_idle_ones(void **state)
{
	(void)state;
	static struct config config;
	for (size_t i = 0; i < 3; i++)
		wish_hold(&test.wishes[i][0], &test.room);
	pool_release(&test.wishes[0][0].lease, true, -1);
	config.upstreams = &test.upstream;
	config.n_upstreams = 1;
	config.unmatched.name = "default";
	config.global.limits.upstream_connections = 1;
	registry_reconcile(test.room.registry, &config);
	assert_int_equal(test.origins[0]->n_idle, 0);
	assert_int_equal(registry_n_connections(test.room.registry), 2); /* the busy ones go on */
	pool_release(&test.wishes[1][0].lease, true, -1);
	assert_int_equal(registry_n_connections(test.room.registry), 1); /* and go when they come back */
	pool_release(&test.wishes[2][0].lease, true, -1);
	assert_int_equal(test.origins[2]->n_idle, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_evicts_the_longest_idle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_starved_origin_gets_what_is_closed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_starved_origin_gets_what_becomes_idle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_starved_origins_take_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_busy_origin_yields_to_a_starved_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_idle_one_for_a_waiter_is_not_evicted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_idle_one_for_a_waiter_survives_a_starved_turn, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_all_room_is_given_to_the_starved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cancelled_waiter_no_longer_starves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused_one_does_not_starve, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_limit_that_falls_closes_idle_ones, set_up, tear_down),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_clear();
	return failed;
}
