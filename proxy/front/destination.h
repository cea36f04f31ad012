/* Whom a request is for: from its target, from the local port it came in on, or from the tunnel that it came
 * through. */
#ifndef EVENKEEL_FRONT_DESTINATION_H
#define EVENKEEL_FRONT_DESTINATION_H

#include "client.h"
#include "refuse.h"

/* Fills host, port, is_tls, path, host_field, url and match of client->order. False: refusal says what to answer. */
bool destination_find(struct client *client, struct refusal *refusal);

/* Does this authority name the very listener that the connection came in on? */
bool destination_is_own_address(const struct wire *wire, const char *host, uint16_t port);

#endif
