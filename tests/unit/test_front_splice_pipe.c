/* Pipes between sockets: what goes through them, and what becomes of it when one end can't be spliced. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../proxy/front/splice_pipe.h"
#include "../../proxy/net/stream.h"

struct bench {
	struct splice_pipe pipe;
	int from[2], to[2]; /* socket pairs: write into from[0], read what arrives from to[1] */
};

static void set_up(struct bench *bench)
{
	splice_pipe_init(&bench->pipe);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bench->from), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bench->to), 0);
	assert_true(splice_pipe_open(&bench->pipe));
}

static void tear_down(struct bench *bench)
{
	splice_pipe_close(&bench->pipe);
	for (int i = 0; i < 2; i++) {
		close(bench->from[i]);
		close(bench->to[i]);
	}
}

static void test_bytes_go_through(void **state)
{
	(void)state;
	struct bench bench;
	char arrived[8];
	uint64_t n_moved = 5;
	set_up(&bench);
	assert_int_equal(splice_pipe_fill(&bench.pipe, bench.from[1], 100), STREAM_AGAIN);
	assert_int_equal(write(bench.from[0], "abcdef", 6), 6);
	assert_int_equal(splice_pipe_fill(&bench.pipe, bench.from[1], 4), 4);
	assert_int_equal(bench.pipe.n_bytes, 4);
	assert_int_equal(splice_pipe_drain(&bench.pipe, bench.to[0], &n_moved), 1);
	assert_int_equal(n_moved, 9);
	assert_int_equal(bench.pipe.n_bytes, 0);
	assert_int_equal(read(bench.to[1], arrived, sizeof(arrived)), 4);
	assert_memory_equal(arrived, "abcd", 4);
	assert_int_equal(splice_pipe_fill(&bench.pipe, bench.from[1], 100), 2);
	close(bench.from[0]);
	bench.from[0] = dup(bench.from[1]);
	assert_int_equal(splice_pipe_fill(&bench.pipe, bench.from[1], 100), STREAM_EOF);
	tear_down(&bench);
}

/* The kernel splices into no file that is open for appending (splice(2): EINVAL). */
static void test_what_cant_leave_is_taken_back(void **state)
{
	(void)state;
	struct bench bench;
	char path[] = "/tmp/evenkeel-splice-XXXXXX";
	struct buffer into = { 0 };
	uint64_t n_moved = 0;
	set_up(&bench);
	int file = mkstemp(path);
	assert_true(file >= 0);
	unlink(path);
	assert_int_equal(fcntl(file, F_SETFL, O_APPEND), 0);
	assert_int_equal(write(bench.from[0], "abcdef", 6), 6);
	assert_int_equal(splice_pipe_fill(&bench.pipe, bench.from[1], 100), 6);
	assert_int_equal(splice_pipe_drain(&bench.pipe, file, &n_moved), SPLICE_IMPOSSIBLE);
	assert_int_equal(n_moved, 0);
	buffer_append(&into, "0", 1);
	assert_true(splice_pipe_empty(&bench.pipe, &into));
	assert_int_equal(buffer_length(&into), 7);
	assert_memory_equal(buffer_start(&into), "0abcdef", 7);
	assert_false(splice_pipe_is_open(&bench.pipe));
	assert_int_equal(bench.pipe.n_bytes, 0);
	buffer_clear(&into);
	close(file);
	tear_down(&bench);
}

static void set_limit(rlim_t limit)
{
	struct rlimit now;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_true(limit <= now.rlim_max);
	now.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void test_descriptors_are_left_for_connections(void **state)
{
	(void)state;
	struct splice_pipe pipes[5];
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	set_limit(64); /* an eighth are 8 descriptors */
	for (size_t i = 0; i < 4; i++)
		assert_true(splice_pipe_open(&pipes[i]));
	assert_false(splice_pipe_open(&pipes[4]));
	splice_pipe_close(&pipes[3]);
	set_limit(63);
	assert_false(splice_pipe_open(&pipes[3]));
	set_limit(before.rlim_cur);
	for (size_t i = 0; i < 3; i++)
		splice_pipe_close(&pipes[i]);
}

static void test_their_number_is_bounded(void **state)
{
	(void)state;
	struct splice_pipe pipes[SPLICE_MAX_PIPES + 1];
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 2 * SPLICE_MAX_PIPES * SPLICE_DESCRIPTORS_SHARE)
		skip();
	set_limit(2 * SPLICE_MAX_PIPES * SPLICE_DESCRIPTORS_SHARE);
	for (size_t i = 0; i < SPLICE_MAX_PIPES; i++)
		assert_true(splice_pipe_open(&pipes[i]));
	splice_pipe_init(&pipes[SPLICE_MAX_PIPES]);
	assert_false(splice_pipe_open(&pipes[SPLICE_MAX_PIPES]));
	assert_false(splice_pipe_is_open(&pipes[SPLICE_MAX_PIPES]));
	splice_pipe_close(&pipes[0]);
	splice_pipe_close(&pipes[0]);
	assert_true(splice_pipe_open(&pipes[SPLICE_MAX_PIPES]));
	for (size_t i = 1; i <= SPLICE_MAX_PIPES; i++)
		splice_pipe_close(&pipes[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_go_through),
		cmocka_unit_test(test_what_cant_leave_is_taken_back),
		cmocka_unit_test(test_descriptors_are_left_for_connections),
		cmocka_unit_test(test_their_number_is_bounded),
	};
	return cmocka_run_group_tests_name("front/splice_pipe", tests, NULL, NULL);
}
