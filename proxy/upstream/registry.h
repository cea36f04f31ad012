/*
 * Private to this room: what the registry holds, and the functions by which origin, pool, conn and registry work
 * together.
 *
 * Connections are bounded twice: per origin (pool.max_connections) and over all (limits.upstream_connections). An
 * origin whose first waiter is held up by the second bound alone is on the list `starved`; its members take turns,
 * first in first out, and while there are any nobody passes them.
 */
#ifndef EVENKEEL_UPSTREAM_REGISTRY_H
#define EVENKEEL_UPSTREAM_REGISTRY_H

#include "conn.h"
#include "origin.h"

struct registry {
	struct loop *loop;         /* borrowed */
	struct resolver *resolver; /* borrowed */
	struct list *buckets;      /* owns; n_buckets is a power of two */
	size_t n_buckets, n_origins;
	uint64_t hash_seed;
	struct list retired;
	struct list unused;       /* longest unused first */
	struct list idle;         /* idle connections of all origins, longest idle first */
	struct list starved;
	struct list tls_contexts; /* of tls_cache.c */
	int64_t max_connections;  /* LIMIT_OFF: none */
	size_t n_connections;
	struct timer sweep_timer;
	struct deferred serve_starved;
};

/* Is one more than n too many? */
static inline bool limit_is_reached(size_t n, int64_t limit) { return limit >= 0 && n >= (uint64_t)limit; }

/* registry.c: moves the origin from its bucket to the list of the retired. */
void registry_unlink(struct origin *origin);
void registry_note_unused(struct origin *origin); /* the last user left */

/* tls_cache.c: the context of an upstream's TLS rule, read once between two reloads. Borrowed; NULL: error says why. */
struct tls_context *tls_cache_get(struct registry *registry, const struct upstream_def *upstream, char *error,
				  size_t error_capacity);
/* Reads now what is sure to be needed: what lies in the files later counts only after the next reload, and no
 * request has to wait for the reading. What can't be read is told to those who ask for it. */
void tls_cache_fill(struct registry *registry, const struct config *config);
void tls_cache_clear(struct registry *registry); /* what is found in files may differ from now on */

/*
 * share.c: may the origin open a connection now? When the process-wide limit is reached, the longest-idle connection
 * that nobody waits for makes room; without one: false, and the origin is starved. is_turn: it is its turn among those.
 */
bool share_admit(struct origin *origin, bool is_turn);
void share_init(struct registry *registry);
void share_note_opened(struct origin *origin);
void share_note_closed(struct origin *origin);
void share_note_idle(struct origin *origin); /* one became idle: it could make room for a starved origin */
/* Is the origin to give up a connection that it could reuse, since a starved one has fewer by more than one? */
bool share_must_yield(const struct origin *origin);
void share_serve_soon(struct registry *registry);
void share_trim(struct registry *registry); /* the limit fell: closes idle connections, longest idle first */

/* origin.c */
struct origin_key {
	const struct upstream_def *upstream; /* name, limits, TLS rule */
	bool is_tls;
	const char *host;
	uint16_t port;
};
struct origin *origin_new(struct registry *registry, const struct origin_key *key, struct tls_context *tls);
/* Is it asked by TLS as the upstream's rule, read into tls, wants it? */
bool origin_has_identity(const struct origin *origin, const struct upstream_def *upstream, const struct tls_context *tls);
void origin_retire(struct origin *origin); /* found by nobody from now on; freed with its last user. Idempotent. */
void origin_free_now(struct origin *origin);

/* addresses.c: origin->addresses against the resolver's. refresh: when the TTL is over; never delays anybody. */
void addresses_refresh(struct origin *origin, struct mono now);
void addresses_learn(struct conn *conn, struct mono now); /* just connected */
void addresses_forget(struct origin *origin);

/* idle.c */
/* Still IDLE; NULL: none is fit for it. */
struct conn *idle_take(struct origin *origin, const struct lease_order *order, struct mono now);
/* LEASED -> IDLE; false: it can't be kept and is still LEASED. */
bool idle_park(struct conn *conn, int64_t keep_alive_timeout_ms, struct mono now);
void idle_trim(struct origin *origin);       /* closes what is above max_idle and max_connections, oldest first */
bool idle_close_oldest(struct origin *origin);
void idle_close_all(struct origin *origin);
void idle_timer_due(void *origin);
void idle_timer_update(struct origin *origin); /* the limits changed */

/* pool.c */
void pool_serve_soon(struct origin *origin); /* from the loop's safe point; nothing when nobody waits */
/* Calls back the first waiter's owner; false: it can't be served yet, or none waits. */
bool pool_serve_one(struct origin *origin, bool is_turn);
void pool_serve_due(struct deferred *item);

#endif
