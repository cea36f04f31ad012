/* Listening sockets: bound by us, since evhttp's own would get a backlog of 128 and no say in IPV6_V6ONLY. */
#ifndef EVENKEEL_FRONT_BIND_H
#define EVENKEEL_FRONT_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../config/policy.h"

/*
 * A socket that listens on address: non-blocking, close-on-exec, SO_REUSEADDR, IPV6_V6ONLY, TCP_NODELAY (which accepted
 * sockets inherit), backlog SOMAXCONN. A unix socket's file that no process listens on any more is replaced.
 * -1: error says why in one line.
 */
int bind_listening(const struct listen_address *address, char *error, size_t error_capacity);

uint16_t bind_real_port(int fd); /* 0: not TCP */

#endif
