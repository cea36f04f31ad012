#include "flow.h"

void flow_init(struct flow *flow, struct stream *from, struct stream *to)
{
	*flow = (struct flow){ .from = from, .to = to };
	splice_pipe_init(&flow->pipe);
}

static bool has_pipe(struct flow *flow)
{
	if (splice_pipe_is_open(&flow->pipe))
		return true;
	bool is_plain = flow->from->tls == NULL && flow->to->tls == NULL;
	return is_plain && flow->is_worth_pipe && !flow->is_pipe_refused && splice_pipe_open(&flow->pipe);
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
	return splice_pipe_empty(&flow->pipe, &flow->pending) ? write_pending(flow) : -1;
}

static int write_pipe(struct flow *flow)
{
	int result = splice_pipe_drain(&flow->pipe, flow->to->fd, &flow->n_bytes);
	return result == SPLICE_IMPOSSIBLE ? give_up_pipe(flow) : result;
}

static int write_out(struct flow *flow)
{
	int result = write_pending(flow);
	return result == 1 && flow->pipe.n_bytes > 0 ? write_pipe(flow) : result;
}

/* ---- in ---- */

/* As stream_read: bytes read, or STREAM_EOF, STREAM_AGAIN, STREAM_ERROR. */
static ssize_t read_to_pipe(struct flow *flow)
{
	ssize_t n = splice_pipe_fill(&flow->pipe, flow->from->fd, SPLICE_PIPE_BYTES);
	if (n != SPLICE_IMPOSSIBLE)
		return n;
	flow->is_pipe_refused = true;
	splice_pipe_close(&flow->pipe);
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
	if (flow->pipe.n_bytes > 0)
		return;
	flow->is_worth_pipe = false;
	splice_pipe_close(&flow->pipe);
}

void flow_clear(struct flow *flow)
{
	splice_pipe_close(&flow->pipe);
	buffer_clear(&flow->pending);
}
