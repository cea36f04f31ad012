/*
 * One client connection. evhttp accepted it and keeps its connection and request objects; the wire has the
 * descriptor: it alone reads, parses (http/request), writes, times out and closes.
 *
 *   IDLE -> HEAD -> BUSY -> IDLE | LINGERING | TUNNEL -> CLOSED
 *
 * A complete and valid head makes the wire hand a minimal head of its own making to evhttp, which makes the request
 * object and dispatches it: to admit.c (proxy and upstream roles) or to admin.c. Whoever takes the request is the
 * wire's user until wire_end_request. Calls of the user into the wire never call back: what has to be told comes
 * from the loop.
 */
#ifndef EVENKEEL_FRONT_WIRE_H
#define EVENKEEL_FRONT_WIRE_H

#include "../http/request.h"
#include "../net/stream.h"
#include "../policy/outcome.h"
#include "room.h"
#include "splice_pipe.h"

#define WIRE_HIGH_WATER_BYTES (64 * 1024)
#define WIRE_LOW_WATER_BYTES (16 * 1024)
#define WIRE_DIRECT_BYTES (16 * 1024)      /* a piece this large is written from where it is, not copied first */
#define WIRE_SPLICE_BYTES_A_TURN (512 * 1024) /* of a large body, then the others get their turn */
#define WIRE_PIPE_REST_MS 1000             /* idle for so long: its pipe is given back */
#define WIRE_MAX_AHEAD_BYTES (64 * 1024)   /* read ahead of what may be parsed now (pipelining, paused bodies) */
#define WIRE_PEER_CHECK_MS 25              /* how often a client is looked after while its bytes aren't read */
#define WIRE_LINGER_MS 1000                /* after our end: how long the client's late bytes are still read away */
#define WIRE_DRAIN_LINGER_MS 200           /* the same while stopping, which an idle client may not hold up for long */
#define WIRE_PARTING_MS 250                /* a client that has just connected may still send its request when we close */
#define WIRE_LINGER_BYTES (2 * 1024 * 1024)

struct bufferevent;
struct evhttp_connection;
struct evhttp_request;

enum wire_state {
	WIRE_ACCEPTED,  /* evhttp still has the descriptor, for the rest of this turn */
	WIRE_IDLE,      /* waits for the first byte of a request: client.idle_timeout */
	WIRE_HEAD,      /* waits for the rest of the head: client.header_timeout */
	WIRE_BUSY,      /* the request is with its user; its body may still be coming: client.body_idle_timeout */
	WIRE_LINGERING, /* our side is shut; what still comes is thrown away so that no RST overtakes the reply */
	WIRE_TUNNEL,    /* the stream's events are the tunnel's */
	WIRE_CLOSED
};

/* One request while it is read and answered. */
struct wire_message {
	struct request request;
	struct request_reader reader;
	struct mono started;      /* its first byte */
	struct deferred free_late;
};

struct wire_user_ops { /* from the loop */
	void (*on_body)(void *owner, struct slice data);
	void (*on_body_end)(void *owner, const struct head *trailers); /* NULL: none; borrowed until wire_end_request */
	void (*on_body_failed)(void *owner, enum outcome outcome, const char *detail);
	void (*on_writable)(void *owner); /* after wire_write_body returned false: below the low-water mark */
	void (*on_flushed)(void *owner);  /* after wire_expect_flushed */
	void (*on_gone)(void *owner);     /* the client has left; wire_end_request is still owed */
};

/* The authority that a CONNECT named when its connection speaks HTTP/1 inside (egress.tunnel_http). */
struct wire_authority {
	char *host;       /* lower case, no brackets */
	char *host_field; /* as a Host field names it */
	uint16_t port;
};

struct wire {
	struct list link; /* front->wires */
	struct front *front;
	struct listener *listener;
	enum wire_state state;
	struct bufferevent *bev;               /* own reference */
	struct evhttp_connection *connection;  /* evhttp's; NULL before the first request */
	struct evhttp_request *evhttp_request; /* while BUSY or LINGERING after a dispatched request */
	struct stream stream;
	struct timer timer;
	struct deferred later;
	char client_address[64];               /* for logs; "" until the first request */
	struct wire_message *message;          /* owns; NULL while nothing of a request is there */
	struct wire_authority *inner;          /* owns; NULL: an ordinary client */
	struct buffer input;                   /* read and not yet parsed */
	struct buffer output;                  /* written and not yet taken by the kernel */
	struct splice_pipe pipe;               /* a large body on its way; what is inside goes out before `output` */
	const struct wire_user_ops *user_ops;  /* BUSY: NULL when the room itself has answered */
	void *user;
	void *tunnel;                          /* TUNNEL: struct tunnel */
	struct mono since;                     /* IDLE, LINGERING: entered; BUSY: last piece of body, or the reply's end */
	uint64_t n_lingered;
	uint64_t n_requests;
	bool is_request_complete;  /* BUSY */
	bool is_body_paused;       /* BUSY */
	bool is_full;              /* the user was told to stop */
	bool is_pipe_refused;      /* the client's socket takes nothing from a pipe: bodies are copied */
	bool is_reply_complete;    /* nothing more will be written for this request */
	bool must_close;           /* after this reply */
	bool is_gone;              /* the client has left */
	bool is_half_closed;       /* the client has ended its side and is served all the same */
	bool is_closing_soon;      /* close instead of going idle: its listener is closed, or the proxy stops */
	/* what `later` is to do */
	bool is_process_due, is_flushed_due, is_gone_due, is_writable_due;
};

/* wire.c: from accept to close */
void wire_init(struct wire *wire);
void wire_enter(struct wire *wire, enum wire_state state);
void wire_set_user(struct wire *wire, const struct wire_user_ops *ops, void *user);
/* The user is done. must_close: the reply has been sent, but the connection can't serve another request (lingers).
 * is_reset: the reply is incomplete: RST. */
void wire_end_request(struct wire *wire, bool must_close, bool is_reset);
/* The client is told to have left: its user ends the request, then the connection is closed. For a tunnel: it ends. */
void wire_lose(struct wire *wire);
void wire_close(struct wire *wire, bool is_reset); /* at once; must have no user. Freed at the loop's safe point */
void wire_free(struct wire *wire);                 /* CLOSED: what the safe point does; front_free can't wait for it */
/* At once when it is idle, unless its request may be under way: see WIRE_PARTING_MS and front_hand_over. */
void wire_close_when_idle(struct wire *wire);
void wire_enter_tunnel(struct wire *wire, void *tunnel); /* the caller sets the stream's owner; input and output stay here */
void wire_do_later(struct wire *wire);
struct wire_message *wire_new_message(void); /* not initialised */
void wire_name_client(struct wire *wire, const struct sockaddr *peer); /* NULL: asks the kernel; once */

/* wire_limits.c */
void wire_rearm(struct wire *wire); /* after any change of state, of `since` or of what is waited for */
void wire_on_due(void *wire);       /* the timer's */

/* evhttp.c: everything that is said to evhttp about a connection */
struct bufferevent *wire_accept(struct listener *listener); /* evhttp accepts a connection: the bufferevent it asks for */
/* The client's head is complete: evhttp is given this one, makes its request object and dispatches it. */
void wire_hand_over(struct wire *wire, struct slice head);
struct wire *wire_of_dispatch(struct listener *listener, struct evhttp_request *request); /* inside evhttp's callback */
bool wire_take_descriptor(struct wire *wire);             /* false: evhttp has dropped the connection already */
void wire_end_evhttp_request(struct wire *wire);
void wire_release_evhttp(struct wire *wire);              /* right after the descriptor was closed */

/* wire_read.c */
void wire_on_readable(void *owner);
void wire_process_input(struct wire *wire);
void wire_pause_body(struct wire *wire);
void wire_resume_body(struct wire *wire);
bool wire_is_peer_gone(struct wire *wire);

/* wire_write.c */
void wire_on_writable(void *owner);
/* Takes all of prefix, data and suffix (copied or sent). False: enough is pending. */
bool wire_write_body(struct wire *wire, struct slice prefix, struct slice data, struct slice suffix);
/* A piece of a large body straight from the origin's socket, at most max bytes: as downstream_ops.splice_body. */
ssize_t wire_splice(struct wire *wire, struct stream *from, uint64_t max, bool *is_full);
static inline size_t wire_pending(const struct wire *wire) { return buffer_length(&wire->output) + wire->pipe.n_bytes; }
void wire_flush(struct wire *wire);
void wire_expect_flushed(struct wire *wire); /* nothing follows: on_flushed comes when the last byte is out */

#endif
