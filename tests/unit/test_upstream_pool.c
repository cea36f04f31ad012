/* Leases of one origin: order, limits, cancelling in every state, failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "upstream_room.h"

static const char *const hosts[] = { "127.0.0.1" };

struct pool_test {
	struct room room;
	struct server server;
	struct upstream_def upstream;
	struct origin *origin;
	struct wish wishes[8];
};

static struct pool_test test;

static int set_up(void **state)
{
	*state = &test;
	room_open(&test.room, NULL);
	server_open(&test.server, &test.room);
	test.upstream = upstream_named("pool", hosts, 1);
	test.origin = origin_at(&test.room, &test.upstream, "127.0.0.1", test.server.port);
	for (size_t i = 0; i < 8; i++)
		wish_init(&test.wishes[i], test.origin);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < 8; i++)
		pool_cancel(&test.wishes[i].lease);
	registry_close_idle(test.room.registry);
	assert_all_given_back(&test.room, test.origin);
	origin_unref(&test.origin);
	server_close(&test.server);
	room_close(&test.room);
	return 0;
}

static void test_dials_then_reuses(void **state)
{
	(void)state;
	struct wish *wish = &test.wishes[0];
	uint64_t n_opened = test.origin->metrics->connections_opened, n_reused = test.origin->metrics->connections_reused;
	assert_int_equal(wish_acquire(wish), LEASE_CONNECTING);
	assert_int_equal(wish->n_progress + wish->n_ready + wish->n_failed, 0);
	assert_int_equal(test.origin->metrics->in_flight, 1);
	assert_int_equal(test.origin->metrics->connections_connecting, 1);
	assert_int_equal(process_metrics.upstream_connections, 1);
	assert_true(room_run_until(&test.room, &wish->n_ready, 1));
	assert_false(wish->lease.is_reused);
	assert_true(mono_is_set(wish->lease.granted) && mono_is_set(wish->lease.connecting) && mono_is_set(wish->lease.held));
	assert_false(mono_is_set(wish->lease.securing));
	char text[64];
	address_format(lease_address(&wish->lease), text, sizeof(text));
	assert_string_equal(text, "127.0.0.1");
	assert_int_equal(test.origin->metrics->connections_active, 1);
	pool_release(&wish->lease, true, -1);
	assert_int_equal(wish->lease.state, LEASE_NONE);
	assert_int_equal(test.origin->metrics->in_flight, 0);
	assert_int_equal(test.origin->metrics->connections_idle, 1);

	assert_int_equal(wish_acquire(wish), LEASE_HELD);
	assert_true(wish->lease.is_reused);
	assert_false(mono_is_set(wish->lease.connecting));
	assert_int_equal(wish->n_ready, 1);
	assert_int_equal(test.origin->metrics->connections_opened - n_opened, 1);
	assert_int_equal(test.origin->metrics->connections_reused - n_reused, 1);
	pool_release(&wish->lease, false, -1);
	assert_int_equal(test.origin->n_idle, 0);
	assert_true(room_run_until_n(&test.room, &test.server.n_open, 0));
	assert_int_equal(test.server.n_accepted, 1);
}

static void test_waiters_are_served_in_order(void **state)
{
	(void)state;
	test.origin->limits.max_connections = 1;
	wish_hold(&test.wishes[0], &test.room);
	for (size_t i = 1; i < 4; i++) {
		assert_int_equal(wish_acquire(&test.wishes[i]), LEASE_QUEUED);
		assert_int_equal(pool_n_waiting(test.origin), i);
	}
	assert_int_equal(test.origin->metrics->pending, 3);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.wishes[1].n_ready, 0); /* not from within another's release */
	assert_int_equal(wish_acquire(&test.wishes[4]), LEASE_QUEUED); /* a newcomer doesn't pass them */
	for (size_t i = 1; i < 5; i++) {
		assert_true(room_run_until(&test.room, &test.wishes[i].n_ready, 1));
		assert_true(test.wishes[i].lease.is_reused);
		assert_int_equal(test.origin->n_leased, 1);
		if (i < 4)
			assert_int_equal(test.wishes[i + 1].n_ready, 0);
		pool_release(&test.wishes[i].lease, true, -1);
	}
	for (size_t i = 2; i < 5; i++)
		assert_int_equal(test.wishes[i].turn, test.wishes[i - 1].turn + 1);
	assert_int_equal(test.server.n_accepted, 1);
}

static void test_seats_bound_what_is_in_flight(void **state)
{
	(void)state;
	test.origin->limits.max_in_flight = 2;
	wish_hold(&test.wishes[0], &test.room);
	wish_hold(&test.wishes[1], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[2]), LEASE_QUEUED);
	pool_release(&test.wishes[0].lease, false, -1);
	assert_true(room_run_until(&test.room, &test.wishes[2].n_ready, 1));
	assert_int_equal(test.wishes[2].n_progress >= 1, true); /* QUEUED -> CONNECTING is told */
	assert_int_equal(test.origin->n_seats, 2);
	assert_int_equal(test.origin->metrics->in_flight, 2);
}

static void test_refuses_beyond_max_pending(void **state)
{
	(void)state;
	test.origin->limits.max_connections = 1;
	test.origin->limits.max_pending = 2;
	uint64_t n_refused = test.origin->metrics->pool_rejected[POOL_REJECTED_MAX_PENDING];
	wish_hold(&test.wishes[0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[2]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[3]), LEASE_NONE);
	assert_int_equal(test.wishes[3].lease.refused, OUTCOME_MAX_PENDING);
	assert_non_null(test.wishes[3].lease.refused_detail);
	assert_int_equal(test.origin->metrics->pool_rejected[POOL_REJECTED_MAX_PENDING] - n_refused, 1);
	assert_int_equal(test.origin->n_waiting, 2);
	pool_cancel(&test.wishes[1].lease);
	assert_int_equal(wish_acquire(&test.wishes[3]), LEASE_QUEUED);
}

static void test_cancel_gives_everything_back(void **state)
{
	(void)state;
	struct wish *wish = &test.wishes[0];
	wish_acquire(wish);
	assert_int_equal(wish->lease.state, LEASE_CONNECTING);
	pool_cancel(&wish->lease);
	pool_cancel(&wish->lease); /* idempotent */
	assert_all_given_back(&test.room, test.origin);

	wish->cancels_on_progress = true;
	wish_acquire(wish);
	assert_true(room_run_until(&test.room, &wish->n_progress, 1));
	assert_all_given_back(&test.room, test.origin);

	wish->cancels_on_progress = false;
	wish->cancels_on_ready = true;
	wish_acquire(wish);
	assert_true(room_run_until(&test.room, &wish->n_ready, 1));
	assert_all_given_back(&test.room, test.origin);

	wish->cancels_on_ready = false;
	wish_hold(wish, &test.room);
	test.origin->limits.max_connections = 1;
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_QUEUED);
	pool_cancel(&test.wishes[1].lease);
	assert_int_equal(test.origin->n_waiting, 0);
	assert_int_equal(test.origin->metrics->pending, 0);
	pool_cancel(&wish->lease);
	assert_all_given_back(&test.room, test.origin);
	room_run(&test.room, 30);
	assert_int_equal(wish->n_failed + test.wishes[1].n_failed + test.wishes[1].n_ready, 0);
	assert_int_equal(test.server.n_open, 0);
}

static void test_cancelled_dial_lets_the_next_one_dial(void **state)
{
	(void)state;
	test.origin->limits.max_connections = 1;
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_CONNECTING);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_QUEUED);
	pool_cancel(&test.wishes[0].lease);
	assert_int_equal(test.wishes[1].lease.state, LEASE_QUEUED);
	assert_true(room_run_until(&test.room, &test.wishes[1].n_ready, 1));
	assert_int_equal(test.wishes[0].n_ready, 0);
}

static void test_refused_dial_fails_and_serves_the_next(void **state)
{
	(void)state;
	struct origin *origin = origin_at(&test.room, &test.upstream, "127.0.0.1", refused_port());
	origin->limits.max_in_flight = 1;
	struct wish first, second;
	wish_init(&first, origin);
	wish_init(&second, origin);
	assert_int_equal(wish_acquire(&first), LEASE_CONNECTING);
	assert_int_equal(wish_acquire(&second), LEASE_QUEUED);
	assert_true(room_run_until(&test.room, &second.n_failed, 1));
	assert_int_equal(first.n_failed, 1);
	assert_int_equal(first.outcome, OUTCOME_CONNECT_REFUSED);
	assert_non_null(strstr(first.detail, "127.0.0.1"));
	assert_int_equal(first.n_ready + second.n_ready, 0);
	assert_all_given_back(&test.room, origin);
	origin_unref(&origin);
}

static void test_denied_address_is_an_outcome_of_its_own(void **state)
{
	(void)state;
	const struct cidr deny = { .address = { 127 }, .prefix_length = 8 };
	const struct egress_rule egress = { .deny = &deny, .n_deny = 1 };
	test.wishes[0].order.egress = &egress;
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_CONNECTING);
	assert_true(room_run_until(&test.room, &test.wishes[0].n_failed, 1));
	assert_int_equal(test.wishes[0].outcome, OUTCOME_ADDRESS_DENIED);
	assert_int_equal(test.server.n_accepted, 0);
}

static void test_fresh_only_never_takes_an_idle_one(void **state)
{
	(void)state;
	test.origin->limits.max_connections = 1;
	wish_hold(&test.wishes[0], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	test.wishes[1].order.is_fresh_only = true;
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_CONNECTING); /* the idle one made way */
	assert_true(room_run_until(&test.room, &test.wishes[1].n_ready, 1));
	assert_false(test.wishes[1].lease.is_reused);
	assert_int_equal(test.origin->n_leased, 1);
	assert_int_equal(test.origin->n_idle, 0);
	assert_true(room_run_until_n(&test.room, &test.server.n_open, 1));
	assert_int_equal(test.server.n_accepted, 2);
}

static void test_tunnels_never_come_back(void **state)
{
	(void)state;
	test.wishes[0].order.is_tunnel = true;
	wish_hold(&test.wishes[0], &test.room);
	pool_move(&test.wishes[1].lease, &test.wishes[0].lease, &wish_ops, &test.wishes[1]);
	assert_int_equal(test.wishes[0].lease.state, LEASE_NONE);
	assert_int_equal(test.wishes[1].lease.state, LEASE_HELD);
	assert_int_equal(test.origin->n_seats, 1);
	assert_int_equal(send(test.server.connections[0].fd, "x", 1, 0), 1);
	assert_true(room_run_until(&test.room, &test.wishes[1].n_readable, 1));
	assert_int_equal(test.wishes[0].n_readable, 0);
	pool_release(&test.wishes[1].lease, true, -1);
	assert_all_given_back(&test.room, test.origin);
}

static void test_higher_limits_serve_those_who_wait(void **state)
{
	(void)state;
	static struct config config;
	test.upstream.policy.pool.max_connections = 1;
	test.origin->limits.max_connections = 1;
	wish_hold(&test.wishes[0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_QUEUED);
	config.upstreams = &test.upstream;
	config.n_upstreams = 1;
	config.unmatched.name = "default";
	config.global.limits.upstream_connections = 1000;
	test.upstream.policy.pool.max_connections = 2;
	registry_reconcile(test.room.registry, &config);
	assert_int_equal(test.wishes[1].n_ready, 0);
	assert_true(room_run_until(&test.room, &test.wishes[1].n_ready, 1));
	assert_int_equal(test.server.n_accepted, 2);
	assert_false(test.origin->is_retired);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dials_then_reuses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_waiters_are_served_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_seats_bound_what_is_in_flight, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refuses_beyond_max_pending, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cancel_gives_everything_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cancelled_dial_lets_the_next_one_dial, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused_dial_fails_and_serves_the_next, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_denied_address_is_an_outcome_of_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_fresh_only_never_takes_an_idle_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_tunnels_never_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_higher_limits_serve_those_who_wait, set_up, tear_down),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_clear();
	return failed;
}
