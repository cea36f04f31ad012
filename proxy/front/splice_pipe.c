#include "splice_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../net/stream.h"

static size_t n_pipes;

/* Without a pipe bytes are copied, without a descriptor a client isn't served: so pipes leave most of them alone. */
static size_t most_pipes(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / (2 * SPLICE_DESCRIPTORS_SHARE) >= SPLICE_MAX_PIPES)
		return SPLICE_MAX_PIPES;
	return (size_t)limit.rlim_cur / (2 * SPLICE_DESCRIPTORS_SHARE);
}

bool splice_pipe_open(struct splice_pipe *pipe)
{
	int ends[2];
	if (n_pipes >= most_pipes() || pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
		return false;
	n_pipes++;
	*pipe = (struct splice_pipe){ ends[0], ends[1], 0 };
	return true;
}

void splice_pipe_close(struct splice_pipe *pipe)
{
	if (!splice_pipe_is_open(pipe))
		return;
	close(pipe->read_end);
	close(pipe->write_end);
	splice_pipe_init(pipe);
	n_pipes--;
}

static ssize_t move(int from, int to, size_t n)
{
	ssize_t moved;
	do {
		moved = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	} while (moved < 0 && errno == EINTR);
	return moved;
}

ssize_t splice_pipe_fill(struct splice_pipe *pipe, int fd, size_t max)
{
	ssize_t n = move(fd, pipe->write_end, max < SPLICE_PIPE_BYTES ? max : SPLICE_PIPE_BYTES);
	if (n >= 0) {
		pipe->n_bytes += (size_t)n;
		return n;
	}
	if (errno == EAGAIN)
		return STREAM_AGAIN;
	return errno == EINVAL ? SPLICE_IMPOSSIBLE : STREAM_ERROR;
}

int splice_pipe_drain(struct splice_pipe *pipe, int fd, uint64_t *n_moved)
{
	while (pipe->n_bytes > 0) {
		ssize_t n = move(pipe->read_end, fd, pipe->n_bytes);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINVAL)
			return SPLICE_IMPOSSIBLE;
		if (n <= 0)
			return -1;
		*n_moved += (uint64_t)n;
		pipe->n_bytes -= (size_t)n;
	}
	return 1;
}

bool splice_pipe_empty(struct splice_pipe *pipe, struct buffer *into)
{
	while (pipe->n_bytes > 0) {
		char *room = buffer_reserve(into, pipe->n_bytes);
		ssize_t n = read(pipe->read_end, room, pipe->n_bytes);
		if (n <= 0)
			return false;
		buffer_grow(into, (size_t)n);
		pipe->n_bytes -= (size_t)n;
	}
	splice_pipe_close(pipe);
	return true;
}
