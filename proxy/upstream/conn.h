/*
 * One connection to an origin, from the dial on. Private to this room; owned by the origin's pool.
 *
 *   RESOLVING -> DIALING -> SECURING -> LEASED <-> IDLE       any -> CLOSING -> CLOSED (freed at the loop's safe point)
 *
 * A dial is made for one lease and ends with it, so a new connection is LEASED first. The state is also the list that
 * the connection is on: origin->connecting (the first three), ->leased, ->idle.
 */
#ifndef EVENKEEL_UPSTREAM_CONN_H
#define EVENKEEL_UPSTREAM_CONN_H

#include "pool.h"

enum conn_state {
	CONN_RESOLVING, /* waits for the name server (dns.timeout) */
	CONN_DIALING,   /* waits for TCP (timeouts.connect) */
	CONN_SECURING,  /* waits for the TLS handshake (timeouts.tls_handshake) */
	CONN_IDLE,      /* waits for a lease (pool.idle_timeout, what the peer announced, pool.max_lifetime) */
	CONN_LEASED,    /* in its lease's hands; no limit of this room runs */
	CONN_CLOSING,   /* on no list and in no count any more; its descriptor is being closed */
	CONN_CLOSED,    /* waits for the loop's safe point */
	N_CONN_STATES
};

struct conn {
	struct list link;      /* origin->connecting, idle or leased */
	struct list idle_link; /* registry->idle while IDLE */
	struct origin *origin; /* borrowed: an origin is not freed before its connections are closed */
	struct lease *lease;   /* borrowed; whom it is dialed for or leased to */
	enum conn_state state;
	struct dial *dial;     /* owns; until it is done */
	struct stream stream;  /* open while IDLE or LEASED */
	struct address address;
	int64_t n_requests;    /* how often it was leased */
	uint64_t leased_turn;  /* the loop's turn in which it was last taken from the idle ones */
	struct mono born;      /* connected */
	struct mono idle_since;
	int64_t announced_ms;  /* Keep-Alive: timeout of the last response; -1: none */
	bool is_gone;          /* the name no longer resolves to its address: not reused */
	bool is_starting;      /* within dial_start: nobody is called back */
	struct deferred free_later;
};

/* Dials for the lease, which has its seat; sets lease->conn. News come through pool_dial_*, aloud only later. */
void conn_dial(struct lease *lease, struct mono now);
void conn_lease(struct conn *conn, struct lease *lease); /* IDLE -> LEASED */
void conn_unlease(struct conn *conn, struct mono now);   /* LEASED -> IDLE; see idle_park, which judges first */

/* From any state before CLOSING, silently: ends the dial or the stream (is_reset: with RST), lets go of the lease. */
void conn_close(struct conn *conn, bool is_reset);

/* pool.c: what becomes of the lease that a connection is dialed for. */
void pool_dial_phase(struct lease *lease, enum dial_phase phase, bool is_silent, struct mono now);
void pool_dial_ready(struct lease *lease, struct mono now);
/* The connection is closed already. detail: valid during the call. */
void pool_dial_failed(struct lease *lease, enum outcome outcome, const char *detail);

#endif
