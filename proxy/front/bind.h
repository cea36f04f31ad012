/* Listening sockets: bound by us, since evhttp's own would get a backlog of 128 and no say in IPV6_V6ONLY. */
#ifndef EVENKEEL_FRONT_BIND_H
#define EVENKEEL_FRONT_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../config/policy.h"

/*
 * A socket that listens on address: non-blocking, close-on-exec, SO_REUSEADDR, IPV6_V6ONLY, TCP_NODELAY (which
 * accepted sockets inherit), backlog SOMAXCONN. A unix socket's file that no process listens on any more is
 * replaced. -1: error says why in one line, errno too. shares_port: another socket of this process may listen on
 * the same port (see bind_share_port), which is about to be closed.
 */
int bind_listening(const struct listen_address *address, bool shares_port, char *error, size_t error_capacity);

/* While on, a socket bound with shares_port doesn't clash with this one (127.0.0.1:3128 becomes 0.0.0.0:3128). */
void bind_share_port(int fd, bool is_on);

uint16_t bind_real_port(int fd); /* 0: not TCP */

/* Is the socket bound to address? One on [::] that takes IPv4 clients too is at 0.0.0.0 as well. Port 0 is nobody's. */
bool bind_is_at(int fd, const struct listen_address *address);

#define BIND_ADDRESS_BYTES 128
void bind_format(int fd, char *out, size_t capacity); /* what it is bound to, as a policy file writes it */

#endif
