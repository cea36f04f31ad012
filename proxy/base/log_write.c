#include "log_write.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

enum sink_kind {
	SINK_NONE,
	SINK_NONBLOCKING, /* a description of our own with O_NONBLOCK */
	SINK_SOCKET,      /* MSG_DONTWAIT on each send */
	SINK_FILE,        /* a regular file: a write never waits for a reader */
	SINK_POLLED,      /* a shared, blocking description: poll first, then at most what a pipe then surely takes */
};

#define POLLED_WRITE_BYTES 4096 /* PIPE_BUF: poll calls a pipe writable when so much fits */

static struct {
	enum sink_kind kind;
	int fd;
	bool owns_fd;
	size_t start, length;
	char ring[LOG_RING_BYTES];
} sink = { .fd = -1 };

/*
 * O_NONBLOCK belongs to the open file description, which stderr shares with the shell and every process beside us:
 * setting it there would break them. So a pipe or terminal is opened anew through /proc. A regular file is not: a new
 * description would have its own offset and write over what others wrote.
 */
void log_sink_open(int fd)
{
	struct stat about;
	char path[32];

	if (sink.owns_fd)
		close(sink.fd);
	sink.fd = fd;
	sink.owns_fd = false;
	sink.kind = SINK_POLLED;
	if (fstat(fd, &about) != 0)
		return;
	if (S_ISSOCK(about.st_mode)) {
		sink.kind = SINK_SOCKET;
	} else if (S_ISREG(about.st_mode)) {
		sink.kind = SINK_FILE;
	} else {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_APPEND);
		if (own < 0)
			return;
		sink.fd = own;
		sink.owns_fd = true;
		sink.kind = SINK_NONBLOCKING;
	}
}

bool log_sink_has_room(size_t length)
{
	return LOG_RING_BYTES - sink.length >= length;
}

void log_sink_append(const char *text, size_t length)
{
	CHECK(log_sink_has_room(length));
	size_t end = (sink.start + sink.length) % LOG_RING_BYTES;
	size_t first = LOG_RING_BYTES - end < length ? LOG_RING_BYTES - end : length;

	memcpy(sink.ring + end, text, first);
	memcpy(sink.ring, text + first, length - first);
	sink.length += length;
}

/* The buffered bytes as one or two pieces, at most max of them; returns the number of pieces. */
static int pieces_of(struct iovec pieces[2], size_t max)
{
	size_t length = sink.length < max ? sink.length : max;
	size_t first = LOG_RING_BYTES - sink.start < length ? LOG_RING_BYTES - sink.start : length;

	pieces[0] = (struct iovec){ sink.ring + sink.start, first };
	pieces[1] = (struct iovec){ sink.ring, length - first };
	return pieces[1].iov_len > 0 ? 2 : 1;
}

static ssize_t write_some(void)
{
	struct iovec pieces[2];

	if (sink.kind == SINK_SOCKET) {
		struct msghdr message = { .msg_iov = pieces, .msg_iovlen = (size_t)pieces_of(pieces, LOG_RING_BYTES) };
		return sendmsg(sink.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	if (sink.kind == SINK_POLLED) {
		struct pollfd writable = { .fd = sink.fd, .events = POLLOUT };
		if (poll(&writable, 1, 0) == 0) {
			errno = EAGAIN;
			return -1;
		}
		return writev(sink.fd, pieces, pieces_of(pieces, POLLED_WRITE_BYTES));
	}
	return writev(sink.fd, pieces, pieces_of(pieces, LOG_RING_BYTES));
}

static uint64_t discard_all(void)
{
	uint64_t n_lines = 0;

	for (size_t i = 0; i < sink.length; i++)
		n_lines += sink.ring[(sink.start + i) % LOG_RING_BYTES] == '\n';
	sink.start = sink.length = 0;
	return n_lines;
}

/* A full disk or a slow reader may get better: keep the lines. A reader that is gone won't. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == ENOSPC || error == EDQUOT || error == ENOBUFS ||
	       error == ENOMEM;
}

bool log_sink_write(uint64_t *n_lost_lines)
{
	if (sink.kind == SINK_NONE)
		return sink.length == 0;
	while (sink.length > 0) {
		ssize_t n = write_some();
		if (n > 0) {
			sink.start = (sink.start + (size_t)n) % LOG_RING_BYTES;
			sink.length -= (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && !is_passing(errno)) {
			*n_lost_lines += discard_all();
			return true;
		}
		return false;
	}
	sink.start = 0; /* keeps the touched part of the ring small */
	return true;
}

void log_sink_wait(int64_t max_ms)
{
	struct pollfd writable = { .fd = sink.fd, .events = POLLOUT };
	int wait_ms = max_ms < 1000 ? (int)max_ms : 1000;

	if (sink.kind == SINK_FILE) /* always "writable": it waits for room on the disk */
		poll(NULL, 0, wait_ms < 10 ? wait_ms : 10);
	else
		poll(&writable, 1, wait_ms);
}
