/*
 * Counters, gauges and histograms, and their Prometheus text. Counting is a plain increment on a struct that the
 * caller holds on to; only rendering knows names and labels.
 *
 * One struct upstream_metrics for each upstream name, made on first use and kept for the life of the process, so
 * that a reload never turns a counter back. Single-threaded: no locks.
 */
#ifndef EVENKEEL_BASE_METRICS_H
#define EVENKEEL_BASE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"
#include "latency.h"

#define METRICS_MAX_BUCKETS 20

struct histogram {
	uint64_t counts[METRICS_MAX_BUCKETS + 1]; /* the last one: +Inf */
	uint64_t n;
	uint64_t sum_us; /* or the plain sum, for evenkeel_attempts_per_request */
};

/* evenkeel_attempts_total{outcome} and evenkeel_retries_total{reason} (kinds) */
enum attempt_label {
	ATTEMPT_LABEL_1XX, ATTEMPT_LABEL_2XX, ATTEMPT_LABEL_3XX, ATTEMPT_LABEL_4XX, ATTEMPT_LABEL_5XX,
	ATTEMPT_LABEL_DNS_FAILURE, ATTEMPT_LABEL_CONNECT_FAILURE, ATTEMPT_LABEL_RESET, ATTEMPT_LABEL_ATTEMPT_TIMEOUT,
	ATTEMPT_LABEL_INCOMPLETE_BODY, ATTEMPT_LABEL_TLS_FAILURE, ATTEMPT_LABEL_BAD_RESPONSE,
	ATTEMPT_LABEL_CANCELLED, ATTEMPT_LABEL_REJECTED, /* no slot: pool_wait, max_pending, rate_limit, breaker */
	N_ATTEMPT_LABELS
};

/* evenkeel_retries_suppressed_total{reason} */
enum suppressed_label {
	SUPPRESSED_METHOD, SUPPRESSED_BODY, SUPPRESSED_ATTEMPTS, SUPPRESSED_BUDGET, SUPPRESSED_DEADLINE,
	SUPPRESSED_BREAKER, SUPPRESSED_RETRY_AFTER, SUPPRESSED_DRAINING, SUPPRESSED_NESTED,
	N_SUPPRESSED_LABELS
};

/* evenkeel_timeouts_total{kind}: the keys of `timeouts` */
enum timeout_label {
	TIMEOUT_LABEL_TOTAL, TIMEOUT_LABEL_ATTEMPT, TIMEOUT_LABEL_POOL_WAIT, TIMEOUT_LABEL_CONNECT,
	TIMEOUT_LABEL_TLS_HANDSHAKE, TIMEOUT_LABEL_RESPONSE_HEADERS, TIMEOUT_LABEL_BODY_IDLE,
	TIMEOUT_LABEL_STREAM_TOTAL, TIMEOUT_LABEL_TUNNEL_IDLE, TIMEOUT_LABEL_TUNNEL_TOTAL,
	N_TIMEOUT_LABELS
};

/* evenkeel_pool_rejected_total{reason} */
enum pool_rejected_label {
	POOL_REJECTED_MAX_PENDING, POOL_REJECTED_POOL_WAIT, POOL_REJECTED_RATE_LIMIT,
	N_POOL_REJECTED_LABELS
};

#define METRICS_N_CODES 1000

struct upstream_metrics {
	char *name;
	uint64_t requests_by_code[METRICS_N_CODES]; /* whatever three digits an origin sends */
	uint64_t requests_cancelled, requests_aborted; /* code="cancelled" / "aborted" */
	struct histogram request_seconds;
	uint64_t attempts[N_ATTEMPT_LABELS];
	struct histogram attempt_seconds;
	struct histogram attempts_per_request;
	uint64_t retries_by_kind[N_ATTEMPT_LABELS];
	uint64_t retries_by_status[200]; /* status - 400 */
	uint64_t suppressed[N_SUPPRESSED_LABELS];
	uint64_t timeouts[N_TIMEOUT_LABELS];
	uint64_t cancelled;
	uint64_t backoff_us;
	int64_t connections_active, connections_idle, connections_connecting; /* gauges */
	int64_t pending, in_flight;                                           /* gauges */
	uint64_t pool_rejected[N_POOL_REJECTED_LABELS];
	uint64_t connections_opened, connections_reused;
	uint64_t tls_handshakes_full, tls_handshakes_resumed;
	int64_t breaker_closed, breaker_half_open, breaker_open; /* number of origins in each state */
	uint64_t hedges_won, hedges_lost;
	uint64_t opaque_tunnels;
	int64_t tunnels_active;
	struct latency latency; /* not rendered; of origins that are gone */
	uint64_t tunnel_bytes_sent, tunnel_bytes_received; /* direction="up" / "down" */
	/* mode: observe - what would have been done; label mode="observe" */
	uint64_t observed_retries; /* all of them; what the two below don't name is rendered as reason="other" */
	uint64_t observed_retries_by_kind[N_ATTEMPT_LABELS], observed_retries_by_status[200];
	uint64_t observed_timeouts[N_TIMEOUT_LABELS];
	struct upstream_metrics *next;
};

struct process_metrics {
	int64_t client_connections;
	int64_t buffered_bytes; /* replay and hold-back buffers together; also what limits.buffered_bytes is held against */
	int64_t upstream_connections;
	bool draining;
	uint64_t reloads_ok, reloads_failed;
	int64_t reload_last_success_wall_ms;
	uint64_t accept_paused; /* times that accepting paused for want of descriptors or at client_connections */
};

extern struct process_metrics process_metrics; /* the one exception to "no globals": counters */

/* Get or make. "-" stands for requests refused before a policy was found. Never NULL, never freed before exit. */
struct upstream_metrics *metrics_upstream(const char *name);
struct upstream_metrics *metrics_first(void); /* walk by ->next */

void histogram_observe_us(struct histogram *histogram, int64_t elapsed_us); /* duration buckets */
void histogram_observe_count(struct histogram *histogram, int64_t n);       /* buckets 1 2 3 4 5 8 */

/* The whole exposition, HELP and TYPE included; is_openmetrics adds "# EOF" and OpenMetrics' naming of counters. */
void metrics_render(struct buffer *out, bool is_openmetrics);
void metrics_clear(void); /* at exit, for leak checkers */

#endif
