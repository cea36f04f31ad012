/* One way of a tunnel: order, back-pressure, the end after the last byte, resets; copied and through a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/front/flow.h"

/* near[0] and far[0] are the tunnel's ends; near[1] and far[1] are the peers. */
struct bench {
	struct loop *loop;
	int near[2], far[2];
	struct stream from, to;
	struct flow flow;
};

static void ignore(void *owner)
{
	(void)owner;
}

static const struct stream_ops ops = { .on_readable = ignore, .on_writable = ignore };

static void pair_tcp(int pair[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, length), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
	pair[1] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(pair[1], (struct sockaddr *)&at, length), 0);
	pair[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_true(pair[0] >= 0);
	close(listener);
}

static void set_up(struct bench *bench)
{
	bench->loop = loop_new();
	pair_tcp(bench->near);
	pair_tcp(bench->far);
	stream_open(&bench->from, bench->loop, bench->near[0], NULL, &ops, NULL);
	stream_open(&bench->to, bench->loop, bench->far[0], NULL, &ops, NULL);
	flow_init(&bench->flow, &bench->from, &bench->to);
}

static void tear_down(struct bench *bench)
{
	flow_clear(&bench->flow);
	stream_close(&bench->from, false);
	stream_close(&bench->to, false);
	close(bench->near[1]);
	close(bench->far[1]);
	loop_free(&bench->loop);
}

/* Not by a peek, which would take a reset's error away. */
static void wait_readable(const struct stream *stream)
{
	struct pollfd asked = { .fd = stream->fd, .events = POLLIN };
	assert_int_equal(poll(&asked, 1, 1000), 1);
}

static void test_first_bytes_go_first(void **state)
{
	(void)state;
	struct bench bench;
	char got[16] = "";
	set_up(&bench);
	buffer_append_slice(&bench.flow.pending, SLICE("one"));
	assert_int_equal(write(bench.near[1], "two", 3), 3);
	wait_readable(&bench.from);
	assert_int_equal(flow_pump(&bench.flow), FLOW_WAITING);
	assert_int_equal(recv(bench.far[1], got, 6, MSG_WAITALL), 6);
	assert_string_equal(got, "onetwo");
	assert_int_equal(bench.flow.n_bytes, 6);
	tear_down(&bench);
}

static void test_end_follows_the_last_byte(void **state)
{
	(void)state;
	struct bench bench;
	char got[16];
	set_up(&bench);
	assert_int_equal(write(bench.near[1], "last", 4), 4);
	shutdown(bench.near[1], SHUT_WR);
	wait_readable(&bench.from);
	usleep(20000);
	assert_int_equal(flow_pump(&bench.flow), FLOW_ENDED);
	assert_int_equal(recv(bench.far[1], got, sizeof(got), MSG_WAITALL), 4);
	assert_int_equal(recv(bench.far[1], got, sizeof(got), 0), 0);
	assert_false(bench.from.is_reading);
	/* Only this way has ended. */
	assert_int_equal(write(bench.far[1], "x", 1), 1);
	wait_readable(&bench.to);
	assert_int_equal(flow_pump(&bench.flow), FLOW_ENDED);
	tear_down(&bench);
}

static void test_reset_is_a_failure(void **state)
{
	(void)state;
	struct bench bench;
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
	set_up(&bench);
	setsockopt(bench.near[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(bench.near[1]);
	bench.near[1] = dup(bench.far[1]);
	wait_readable(&bench.from);
	assert_int_equal(flow_pump(&bench.flow), FLOW_FAILED);
	tear_down(&bench);
}

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 31 + i / 251);
}

/* Sends what the near peer's socket takes, starting at offset *sent of the pattern. */
static void feed(struct bench *bench, size_t *sent, size_t total)
{
	unsigned char piece[65536];
	while (*sent < total) {
		size_t n = total - *sent < sizeof(piece) ? total - *sent : sizeof(piece);
		for (size_t i = 0; i < n; i++)
			piece[i] = byte_at(*sent + i);
		ssize_t taken = send(bench->near[1], piece, n, MSG_DONTWAIT);
		if (taken <= 0)
			return;
		*sent += (size_t)taken;
	}
}

static void drain(struct bench *bench, size_t *received)
{
	unsigned char piece[50000];
	ssize_t n = recv(bench->far[1], piece, sizeof(piece), MSG_DONTWAIT);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(piece[i], byte_at(*received + (size_t)i));
	*received += n > 0 ? (size_t)n : 0;
}

static void run_until_blocked(struct bench *bench, size_t *sent, size_t total)
{
	enum flow_result result = FLOW_WAITING;
	for (int i = 0; i < 100000 && result != FLOW_BLOCKED; i++) {
		feed(bench, sent, total);
		result = flow_pump(&bench->flow);
		assert_int_not_equal(result, FLOW_FAILED);
	}
	assert_int_equal(result, FLOW_BLOCKED);
	assert_false(bench->from.is_reading);
	assert_true(buffer_length(&bench->flow.pending) + bench->flow.pipe.n_bytes <= LOOP_SCRATCH_BYTES);
}

static void run_big(bool refuses_pipe)
{
	const size_t total = 40 * 1024 * 1024;
	struct bench bench;
	size_t sent = 0, received = 0;
	bool used_pipe = false;
	set_up(&bench);
	bench.flow.is_pipe_refused = refuses_pipe;
	run_until_blocked(&bench, &sent, total);
	while (received < total) {
		feed(&bench, &sent, total);
		assert_int_not_equal(flow_pump(&bench.flow), FLOW_FAILED);
		used_pipe |= bench.flow.pipe.read_end >= 0;
		drain(&bench, &received);
	}
	assert_int_equal(bench.flow.n_bytes, total);
	assert_int_equal(used_pipe, !refuses_pipe);
	assert_int_equal(flow_pump(&bench.flow), FLOW_WAITING);
	assert_true(bench.from.is_reading);
	flow_rest(&bench.flow);
	assert_int_equal(bench.flow.pipe.read_end, -1);
	tear_down(&bench);
}

static void test_slow_reader_copied(void **state)
{
	(void)state;
	run_big(true);
}

static void test_slow_reader_through_a_pipe(void **state)
{
	(void)state;
	run_big(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_bytes_go_first),
		cmocka_unit_test(test_end_follows_the_last_byte),
		cmocka_unit_test(test_reset_is_a_failure),
		cmocka_unit_test(test_slow_reader_copied),
		cmocka_unit_test(test_slow_reader_through_a_pipe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
