/* One request of a client and its exchange: the downstream that the exchange answers through. */
#ifndef EVENKEEL_FRONT_CLIENT_H
#define EVENKEEL_FRONT_CLIENT_H

#include "../exchange/exchange.h"
#include "wire.h"

#define CLIENT_MAX_OWNED 6

struct client {
	struct downstream downstream;
	struct wire *wire;         /* NULL after on_done */
	struct loop *front_loop;
	struct exchange *exchange; /* NULL before exchange_start and after on_done */
	struct config *config;     /* own reference */
	struct exchange_order order;
	struct target authority;   /* when the request's own target doesn't name it: Host, or a CONNECT before */
	char made_id[37];
	char *owned[CLIENT_MAX_OWNED]; /* texts that the order borrows */
	size_t n_owned;
	bool is_chunked;           /* the response goes out chunked */
	bool has_body;             /* the response has one at all */
	bool is_keep_alive;        /* was announced (or not withdrawn) in the response's head */
	bool is_aborted;
	bool is_tunnel;            /* the wire is the tunnel's now */
	struct deferred free_late;
};

struct client *client_new(struct wire *wire);
/* Starts the exchange; the order must be filled. The client ends itself with its on_done. */
void client_start(struct client *client);
void client_discard(struct client **client); /* one that was never started */

/* Composes a text that lives as long as the client. */
struct slice client_keep_printf(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
