/* For the tests of proxy/upstream: a loop, a registry, servers on loopback that count what happens, and wishes. */
#ifndef EVENKEEL_TESTS_UPSTREAM_ROOM_H
#define EVENKEEL_TESTS_UPSTREAM_ROOM_H

#include "../../proxy/upstream/registry.h"

#define SERVER_MAX_CONNECTIONS 64

/* Accepts and says nothing; keeps count of what is open. */
struct server {
	struct event accept_event;
	uint16_t port;
	int fd;
	size_t n_accepted, n_open;
	struct server_connection {
		struct server *server;
		struct event read_event;
		int fd; /* -1: closed */
	} connections[SERVER_MAX_CONNECTIONS]; /* in the order of accepting */
};

struct room {
	struct loop *loop;
	struct resolver *resolver;
	struct registry *registry;
	struct timer stop_timer;
};

/* One who wants a connection, and what was said to it. */
struct wish {
	struct lease lease;
	struct lease_order order;
	int n_ready, n_failed, n_progress, n_readable;
	int turn; /* of room_next_turn when it was ready */
	bool cancels_on_progress, cancels_on_ready;
	enum outcome outcome;
	char detail[256];
};

extern const struct lease_ops wish_ops;

void room_open(struct room *room, const char *dns_server); /* NULL: the system's */
void room_close(struct room *room);
void room_run(struct room *room, int64_t run_ms);
/* Runs until *value is goal, for at most 3 s; false when it never was. */
bool room_run_until(struct room *room, const int *value, int goal);
bool room_run_until_n(struct room *room, const size_t *value, size_t goal);

void server_open(struct server *server, struct room *room);
void server_close(struct server *server);
uint16_t refused_port(void); /* nobody listens there */

/* An upstream with the built-in limits, no TLS, any port. */
struct upstream_def upstream_named(const char *name, const char *const *hosts, size_t n_hosts);
struct origin *origin_at(struct room *room, const struct upstream_def *upstream, const char *host, uint16_t port);

void wish_init(struct wish *wish, struct origin *origin);
enum lease_state wish_acquire(struct wish *wish);
/* Acquires and runs until it is ready: a connection of its own, when none is idle. */
void wish_hold(struct wish *wish, struct room *room);

/* Nothing is held, waited for, open or counted. */
void assert_all_given_back(const struct room *room, const struct origin *origin);

#endif
