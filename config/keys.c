#include "keys.h"

#include <string.h>

const char *const key_retry_kind_words[] = {"dns_failure", "connect_failure", "reset", "attempt_timeout",
	"incomplete_body", "tls_failure", "bad_response", NULL};
const char *const key_jitter_words[] = {"full", "equal", "decorrelated", "none", NULL};

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"json", "text", NULL};
static const char *const unmatched_words[] = {"allow", "deny", NULL};
static const char *const half_close_words[] = {"abort", "serve", NULL};
static const char *const nested_words[] = {"refuse", "allow", NULL};
static const char *const override_words[] = {"off", "tighten", "any", NULL};
static const char *const mode_words[] = {"enforce", "observe", NULL};
static const char *const tls_versions[] = {"1.0", "1.1", "1.2", "1.3", NULL};
static const char *const system_word[] = {"system", NULL};
static const char *const auto_word[] = {"auto", NULL};
static const char *const any_word[] = {"any", NULL};
static const char *const off_word[] = {"off", NULL};

#define OFF KEY_MAY_BE_OFF
#define EMPTY KEY_MAY_BE_EMPTY
#define NOT_IN_ROUTES KEY_NOT_IN_ROUTES
#define REQUIRED KEY_REQUIRED

#define KIB 1024.0
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define DAY (24 * 3600 * 1000.0)
#define MILLION 1000000.0

#define G(member) KEY_GLOBAL, offsetof(struct global_rule, member)
#define P(member) KEY_POLICY, offsetof(struct policy, member)
#define U(member) KEY_UPSTREAM, offsetof(struct upstream_def, member)
#define R(member) KEY_ROUTE, offsetof(struct route, member)

#define ROW_(path, scope, offset, type, flags, min, max, words, built_in, doc)                                         \
	{path, scope, type, flags, offset, min, max, words, built_in, doc},
#define ROW(path, place, ...) ROW_(path, place, __VA_ARGS__)
#define SECTION(path, scope, doc) {path, scope, KEY_SECTION, 0, 0, 0, 0, NULL, NULL, doc},
#define STRUCTURE(path, scope, doc) {path, scope, KEY_STRUCTURE, 0, 0, 0, 0, NULL, NULL, doc},
#define DURATION(path, place, flags, min, max, built_in, doc)                                                          \
	ROW(path, place, KEY_DURATION, flags, min, max, NULL, built_in, doc)
#define SIZE(path, place, flags, min, max, built_in, doc)                                                              \
	ROW(path, place, KEY_SIZE, flags, min, max, NULL, built_in, doc)
#define COUNT(path, place, flags, min, max, built_in, doc)                                                             \
	ROW(path, place, KEY_COUNT, flags, min, max, NULL, built_in, doc)
#define RATIO(path, place, flags, min, max, built_in, doc)                                                             \
	ROW(path, place, KEY_RATIO, flags, min, max, NULL, built_in, doc)
#define NUMBER(path, place, flags, min, max, built_in, doc)                                                            \
	ROW(path, place, KEY_NUMBER, flags, min, max, NULL, built_in, doc)
#define SWITCH(path, place, flags, built_in, doc) ROW(path, place, KEY_SWITCH, flags, 0, 0, NULL, built_in, doc)
#define BOOL(path, place, flags, words, built_in, doc) ROW(path, place, KEY_BOOL, flags, 0, 0, words, built_in, doc)
#define WORD(path, place, flags, words, built_in, doc) ROW(path, place, KEY_WORD, flags, 0, 0, words, built_in, doc)
#define OTHER(path, place, type, flags, words, built_in, doc) ROW(path, place, type, flags, 0, 0, words, built_in, doc)

/* The order is that of policies.example.yaml: it is the order in which schema, dump and explain speak. */
/* clang-format off */
const struct key keys[] = {
OTHER("listen", G(listen), KEY_LISTEN, 0, NULL, "127.0.0.1:3128",
      "Where clients reach the proxy: one address or a list; IP:PORT, \"[IPv6]:PORT\" or unix:/path; port 0 "
      "takes any free one")
OTHER("admin", G(admin), KEY_ADMIN, OFF, NULL, "127.0.0.1:9128",
      "Where the admin endpoints are served, or off")
OTHER("admin_hosts", G(admin_hosts), KEY_HOST_NAMES, 0, NULL, "[]",
      "Names by which the admin port may be addressed; IP literals and localhost always may")
BOOL("watch", G(watch), 0, NULL, "off",
     "on: reload when the policy file changes, through symlink swaps too")
BOOL("unmatched", G(unmatched_deny), 0, unmatched_words, "allow",
     "Hosts without an upstream entry: allow (they get defaults) or deny (403)")
SECTION("log", KEY_GLOBAL, "What is logged, and how")
WORD("log.level", G(log_level), 0, log_levels, "info", "The least level that is logged")
BOOL("log.format", G(log_text), 0, log_formats, "json", "json or text")
BOOL("log.access", G(log_access), 0, NULL, "on", "One line for each request")

SECTION("limits", KEY_GLOBAL, "Bounds of the whole process")
COUNT("limits.client_connections", G(limits.client_connections), 0, 1, MILLION, "10000",
      "Client connections at once; further ones wait in the accept queue")
COUNT("limits.upstream_connections", G(limits.upstream_connections), 0, 1, MILLION, "1000",
      "Upstream connections at once, over all origins")
SIZE("limits.header_bytes", G(limits.header_bytes), 0, KIB, 16 * MIB, "64KiB",
     "Largest header section of a request or response")
SIZE("limits.request_buffer", G(limits.request_buffer_bytes), 0, 0, GIB, "1MiB",
     "Request bytes kept for a replay; a larger body is streamed and then not retried")
SIZE("limits.buffered_bytes", G(limits.buffered_bytes), 0, 0, 1024 * GIB, "256MiB",
     "All replay and hold-back buffers together; past it new requests go unbuffered")
SECTION("client", KEY_GLOBAL, "How long clients may take")
DURATION("client.header_timeout", G(client.header_timeout_ms), OFF, 1, DAY, "10s",
	 "From the first byte to the end of the request headers; then 408")
DURATION("client.body_idle_timeout", G(client.body_idle_timeout_ms), OFF, 1, DAY, "30s",
	 "Longest silence within a request body; then 408")
DURATION("client.idle_timeout", G(client.idle_timeout_ms), OFF, 1, DAY, "60s",
	 "How long a keep-alive connection stays open without a request")
BOOL("client.half_close", G(client.half_close_serve), 0, half_close_words, "abort",
     "A client that ends its sending side after its request: abort (it is gone) or serve")
SECTION("drain", KEY_GLOBAL, "How the proxy stops")
DURATION("drain.delay", G(drain.delay_ms), 0, 0, DAY, "0s",
	 "How long new work is still taken after the signal to stop")
DURATION("drain.timeout", G(drain.timeout_ms), 0, 0, DAY, "25s",
	 "How long work in flight may still take before it is cut off")
SECTION("egress", KEY_GLOBAL, "Where the proxy may connect to")
OTHER("egress.connect_ports", G(egress), KEY_CONNECT_PORTS, 0, any_word, "[443]",
      "Ports that an opaque CONNECT tunnel may name, beside those in upstreams' matches; any allows all")
BOOL("egress.tunnel_http", G(egress.tunnel_http), 0, NULL, "on",
     "A CONNECT to any other port must speak HTTP/1 inside and gets the full policy; off: 403")
OTHER("egress.deny_addresses", G(egress.deny), KEY_CIDRS, 0, NULL, "[169.254.0.0/16, \"fe80::/10\", "
"\"fd00:ec2::254/128\"]",
      "Addresses that are never connected to, checked once the name is resolved")
SECTION("dns", KEY_GLOBAL, "Name resolution")
DURATION("dns.timeout", G(dns.timeout_ms), 0, 1, DAY, "2s", "Longest wait for an answer")
DURATION("dns.max_ttl", G(dns.max_ttl_ms), 0, 0, DAY, "60s", "Longest time that an answer is kept")
DURATION("dns.negative_ttl", G(dns.negative_ttl_ms), 0, 0, DAY, "2s", "How long \"no such name\" is kept")
OTHER("dns.servers", G(dns.servers), KEY_SERVERS, 0, system_word, "system",
      "system, or a list of addresses with or without a port")

STRUCTURE("defaults", KEY_GLOBAL, "The policy that every upstream starts from")
SECTION("timeouts", KEY_POLICY, "Time limits of an exchange; off switches one off")
DURATION("timeouts.total", P(timeouts.total_ms), OFF, 1, DAY, "30s",
	 "The whole exchange: first request byte in to last response byte out, waits, retries and back-off included")
DURATION("timeouts.attempt", P(timeouts.attempt_ms), OFF, 1, DAY, "10s",
	 "One attempt, from taking a pool slot to its last body byte")
DURATION("timeouts.pool_wait", P(timeouts.pool_wait_ms), OFF, 0, DAY, "1s",
	 "Waiting for a slot or connection; then 503")
DURATION("timeouts.connect", P(timeouts.connect_ms), OFF, 1, DAY, "1s", "TCP connect, each address tried")
DURATION("timeouts.tls_handshake", P(timeouts.tls_handshake_ms), OFF, 1, DAY, "2s", "TLS handshake with the upstream")
DURATION("timeouts.response_headers", P(timeouts.response_headers_ms), OFF, 1, DAY, "off",
	 "From the request sent to the final response headers complete")
DURATION("timeouts.body_idle", P(timeouts.body_idle_ms), OFF, 1, DAY, "10s",
	 "Longest silence between two reads of a response body")
OTHER("timeouts.stream_types", P(timeouts.stream_types), KEY_MEDIA_TYPES, 0, NULL,
      "[text/event-stream, application/x-ndjson, multipart/x-mixed-replace]",
      "Media types that are meant to last: only body_idle and stream_total bound them")
DURATION("timeouts.stream_total", P(timeouts.stream_total_ms), OFF, 1, 365 * DAY, "off",
	 "The whole exchange when its response is of a type in stream_types")
DURATION("timeouts.tunnel_idle", P(timeouts.tunnel_idle_ms), OFF, 1, 365 * DAY, "5m",
	 "Longest silence in a CONNECT or Upgrade tunnel")
DURATION("timeouts.tunnel_total", P(timeouts.tunnel_total_ms), OFF, 1, 365 * DAY, "off",
	 "The whole life of a CONNECT or Upgrade tunnel")
SECTION("retry", KEY_POLICY, "When and how an attempt is repeated")
COUNT("retry.max_attempts", P(retry.max_attempts), 0, 1, 100, "3", "Attempts, the first one included; 1 never retries")
OTHER("retry.on", P(retry.on), KEY_RETRY_ON, 0, key_retry_kind_words,
      "[dns_failure, connect_failure, reset, attempt_timeout, incomplete_body, 429, 502, 503, 504]",
      "Kinds of failure and statuses (4xx, 5xx or three digits) that are retried")
OTHER("retry.methods", P(retry.methods), KEY_METHODS, 0, NULL, "[GET, HEAD, OPTIONS, TRACE, PUT, DELETE]",
      "Methods that may be repeated once a request was sent")
OTHER("retry.idempotency_key", P(retry.idempotency_key), KEY_FIELD_NAME, OFF, off_word, "Idempotency-Key",
      "A request with this header may be repeated whatever its method; off")
SECTION("retry.backoff", KEY_POLICY, "The delay before a retry")
DURATION("retry.backoff.base", P(retry.backoff.base_ms), 0, 0, DAY, "100ms", "Before the first retry")
NUMBER("retry.backoff.multiplier", P(retry.backoff.multiplier), 0, 1, 100, "2", "Growth from one delay to the next")
DURATION("retry.backoff.max", P(retry.backoff.max_ms), 0, 0, DAY, "5s", "The longest delay")
OTHER("retry.backoff.jitter", P(retry.backoff), KEY_JITTER, 0, key_jitter_words, "full",
      "How delays are spread: full, equal, decorrelated, none, or a fraction f: delay x U(1-f, 1+f)")
SECTION("retry.retry_after", KEY_POLICY, "What the upstream's Retry-After does")
BOOL("retry.retry_after.honor", P(retry.retry_after.honor), 0, NULL, "on", "Wait at least as long as the upstream asks")
DURATION("retry.retry_after.max", P(retry.retry_after.max_ms), OFF, 0, DAY, "30s",
	 "A longer wish is not waited for: the response goes to the client at once")
BOOL("retry.retry_after.shared", P(retry.retry_after.shared), 0, NULL, "on",
     "Retries of every request to that origin wait as well")
BOOL("retry.nested", P(retry.nested_allow), 0, nested_words, "refuse",
     "A request that is itself an automatic retry of another proxy: refuse or allow to retry it again")
SWITCH("retry.budget", P(retry.budget.is_on), OFF, "on", "Bounds retries to a share of an origin's requests; or off")
RATIO("retry.budget.ratio", P(retry.budget.ratio), 0, 0, 1, "20%", "Retries that each request earns")
COUNT("retry.budget.reserve", P(retry.budget.reserve), 0, 0, MILLION, "10",
      "Retries that are there from the start, and are refilled by what is earned")
NUMBER("retry.budget.min_per_second", P(retry.budget.min_per_second), 0, 0, MILLION, "0",
       "A trickle of retries that needs no requests")
DURATION("retry.budget.window", P(retry.budget.window_ms), 0, 1000, 3600 * 1000.0, "10s",
         "How long an earned retry is good for")
SIZE("retry.hold_response", P(retry.hold_response_bytes), OFF, 0, GIB, "64KiB",
     "A response of at most this Content-Length is held until complete, so that a broken body can be retried")
SECTION("pool", KEY_POLICY, "Upstream connections, per origin (scheme, host, port)")
COUNT("pool.max_connections", P(pool.max_connections), NOT_IN_ROUTES, 1, MILLION, "64", "Connections at once")
COUNT("pool.max_in_flight", P(pool.max_in_flight), NOT_IN_ROUTES, 1, MILLION, "64",
      "Requests being worked on at once, whatever their connections")
COUNT("pool.max_pending", P(pool.max_pending), NOT_IN_ROUTES, 0, MILLION, "256",
      "Requests that wait, first in first out; more get 503")
DURATION("pool.idle_timeout", P(pool.idle_timeout_ms), OFF | NOT_IN_ROUTES, 1, DAY, "30s",
	 "How long an idle connection is kept, never longer than the upstream announced")
COUNT("pool.max_idle", P(pool.max_idle), NOT_IN_ROUTES, 0, MILLION, "16", "Idle connections kept")
DURATION("pool.max_lifetime", P(pool.max_lifetime_ms), OFF | NOT_IN_ROUTES, 1, 365 * DAY, "10m",
         "Age at which a connection is no longer reused")
COUNT("pool.max_requests", P(pool.max_requests), OFF | NOT_IN_ROUTES, 1, 1000 * MILLION, "off",
      "Requests per connection")
SWITCH("breaker", P(breaker.is_on), OFF, "off", "Stops sending to an origin that keeps failing; off or a map")
RATIO("breaker.failure_ratio", P(breaker.failure_ratio), OFF, 0.01, 1, "50%",
      "Share of failures that opens it; off: only consecutive does")
COUNT("breaker.min_requests", P(breaker.min_requests), 0, 1, MILLION, "20",
      "Requests in the window before the ratio counts")
COUNT("breaker.consecutive", P(breaker.consecutive), OFF, 1, MILLION, "5",
      "Failures in a row that open it; off: only the ratio does")
DURATION("breaker.window", P(breaker.window_ms), 0, 1000, 3600 * 1000.0, "10s", "What the ratio looks back on")
DURATION("breaker.open_for", P(breaker.open_for_ms), 0, 1, DAY, "5s",
         "How long it stays open before it lets trials through")
COUNT("breaker.half_open", P(breaker.half_open), 0, 1, 1000, "1", "Trial requests at once")
SWITCH("hedge", P(hedge.is_on), OFF, "off",
       "A second attempt beside a slow first one, idempotent requests only; off or a map")
DURATION("hedge.after", P(hedge.after_ms), 0, 1, DAY, "200ms",
         "How long the first attempt may take before the second starts")
COUNT("hedge.max", P(hedge.max), 0, 1, 10, "1", "Hedged attempts per request")
SWITCH("rate_limit", P(rate_limit.is_on), OFF, "off", "Requests per second to an origin; off or a map")
NUMBER("rate_limit.per_second", P(rate_limit.per_second), 0, 0.001, MILLION, "50", "Sustained rate")
COUNT("rate_limit.burst", P(rate_limit.burst), 0, 1, MILLION, "10", "Requests that may come at once")
SECTION("headers", KEY_POLICY, "Header fields to set or remove")
SECTION("headers.request", KEY_POLICY, "On the way to the upstream")
OTHER("headers.request.set", P(request_headers.set), KEY_FIELDS, 0, NULL, "{}",
      "Names and values; replaces what is there, an empty value takes an inherited one back")
OTHER("headers.request.remove", P(request_headers.remove), KEY_FIELD_NAMES, 0, NULL, "[]", "Names")
SECTION("headers.response", KEY_POLICY, "On the way to the client")
OTHER("headers.response.set", P(response_headers.set), KEY_FIELDS, 0, NULL, "{}",
      "Names and values; replaces what is there, an empty value takes an inherited one back")
OTHER("headers.response.remove", P(response_headers.remove), KEY_FIELD_NAMES, 0, NULL, "[]", "Names")
WORD("override", P(override), OFF, override_words, "tighten",
     "What a request's Evenkeel-* headers may do: off, tighten or any")
WORD("mode", P(mode), 0, mode_words, "enforce",
     "observe: timeouts and retries are only decided, logged and counted")

STRUCTURE("upstreams", KEY_GLOBAL, "Hosts that get a policy of their own")
OTHER("name", U(name), KEY_NAME, REQUIRED, NULL, NULL, "Unique; the upstream label of metrics and logs")
SECTION("match", KEY_UPSTREAM, "Which requests belong to this upstream")
OTHER("match.hosts", U(hosts), KEY_HOST_PATTERNS, REQUIRED, NULL, NULL,
      "Exact hosts, \"*.suffix\" or \"*\"; exact beats the longest suffix beats *")
OTHER("match.ports", U(ports), KEY_PORTS, 0, NULL, "[]", "Ports; left out: any. A named port beats none")
OTHER("port", U(port), KEY_PORT, EMPTY, NULL, "", "Port to connect to when tls.originate is on, in place of 443 for 80")
SECTION("tls", KEY_UPSTREAM, "TLS towards the upstream")
BOOL("tls.originate", U(tls.originate), 0, NULL, "off", "on: the app speaks http://, the proxy speaks https://")
BOOL("tls.verify", U(tls.verify), 0, NULL, "on", "Check the upstream's certificate and its name")
OTHER("tls.ca_file", U(tls.ca_file), KEY_FILE, 0, system_word, "system",
      "PEM file of the authorities to trust; system heeds SSL_CERT_FILE and SSL_CERT_DIR")
OTHER("tls.server_name", U(tls.server_name), KEY_SERVER_NAME, 0, auto_word, "auto",
      "Name for SNI and verification; auto: the host asked for")
WORD("tls.min_version", U(tls.min_version), 0, tls_versions, "\"1.2\"", "Least TLS version")
OTHER("tls.client_cert", U(tls.client_cert), KEY_FILE, EMPTY, NULL, "",
      "PEM file of the client certificate, with its chain")
OTHER("tls.client_key", U(tls.client_key), KEY_FILE, EMPTY, NULL, "", "PEM file of the client certificate's key")
OTHER("tls.pins", U(tls.pins), KEY_PINS, 0, NULL, "[]", "sha256/BASE64 of the public keys (SPKI) that are accepted")
OTHER("listen", U(listen), KEY_LISTEN, 0, NULL, "[]",
      "Local ports for clients that know no proxy: what they ask there goes to this upstream's first exact host")
STRUCTURE("routes", KEY_UPSTREAM, "Policies for some methods and paths; the first match wins")
OTHER("name", R(text), KEY_NAME, EMPTY, NULL, "", "How logs name the route; left out: routes[N]")
SECTION("match", KEY_ROUTE, "Which requests take this route")
OTHER("match.methods", R(methods), KEY_METHODS, 0, NULL, "[]", "Methods, case-sensitive; left out: any")
OTHER("match.paths", R(paths), KEY_PATHS, 0, NULL, "[]",
      "Paths without the query; * matches any run of characters; left out: any")
};
/* clang-format on */
const size_t n_keys = sizeof(keys) / sizeof(keys[0]);

const struct key *key_find(const char *path, unsigned scopes)
{
	for (size_t i = 0; i < n_keys; i++)
		if ((keys[i].scope & scopes) && !strcmp(keys[i].path, path))
			return &keys[i];
	return NULL;
}

bool key_is_child(const struct key *key, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(key->path, prefix, n) == 0 && !strchr(key->path + n, '.');
}
