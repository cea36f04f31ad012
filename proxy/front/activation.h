/*
 * Listening sockets that were there before this process: from a supervisor (systemd's socket activation,
 * sd_listen_fds(3)), or from an older process of ours that hands its work over (proxy/upgrade.h). Both come as
 * LISTEN_FDS descriptors from 3 on. A socket is matched to an address of the policy file by what it is bound to,
 * not by its place or name, so the two sides can't be mixed up by reordering them.
 */
#ifndef EVENKEEL_FRONT_ACTIVATION_H
#define EVENKEEL_FRONT_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

#include "../../config/policy.h"

#define ACTIVATION_FIRST_FD 3
#define ACTIVATION_MAX_SOCKETS 1024
#define ACTIVATION_OWN_NAME "evenkeel-handover" /* in LISTEN_FDNAMES: opened by an older process of ours, which is to close it */

struct activated_socket {
	int fd;              /* owned; -1: taken for good */
	bool is_lent;        /* a supervisor keeps it open beside us, and owns the file of a unix socket */
	bool is_used;
	char *name;          /* owned; from LISTEN_FDNAMES, "unknown" without one */
};

struct activation {
	struct activated_socket *sockets; /* owned */
	size_t n;
};

/*
 * Reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES and takes them out of the environment, whoever they were meant
 * for. The descriptors become close-on-exec and non-blocking. What isn't a listening stream socket is closed, with
 * a warning.
 */
void activation_take(struct activation *activation);

/*
 * A descriptor that listens on address, for the caller to own: a duplicate of a lent one (the address may leave the
 * policy file and come back), or one of our own itself. -1: none is bound to it.
 */
int activation_find(struct activation *activation, const struct listen_address *address, bool *is_lent);

/* All listeners are open. Those of our own that nobody wanted are closed; a lent one that is unused is warned of, since
 * clients that connect to it wait for ever. */
void activation_settle(struct activation *activation);
void activation_clear(struct activation *activation);

#endif
