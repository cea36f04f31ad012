/*
 * One origin: what is shared by all requests to the same (upstream name, scheme, host, port, TLS identity): its
 * connection pool, retry budget, breaker, rate and the quiet it asked for. Owned by the registry; borrows no config:
 * limits are copied in. Kept alive by its users (exchanges, tunnels) and connections; an origin that a reload retired
 * is found by nobody, closes idle connections, lets busy ones end, and is freed with its last user.
 */
#ifndef EVENKEEL_UPSTREAM_ORIGIN_H
#define EVENKEEL_UPSTREAM_ORIGIN_H

#include "../../config/load.h"
#include "../base/list.h"
#include "../base/metrics.h"
#include "../net/resolve.h"
#include "../net/tls.h"
#include "../policy/breaker.h"
#include "../policy/budget.h"
#include "../policy/rate.h"

#define REGISTRY_MAX_ORIGINS 10000
#define ORIGIN_IDLE_MS 60000 /* without a user or connection for so long: forgotten */

struct registry;

struct origin {
	struct list link;           /* registry's bucket */
	struct list starved_link;   /* registry's list of origins that wait for limits.upstream_connections */
	struct registry *registry;
	char *upstream_name;
	char *host;                 /* lower case, no brackets */
	uint16_t port;
	bool is_tls;
	struct tls_context *tls;    /* own reference; NULL: plain */
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

	struct address_list *addresses; /* of the last lookup; own reference; NULL: none yet */
	struct resolve_query *refresh;  /* a lookup under way because the TTL was over */

	/* the pool: a connection's state is the list that it is on */
	struct list idle;           /* most recently used first */
	struct list leased, connecting, waiters; /* waiters: struct lease, first in first out */
	size_t n_idle, n_leased, n_connecting, n_waiting;
	size_t n_seats;             /* leases that are CONNECTING or HELD: held against max_in_flight */
};

struct origin *origin_ref(struct origin *origin);
void origin_unref(struct origin **origin);

/* registry.c */
struct registry *registry_new(struct loop *loop, struct resolver *resolver);
void registry_free(struct registry **registry); /* closes every idle connection; all leases must be back */

/*
 * Get or make, with one reference for the caller. NULL when the TLS files can't be read (error says which) or when
 * REGISTRY_MAX_ORIGINS are busy.
 */
struct origin *registry_get(struct registry *registry, const struct upstream_def *upstream, bool is_tls,
			    const char *host, uint16_t port, char *error, size_t error_capacity);

/*
 * After a reload: origins whose upstream is unchanged by name and TLS identity keep everything and get the new limits
 * at once; the others are retired. upstream_connections: the new process-wide limit. (Whether a host still belongs to the
 * upstream is asked through `find`, which is policy/match's match_upstream.)
 */
void registry_reconcile(struct registry *registry, const struct config *config);
void registry_close_idle(struct registry *registry); /* at drain: nothing new will come for a while */

typedef void (*origin_visit_fn)(void *owner, const struct origin *origin);
void registry_each(const struct registry *registry, origin_visit_fn visit, void *owner);
size_t registry_n_connections(const struct registry *registry);

#endif
