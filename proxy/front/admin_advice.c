/* GET /advice: each configured timeout beside what was observed (advice.h), as JSON. */
#include <math.h>

#include "../../config/units.h"
#include "../base/json.h"
#include "admin.h"
#include "advice.h"

#define MAX_SHOWN 500

static void write_limit(struct buffer *out, int64_t limit_ms)
{
	char text[UNITS_TEXT_BYTES];
	json_member_string(out, "configured", units_format_duration(limit_ms, text));
	json_member_limit(out, "configured_ms", limit_ms);
}

static void write_reached(struct buffer *out, uint64_t n_reached, uint64_t n, int64_t limit_ms)
{
	json_open(out, "reached", '{');
	json_member_limit(out, "n", limit_ms < 0 ? -1 : (int64_t)n_reached);
	json_member_number(out, "share", n == 0 || limit_ms < 0 ? NAN : (double)n_reached / (double)n);
	json_close(out, '}');
}

/* Routes that set the timeout otherwise. What was observed is of all requests to the upstream. */
static void write_routes(struct buffer *out, const struct upstream_def *upstream, const struct advice *finding)
{
	json_open(out, "routes", '[');
	for (size_t i = 0; i < upstream->n_routes; i++) {
		const struct route *route = &upstream->routes[i];
		int64_t limit_ms = advice_limit_ms(&route->policy.timeouts, finding->subject);
		if (limit_ms == finding->configured_ms)
			continue;
		json_open(out, NULL, '{');
		json_member_string(out, "route", route->text);
		write_limit(out, limit_ms);
		write_reached(out, advice_n_reaching(finding->quantiles, limit_ms), finding->n, limit_ms);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void write_finding(struct buffer *out, const struct upstream_def *upstream, const struct advice *finding)
{
	struct buffer sentence = { 0 };
	json_open(out, NULL, '{');
	json_member_string(out, "timeout", finding->subject->key);
	write_limit(out, finding->configured_ms);
	json_open(out, "observed_ms", '{');
	json_member_string(out, "phase", finding->subject->phase < 0 ? NULL : latency_phase_words[finding->subject->phase]);
	admin_write_quantiles(out, finding->quantiles);
	json_close(out, '}');
	write_reached(out, finding->n_reached, finding->n, finding->configured_ms);
	json_member_integer(out, "cut", (int64_t)finding->n_cut);
	json_member_integer(out, "would_have_cut", (int64_t)finding->n_would_cut);
	json_member_limit(out, "enough_ms", finding->enough_ms);
	write_routes(out, upstream, finding);
	json_member_string(out, "verdict", advice_verdict_words[finding->verdict]);
	advice_word(finding, &sentence);
	json_member_slice(out, "advice", buffer_slice(&sentence));
	json_close(out, '}');
	buffer_clear(&sentence);
}

struct sum {
	const struct upstream_metrics *metrics;
	struct latency latency;
};

static void add_origin(void *owner, const struct origin *origin)
{
	struct sum *sum = owner;
	if (origin->metrics == sum->metrics)
		latency_merge(&sum->latency, &origin->latency);
}

/* An upstream that was never used has no metrics, and asking for advice must not make any. NULL: none. */
static const struct upstream_metrics *find_metrics(const char *name)
{
	for (const struct upstream_metrics *metrics = metrics_first(); metrics; metrics = metrics->next)
		if (strcmp(metrics->name, name) == 0)
			return metrics;
	return NULL;
}

static void write_upstream(struct buffer *out, struct front *front, const struct upstream_def *upstream,
			   const struct upstream_metrics *metrics)
{
	static const struct upstream_metrics none;
	struct sum sum = { .metrics = metrics ? metrics : &none };
	latency_merge(&sum.latency, &sum.metrics->latency);
	if (metrics)
		registry_each(front->room->registry, add_origin, &sum);
	json_open(out, NULL, '{');
	json_member_string(out, "upstream", upstream->name);
	json_member_string(out, "mode", upstream->policy.mode == MODE_OBSERVE ? "observe" : "enforce");
	json_open(out, "timeouts", '[');
	for (size_t i = 0; i < N_ADVICE_SUBJECTS; i++) {
		struct advice finding = advice_find(&upstream->policy, sum.metrics, &sum.latency, &advice_subjects[i]);
		write_finding(out, upstream, &finding);
	}
	json_close(out, ']');
	json_close(out, '}');
	latency_clear(&sum.latency);
}

struct listing {
	struct front *front;
	struct buffer *out;
	struct slice wanted; /* ?upstream=; data NULL: all */
	size_t n_shown, n_left_out;
};

/* Those that were used, or those that weren't. */
static void write_upstreams(struct listing *listing, bool is_of_used_ones)
{
	const struct config *config = front_config(listing->front);
	for (size_t i = 0; i <= config->n_upstreams; i++) {
		bool is_last = i == config->n_upstreams;
		const struct upstream_def *upstream = is_last ? &config->unmatched : &config->upstreams[i];
		if ((is_last && config->global.unmatched_deny) ||
		    (listing->wanted.data && !slice_equals(listing->wanted, slice_of(upstream->name))))
			continue;
		const struct upstream_metrics *metrics = find_metrics(upstream->name);
		if ((metrics != NULL) != is_of_used_ones)
			continue;
		if (listing->n_shown == MAX_SHOWN) {
			listing->n_left_out++;
			continue;
		}
		listing->n_shown++;
		write_upstream(listing->out, listing->front, upstream, metrics);
	}
}

void admin_answer_advice(struct front *front, const struct request *request, struct admin_answer *answer)
{
	struct buffer *out = &answer->body, wanted = { 0 };
	struct listing listing = { .front = front, .out = out };
	enum query_result found = admin_query(request, "upstream", &wanted);
	if (found == QUERY_BAD) {
		admin_refuse(answer, 400, SLICE("The query can't be read: ?upstream=NAME, percent-encoded.\n"));
		buffer_clear(&wanted);
		return;
	}
	if (found == QUERY_FOUND)
		listing.wanted = buffer_slice(&wanted);
	answer->content_type = "application/json";
	json_open(out, NULL, '{');
	json_open(out, "upstreams", '[');
	write_upstreams(&listing, true);
	write_upstreams(&listing, false);
	json_close(out, ']');
	json_member_integer(out, "left_out", (int64_t)listing.n_left_out);
	json_close(out, '}');
	buffer_append(out, "\n", 1);
	buffer_clear(&wanted);
}
