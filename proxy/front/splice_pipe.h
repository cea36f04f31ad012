/*
 * A pipe through which bytes go from one plain socket to another inside the kernel (splice(2)), never copied here.
 * Each is two descriptors: there are at most SPLICE_MAX_PIPES in the process, and they take no more than one in
 * SPLICE_DESCRIPTORS_SHARE of the descriptors it may open; who gets none copies.
 */
#ifndef EVENKEEL_FRONT_SPLICE_PIPE_H
#define EVENKEEL_FRONT_SPLICE_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../base/buffer.h"

#define SPLICE_MAX_PIPES 256
#define SPLICE_DESCRIPTORS_SHARE 8
#define SPLICE_PIPE_BYTES (64 * 1024) /* what the kernel gives a pipe unless asked for more */

#define SPLICE_IMPOSSIBLE (-4) /* these descriptors can't be spliced: nothing was moved */

struct splice_pipe {
	int read_end, write_end; /* -1: none */
	size_t n_bytes;          /* inside */
};

static inline void splice_pipe_init(struct splice_pipe *pipe)
{
	*pipe = (struct splice_pipe){ -1, -1, 0 };
}

static inline bool splice_pipe_is_open(const struct splice_pipe *pipe) { return pipe->read_end >= 0; }

bool splice_pipe_open(struct splice_pipe *pipe); /* false: none is to be had */
void splice_pipe_close(struct splice_pipe *pipe); /* idempotent; what is inside is lost */

/* From fd, at most max bytes. As stream_read: bytes, STREAM_EOF, STREAM_AGAIN, STREAM_ERROR; or SPLICE_IMPOSSIBLE. */
ssize_t splice_pipe_fill(struct splice_pipe *pipe, int fd, size_t max);

/* Into fd, until empty. 1: empty, 0: fd takes no more now, -1: failed, SPLICE_IMPOSSIBLE. *n_moved grows by what
 * went out. */
int splice_pipe_drain(struct splice_pipe *pipe, int fd, uint64_t *n_moved);

/* Appends what is inside to a buffer, since fd turned out to take nothing from a pipe, and closes it. False: it
 * can't be read. */
bool splice_pipe_empty(struct splice_pipe *pipe, struct buffer *into);

#endif
