/* Streams over real loopback sockets: reading, pausing, back-pressure, ends and resets, and closing from a callback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_room.h"

struct end {
	struct net_room room;
	struct stream stream;
	int peer; /* blocking */
	char seen[64];
	size_t n_seen;
	size_t read_at_most; /* a callback; 0: until nothing is left */
	ssize_t last;
	unsigned n_readable, n_writable;
	size_t stop_at;      /* bytes seen */
	bool closes_at_once;
};

/* As if it were freed: whoever touches it afterwards falls over. */
static void close_and_spoil(struct end *end)
{
	stream_close(&end->stream, false);
	memset(&end->stream.read_event, 0xee, sizeof(end->stream.read_event));
	memset(&end->stream.write_event, 0xee, sizeof(end->stream.write_event));
}

static void on_readable(void *owner)
{
	struct end *end = owner;
	end->n_readable++;
	if (end->closes_at_once) {
		close_and_spoil(end);
		return;
	}
	size_t room = end->read_at_most > 0 ? end->read_at_most : sizeof(end->seen) - end->n_seen;
	assert_true(room <= sizeof(end->seen) - end->n_seen);
	end->last = stream_read(&end->stream, end->seen + end->n_seen, room);
	if (end->last > 0)
		end->n_seen += (size_t)end->last;
	if (end->last == STREAM_EOF || end->last == STREAM_ERROR) {
		stream_pause_reading(&end->stream);
		loop_stop(end->room.loop);
	}
	if (end->stop_at > 0 && end->n_seen >= end->stop_at)
		loop_stop(end->room.loop);
}

static void on_writable(void *owner)
{
	struct end *end = owner;
	end->n_writable++;
	if (end->closes_at_once)
		close_and_spoil(end);
	else
		loop_stop(end->room.loop);
}

static const struct stream_ops ops = { on_readable, on_writable };

static int set_up(void **state)
{
	struct end *end = calloc(1, sizeof(*end));
	int fds[2];
	assert_non_null(end);
	net_room_open(&end->room);
	net_pair(fds);
	end->peer = fds[1];
	stream_open(&end->stream, end->room.loop, fds[0], NULL, &ops, end);
	*state = end;
	return 0;
}

static int tear_down(void **state)
{
	struct end *end = *state;
	stream_close(&end->stream, false);
	stream_close(&end->stream, true); /* idempotent */
	assert_false(stream_is_open(&end->stream));
	if (end->peer >= 0)
		close(end->peer);
	net_room_close(&end->room);
	free(end);
	return 0;
}

static void peer_send(struct end *end, const char *text)
{
	assert_int_equal(send(end->peer, text, strlen(text), 0), strlen(text));
}

static void bytes_arrive_and_leave(void **state)
{
	struct end *end = *state;
	char got[16] = "";
	struct iovec pieces[] = { { "he", 2 }, { "", 0 }, { "llo", 3 } };
	end->stop_at = 3;
	peer_send(end, "abc");
	net_room_run(&end->room, 2000);
	assert_memory_equal(end->seen, "abc", 3);
	assert_int_equal(stream_read(&end->stream, got, sizeof(got)), STREAM_AGAIN);
	assert_int_equal(stream_writev(&end->stream, pieces, 3), 5);
	assert_int_equal(stream_write(&end->stream, "!", 1), 1);
	assert_int_equal(recv(end->peer, got, 6, MSG_WAITALL), 6);
	assert_string_equal(got, "hello!");
}

static void what_was_left_unread_is_announced_again(void **state)
{
	struct end *end = *state;
	end->read_at_most = 1;
	end->stop_at = 5;
	peer_send(end, "12345");
	net_room_run(&end->room, 2000);
	assert_int_equal(end->n_readable, 5);
	assert_memory_equal(end->seen, "12345", 5);
}

static void a_paused_stream_is_silent_until_it_is_resumed(void **state)
{
	struct end *end = *state;
	stream_pause_reading(&end->stream);
	assert_false(end->stream.is_reading);
	peer_send(end, "abc");
	net_room_turn(&end->room, 30);
	assert_int_equal(end->n_readable, 0);
	assert_true(stream_is_readable_now(&end->stream));
	end->stop_at = 3;
	stream_resume_reading(&end->stream);
	assert_int_equal(end->n_readable, 0); /* from the loop, not from within */
	net_room_run(&end->room, 2000);
	assert_memory_equal(end->seen, "abc", 3);
}

static void a_full_socket_says_again_and_tells_when_there_is_room(void **state)
{
	struct end *end = *state;
	static char block[65536];
	size_t n_sent = 0;
	ssize_t n;
	while ((n = stream_write(&end->stream, block, sizeof(block))) > 0)
		n_sent += (size_t)n;
	assert_int_equal(n, STREAM_AGAIN);
	stream_want_write(&end->stream);
	assert_true(end->stream.is_writing);
	net_room_turn(&end->room, 30);
	assert_int_equal(end->n_writable, 0);
	while (n_sent > 0) {
		n = recv(end->peer, block, sizeof(block), MSG_DONTWAIT);
		if (n < 0)
			break;
		n_sent -= (size_t)n;
	}
	net_room_run(&end->room, 2000);
	assert_int_equal(end->n_writable, 1);
	assert_false(end->stream.is_writing);
	net_room_turn(&end->room, 30);
	assert_int_equal(end->n_writable, 1); /* once only */
}

static void our_side_can_end_while_reading_goes_on(void **state)
{
	struct end *end = *state;
	char byte;
	stream_shutdown(&end->stream);
	stream_shutdown(&end->stream);
	assert_int_equal(recv(end->peer, &byte, 1, 0), 0);
	assert_int_equal(stream_write(&end->stream, "x", 1), STREAM_ERROR);
	assert_int_equal(end->stream.last_errno, EPIPE);
	end->stop_at = 4;
	peer_send(end, "late");
	net_room_run(&end->room, 2000);
	assert_memory_equal(end->seen, "late", 4);
}

static void the_peers_end_is_seen_and_we_can_still_write(void **state)
{
	struct end *end = *state;
	char got[4] = "";
	peer_send(end, "bye");
	assert_false(stream_is_peer_gone(&end->stream));
	assert_int_equal(shutdown(end->peer, SHUT_WR), 0);
	net_room_run(&end->room, 2000);
	assert_memory_equal(end->seen, "bye", 3);
	assert_int_equal(end->last, STREAM_EOF);
	assert_true(stream_is_peer_gone(&end->stream));
	assert_true(stream_is_readable_now(&end->stream));
	assert_int_equal(stream_write(&end->stream, "ok", 2), 2);
	assert_int_equal(recv(end->peer, got, 2, MSG_WAITALL), 2);
	assert_string_equal(got, "ok");
}

static void reset_by_peer(struct end *end)
{
	struct linger at_once = { 1, 0 };
	assert_int_equal(setsockopt(end->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	close(end->peer);
	end->peer = -1;
}

static void the_peers_reset_is_an_error_and_not_an_end(void **state)
{
	struct end *end = *state;
	reset_by_peer(end);
	net_room_run(&end->room, 2000);
	assert_int_equal(end->last, STREAM_ERROR);
	assert_int_equal(end->stream.last_errno, ECONNRESET);
}

static void a_reset_is_noticed_while_reading_is_paused(void **state)
{
	struct end *end = *state;
	stream_pause_reading(&end->stream);
	reset_by_peer(end);
	assert_true(stream_is_peer_gone(&end->stream));
	assert_int_equal(stream_write(&end->stream, "x", 1), STREAM_ERROR); /* and no SIGPIPE */
}

static void closing_with_reset_resets(void **state)
{
	struct end *end = *state;
	char byte;
	stream_close(&end->stream, true);
	assert_int_equal(recv(end->peer, &byte, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_true(stream_is_peer_gone(&end->stream));
	stream_pause_reading(&end->stream);
	stream_resume_reading(&end->stream);
	stream_want_write(&end->stream);
	stream_shutdown(&end->stream); /* all harmless now */
}

static void closing_ends_properly(void **state)
{
	struct end *end = *state;
	char got[4];
	assert_int_equal(stream_write(&end->stream, "end", 3), 3);
	stream_close(&end->stream, false);
	assert_int_equal(recv(end->peer, got, sizeof(got), MSG_WAITALL), 3);
	assert_int_equal(recv(end->peer, got, 1, 0), 0);
}

static void a_callback_may_close_its_stream(void **state)
{
	struct end *end = *state;
	end->closes_at_once = true;
	stream_want_write(&end->stream); /* both are due in the same turn */
	peer_send(end, "abc");
	net_room_turn(&end->room, 30);
	assert_int_equal(end->n_readable + end->n_writable, 1);
}

static void other_readable(void *owner)
{
	struct end *end = owner;
	char bytes[8];
	assert_int_equal(stream_read(&end->stream, bytes, sizeof(bytes)), 3);
	end->n_readable += 100;
	loop_stop(end->room.loop);
}

static void the_owner_can_change(void **state)
{
	struct end *end = *state;
	static const struct stream_ops other = { other_readable, on_writable };
	stream_set_owner(&end->stream, &other, end);
	peer_send(end, "abc");
	net_room_run(&end->room, 2000);
	assert_int_equal(end->n_readable, 100);
}

static void nothing_to_read_is_not_readable_now(void **state)
{
	struct end *end = *state;
	assert_false(stream_is_readable_now(&end->stream));
	peer_send(end, "x");
	assert_true(stream_is_readable_now(&end->stream));
	assert_true(stream_is_readable_now(&end->stream)); /* looking takes nothing */
	char byte;
	assert_int_equal(stream_read(&end->stream, &byte, 1), 1);
	assert_false(stream_is_readable_now(&end->stream));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(bytes_arrive_and_leave),
		T(what_was_left_unread_is_announced_again),
		T(a_paused_stream_is_silent_until_it_is_resumed),
		T(a_full_socket_says_again_and_tells_when_there_is_room),
		T(our_side_can_end_while_reading_goes_on),
		T(the_peers_end_is_seen_and_we_can_still_write),
		T(the_peers_reset_is_an_error_and_not_an_end),
		T(a_reset_is_noticed_while_reading_is_paused),
		T(closing_with_reset_resets),
		T(closing_ends_properly),
		T(a_callback_may_close_its_stream),
		T(the_owner_can_change),
		T(nothing_to_read_is_not_readable_now),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
