/*
 * One origin: what is shared by all requests to the same (upstream name, scheme, host, port, TLS identity): its
 * connection pool, retry budget, breaker, rate and the quiet it asked for. Owned by the registry; borrows no config:
 * limits are copied in. Kept alive by its users (exchanges, tunnels) and connections; an origin that a reload retired
 * is found by nobody, closes idle connections, lets busy ones end, and is freed with its last user.
 */
#ifndef EVENKEEL_UPSTREAM_ORIGIN_H
#define EVENKEEL_UPSTREAM_ORIGIN_H

#include "../../config/load.h"
#include "../base/latency.h"
#include "../base/list.h"
#include "../base/metrics.h"
#include "../net/resolve.h"
#include "../net/tls.h"
#include "../policy/breaker.h"
#include "../policy/budget.h"
#include "../policy/outcome.h"
#include "../policy/rate.h"

#define REGISTRY_MAX_ORIGINS 10000
#define ORIGIN_IDLE_MS 60000 /* without a user or connection for so long: forgotten */

struct registry;

struct origin {
	struct list link;           /* registry's bucket; once retired, registry's list of those */
	struct list unused_link;    /* registry's list of origins that nobody uses, longest unused first */
	struct list starved_link;   /* registry's list of origins that wait for limits.upstream_connections */
	struct registry *registry;
	char *upstream_name;
	char *host;                 /* lower case, no brackets */
	uint16_t port;
	bool is_tls;
	struct tls_context *tls;    /* own reference; NULL: plain */
	const struct upstream_def *known; /* the definition it was last compared with: only its address is looked at */
	char *server_name;          /* tls.server_name, NULL: host */
	unsigned n_users;
	bool is_retired;
	struct mono last_used;

	struct pool_limits limits;  /* by value, from the newest config */
	struct budget budget;
	struct breaker breaker;
	struct rate rate;
	struct mono quiet_until;    /* shared Retry-After; unset: none */
	struct upstream_metrics *metrics;
	struct latency latency;     /* joins metrics->latency when the origin goes */

	struct address_list *addresses; /* of the last lookup; own reference; NULL: none yet */
	struct resolve_query *refresh;  /* a lookup under way because the TTL was over */
	struct mono refresh_after;      /* not before; bounds the lookups when the TTL is 0 or the server broken */

	/* the pool: a connection's state is the list that it is on */
	struct list idle;           /* most recently used first */
	struct list leased, connecting, waiters; /* waiters: struct lease, first in first out */
	size_t n_idle, n_leased, n_connecting, n_waiting;
	size_t n_seats;             /* leases that are CONNECTING or HELD: held against max_in_flight */
	struct timer idle_timer;    /* when the first idle connection is too old */
	struct deferred serve;      /* gives waiters what became free, at the loop's safe point */
	struct deferred free_later;
	enum breaker_state counted_breaker; /* as the gauges have it; see origin_sync_breaker */
};

struct origin *origin_ref(struct origin *origin);
void origin_unref(struct origin **origin);

/* After whatever may have changed origin->breaker.state: moves the gauges metrics->breaker_* along. */
void origin_sync_breaker(struct origin *origin);

static inline size_t origin_n_connections(const struct origin *origin)
{
	return origin->n_idle + origin->n_leased + origin->n_connecting;
}

/*
 * registry.c. The loop and the resolver are borrowed and outlive it. Until the first registry_reconcile the limit on
 * the connections of the whole process is the built-in one, so call that once at the start too.
 */
struct registry *registry_new(struct loop *loop, struct resolver *resolver);
/* Closes every idle connection; all leases and references must be back. */
void registry_free(struct registry **registry);

/*
 * Get or make, with one reference for the caller. host: lower case, copied; port: the one to dial; upstream is
 * borrowed for the call only. NULL: *refused is TLS_FAILURE when the TLS files can't be read (error says which),
 * MAX_PENDING when REGISTRY_MAX_ORIGINS are busy.
 */
struct origin *registry_get(struct registry *registry, const struct upstream_def *upstream, bool is_tls,
			    const char *host, uint16_t port, enum outcome *refused, char *error, size_t error_capacity);

/*
 * After a reload: origins whose upstream is unchanged by name and TLS identity keep everything and get the new limits
 * at once; the others are retired, and so are those whose host no longer leads to their upstream (match_upstream, asked
 * with each port that may have led to the origin: the one that it dials may differ from the one that the client named).
 * Also takes over limits.upstream_connections.
 */
void registry_reconcile(struct registry *registry, const struct config *config);
void registry_close_idle(struct registry *registry); /* of every origin */

/* Retired origins that are still used are visited as well. */
typedef void (*origin_visit_fn)(void *owner, const struct origin *origin);
void registry_each(const struct registry *registry, origin_visit_fn visit, void *owner);
size_t registry_n_connections(const struct registry *registry);

#endif
