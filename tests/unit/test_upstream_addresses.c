/* A name that moves: asked anew after its TTL; idle connections to an address that is gone closed. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "upstream_room.h"

/* Answers A questions with one address, every other question with nothing. */
struct name_server {
	struct event event;
	int fd;
	char text[32]; /* "127.0.0.1:PORT" */
	uint8_t address[4];
	uint8_t ttl_s;
	uint8_t code; /* 2: SERVFAIL */
	int n_questions; /* for A */
};

struct address_test {
	struct room room;
	struct server server;
	struct name_server names;
	struct upstream_def upstream;
	struct origin *origin;
	struct wish wishes[2];
};

static const char *const hosts[] = { "moving.example" };
static struct address_test test;

static size_t question_end(const uint8_t *message, size_t length)
{
	size_t at = 12;
	while (at < length && message[at] != 0)
		at += message[at] + 1u;
	return at + 5 <= length ? at + 5 : 0;
}

static void on_question(evutil_socket_t fd, short what, void *context)
{
	struct name_server *names = context;
	uint8_t message[512];
	struct sockaddr_in from;
	socklen_t from_length = sizeof(from);
	(void)what;
	ssize_t n = recvfrom(fd, message, sizeof(message) - 16, 0, (struct sockaddr *)&from, &from_length);
	size_t end = n > 12 ? question_end(message, (size_t)n) : 0;
	if (end == 0)
		return;
	bool is_a = message[end - 3] == 1;
	names->n_questions += is_a;
	message[2] = 0x85;
	message[3] = (uint8_t)(0x80 | names->code);
	bool has_answer = is_a && names->code == 0;
	const uint8_t counts[] = { 0, 1, 0, has_answer, 0, 0, 0, 0 };
	memcpy(message + 4, counts, sizeof(counts));
	const uint8_t answer[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, names->ttl_s, 0, 4, names->address[0],
				   names->address[1], names->address[2], names->address[3] };
	if (has_answer)
		memcpy(message + end, answer, sizeof(answer));
	sendto(fd, message, end + (has_answer ? sizeof(answer) : 0), 0, (struct sockaddr *)&from, from_length);
}

static void names_open(struct name_server *names)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	memset(names, 0, sizeof(*names));
	names->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(names->fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(names->fd, (struct sockaddr *)&address, &length), 0);
	snprintf(names->text, sizeof(names->text), "127.0.0.1:%u", ntohs(address.sin_port));
	memcpy(names->address, (uint8_t[]){ 127, 0, 0, 1 }, 4);
	names->ttl_s = 1;
}

static int set_up(void **state)
{
	*state = &test;
	names_open(&test.names);
	room_open(&test.room, test.names.text);
	event_assign(&test.names.event, test.room.loop->base, test.names.fd, EV_READ | EV_PERSIST, on_question, &test.names);
	event_add(&test.names.event, NULL);
	server_open(&test.server, &test.room);
	test.upstream = upstream_named("moving", hosts, 1);
	test.origin = origin_at(&test.room, &test.upstream, "moving.example", test.server.port);
	for (size_t i = 0; i < 2; i++)
		wish_init(&test.wishes[i], test.origin);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++)
		pool_cancel(&test.wishes[i].lease);
	registry_close_idle(test.room.registry);
	assert_all_given_back(&test.room, test.origin);
	origin_unref(&test.origin);
	server_close(&test.server);
	event_del(&test.names.event);
	room_close(&test.room);
	close(test.names.fd);
	return 0;
}

static const char *address_of(const struct wish *wish)
{
	static char text[64];
	address_format(lease_address(&wish->lease), text, sizeof(text));
	return text;
}

static void move_to(uint8_t last)
{
	test.names.address[3] = last;
}

static void test_dial_learns_the_addresses(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	assert_string_equal(address_of(&test.wishes[0]), "127.0.0.1");
	assert_non_null(test.origin->addresses);
	assert_int_equal(test.origin->addresses->n, 1);
	assert_int_equal(test.names.n_questions, 1); /* from the resolver's cache, not by another question */
}

static void test_move_closes_idle_and_marks_busy(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	wish_hold(&test.wishes[1], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	move_to(2);
	room_run(&test.room, 1050);
	assert_int_equal(test.origin->n_idle, 1); /* nobody asked for the name meanwhile */
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD); /* not delayed by the question that it starts */
	assert_string_equal(address_of(&test.wishes[0]), "127.0.0.1");
	assert_non_null(test.origin->refresh);
	pool_release(&test.wishes[0].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 1);
	assert_true(room_run_until_n(&test.room, &test.origin->n_idle, 0));
	assert_null(test.origin->refresh);
	assert_int_equal(test.names.n_questions, 2);
	pool_release(&test.wishes[1].lease, true, -1);
	assert_int_equal(test.origin->n_idle, 0); /* busy then, and not kept now */
	wish_hold(&test.wishes[0], &test.room);
	assert_string_equal(address_of(&test.wishes[0]), "127.0.0.2");
}

static void test_ill_name_server_disturbs_nobody(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	test.names.code = 2;
	room_run(&test.room, 1050);
	int n_before = test.names.n_questions;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
		pool_release(&test.wishes[0].lease, true, -1);
		room_run(&test.room, 2);
	}
	assert_null(test.origin->refresh);
	assert_int_equal(test.server.n_accepted, 1);
	assert_true(test.names.n_questions > n_before);
	assert_true(test.names.n_questions <= n_before + 3); /* one lookup a second, whatever its own repeats */
}

static void test_retired_origin_asks_no_more(void **state)
{
	(void)state;
	wish_hold(&test.wishes[0], &test.room);
	pool_release(&test.wishes[0].lease, true, -1);
	room_run(&test.room, 1050);
	assert_int_equal(wish_acquire(&test.wishes[0]), LEASE_HELD);
	assert_non_null(test.origin->refresh);
	origin_retire(test.origin);
	assert_null(test.origin->refresh);
	room_run(&test.room, 20);
	assert_int_equal(test.wishes[0].lease.state, LEASE_HELD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dial_learns_the_addresses, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_move_closes_idle_and_marks_busy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ill_name_server_disturbs_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_retired_origin_asks_no_more, set_up, tear_down),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	metrics_clear();
	return failed;
}
