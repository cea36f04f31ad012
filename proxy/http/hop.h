/* Hop-by-hop fields (RFC 9110 7.6.1), Via (7.6.3) and loops. */
#ifndef EVENKEEL_HTTP_HOP_H
#define EVENKEEL_HTTP_HOP_H

#include "field_kind.h"
#include "head.h"

#define HOP_MAX_NAMES 16

/*
 * Must this field stay on this hop? True for Connection, Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding,
 * Upgrade, Proxy-Authorization, Proxy-Authenticate and Proxy-Authentication-Info (they belong to the proxy's own hop),
 * and what the head's Connection fields name; Content-Length, Host and other essential fields can't be named away
 * (CVE-2022-31813).
 */
bool hop_is_hop_by_hop(const struct head *head, struct slice name);

/*
 * The fields that a head's Connection fields name, less what is hop-by-hop anyhow and what can't be named away:
 * collected once, then asked per field. Borrows from the head.
 */
struct hop_names {
	struct slice names[HOP_MAX_NAMES];
	size_t n;
	bool is_overfull; /* there are more: hop_is_named looks into the head again */
};

void hop_collect(const struct head *head, struct hop_names *names);
bool hop_is_named(const struct head *head, const struct hop_names *names, struct slice name);

/* Via: does any element say "evenkeel (ID)" with this instance's id? */
bool hop_is_loop(const struct head *head, struct slice instance_id);

#endif
