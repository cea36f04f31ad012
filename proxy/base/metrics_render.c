#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "metrics.h"
#include "metrics_bounds.h"
#include "metrics_text.h"

typedef void (*samples_fn)(struct render *render, const struct upstream_metrics *upstream);

struct family {
	const char *name;
	enum family_type type;
	const char *help;
	samples_fn samples;  /* NULL: the one number at `offset` */
	size_t offset;       /* of a uint64_t or int64_t in struct upstream_metrics */
};

static const char *const attempt_words[N_ATTEMPT_LABELS] = {
	"1xx", "2xx", "3xx", "4xx", "5xx", "dns_failure", "connect_failure", "reset", "attempt_timeout", "incomplete_body",
	"tls_failure", "bad_response", "cancelled", "rejected",
};
static const char *const suppressed_words[N_SUPPRESSED_LABELS] = {
	"method", "body", "attempts", "budget", "deadline", "breaker", "retry_after", "draining", "nested",
};
static const char *const timeout_words[N_TIMEOUT_LABELS] = {
	"total", "attempt", "pool_wait", "connect", "tls_handshake", "response_headers", "body_idle", "stream_total",
	"tunnel_idle", "tunnel_total",
};
static const char *const pool_rejected_words[N_POOL_REJECTED_LABELS] = { "max_pending", "pool_wait", "rate_limit" };

static void label_value(struct render *render, const char *value)
{
	for (const char *c = value; *c; c++) {
		if (*c == '\\' || *c == '"')
			buffer_append(render->out, "\\", 1);
		if (*c == '\n')
			buffer_append(render->out, "\\n", 2);
		else
			buffer_append(render->out, c, 1);
	}
}

/* `family{upstream="NAME"` + more labels (already written as `,key="value"`), ready for `} value`. */
static void sample_start(struct render *render, const struct upstream_metrics *upstream, const char *suffix)
{
	buffer_printf(render->out, "%s%s{upstream=\"", render->family, suffix);
	label_value(render, upstream->name);
	buffer_append(render->out, "\"", 1);
}

static void sample(struct render *render, const struct upstream_metrics *upstream, const char *key, const char *value,
		   uint64_t n)
{
	sample_start(render, upstream, "");
	buffer_printf(render->out, ",%s=\"%s\"} %" PRIu64 "\n", key, value, n);
}

static void sample_observed(struct render *render, const struct upstream_metrics *upstream, const char *key,
			    const char *value, uint64_t n)
{
	sample_start(render, upstream, "");
	buffer_printf(render->out, ",%s=\"%s\",mode=\"observe\"} %" PRIu64 "\n", key, value, n);
}

static void requests_samples(struct render *render, const struct upstream_metrics *upstream)
{
	char code[16];

	for (int i = 0; i < METRICS_N_CODES; i++) {
		if (upstream->requests_by_code[i] == 0)
			continue;
		snprintf(code, sizeof code, "%d", i);
		sample(render, upstream, "code", code, upstream->requests_by_code[i]);
	}
	sample(render, upstream, "code", "cancelled", upstream->requests_cancelled);
	sample(render, upstream, "code", "aborted", upstream->requests_aborted);
}

static void histogram_samples(struct render *render, const struct upstream_metrics *upstream,
			      const struct histogram *histogram, const struct metrics_bounds *bounds, bool is_time)
{
	uint64_t n = 0;

	for (size_t i = 0; i < bounds->n; i++) {
		const struct metrics_bound *bound = &bounds->items[i];
		n += histogram->counts[i];
		sample_start(render, upstream, "_bucket");
		buffer_printf(render->out, ",le=\"%s\"} %" PRIu64 "\n", render->is_openmetrics ? bound->open_text : bound->text, n);
	}
	sample_start(render, upstream, "_bucket");
	buffer_printf(render->out, ",le=\"+Inf\"} %" PRIu64 "\n", histogram->n);
	sample_start(render, upstream, "_sum");
	if (is_time)
		buffer_printf(render->out, "} %" PRIu64 ".%06" PRIu64 "\n", histogram->sum_us / 1000000,
			      histogram->sum_us % 1000000);
	else
		buffer_printf(render->out, "} %" PRIu64 "\n", histogram->sum_us);
	sample_start(render, upstream, "_count");
	buffer_printf(render->out, "} %" PRIu64 "\n", histogram->n);
}

static void request_seconds_samples(struct render *render, const struct upstream_metrics *upstream)
{
	histogram_samples(render, upstream, &upstream->request_seconds, &metrics_duration_bounds, true);
}

static void attempt_seconds_samples(struct render *render, const struct upstream_metrics *upstream)
{
	histogram_samples(render, upstream, &upstream->attempt_seconds, &metrics_duration_bounds, true);
}

static void attempts_per_request_samples(struct render *render, const struct upstream_metrics *upstream)
{
	histogram_samples(render, upstream, &upstream->attempts_per_request, &metrics_count_bounds, false);
}

static void attempts_samples(struct render *render, const struct upstream_metrics *upstream)
{
	for (int i = 0; i < N_ATTEMPT_LABELS; i++)
		sample(render, upstream, "outcome", attempt_words[i], upstream->attempts[i]);
}

typedef void (*sample_fn)(struct render *, const struct upstream_metrics *, const char *, const char *, uint64_t);

/* The kinds always, 0 too, so that an alert on one doesn't wait for its first; statuses once they were seen. */
static uint64_t retry_samples(struct render *render, const struct upstream_metrics *upstream, sample_fn write,
			      const uint64_t *by_kind, const uint64_t *by_status)
{
	char status[16];
	uint64_t n = 0;

	for (int i = ATTEMPT_LABEL_DNS_FAILURE; i <= ATTEMPT_LABEL_BAD_RESPONSE; i++) {
		write(render, upstream, "reason", attempt_words[i], by_kind[i]);
		n += by_kind[i];
	}
	for (int i = 0; i < 200; i++) {
		if (by_status[i] == 0)
			continue;
		snprintf(status, sizeof status, "%d", 400 + i);
		write(render, upstream, "reason", status, by_status[i]);
		n += by_status[i];
	}
	return n;
}

static bool is_observing(const struct upstream_metrics *upstream)
{
	uint64_t n = upstream->observed_retries;

	for (int i = 0; i < N_ATTEMPT_LABELS; i++)
		n |= upstream->observed_retries_by_kind[i];
	for (int i = 0; i < 200; i++)
		n |= upstream->observed_retries_by_status[i];
	for (int i = 0; i < N_TIMEOUT_LABELS; i++)
		n |= upstream->observed_timeouts[i];
	return n > 0;
}

static void retries_samples(struct render *render, const struct upstream_metrics *upstream)
{
	retry_samples(render, upstream, sample, upstream->retries_by_kind, upstream->retries_by_status);
	if (!is_observing(upstream))
		return;
	uint64_t n = retry_samples(render, upstream, sample_observed, upstream->observed_retries_by_kind,
				   upstream->observed_retries_by_status);
	if (upstream->observed_retries > n)
		sample_observed(render, upstream, "reason", "other", upstream->observed_retries - n);
}

static void suppressed_samples(struct render *render, const struct upstream_metrics *upstream)
{
	for (int i = 0; i < N_SUPPRESSED_LABELS; i++)
		sample(render, upstream, "reason", suppressed_words[i], upstream->suppressed[i]);
}

static void timeouts_samples(struct render *render, const struct upstream_metrics *upstream)
{
	bool observing = is_observing(upstream);

	for (int i = 0; i < N_TIMEOUT_LABELS; i++)
		sample(render, upstream, "kind", timeout_words[i], upstream->timeouts[i]);
	for (int i = 0; observing && i < N_TIMEOUT_LABELS; i++)
		sample_observed(render, upstream, "kind", timeout_words[i], upstream->observed_timeouts[i]);
}

static void backoff_samples(struct render *render, const struct upstream_metrics *upstream)
{
	sample_start(render, upstream, "");
	buffer_printf(render->out, "} %" PRIu64 ".%06" PRIu64 "\n", upstream->backoff_us / 1000000,
		      upstream->backoff_us % 1000000);
}

static void gauge_sample(struct render *render, const struct upstream_metrics *upstream, const char *key,
			 const char *value, int64_t n)
{
	sample_start(render, upstream, "");
	buffer_printf(render->out, ",%s=\"%s\"} %" PRId64 "\n", key, value, n);
}

static void connections_samples(struct render *render, const struct upstream_metrics *upstream)
{
	gauge_sample(render, upstream, "state", "active", upstream->connections_active);
	gauge_sample(render, upstream, "state", "idle", upstream->connections_idle);
	gauge_sample(render, upstream, "state", "connecting", upstream->connections_connecting);
}

static void pool_rejected_samples(struct render *render, const struct upstream_metrics *upstream)
{
	for (int i = 0; i < N_POOL_REJECTED_LABELS; i++)
		sample(render, upstream, "reason", pool_rejected_words[i], upstream->pool_rejected[i]);
}

static void handshakes_samples(struct render *render, const struct upstream_metrics *upstream)
{
	sample(render, upstream, "kind", "full", upstream->tls_handshakes_full);
	sample(render, upstream, "kind", "resumed", upstream->tls_handshakes_resumed);
}

static void breaker_samples(struct render *render, const struct upstream_metrics *upstream)
{
	sample_start(render, upstream, "");
	buffer_printf(render->out, "} %d\n", upstream->breaker_open > 0 ? 2 : upstream->breaker_half_open > 0 ? 1 : 0);
}

static void hedges_samples(struct render *render, const struct upstream_metrics *upstream)
{
	sample(render, upstream, "won", "true", upstream->hedges_won);
	sample(render, upstream, "won", "false", upstream->hedges_lost);
}

static void tunnel_bytes_samples(struct render *render, const struct upstream_metrics *upstream)
{
	sample(render, upstream, "direction", "up", upstream->tunnel_bytes_sent);
	sample(render, upstream, "direction", "down", upstream->tunnel_bytes_received);
}

#define AT(member) NULL, offsetof(struct upstream_metrics, member)
#define BY(function) function, 0

static const struct family families[] = {
	{ "evenkeel_requests_total", COUNTER,
	  "Requests by the status sent to the client, or how else they ended.", BY(requests_samples) },
	{ "evenkeel_request_duration_seconds", HISTOGRAM,
	  "Whole exchange, first request byte in to last response byte out.", BY(request_seconds_samples) },
	{ "evenkeel_attempts_total", COUNTER,
	  "Attempts by status class or kind of failure.", BY(attempts_samples) },
	{ "evenkeel_attempt_duration_seconds", HISTOGRAM,
	  "One attempt, from its pool slot to its last body byte.", BY(attempt_seconds_samples) },
	{ "evenkeel_attempts_per_request", HISTOGRAM,
	  "Attempts that a request took.", BY(attempts_per_request_samples) },
	{ "evenkeel_retries_total", COUNTER,
	  "Retries by the kind or status that caused them; with mode observe only decided, not made.", BY(retries_samples) },
	{ "evenkeel_retries_suppressed_total", COUNTER,
	  "Retries not made, by what forbade them.", BY(suppressed_samples) },
	{ "evenkeel_timeouts_total", COUNTER,
	  "Timeouts that struck, by policy key; with mode observe only decided, nothing cut.", BY(timeouts_samples) },
	{ "evenkeel_cancelled_total", COUNTER,
	  "Requests whose client went away.", AT(cancelled) },
	{ "evenkeel_backoff_seconds_total", COUNTER,
	  "Time spent waiting between attempts.", BY(backoff_samples) },
	{ "evenkeel_pool_connections", GAUGE,
	  "Connections to the upstream's origins by state.", BY(connections_samples) },
	{ "evenkeel_pool_pending", GAUGE,
	  "Requests waiting for a slot or connection.", AT(pending) },
	{ "evenkeel_in_flight", GAUGE,
	  "Requests being worked on.", AT(in_flight) },
	{ "evenkeel_pool_rejected_total", COUNTER,
	  "Requests refused for want of a place, by the limit that refused.", BY(pool_rejected_samples) },
	{ "evenkeel_connections_opened_total", COUNTER,
	  "Connections established.", AT(connections_opened) },
	{ "evenkeel_connections_reused_total", COUNTER,
	  "Attempts sent on a kept-alive connection.", AT(connections_reused) },
	{ "evenkeel_tls_handshakes_total", COUNTER,
	  "TLS handshakes completed with origins.", BY(handshakes_samples) },
	{ "evenkeel_breaker_state", GAUGE,
	  "Circuit breaker of the worst origin: 0 closed, 1 half-open, 2 open.", BY(breaker_samples) },
	{ "evenkeel_hedges_total", COUNTER,
	  "Hedged attempts, by whether the hedge's answer was used.", BY(hedges_samples) },
	{ "evenkeel_opaque_tunnels_total", COUNTER,
	  "CONNECT tunnels whose content no policy can see into.", AT(opaque_tunnels) },
	{ "evenkeel_tunnels_active", GAUGE,
	  "Tunnels open now.", AT(tunnels_active) },
	{ "evenkeel_tunnel_bytes_total", COUNTER,
	  "Bytes through tunnels; up is towards the origin.", BY(tunnel_bytes_samples) },
};

static void families_render(struct render *render)
{
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		const struct family *family = &families[i];
		metrics_family_header(render, family->name, metrics_type_words[family->type], family->help);
		for (const struct upstream_metrics *upstream = metrics_first(); upstream; upstream = upstream->next) {
			if (family->samples) {
				family->samples(render, upstream);
				continue;
			}
			int64_t n; /* counters stay far below the sign bit, so one reading does for both */
			memcpy(&n, (const char *)upstream + family->offset, sizeof n);
			sample_start(render, upstream, "");
			buffer_printf(render->out, "} %" PRId64 "\n", n);
		}
	}
}

void metrics_render(struct buffer *out, bool is_openmetrics)
{
	struct render render = { .out = out, .is_openmetrics = is_openmetrics };

	families_render(&render);
	metrics_own_render(&render);
	if (is_openmetrics)
		buffer_append(out, "# EOF\n", 6);
}
