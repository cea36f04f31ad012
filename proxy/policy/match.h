/*
 * Which upstream a host and port belong to, and which route a method and path.
 * Pure over an immutable config; no allocation.
 */
#ifndef EVENKEEL_POLICY_MATCH_H
#define EVENKEEL_POLICY_MATCH_H

#include "../../config/load.h"
#include "../base/slice.h"

struct match {
	const struct upstream_def *upstream; /* NULL: no entry matches and `unmatched` is deny */
	const struct route *route;           /* NULL: none; upstream->policy rules */
	const struct policy *policy;
};

/*
 * host: lower-case A-label or IP literal without brackets, no trailing dot (http/target.h gives it so); port: as asked
 * for by the client (80 when the http:// target names none). Exact host beats the longest "*.suffix" beats "*"; a
 * named port beats none.
 */
const struct upstream_def *match_upstream(const struct config *config, struct slice host, uint16_t port);

/* method: as sent, case-sensitive. path: normalised by target_match_path (no query). First match wins. */
const struct route *match_route(const struct upstream_def *upstream, struct slice method, struct slice path);

struct match match_request(const struct config *config, struct slice host, uint16_t port, struct slice method,
			   struct slice path);

/* `*` matches any run of characters (slashes too); everything else itself. Linear time, whatever the pattern. */
bool match_glob(struct slice pattern, struct slice text);

#endif
