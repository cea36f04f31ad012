/*
 * The value types that a policy file becomes. Nothing here parses, allocates or decides: these are the
 * structs that config/load.c fills and that every other room reads through a const pointer.
 *
 * Units are in the names: x_ms is a duration in milliseconds, x_bytes a size in bytes, x_ratio a number
 * from 0 to 1. LIMIT_OFF in any of them means that the user wrote `off`: there is no such limit.
 *
 * Ownership: every string and array belongs to the `struct config` that it was read into (config/load.h)
 * and lives exactly as long as that config does.
 */
#ifndef EVENKEEL_CONFIG_POLICY_H
#define EVENKEEL_CONFIG_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMIT_OFF (-1)

struct string_list {
	const char *const *items; /* n NUL-terminated strings */
	size_t n;
};

/* `timeouts` */
struct timeouts {
	int64_t total_ms;
	int64_t attempt_ms;
	int64_t pool_wait_ms;
	int64_t connect_ms;
	int64_t tls_handshake_ms;
	int64_t response_headers_ms;
	int64_t body_idle_ms;
	struct string_list stream_types; /* lower-case media types without parameters */
	int64_t stream_total_ms;
	int64_t tunnel_idle_ms;
	int64_t tunnel_total_ms;
};

/* The kinds that `retry.on` may list, as bits of retry_on.kinds. */
enum retry_kind {
	RETRY_KIND_NONE = 0,
	RETRY_DNS_FAILURE = 1 << 0,
	RETRY_CONNECT_FAILURE = 1 << 1,
	RETRY_RESET = 1 << 2,
	RETRY_ATTEMPT_TIMEOUT = 1 << 3,
	RETRY_INCOMPLETE_BODY = 1 << 4,
	RETRY_TLS_FAILURE = 1 << 5,
	RETRY_BAD_RESPONSE = 1 << 6,
};

struct retry_on {
	uint32_t kinds;       /* bits of enum retry_kind */
	uint64_t statuses[4]; /* bit (status - 400): 400..599 */
};

static inline bool retry_on_status(const struct retry_on *on, int status)
{
	if (status < 400 || status > 599)
		return false;
	unsigned bit = (unsigned)(status - 400);
	return (on->statuses[bit / 64] >> (bit % 64)) & 1;
}

enum jitter { JITTER_FULL, JITTER_EQUAL, JITTER_DECORRELATED, JITTER_NONE, JITTER_FRACTION };

struct backoff_rule {
	int64_t base_ms;
	double multiplier;
	int64_t max_ms;
	enum jitter jitter;
	double jitter_fraction; /* JITTER_FRACTION: delay x U(1 - f, 1 + f) */
};

struct retry_after_rule {
	bool honor;
	int64_t max_ms;
	bool shared; /* the whole origin pauses its retries */
};

struct budget_rule {
	bool is_on;
	double ratio;
	int64_t reserve;
	double min_per_second;
	int64_t window_ms;
};

struct retry_rule {
	int64_t max_attempts; /* >= 1, the first one included */
	struct retry_on on;
	struct string_list methods;  /* case-sensitive method tokens */
	const char *idempotency_key; /* header name, NULL when off */
	struct backoff_rule backoff;
	struct retry_after_rule retry_after;
	bool nested_allow; /* nested: allow */
	struct budget_rule budget;
	int64_t hold_response_bytes; /* LIMIT_OFF or 0: hold nothing */
};

struct pool_limits {
	int64_t max_connections;
	int64_t max_in_flight;
	int64_t max_pending;
	int64_t idle_timeout_ms;
	int64_t max_idle;
	int64_t max_lifetime_ms;
	int64_t max_requests; /* per connection */
};

struct breaker_rule {
	bool is_on;
	double failure_ratio; /* LIMIT_OFF: only `consecutive` trips */
	int64_t min_requests;
	int64_t consecutive; /* LIMIT_OFF: only the ratio trips */
	int64_t window_ms;
	int64_t open_for_ms;
	int64_t half_open; /* trial requests let through at once */
};

struct hedge_rule {
	bool is_on;
	int64_t after_ms;
	int64_t max;
};

struct rate_rule {
	bool is_on;
	double per_second;
	int64_t burst;
};

struct header_field {
	const char *name;
	const char *value;
};

struct header_edit {
	const struct header_field *set;
	size_t n_set;
	struct string_list remove;
};

enum override { OVERRIDE_OFF, OVERRIDE_TIGHTEN, OVERRIDE_ANY };
enum policy_mode { MODE_ENFORCE, MODE_OBSERVE };

/* Everything that can be set under `defaults`, an upstream or a route; always complete (merged). */
struct policy {
	struct timeouts timeouts;
	struct retry_rule retry;
	struct pool_limits pool; /* of the upstream; routes can't change it */
	struct breaker_rule breaker;
	struct hedge_rule hedge;
	struct rate_rule rate_limit;
	struct header_edit request_headers;
	struct header_edit response_headers;
	enum override override;
	enum policy_mode mode;
};

enum tls_version { TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 };

struct tls_rule {
	bool originate;
	bool verify;
	const char *ca_file;     /* NULL: the system's store */
	const char *server_name; /* NULL: the host asked for */
	enum tls_version min_version;
	const char *client_cert; /* NULL: none */
	const char *client_key;
	struct string_list pins; /* "sha256/BASE64" of the SPKI */
};

/* One place to listen on, as written: "127.0.0.1:3128", "[::1]:0", "unix:/run/x.sock". */
struct listen_address {
	const char *text;
	const char *host; /* IP literal without brackets; NULL for unix */
	const char *unix_path;
	uint16_t port;
	unsigned line; /* in the policy file; 0: built-in or command line */
};

struct listen_list {
	const struct listen_address *items;
	size_t n;
};

struct route {
	const char *text; /* how it is named in logs: "routes[0]", or its `name` when given */
	struct string_list methods; /* empty: any */
	struct string_list paths;   /* glob patterns, already normalised; empty: any */
	struct policy policy;       /* merged: built-in < defaults < upstream < route */
	unsigned line;
	size_t index;
};

struct upstream_def {
	const char *name;
	/* Lower-case A-label hosts: exact, "*.suffix", or "*"; IPv6 literals without brackets. */
	struct string_list hosts;
	const uint16_t *ports;
	size_t n_ports; /* 0: any */
	uint16_t port;  /* `port:` override for origination; 0: none */
	struct tls_rule tls;
	struct listen_list listen; /* its own local ports; usually empty */
	struct policy policy;      /* merged, for requests that no route matches */
	struct route *routes;
	size_t n_routes;
	unsigned line;
	size_t index; /* into config.upstreams; SIZE_MAX for the built-in "default" */
};

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct cidr {
	bool is_v6;
	uint8_t address[16]; /* network byte order; IPv4 in the first 4 */
	unsigned prefix_length;
};

struct global_limits {
	int64_t client_connections;
	int64_t upstream_connections;
	int64_t header_bytes;
	int64_t request_buffer_bytes;
	int64_t buffered_bytes;
};

struct client_rule {
	int64_t header_timeout_ms;
	int64_t body_idle_timeout_ms;
	int64_t idle_timeout_ms;
	bool half_close_serve; /* half_close: serve */
};

struct drain_rule {
	int64_t delay_ms;
	int64_t timeout_ms;
};

struct egress_rule {
	bool connect_any_port;
	const uint16_t *connect_ports;
	size_t n_connect_ports;
	bool tunnel_http;
	const struct cidr *deny;
	size_t n_deny;
};

struct dns_rule {
	int64_t timeout_ms;
	int64_t max_ttl_ms;
	int64_t negative_ttl_ms;
	struct string_list servers; /* empty: the system's; else "ADDR" or "ADDR:PORT" */
};

/* Keys outside `defaults` and `upstreams`. */
struct global_rule {
	struct listen_list listen;
	bool admin_is_on;
	struct listen_address admin;
	struct string_list admin_hosts; /* lower-case */
	bool watch;
	bool unmatched_deny;
	enum log_level log_level;
	bool log_text; /* format: text */
	bool log_access;
	struct global_limits limits;
	struct client_rule client;
	struct drain_rule drain;
	struct egress_rule egress;
	struct dns_rule dns;
};

#endif
