/*
 * From a list of addresses to one connected socket: happy eyeballs (RFC 8305 5) without any retrying. Private to this
 * room; dial.c is its one user.
 */
#ifndef EVENKEEL_NET_CONNECTING_H
#define EVENKEEL_NET_CONNECTING_H

#include "dial.h"

struct connected {
	int fd; /* the callee's; -1: failed */
	enum dial_status status;
	struct address address;
	char detail[256];
};

/* Exactly once, from the safe point, never from within connecting_start. It may free the connecting. */
typedef void (*connected_fn)(void *owner, struct connected *connected);

struct connecting;
/* Takes a reference to addresses. order (port, connect_ms, deny) is borrowed until connecting_free. */
struct connecting *connecting_start(struct loop *loop, struct address_list *addresses, const struct dial_order *order,
				    connected_fn done, void *owner);
void connecting_free(struct connecting **connecting); /* closes what is open; NULL is fine */

/*
 * Is this connected socket's other end itself? Connecting to a free port of the ephemeral range of this very machine
 * can, by chance, do that (TCP's simultaneous open): nobody listens there. address with its port.
 */
bool connecting_is_echo(int fd, const struct address *address);

#endif
