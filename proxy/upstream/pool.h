/*
 * Taking and giving back. A lease is the wish for a connection, then the hold on it; it is embedded in whoever wishes
 * (an attempt, a tunnel). While it is CONNECTING or HELD it also holds a seat of pool.max_in_flight.
 *
 *   NONE -> QUEUED -> CONNECTING -> HELD -> NONE        QUEUED -> HELD when a connection comes back
 *
 * Whatever way a lease ends, pool_release or pool_cancel gives back the connection, its place in every count, and the
 * seat, and serves the next waiter. Nothing here retries and nothing here has a deadline: waiting is ended by the
 * exchange's timer with pool_cancel. connect and tls_handshake bounds are the dial's.
 */
#ifndef EVENKEEL_UPSTREAM_POOL_H
#define EVENKEEL_UPSTREAM_POOL_H

#include "../net/dial.h"
#include "../net/stream.h"
#include "../policy/outcome.h"
#include "origin.h"

enum lease_state { LEASE_NONE, LEASE_QUEUED, LEASE_CONNECTING, LEASE_HELD };

struct lease_order { /* borrowed until the lease ends */
	struct origin *origin;               /* the caller's reference */
	const struct timeouts *timeouts;     /* connect_ms, tls_handshake_ms */
	const struct egress_rule *egress;    /* deny_addresses */
	bool is_fresh_only;    /* only a new connection will do (after a stale one; tunnels) */
	bool is_repeatable;    /* false: never on a connection that looks stale (peeked at before it is given) */
	bool is_tunnel;        /* opaque: never goes back to the pool */
};

struct lease_ops {
	/* State or dial phase changed (QUEUED -> CONNECTING; resolving -> connecting -> securing). NULL: no
	 * interest. */
	void (*on_progress)(void *owner);
	void (*on_ready)(void *owner);    /* HELD */
	/* Already NONE, all given back. detail: what failed, with the address; valid during the call. */
	void (*on_failed)(void *owner, enum outcome outcome, const char *detail);
	void (*on_readable)(void *owner); /* HELD: bytes or the end (stream_read on lease_stream) */
	void (*on_writable)(void *owner); /* HELD: after stream_want_write */
};

struct conn; /* conn.h, private to this room */

struct lease {
	struct list link;       /* origin->waiters while QUEUED */
	enum lease_state state;
	struct lease_order order;
	const struct lease_ops *ops;
	void *owner;
	struct conn *conn;      /* CONNECTING, HELD */
	enum outcome refused;   /* why pool_acquire returned LEASE_NONE */
	const char *refused_detail;
	bool is_reused;         /* HELD: the connection served a request before */
	enum dial_phase phase;  /* CONNECTING */
	/* stamps; unset when it didn't happen (a reused connection has no dialing stamps) */
	struct mono queued, granted, connecting, securing, held;
};

void lease_init(struct lease *lease);

/*
 * HELD: a pooled connection, at once. CONNECTING: dialing (granted is set). QUEUED: no seat or connection is free.
 * NONE: refused (max_pending reached; lease->refused). Callbacks never come from within pool_acquire.
 */
enum lease_state pool_acquire(struct lease *lease, const struct lease_order *order, const struct lease_ops *ops,
			      void *owner);

/*
 * Gives a HELD lease back. is_reusable: the exchange on it is complete and clean on both sides; keep_alive_timeout_ms:
 * what the origin announced, -1 if nothing. Not reusable: closed (for an RST, stream_close its stream with one before).
 */
void pool_release(struct lease *lease, bool is_reusable, int64_t keep_alive_timeout_ms);

/* Ends a lease in any state, silently: waiting, dialing (the dial is cancelled) or held (the connection is closed).
 * Idempotent. */
void pool_cancel(struct lease *lease);

/* Hands a HELD lease over (attempt -> tunnel): `to` must be NONE; `from` becomes NONE. */
void pool_move(struct lease *to, struct lease *from, const struct lease_ops *ops, void *owner);

struct stream *lease_stream(const struct lease *lease);   /* HELD */
/*
 * HELD, within on_readable: what is readable lay there when the idle connection was taken, since the loop looked at the
 * sockets before that. It answers nothing that was asked.
 */
bool lease_was_readable_when_taken(const struct lease *lease);
const struct address *lease_address(const struct lease *lease); /* HELD: whom we are connected to */

/* How many are before it (QUEUED); for Retry-After and /upstreams. */
size_t pool_n_waiting(const struct origin *origin);

#endif
