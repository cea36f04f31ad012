/* For the tests of proxy/net: a loop with a time limit, connected TCP pairs, a scripted DNS server. */
#ifndef EVENKEEL_TESTS_NET_ROOM_H
#define EVENKEEL_TESTS_NET_ROOM_H

#include "../../proxy/net/dial.h"
#include "../../proxy/net/stream.h"

struct net_room {
	struct loop *loop;
	struct timer limit;
	bool is_over_limit;
};

void net_room_open(struct net_room *room);
void net_room_close(struct net_room *room);
void net_room_run(struct net_room *room, int64_t max_ms); /* until loop_stop; fails the test when it takes longer */
void net_room_turn(struct net_room *room, int64_t for_ms); /* so long, come what may */

/* A listening, blocking TCP socket on loopback; *port 0: any, else that one. family AF_INET or AF_INET6. */
int net_listen(int family, uint16_t *port);
/* A port of loopback on which nobody listens (bound, so that nobody else gets it, until the descriptor is closed). */
int net_closed_port(int family, uint16_t *port);
/* fds[0] non-blocking, fds[1] blocking. */
void net_pair(int fds[2]);

#define DNS_STUB_MAX_RECORDS 16

/* What to say when asked for the name and type. */
struct dns_record {
	const char *name;
	uint16_t type;  /* 1: A, 28: AAAA */
	int rcode;      /* 0, 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED; -1: silence; -2: silence the first time */
	uint32_t ttl_s;
	const char *addresses[4]; /* none: NODATA */
	int64_t delay_ms;
	const char *alias; /* a CNAME comes first, with ttl alias_ttl_s */
	uint32_t alias_ttl_s;
	unsigned n_asked; /* counted */
};

/* A UDP server at 127.0.0.1 on the room's loop. A name without a record gets NXDOMAIN. */
struct dns_stub {
	struct net_room *room;
	int fd;
	uint16_t port;
	char server[32]; /* "127.0.0.1:PORT" */
	const char *servers[1];
	struct event event;
	struct dns_record *records; /* borrowed */
	size_t n_records;
	unsigned n_queries;
	struct list delayed;
};

void dns_stub_open(struct dns_stub *stub, struct net_room *room, struct dns_record *records, size_t n_records);
void dns_stub_close(struct dns_stub *stub);
struct dns_rule dns_stub_rule(const struct dns_stub *stub); /* timeout 2 s, max_ttl 60 s, negative_ttl 2 s */

#endif
