/*
 * What systemd is told when NOTIFY_SOCKET is set (Type=notify or notify-reload; sd_notify(3)). The protocol is a
 * datagram of KEY=VALUE lines and stable by promise, so that no library is needed for it. Without the variable
 * every call does nothing.
 */
#ifndef EVENKEEL_NOTIFY_H
#define EVENKEEL_NOTIFY_H

#include <sys/types.h>

#include "net/loop.h"

struct notify;

/* Reads NOTIFY_SOCKET and WATCHDOG_USEC (when WATCHDOG_PID is ours), and takes them out of the environment. */
struct notify *notify_new(struct loop *loop);
void notify_free(struct notify **notify);

void notify_ready(struct notify *notify);     /* also ends RELOADING; starts the watchdog's beat */
void notify_reloading(struct notify *notify);
void notify_stopping(struct notify *notify);

/* Puts NOTIFY_SOCKET and WATCHDOG_USEC back, for a process that takes over (in the child, before exec). */
void notify_export(const struct notify *notify);
/* Another process is the service's main one from now on; this one says nothing more. */
void notify_hand_over(struct notify *notify, pid_t heir);

#endif
