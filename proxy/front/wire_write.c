/* The wire's outgoing side: one buffer, one sendmsg at each flush, large pieces from where they are. */
#include "../base/clock.h"
#include "wire.h"

static void note_gone(struct wire *wire)
{
	buffer_clear(&wire->output);
	splice_pipe_close(&wire->pipe);
	if (wire->is_gone || wire->is_gone_due)
		return;
	wire->is_gone_due = true;
	wire_do_later(wire);
}

/* Writes the pieces behind what is pending already, and keeps what the kernel doesn't take. */
static void write_pieces(struct wire *wire, const struct slice pieces[3])
{
	struct iovec all[4];
	int n = 0;
	size_t pending = buffer_length(&wire->output);
	if (pending > 0)
		all[n++] = (struct iovec){ (void *)buffer_start(&wire->output), pending };
	for (int i = 0; i < 3; i++)
		if (pieces[i].length > 0)
			all[n++] = (struct iovec){ (void *)pieces[i].data, pieces[i].length };
	ssize_t written = stream_writev(&wire->stream, all, n);
	if (written == STREAM_ERROR) {
		note_gone(wire);
		return;
	}
	size_t sent = written > 0 ? (size_t)written : 0;
	size_t from_pending = sent < pending ? sent : pending;
	if (from_pending > 0)
		buffer_consume(&wire->output, from_pending);
	sent -= from_pending;
	for (int i = 0; i < 3; i++) {
		size_t skip = sent < pieces[i].length ? sent : pieces[i].length;
		buffer_append(&wire->output, pieces[i].data + skip, pieces[i].length - skip);
		sent -= skip;
	}
	if (buffer_length(&wire->output) > 0)
		stream_want_write(&wire->stream);
}

bool wire_write_body(struct wire *wire, struct slice prefix, struct slice data, struct slice suffix)
{
	if (wire->is_gone || wire->is_gone_due || !stream_is_open(&wire->stream))
		return true;
	if (data.length >= WIRE_DIRECT_BYTES && wire->pipe.n_bytes == 0 && !wire->stream.is_write_wanted) {
		write_pieces(wire, (struct slice[3]){ prefix, data, suffix });
	} else {
		buffer_append_slice(&wire->output, prefix);
		buffer_append_slice(&wire->output, data);
		buffer_append_slice(&wire->output, suffix);
	}
	if (buffer_length(&wire->output) < WIRE_HIGH_WATER_BYTES)
		return true;
	wire->is_full = true;
	return false;
}

/* The client's socket takes nothing from a pipe: what is inside goes before `output`, and nothing enters it any
 * more. */
static bool give_up_pipe(struct wire *wire)
{
	struct buffer all = { 0 };
	wire->is_pipe_refused = true;
	bool is_read = splice_pipe_empty(&wire->pipe, &all);
	buffer_append_slice(&all, buffer_slice(&wire->output));
	buffer_clear(&wire->output);
	wire->output = all;
	return is_read;
}

/* What the kernel takes of pipe and output, in this order. False: the client is gone. */
static bool write_pending(struct wire *wire)
{
	uint64_t n_moved = 0;
	if (wire->pipe.n_bytes > 0) {
		int result = splice_pipe_drain(&wire->pipe, wire->stream.fd, &n_moved);
		if (result == 0)
			return true;
		if (result < 0 && !(result == SPLICE_IMPOSSIBLE && give_up_pipe(wire)))
			return false;
	}
	size_t pending = buffer_length(&wire->output);
	if (pending == 0)
		return true;
	ssize_t written = stream_write(&wire->stream, buffer_start(&wire->output), pending);
	if (written > 0)
		buffer_consume(&wire->output, (size_t)written);
	return written != STREAM_ERROR;
}

void wire_flush(struct wire *wire)
{
	if (wire_pending(wire) == 0 || wire->stream.is_write_wanted || !stream_is_open(&wire->stream))
		return;
	if (!write_pending(wire)) {
		note_gone(wire);
		return;
	}
	if (wire_pending(wire) > 0) {
		stream_want_write(&wire->stream);
	} else if (wire->is_reply_complete) {
		wire->is_flushed_due = true;
		wire_do_later(wire);
	}
	if (wire->is_full && wire_pending(wire) <= WIRE_LOW_WATER_BYTES) {
		wire->is_full = false;
		wire->is_writable_due = true;
		wire_do_later(wire);
	}
}

static ssize_t splice_once(struct wire *wire, struct stream *from, uint64_t max)
{
	ssize_t n = splice_pipe_fill(&wire->pipe, from->fd, max < SPLICE_PIPE_BYTES ? (size_t)max : SPLICE_PIPE_BYTES);
	if (n <= 0)
		return n;
	if (!write_pending(wire))
		note_gone(wire);
	return n;
}

ssize_t wire_splice(struct wire *wire, struct stream *from, uint64_t max, bool *is_full)
{
	if (from->tls || wire->stream.tls || wire->is_pipe_refused)
		return SPLICE_IMPOSSIBLE;
	wire_flush(wire);
	if (wire_pending(wire) > 0 || wire->is_gone_due ||
	    (!splice_pipe_is_open(&wire->pipe) && !splice_pipe_open(&wire->pipe)))
		return SPLICE_IMPOSSIBLE;
	uint64_t moved = 0;
	ssize_t n = STREAM_AGAIN;
	while (moved < max && moved < WIRE_SPLICE_BYTES_A_TURN && wire_pending(wire) == 0 && !wire->is_gone_due &&
	       !wire->is_pipe_refused) {
		n = splice_once(wire, from, max - moved);
		if (n <= 0)
			break;
		moved += (uint64_t)n;
	}
	if (wire_pending(wire) > 0) {
		wire->is_full = *is_full = true;
		stream_want_write(&wire->stream);
	}
	/* What ended it, if not success, is still there to be met at the next call. */
	return moved > 0 ? (ssize_t)moved : n;
}

void wire_expect_flushed(struct wire *wire)
{
	wire->is_reply_complete = true;
	wire->since = clock_now();
	if (wire_pending(wire) > 0)
		return; /* wire_flush or on_writable will see */
	wire->is_flushed_due = true;
	wire_do_later(wire);
}

void wire_on_writable(void *owner)
{
	struct wire *wire = owner;
	if (wire->is_reply_complete)
		wire->since = clock_now();
	wire_flush(wire);
}
