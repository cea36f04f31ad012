/*
 * Where an upstream's requests go: which ports a tunnel may name, which port is dialed, whom a local port stands for.
 * Pure over an immutable config.
 */
#ifndef EVENKEEL_POLICY_EGRESS_H
#define EVENKEEL_POLICY_EGRESS_H

#include "../../config/load.h"

#define EGRESS_HTTP_PORT 80
#define EGRESS_HTTPS_PORT 443

/* May a CONNECT to this port carry what nobody sees into? (egress.connect_ports, and the ports of the upstream's match) */
bool egress_is_opaque_port(const struct egress_rule *rule, const struct upstream_def *upstream, uint16_t port);

/* The port to dial for an http:// request that asked for `port`; another one only where TLS is originated. */
uint16_t egress_port(const struct upstream_def *upstream, uint16_t port);

/* Whom the upstream's own `listen` stands for: its first host that is no pattern (NULL: there is none), and the port. */
const char *egress_local_host(const struct upstream_def *upstream);
uint16_t egress_local_port(const struct upstream_def *upstream);

#endif
