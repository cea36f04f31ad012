/*
 * Limits that contradict one another. None of them is an error: the proxy does what is written, so `check` says what
 * that comes to. A scope is only blamed for a pair of which it set one member itself; what it inherits was judged where
 * it was written.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "private.h"
#include "units.h"

struct judge {
	const struct config *config;
	struct fault_list *faults;
	const struct policy *policy;
	const struct origins *origins;
	const struct origins *inherited; /* of the scope above; NULL for defaults */
};

static struct spot spot_of(const struct judge *judge, const char *path)
{
	return judge->origins->spots[key_index(key_find(path, KEY_POLICY))];
}

static bool is_own(const struct judge *judge, const char *path)
{
	size_t index = key_index(key_find(path, KEY_POLICY));
	struct spot spot = judge->origins->spots[index];
	struct spot above = judge->inherited ? judge->inherited->spots[index] : (struct spot){0, 0};

	return spot.line != above.line || spot.column != above.column;
}

/* Text of a policy value with where it comes from when that is not plain to see: `10s (built-in)`. */
static const char *shown(const struct judge *judge, const char *path)
{
	static char buffers[4][96];
	static unsigned next;
	char *out = buffers[next++ % 4];
	const struct key *key = key_find(path, KEY_POLICY);
	size_t n = key_format_value(key, judge->policy, out, 64);

	if (n < 64 && spot_of(judge, path).line == 0)
		strcat(out, " (built-in)");
	return out;
}

static void warn_pair(const struct judge *judge, const char *path, const char *other, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* At whichever of the two keys this scope set itself; the other one's line is the related one. */
static void warn_pair(const struct judge *judge, const char *path, const char *other, const char *format, ...)
{
	struct spot spot = spot_of(judge, path), related = spot_of(judge, other);
	struct place place;
	va_list arguments;

	if (!is_own(judge, path) && !is_own(judge, other))
		return;
	if (!is_own(judge, path)) {
		struct spot swap = spot;

		spot = related;
		related = swap;
	}
	place = (struct place){spot.line, spot.column, related.line == spot.line ? 0 : related.line};
	va_start(arguments, format);
	fault_vadd(judge->faults, FAULT_WARNING, place, format, arguments);
	va_end(arguments);
}

/* Did the file set it, here or in a scope above? A built-in value that a shorter limit cuts off is no mistake. */
static bool is_written(const struct judge *judge, const char *path)
{
	return spot_of(judge, path).line != 0;
}

/* Is a (on) larger than b (on)? A limit that is off is larger than any, but contradicts nothing. */
static bool is_over(int64_t a, int64_t b)
{
	return a >= 0 && b >= 0 && a > b;
}

static void warn_cut(const struct judge *judge, const char *path, const char *shorter)
{
	warn_pair(judge, path, shorter, "%s %s is longer than %s %s, which cuts it short", path, shown(judge, path), shorter,
		shown(judge, shorter));
}

static void judge_timeouts(const struct judge *judge)
{
	const struct timeouts *t = &judge->policy->timeouts;
	bool may_retry = judge->policy->retry.max_attempts > 1;

	if (is_over(t->attempt_ms, t->total_ms) && (may_retry || is_own(judge, "timeouts.attempt")))
		warn_pair(judge, "timeouts.attempt", "timeouts.total",
			"timeouts.attempt %s is longer than timeouts.total %s: one slow attempt takes all the time "
			"there is",
			shown(judge, "timeouts.attempt"), shown(judge, "timeouts.total"));
	if (is_over(t->connect_ms, t->total_ms))
		warn_cut(judge, "timeouts.connect", "timeouts.total");
	else if (is_over(t->connect_ms, t->attempt_ms) && is_written(judge, "timeouts.connect"))
		warn_cut(judge, "timeouts.connect", "timeouts.attempt");
	if (is_over(t->tls_handshake_ms, t->attempt_ms) && is_written(judge, "timeouts.tls_handshake"))
		warn_cut(judge, "timeouts.tls_handshake", "timeouts.attempt");
	if (is_over(t->response_headers_ms, t->attempt_ms))
		warn_cut(judge, "timeouts.response_headers", "timeouts.attempt");
	if (is_over(t->pool_wait_ms, t->total_ms) && is_written(judge, "timeouts.pool_wait"))
		warn_cut(judge, "timeouts.pool_wait", "timeouts.total");
	if (is_over(t->tunnel_idle_ms, t->tunnel_total_ms) && is_written(judge, "timeouts.tunnel_idle"))
		warn_cut(judge, "timeouts.tunnel_idle", "timeouts.tunnel_total");
}

/* The delays before all retries without jitter, in ms. */
static double sum_of_delays(const struct retry_rule *retry)
{
	double delay = (double)retry->backoff.base_ms, sum = 0;

	for (int64_t i = 1; i < retry->max_attempts; i++) {
		double capped = delay < (double)retry->backoff.max_ms ? delay : (double)retry->backoff.max_ms;

		sum += capped;
		delay = capped * retry->backoff.multiplier;
	}
	return sum;
}

static void judge_attempts(const struct judge *judge)
{
	const struct timeouts *t = &judge->policy->timeouts;
	const struct retry_rule *retry = &judge->policy->retry;
	char product[UNITS_TEXT_BYTES];
	int64_t all;

	if (retry->max_attempts < 2 || t->attempt_ms < 0 || t->total_ms < 0 || t->attempt_ms > t->total_ms)
		return;
	all = t->attempt_ms * retry->max_attempts;
	if (all < 2 * t->total_ms)
		return;
	units_format_duration(all, product);
	warn_pair(judge, is_own(judge, "retry.max_attempts") ? "retry.max_attempts" : "timeouts.attempt",
		"timeouts.total",
		"timeouts.attempt %s x retry.max_attempts %s is %s, far over timeouts.total %s: slow attempts leave no "
		"room "
		"for the later ones",
		shown(judge, "timeouts.attempt"), shown(judge, "retry.max_attempts"), product,
		shown(judge, "timeouts.total"));
}

static void judge_backoff(const struct judge *judge)
{
	const struct retry_rule *retry = &judge->policy->retry;
	int64_t total_ms = judge->policy->timeouts.total_ms;
	char sum[UNITS_TEXT_BYTES];

	if (retry->max_attempts < 2)
		return;
	if (retry->backoff.base_ms > retry->backoff.max_ms)
		warn_pair(judge, "retry.backoff.base", "retry.backoff.max",
			"retry.backoff.base %s is longer than retry.backoff.max %s, which is then every delay",
			shown(judge, "retry.backoff.base"), shown(judge, "retry.backoff.max"));
	if (total_ms >= 0 && retry->backoff.base_ms >= total_ms) {
		warn_pair(judge, "retry.backoff.base", "timeouts.total",
			"retry.backoff.base %s can't fit into timeouts.total %s: there is hardly a retry",
			shown(judge, "retry.backoff.base"), shown(judge, "timeouts.total"));
	} else if (total_ms >= 0 && sum_of_delays(retry) > (double)total_ms) {
		units_format_duration((int64_t)sum_of_delays(retry), sum);
		warn_pair(judge, is_own(judge, "retry.max_attempts") ? "retry.max_attempts" : "retry.backoff.base",
			"timeouts.total",
			"the back-off before %s attempts adds up to %s, which can't fit into timeouts.total %s",
			shown(judge, "retry.max_attempts"), sum, shown(judge, "timeouts.total"));
	}
}

static void judge_methods(const struct judge *judge)
{
	const struct string_list *methods = &judge->policy->retry.methods;
	struct spot spot = spot_of(judge, "retry.methods");

	for (size_t i = 0; is_own(judge, "retry.methods") && i < methods->n; i++) {
		const char *method = methods->items[i], *meant = method_meant(method);

		if (meant)
			fault_add(judge->faults, FAULT_WARNING, (struct place){spot.line, spot.column, 0},
				"retry.methods: %s is not %s: methods are case-sensitive", fault_quote(method), meant);
		if (!strcmp(method, "POST") || !strcmp(method, "PATCH"))
			fault_add(judge->faults, FAULT_WARNING, (struct place){spot.line, spot.column, 0},
				"retry.methods: %s is not idempotent, a retry may do its work twice; "
				"retry.idempotency_key "
				"is made for that",
				method);
	}
}

static void judge_retry(const struct judge *judge)
{
	const struct budget_rule *budget = &judge->policy->retry.budget;

	judge_methods(judge);
	if (judge->policy->retry.max_attempts > 1 && budget->is_on && budget->ratio <= 0 && budget->reserve == 0 &&
		budget->min_per_second <= 0)
		warn_pair(judge, "retry.budget.ratio", "retry.budget.reserve",
			"retry.budget never grants a retry: ratio, reserve and min_per_second are all 0");
}

static void judge_shared_connections(const struct judge *judge)
{
	struct spot spot = spot_of(judge, "pool.max_connections");
	struct spot shared = origins_spot(judge->config, &judge->config->global, "limits.upstream_connections");

	fault_add(judge->faults, FAULT_WARNING,
		(struct place){spot.line, spot.column, shared.line == spot.line ? 0 : shared.line},
		"pool.max_connections is over limits.upstream_connections, which holds for all origins together");
}

static void judge_pool(const struct judge *judge)
{
	const struct pool_limits *pool = &judge->policy->pool;

	if (pool->max_in_flight < pool->max_connections)
		warn_pair(judge, "pool.max_in_flight", "pool.max_connections",
			"pool.max_in_flight %s is under pool.max_connections %s: so many connections are never used",
			shown(judge, "pool.max_in_flight"), shown(judge, "pool.max_connections"));
	if (pool->max_idle > pool->max_connections)
		warn_pair(judge, "pool.max_idle", "pool.max_connections",
			"pool.max_idle %s is over pool.max_connections %s", shown(judge, "pool.max_idle"),
			shown(judge, "pool.max_connections"));
	if (pool->max_connections > judge->config->global.limits.upstream_connections &&
		is_own(judge, "pool.max_connections"))
		judge_shared_connections(judge);
	if (is_over(pool->idle_timeout_ms, pool->max_lifetime_ms))
		warn_pair(judge, "pool.idle_timeout", "pool.max_lifetime",
			"pool.idle_timeout %s is longer than pool.max_lifetime %s", shown(judge, "pool.idle_timeout"),
			shown(judge, "pool.max_lifetime"));
}

static void judge_switches(const struct judge *judge)
{
	const struct breaker_rule *breaker = &judge->policy->breaker;

	if (breaker->is_on && breaker->failure_ratio < 0 && breaker->consecutive < 0)
		warn_pair(judge, "breaker.failure_ratio", "breaker.consecutive",
			"breaker never opens: failure_ratio and consecutive are both off");
	if (judge->policy->hedge.is_on && is_over(judge->policy->hedge.after_ms, judge->policy->timeouts.attempt_ms))
		warn_pair(judge, "hedge.after", "timeouts.attempt", "hedge.after %s is longer than timeouts.attempt %s",
			shown(judge, "hedge.after"), shown(judge, "timeouts.attempt"));
}

static void judge_policy(
	const struct config *config, struct fault_list *faults, const struct policy *policy, const struct policy *above)
{
	const struct judge judge = {
		config, faults, policy, origins_find(config, policy), above ? origins_find(config, above) : NULL};

	judge_timeouts(&judge);
	judge_attempts(&judge);
	judge_backoff(&judge);
	judge_retry(&judge);
	judge_pool(&judge);
	judge_switches(&judge);
}

static void judge_global(const struct config *config, struct fault_list *faults)
{
	const struct global_limits *limits = &config->global.limits;
	struct spot one = origins_spot(config, &config->global, "limits.request_buffer");
	struct spot all = origins_spot(config, &config->global, "limits.buffered_bytes");
	struct spot spot = one.line ? one : all;

	if (limits->request_buffer_bytes > limits->buffered_bytes)
		fault_add(faults, FAULT_WARNING,
			(struct place){spot.line, spot.column, all.line == spot.line ? 0 : all.line},
			"limits.request_buffer is over limits.buffered_bytes, which holds for all requests together");
}

void validate_limits(const struct config *config, struct fault_list *faults)
{
	judge_global(config, faults);
	judge_policy(config, faults, &config->defaults, NULL);
	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];

		judge_policy(config, faults, &upstream->policy, &config->defaults);
		for (size_t j = 0; j < upstream->n_routes; j++)
			judge_policy(config, faults, &upstream->routes[j].policy, &upstream->policy);
	}
}
