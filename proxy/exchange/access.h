/* The access log line ("request") and the request metrics, for exchanges and for what is refused before one starts. */
#ifndef EVENKEEL_EXCHANGE_ACCESS_H
#define EVENKEEL_EXCHANGE_ACCESS_H

#include "../base/log.h"
#include "../base/metrics.h"
#include "../base/mono.h"
#include "../policy/retry.h"

struct access_facts {
	bool is_logged;           /* log.access */
	struct slice id, method, url;
	const char *client;
	const char *upstream;     /* "-" before a policy was found */
	const char *route;        /* NULL: none */
	int status;               /* sent to the client; 0: cancelled before a status went out */
	bool is_cancelled, is_aborted;
	const char *error;        /* RFC 9209 error type, NULL: none */
	int64_t n_attempts;
	enum verdict verdict;
	struct mono started, ended;
	int64_t queue_us, connect_us, first_byte_us, backoff_us;
	uint64_t request_bytes, response_bytes;
	bool is_reused;
	struct upstream_metrics *metrics;
};

/* Counts (requests_total, durations, attempts_per_request, cancelled) and logs. Exactly once for each request. */
void access_record(const struct access_facts *facts);

/* X-Request-Id of our own: UUIDv7 text, 36 characters and NUL. */
struct rng;
void access_make_id(char out[static 37], int64_t now_wall_ms, struct rng *rng);

#endif
