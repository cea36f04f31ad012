/*
 * One request of an application, from its head to the last byte of its answer: the one loop that retries.
 *
 *   ADMITTED -> TRYING <-> BACKOFF -> RELAYING -> DONE      commit point: the first byte to the client; no retry after it
 *
 * Its one timer is set by policy/deadline; its one question "again?" is answered by policy/retry.
 */
#ifndef EVENKEEL_EXCHANGE_EXCHANGE_H
#define EVENKEEL_EXCHANGE_EXCHANGE_H

#include "../policy/match.h"
#include "downstream.h"

struct exchange;

/* What all exchanges share; owned by proxy.c, outlives them. */
struct exchange_room {
	struct loop *loop;
	struct registry *registry;
	char instance_id[24];     /* for Via */
	struct list exchanges;    /* all that live */
	size_t n_exchanges;
	bool is_draining;         /* responses carry Connection: close */
	bool is_cutting;          /* past drain.timeout */
	uint64_t n_cut;           /* exchanges and tunnels cut off at the drain timeout: exit code 3 */
};

void exchange_room_init(struct exchange_room *room, struct loop *loop, struct registry *registry);
void exchange_cut_all(struct exchange_room *room); /* drain timeout: each ends as DRAIN_CUT */

struct exchange_order {
	struct downstream *downstream;
	const struct request *request;  /* borrowed until on_done */
	struct config *config;          /* the exchange takes its own reference */
	struct match match;             /* upstream and policy found in that config */
	const char *host;               /* whom to ask: from the target, or from the local port's upstream */
	uint16_t port;
	bool is_tls;
	struct slice path;              /* what is sent in origin form */
	struct slice host_field;        /* the Host to send */
	struct slice url;               /* for the log: as asked for, userinfo cut by the log */
	struct slice request_id;        /* the client's own, or made by front */
	bool is_own_request_id;         /* the client's own */
	const char *client_address;     /* "127.0.0.1:51234"; borrowed until on_done */
	struct mono started;            /* first request byte in */
	int64_t total_ms, max_attempts; /* after Evenkeel-Timeout and Evenkeel-Max-Attempts */
	bool is_nested;                 /* bore Evenkeel-Previous-Attempts */
	bool is_upgrade;                /* forward Upgrade */
};

/* Starts at once: the request's head may have left when it returns. Of the ops only resume_body is called from within;
 * whatever is sent, and on_done, comes from the loop. Owned by itself: it ends with on_done. */
struct exchange *exchange_start(struct exchange_room *room, const struct exchange_order *order);

/* Events of the client's side, from the loop. */
void exchange_request_body(struct exchange *exchange, struct slice data);
void exchange_request_end(struct exchange *exchange, const struct head *trailers); /* NULL: none; else until on_done */
/* CLIENT_SLOW or CLIENT_BAD_BODY. detail: valid during the call; NULL: none. */
void exchange_request_failed(struct exchange *exchange, enum outcome outcome, const char *detail);
void exchange_client_writable(struct exchange *exchange); /* pending output fell below the low-water mark */
void exchange_client_flushed(struct exchange *exchange);  /* after send_end / send_own: the last byte is out */
void exchange_client_gone(struct exchange *exchange);     /* ends everything; on_done comes from within */

/* What is known for the access log so far; a tunnel takes it over within become_tunnel and records it at its own
 * end (the slices are borrowed: copy what must outlive on_done). */
struct access_facts;
void exchange_access_facts(const struct exchange *exchange, struct access_facts *facts);

#endif
