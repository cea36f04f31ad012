/*
 * SIGUSR2: the program that is now at this one's path is started with the same arguments and environment, given the
 * listening sockets (as socket activation gives them, see front/activation.h), and takes over. Until it says that
 * it is ready nothing changes here: a new program that doesn't start, or has no answer in time, is ended, and this
 * one goes on.
 */
#ifndef EVENKEEL_UPGRADE_H
#define EVENKEEL_UPGRADE_H

#include <sys/types.h>

#include "front/front.h"
#include "notify.h"

#define UPGRADE_PATIENCE_MS 30000

struct upgrade;
typedef void (*upgrade_fn)(void *owner, pid_t heir); /* heir: the new process, which is ready; -1: it failed, and is gone */

/* argv: as main got it; borrowed. Remembers the program's path, since a replaced file has another name in /proc. */
struct upgrade *upgrade_new(struct loop *loop, char **argv, upgrade_fn on_end, void *owner);
/* Failures are logged; on_end is called from the loop, once for each start that returned true. */
bool upgrade_start(struct upgrade *upgrade, const struct front *front, const struct notify *notify);
/* This process is such a new one: tells the older that it may let go. Once everything listens. */
void upgrade_tell_ready(struct upgrade *upgrade);
void upgrade_free(struct upgrade **upgrade); /* a new process that isn't ready yet is ended */

#endif
