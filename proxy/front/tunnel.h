/*
 * CONNECT and Upgrade: bytes both ways until both sides have ended, one is reset, or a limit says so. What waits is
 * bounded on each way; a slow reader stops its writer. The end of one side is carried through after its last byte,
 * a reset as a reset.
 */
#ifndef EVENKEEL_FRONT_TUNNEL_H
#define EVENKEEL_FRONT_TUNNEL_H

#include "client.h"

struct tunnel;

/* Within become_tunnel: takes the lease over, sends the 200 or 101, and relays from then on. */
void tunnel_start(struct client *client, struct lease *lease, const struct response *response,
		  const struct response_rewrite *rewrite, struct slice early);

/* Closes both sides at once, with resets, and records: the client was lost, or the proxy stops. */
void tunnel_cut(struct tunnel *tunnel);

/* tunnel_warn.c: logs `opaque_tunnel` for the first CONNECT to a host whose upstream entry has a policy that
 * can't be kept. */
void tunnel_warn(struct front *front, const struct exchange_order *order);
void tunnel_forget_warnings(struct front *front);

#endif
