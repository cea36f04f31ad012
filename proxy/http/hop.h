/* Hop-by-hop fields (RFC 9110 7.6.1), Via (7.6.3) and loops. */
#ifndef EVENKEEL_HTTP_HOP_H
#define EVENKEEL_HTTP_HOP_H

#include "head.h"

/*
 * Must this field stay on this hop? True for Connection, Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding,
 * Upgrade, Proxy-Authorization, Proxy-Authenticate (responses cross it? no: it belongs to the proxy's own hop), and what
 * the head's Connection fields name; Content-Length, Host and other essential fields can't be named away (CVE-2022-31813).
 */
bool hop_is_hop_by_hop(const struct head *head, struct slice name);

/* Via: does any element say "evenkeel (ID)" with this instance's id? */
bool hop_is_loop(const struct head *head, struct slice instance_id);

#endif
