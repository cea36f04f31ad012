#include "flow.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../base/check.h"

#define PIPE_BYTES (64 * 1024) /* what the kernel gives a pipe unless asked for more */

static size_t n_pipes; /* of the process: descriptors are */

void flow_init(struct flow *flow, struct stream *from, struct stream *to)
{
	*flow = (struct flow){ .from = from, .to = to, .pipe_read = -1, .pipe_write = -1 };
}

static void close_pipe(struct flow *flow)
{
	if (flow->pipe_read < 0)
		return;
	close(flow->pipe_read);
	close(flow->pipe_write);
	flow->pipe_read = flow->pipe_write = -1;
	n_pipes--;
}

static bool has_pipe(struct flow *flow)
{
	if (flow->pipe_read >= 0)
		return true;
	bool is_plain = flow->from->tls == NULL && flow->to->tls == NULL;
	int ends[2];
	if (!is_plain || !flow->is_worth_pipe || flow->is_pipe_refused || n_pipes >= FLOW_MAX_PIPES)
		return false;
	if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
		flow->is_pipe_refused = true;
		return false;
	}
	n_pipes++;
	flow->pipe_read = ends[0];
	flow->pipe_write = ends[1];
	return true;
}

/* ---- out ---- */

/* 1: all is out, 0: the other side takes no more now, -1: failed */
static int write_pending(struct flow *flow)
{
	while (buffer_length(&flow->pending) > 0) {
		ssize_t n = stream_write(flow->to, buffer_start(&flow->pending), buffer_length(&flow->pending));
		if (n == STREAM_AGAIN)
			return 0;
		if (n < 0)
			return -1;
		flow->n_bytes += (uint64_t)n;
		buffer_consume(&flow->pending, (size_t)n);
	}
	return 1;
}

/* This pair of descriptors can't be spliced: what is in the pipe goes the other way, and nothing enters it any more. */
static int give_up_pipe(struct flow *flow)
{
	flow->is_pipe_refused = true;
	while (flow->n_in_pipe > 0) {
		char *room = buffer_reserve(&flow->pending, flow->n_in_pipe);
		ssize_t n = read(flow->pipe_read, room, flow->n_in_pipe);
		if (n <= 0)
			return -1;
		buffer_grow(&flow->pending, (size_t)n);
		flow->n_in_pipe -= (size_t)n;
	}
	close_pipe(flow);
	return write_pending(flow);
}

static int write_pipe(struct flow *flow)
{
	while (flow->n_in_pipe > 0) {
		ssize_t n = splice(flow->pipe_read, NULL, flow->to->fd, NULL, flow->n_in_pipe,
				   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINVAL)
			return give_up_pipe(flow);
		if (n <= 0)
			return -1;
		flow->n_bytes += (uint64_t)n;
		flow->n_in_pipe -= (size_t)n;
	}
	return 1;
}

static int write_out(struct flow *flow)
{
	int result = write_pending(flow);
	return result == 1 && flow->n_in_pipe > 0 ? write_pipe(flow) : result;
}

/* ---- in ---- */

/* As stream_read: bytes read, or STREAM_EOF, STREAM_AGAIN, STREAM_ERROR. */
static ssize_t read_to_pipe(struct flow *flow)
{
	ssize_t n;
	do {
		n = splice(flow->from->fd, NULL, flow->pipe_write, NULL, PIPE_BYTES, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	} while (n < 0 && errno == EINTR);
	if (n >= 0) {
		flow->n_in_pipe += (size_t)n;
		return n;
	}
	if (errno == EAGAIN)
		return STREAM_AGAIN;
	if (errno != EINVAL)
		return STREAM_ERROR;
	flow->is_pipe_refused = true;
	close_pipe(flow);
	return 1; /* nothing was read: the next round goes the other way */
}

static ssize_t read_and_write(struct flow *flow)
{
	char *scratch = flow->from->loop->scratch;
	ssize_t n = stream_read(flow->from, scratch, LOOP_SCRATCH_BYTES);
	if (n <= 0)
		return n;
	if (n >= FLOW_BUSY_BYTES)
		flow->is_worth_pipe = true;
	ssize_t written = stream_write(flow->to, scratch, (size_t)n);
	if (written == STREAM_ERROR)
		return STREAM_ERROR;
	size_t sent = written > 0 ? (size_t)written : 0;
	flow->n_bytes += sent;
	buffer_append(&flow->pending, scratch + sent, (size_t)n - sent);
	return n;
}

static enum flow_result block(struct flow *flow)
{
	flow->is_blocked = true;
	stream_pause_reading(flow->from);
	stream_want_write(flow->to);
	return FLOW_BLOCKED;
}

static enum flow_result carry_end(struct flow *flow)
{
	flow->is_ended = true;
	flow->is_blocked = false;
	stream_pause_reading(flow->from);
	stream_shutdown(flow->to);
	return FLOW_ENDED;
}

enum flow_result flow_pump(struct flow *flow)
{
	size_t moved = 0;
	if (flow->is_ended)
		return FLOW_ENDED;
	for (;;) {
		int written = write_out(flow);
		if (written < 0)
			return FLOW_FAILED;
		if (written == 0)
			return block(flow);
		if (flow->is_end_read)
			return carry_end(flow);
		if (flow->is_blocked) {
			flow->is_blocked = false;
			stream_resume_reading(flow->from);
		}
		if (moved >= FLOW_MAX_BYTES_A_TURN)
			return FLOW_WAITING; /* the descriptor is still readable: the loop comes back */
		ssize_t n = has_pipe(flow) ? read_to_pipe(flow) : read_and_write(flow);
		if (n == STREAM_AGAIN)
			return FLOW_WAITING;
		if (n == STREAM_ERROR || n == STREAM_TRUNCATED)
			return FLOW_FAILED;
		if (n == STREAM_EOF)
			flow->is_end_read = true;
		moved += (size_t)n;
	}
}

void flow_rest(struct flow *flow)
{
	if (flow->n_in_pipe > 0)
		return;
	flow->is_worth_pipe = false;
	close_pipe(flow);
}

void flow_clear(struct flow *flow)
{
	close_pipe(flow);
	buffer_clear(&flow->pending);
}
