/*
 * A connected byte stream: plain TCP (or unix) or TLS, non-blocking. Owns its descriptor.
 *
 * Read interest is on from stream_open until it is paused, so that a lost peer is always noticed and no epoll_ctl is
 * spent per request; write interest is on only while a write was refused (stream_want_write).
 */
#ifndef EVENKEEL_NET_STREAM_H
#define EVENKEEL_NET_STREAM_H

#include <sys/types.h>
#include <sys/uio.h>

#include "loop.h"

struct tls_connection; /* net/tls.h */

#define STREAM_EOF 0         /* the peer ended its side properly (FIN; TLS: close_notify) */
#define STREAM_AGAIN (-1)
#define STREAM_ERROR (-2)    /* stream->last_errno; reset and the like */
#define STREAM_TRUNCATED (-3) /* TLS: FIN without close_notify */

struct stream_ops {
	/* Call stream_read until STREAM_AGAIN or enough: it is called again while bytes, the end or an error are there.
	 * So after STREAM_EOF close or pause, or it never ends. */
	void (*on_readable)(void *owner);
	void (*on_writable)(void *owner); /* after stream_want_write; once */
};

struct stream {
	int fd; /* -1: closed */
	struct loop *loop;
	struct event read_event, write_event;
	struct tls_connection *tls; /* owns; NULL: plain */
	const struct stream_ops *ops;
	void *owner;
	int last_errno;
	bool is_reading; /* read interest is on */
	bool is_writing; /* write interest is on */
	bool is_shut;    /* our side was ended */
	/* TLS only: which way one operation waits for the other direction of the socket. */
	bool is_write_wanted;    /* stream_want_write was called and on_writable is due */
	bool is_read_blocked;    /* a read waits until the socket is writable */
	bool is_write_blocked;   /* a write waits until the socket is readable */
	bool is_notify_pending;  /* close_notify did not fit yet; FIN follows it */
};

/* The struct must stay where it is in memory while it is open (libevent points into it).
 * Takes fd (must be non-blocking) and, when tls is not NULL, the connection whose handshake is complete. */
void stream_open(struct stream *stream, struct loop *loop, int fd, struct tls_connection *tls,
		 const struct stream_ops *ops, void *owner);
void stream_set_owner(struct stream *stream, const struct stream_ops *ops, void *owner);
static inline bool stream_is_open(const struct stream *stream) { return stream->fd >= 0; }

/*
 * Bytes moved, or STREAM_EOF (reads only), STREAM_AGAIN, STREAM_ERROR, STREAM_TRUNCATED. What a write did not take is
 * to be written again: after STREAM_AGAIN the same bytes, or the same and more after them (TLS may have sealed them
 * already). A failed write leaves what the peer had sent readable.
 */
ssize_t stream_read(struct stream *stream, void *bytes, size_t capacity);
ssize_t stream_write(struct stream *stream, const void *bytes, size_t length);
ssize_t stream_writev(struct stream *stream, const struct iovec *pieces, int n_pieces);

/* Reading stops at once; resuming calls on_readable from the loop when bytes are there (TLS: also those inside). */
void stream_pause_reading(struct stream *stream);
void stream_resume_reading(struct stream *stream);
void stream_want_write(struct stream *stream);

/* Ends our side (FIN; TLS: close_notify then FIN); reading goes on. */
void stream_shutdown(struct stream *stream);
/* Closes; is_reset: with RST, so that what was sent can't be taken for complete. Idempotent. */
void stream_close(struct stream *stream, bool is_reset);

/* Is there something to read right now (bytes or EOF)? One peek; for connections that must not be stale. */
bool stream_is_readable_now(struct stream *stream);

/* Has the peer gone, although reading is paused? Asks the kernel: reset, or FIN received. */
bool stream_is_peer_gone(struct stream *stream);

#endif
