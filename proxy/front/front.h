/*
 * The front room: everything that faces clients. The only room that knows evhttp.
 *
 * evhttp binds (through a socket we bound), accepts, makes the request object and dispatches it to our callback;
 * the wire (wire.c) owns the descriptor, parses strictly with http/request before evhttp sees anything, and writes
 * every byte that goes out.
 */
#ifndef EVENKEEL_FRONT_FRONT_H
#define EVENKEEL_FRONT_FRONT_H

#include "../exchange/exchange.h"

struct front;

/* What the front asks of the composition root. */
struct front_hooks {
	void *owner;
	struct config *(*current_config)(void *owner);   /* borrowed: ref it to keep it */
	bool (*is_ready)(void *owner);                   /* /readyz */
	/* Admin: reload now; writes a JSON answer (what changed, or the faults); returns the status 200 or 422. */
	int (*reload)(void *owner, struct buffer *json);
	void (*drain)(void *owner);
	void (*on_idle)(void *owner);                    /* while stopping: the last client connection, exchange or tunnel is gone */
};

/* Takes over the listening sockets that a supervisor has opened, see activation.h. */
struct front *front_new(struct loop *loop, struct exchange_room *room, const struct front_hooks *hooks);
void front_free(struct front **front);

/*
 * Opens what config (and overrides from the command line, already put into config.global by proxy.c) asks for and isn't
 * open yet, then closes what is no longer asked for: new before old. False: nothing changed, error says which address
 * and why in one line ("listen 127.0.0.1:3128: Address already in use (another process listens there: ...)").
 * Logs one `listening` event for each socket: role (proxy | admin | upstream), address (with the real port), upstream.
 */
bool front_apply(struct front *front, const struct config *config, char *error, size_t error_capacity);

/* Drain: stops accepting (closes listeners of proxy role; admin stays until front_free), closes idle clients; busy ones
 * get Connection: close. */
void front_stop_taking(struct front *front);
/*
 * Another process has taken over the listening sockets: this one closes its own at once, admin too. A client connection
 * that is idle is served one more request, answered with Connection: close: its client may be sending it right now.
 */
void front_hand_over(struct front *front);
/* The listening sockets for such a process; borrowed. Names for LISTEN_FDNAMES: borrowed or static. Returns how
 * many. */
size_t front_sockets(const struct front *front, int *fds, const char **names, size_t capacity);
void front_cut(struct front *front); /* drain timeout: tunnels and what is left of client connections are closed; counted in room->n_cut */
void front_log_origins(struct front *front); /* what /upstreams tells, a log line "origin" for each (admin_log.c) */
size_t front_n_clients(const struct front *front);  /* connections of the proxy role, idle or busy */

#endif
