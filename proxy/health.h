/* `evenkeel health`: asks a running proxy's admin port, for the health check of a container. Blocks, 2 s at most. */
#ifndef EVENKEEL_HEALTH_H
#define EVENKEEL_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "../config/policy.h"

#define HEALTH_ERROR_BYTES 512

/*
 * admin: "IP:PORT", "[IPv6]:PORT" or "unix:/path"; NULL: the one of global. An address that stands for every interface
 * is asked on the loopback. True: 200 from /livez, or /readyz. False: error says in one line why not.
 */
bool health_ask(const struct global_rule *global, const char *admin, bool asks_ready, char *error,
	size_t error_capacity);

#endif
