/* Idle connections: what makes them unfit, how many are kept and how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "upstream_room.h"

static const char *const hosts[] = { "127.0.0.1" };

struct idle_test {
	struct room room;
	struct server server;
	struct upstream_def upstream;
	struct origin *origin;
	struct wish wishes[4];
};

static struct idle_test test;

static int set_up(void **state)
{
	*state = &test;
	room_open(&test.room, NULL);
	server_open(&test.server, &test.room);
	test.upstream = upstream_named("idle", hosts, 1);
	test.origin = origin_at(&test.room, &test.upstream, "127.0.0.1", test.server.port);
	for (size_t i = 0; i < 4; i++)
		wish_init(&test.wishes[i], test.origin);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++)
		pool_cancel(&test.wishes[i].lease);
	registry_close_idle(test.room.registry);
	assert_all_given_back(&test.room, test.origin);
	origin_unref(&test.origin);
	server_close(&test.server);
	room_close(&test.room);
	return 0;
}

static struct conn *idle_at(size_t index)
{
	struct list *link = test.origin->idle.next;
	while (index-- > 0)
		link = link->next;
	return LIST_ENTRY_OF(link, struct conn, link);
}

/* n connections, released in the order in which the server accepted them. */
static void park(size_t n, int64_t announced_ms)
{
	for (size_t i = 0; i < n; i++)
		wish_hold(&test.wishes[i], &test.room);
	assert_true(room_run_until_n(&test.room, &test.server.n_open, n));
	for (size_t i = 0; i < n; i++)
		pool_release(&test.wishes[i].lease, true, announced_ms);
}

static void make_older(struct conn *conn, int64_t age_ms)
{
	conn->idle_since.us -= age_ms * 1000;
}

static void test_most_recently_used_first(void **state)
{
	(void)state;
	park(3, -1);
	struct conn *newest = idle_at(0), *next = idle_at(1);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	assert_ptr_equal(test.wishes[0].lease.conn, newest);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_HELD);
	assert_ptr_equal(test.wishes[1].lease.conn, next);
}

static void test_end_of_an_idle_one_is_noticed(void **state)
{
	(void)state;
	park(2, -1);
	shutdown(test.server.connections[0].fd, SHUT_WR);
	assert_true(room_run_until_n(&test.room, &test.origin->n_idle, 1));
	assert_int_equal(registry_n_connections(test.room.registry), 1);
	assert_int_equal(send(test.server.connections[1].fd, "HTTP/1.1 200 OK\r\n\r\n", 19, 0), 19);
	assert_true(room_run_until_n(&test.room, &test.origin->n_idle, 0)); /* bytes that nobody asked for */
	assert_int_equal(test.origin->metrics->connections_idle, 0);
	assert_true(room_run_until_n(&test.room, &test.server.n_open, 0));
}

static void test_unrepeatable_request_is_not_given_a_readable_one(void **state)
{
	(void)state;
	park(2, -1);
	shutdown(test.server.connections[1].fd, SHUT_WR);
	usleep(5000); /* the FIN arrives, but the loop has not looked yet */
	test.wishes[0].order.is_repeatable = false;
	struct conn *older = idle_at(1);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	assert_ptr_equal(test.wishes[0].lease.conn, older);
	assert_int_equal(test.origin->n_idle, 0); /* the readable one is closed */
}

static void test_announced_time_is_not_used_up(void **state)
{
	(void)state;
	park(1, 5000);
	make_older(idle_at(0), 3990);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	pool_release(&test.wishes[0].lease, true, 5000);
	make_older(idle_at(0), 4000);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_CONNECTING); /* its last second has begun */
	assert_int_equal(test.origin->n_idle, 0);
	assert_true(room_run_until(&test.room, &test.wishes[0].n_ready, 2));
	pool_release(&test.wishes[0].lease, true, 1000);
	make_older(idle_at(0), 480);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	pool_release(&test.wishes[0].lease, true, 1000);
	make_older(idle_at(0), 500);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_CONNECTING);
}

static void test_unrepeatable_request_keeps_to_the_first_half(void **state)
{
	(void)state;
	park(1, 60000);
	test.wishes[1].order.is_repeatable = false;
	make_older(idle_at(0), 29000);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_HELD);
	pool_release(&test.wishes[1].lease, true, 20000);
	make_older(idle_at(0), 10000);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_CONNECTING);
	assert_int_equal(test.origin->n_idle, 1); /* still good enough for others */
	assert_int_equal(wish_acquire(&test.wishes[2]), LEASE_HELD);
}

static void test_idle_timeout_closes_by_itself(void **state)
{
	(void)state;
	test.origin->limits.idle_timeout_ms = 60;
	park(2, -1);
	room_run(&test.room, 20);
	assert_int_equal(test.origin->n_idle, 2);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	room_run(&test.room, 100);
	assert_int_equal(test.origin->n_idle, 0);
	assert_int_equal(test.origin->n_leased, 1); /* a busy one is let alone */
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 1);
	room_run(&test.room, 100);
	assert_int_equal(test.origin->n_idle, 0);
	assert_int_equal(test.server.n_open, 0);
}

static void test_announced_timeout_closes_by_itself(void **state)
{
	(void)state;
	park(1, 100);
	room_run(&test.room, 20);
	assert_int_equal(test.origin->n_idle, 1);
	room_run(&test.room, 80);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_announced_zero_is_not_kept(void **state)
{
	(void)state;
	park(1, 0);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_lifetime_ends_at_release(void **state)
{
	(void)state;
	test.origin->limits.max_lifetime_ms = 50;
	wish_hold(&test.wishes[0], &test.room);
	wish_hold(&test.wishes[1], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 1);
	room_run(&test.room, 80);
	assert_int_equal(test.origin->n_idle, 0);   /* by the timer */
	assert_int_equal(test.origin->n_leased, 1); /* not under a request */
	pool_release(&test.wishes[1].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_max_requests(void **state)
{
	(void)state;
	test.origin->limits.max_requests = 2;
	wish_hold(&test.wishes[0], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 1);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_max_idle_closes_the_oldest(void **state)
{
	(void)state;
	test.origin->limits.max_idle = 2;
	park(3, -1);
	assert_int_equal(test.origin->n_idle, 2);
	assert_true(room_run_until_n(&test.room, &test.server.n_open, 2));
	assert_int_equal(test.server.connections[0].fd, -1);
	test.origin->limits.max_idle = 0;
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_without_idle_ones_waiters_still_reuse(void **state)
{
	(void)state;
	test.origin->limits.max_idle = 0;
	test.origin->limits.max_connections = 1;
	wish_hold(&test.wishes[0], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[1]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[2]), LEASE_QUEUED);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_true(room_run_until(&test.room, &test.wishes[1].n_ready, 1));
	assert_true(test.wishes[1].lease.is_reused);
	pool_release(&test.wishes[1].lease, true, -1);
	pool_cancel(&test.wishes[2].lease);
	room_run(&test.room, 5);
	assert_int_equal(test.origin->n_idle, 0); /* nobody came for it */
	assert_int_equal(test.server.n_accepted, 1);
}

static void test_waiter_that_left_leaves_no_surplus(void **state)
{
	(void)state;
	test.origin->limits.max_idle = 0;
	test.origin->limits.max_connections = 2;
	wish_hold(&test.wishes[0], &test.room);
	wish_hold(&test.wishes[1], &test.room);
	assert_int_equal(wish_acquire(&test.wishes[2]), LEASE_QUEUED);
	assert_int_equal(wish_acquire(&test.wishes[3]), LEASE_QUEUED);
	pool_release(&test.wishes[0].lease, true, -1);
	pool_release(&test.wishes[1].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 2);
	pool_cancel(&test.wishes[3].lease);
	assert_true(room_run_until(&test.room, &test.wishes[2].n_ready, 1));
	assert_int_equal(test.origin->n_leased, 1);
	assert_int_equal(test.origin->n_idle, 0);
}

static void test_reading_goes_on_while_idle(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	assert_true(room_run_until_n(&test.room, &test.server.n_accepted, 1));
	stream_pause_reading(lease_stream(&test.wishes[0].lease));
	pool_release(&test.wishes[0].lease, true, -1);
	shutdown(test.server.connections[0].fd, SHUT_WR);
	assert_true(room_run_until_n(&test.room, &test.origin->n_idle, 0));
}

static void test_shut_or_closed_streams_are_not_kept(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	wish_hold(&test.wishes[1], &test.room);
	stream_shutdown(lease_stream(&test.wishes[0].lease));
	stream_close(lease_stream(&test.wishes[1].lease), true);
	pool_release(&test.wishes[0].lease, true, -1);
	pool_release(&test.wishes[1].lease, true, -1);
	assert_all_given_back(&test.room, test.origin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_most_recently_used_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end_of_an_idle_one_is_noticed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unrepeatable_request_is_not_given_a_readable_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_announced_time_is_not_used_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unrepeatable_request_keeps_to_the_first_half, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_idle_timeout_closes_by_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_announced_timeout_closes_by_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_announced_zero_is_not_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lifetime_ends_at_release, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_max_requests, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_max_idle_closes_the_oldest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_without_idle_ones_waiters_still_reuse, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_waiter_that_left_leaves_no_surplus, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reading_goes_on_while_idle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_shut_or_closed_streams_are_not_kept, set_up, tear_down),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_clear();
	return failed;
}
