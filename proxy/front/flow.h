/*
 * One way of a tunnel: bytes from one stream to another, bounded, in order. Between two plain sockets, once the
 * flow is a busy one, they go through a pipe inside the kernel (splice) and are never copied here.
 */
#ifndef EVENKEEL_FRONT_FLOW_H
#define EVENKEEL_FRONT_FLOW_H

#include "../base/buffer.h"
#include "../net/stream.h"
#include "splice_pipe.h"

#define FLOW_BUSY_BYTES (32 * 1024)   /* a read of this size makes a flow worth a pipe */
#define FLOW_MAX_BYTES_A_TURN (512 * 1024) /* then the others get their turn */

enum flow_result {
	FLOW_WAITING,  /* nothing more to read now */
	FLOW_BLOCKED,  /* the reader of the other side is slow: reading is paused until it has taken what there is */
	FLOW_ENDED,    /* the end has been carried through */
	FLOW_FAILED,   /* a reset on either side */
};

struct flow {
	struct stream *from, *to; /* borrowed */
	struct buffer pending;    /* read (or put in before the start) and not yet written */
	struct splice_pipe pipe;
	uint64_t n_bytes;         /* written */
	bool is_end_read, is_ended;
	bool is_blocked;
	bool is_worth_pipe;
	bool is_pipe_refused;     /* these two descriptors can't be spliced */
};

void flow_init(struct flow *flow, struct stream *from, struct stream *to);
/* Moves what can be moved now. `from` is paused while blocked and after its end. */
enum flow_result flow_pump(struct flow *flow);
/* Gives an empty pipe back: the flow has been quiet for a while. */
void flow_rest(struct flow *flow);
void flow_clear(struct flow *flow);

#endif
