/* The wire's outgoing side: one buffer, one sendmsg at each flush, large pieces from where they are. */
#include "../base/clock.h"
#include "wire.h"

static void note_gone(struct wire *wire)
{
	buffer_clear(&wire->output);
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
	if (data.length >= WIRE_DIRECT_BYTES && !wire->stream.is_write_wanted) {
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

void wire_flush(struct wire *wire)
{
	size_t pending = buffer_length(&wire->output);
	if (pending == 0 || wire->stream.is_write_wanted || !stream_is_open(&wire->stream))
		return;
	ssize_t written = stream_write(&wire->stream, buffer_start(&wire->output), pending);
	if (written == STREAM_ERROR) {
		note_gone(wire);
		return;
	}
	if (written > 0)
		buffer_consume(&wire->output, (size_t)written);
	if (buffer_length(&wire->output) > 0) {
		stream_want_write(&wire->stream);
	} else if (wire->is_reply_complete) {
		wire->is_flushed_due = true;
		wire_do_later(wire);
	}
	if (wire->is_full && buffer_length(&wire->output) <= WIRE_LOW_WATER_BYTES) {
		wire->is_full = false;
		wire->is_writable_due = true;
		wire_do_later(wire);
	}
}

void wire_expect_flushed(struct wire *wire)
{
	wire->is_reply_complete = true;
	wire->since = clock_now();
	if (buffer_length(&wire->output) > 0)
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
