/*
 * GET /advice: each configured timeout beside what was observed of the phase that it bounds, how much reached it, and
 * what follows. What a timeout cut off counts with the time it had got, so the true need may be longer than what is
 * seen: mode: observe shows it.
 */
#include <math.h>
#include <stdio.h>

#include "../../config/units.h"
#include "../base/clock.h"
#include "../base/json.h"
#include "../upstream/pool.h"
#include "admin.h"

#define MAX_SHOWN 500
#define FEW 100            /* observations: with fewer, no judgement */
#define MANY 1000          /* with fewer, no other limit is proposed */
#define RARE_SHARE 0.001   /* reached by no more than this: only outliers */
#define LOOSE_FACTOR 10    /* configured that many times above what would do: too long to help */
#define MIN_ENOUGH_MS 100  /* no shorter limit is proposed: a pause of any party takes that long */

struct subject {
	const char *key; /* of `timeouts` */
	enum timeout_label label;
	int phase;       /* enum latency_phase; -1: not measured */
	bool is_of_load; /* how long it takes is a matter of load: no shorter limit is proposed for a quiet time */
	size_t offset;   /* in struct timeouts */
	const char *what; /* was observed */
};

#define SUBJECT(key, label, phase, is_of_load, what) \
	{ #key, TIMEOUT_LABEL_##label, phase, is_of_load, offsetof(struct timeouts, key##_ms), what }
static const struct subject subjects[] = {
	SUBJECT(total, TOTAL, LATENCY_TOTAL, false, "exchanges"),
	SUBJECT(attempt, ATTEMPT, LATENCY_ATTEMPT, false, "attempts"),
	SUBJECT(pool_wait, POOL_WAIT, LATENCY_QUEUE, true, "waits for a slot"),
	SUBJECT(connect, CONNECT, LATENCY_CONNECT, false, "connects"),
	SUBJECT(tls_handshake, TLS_HANDSHAKE, LATENCY_TLS, false, "TLS handshakes"),
	SUBJECT(response_headers, RESPONSE_HEADERS, LATENCY_FIRST_BYTE, false, "waits for response headers"),
	SUBJECT(body_idle, BODY_IDLE, LATENCY_SILENCE, false, "longest silences of response bodies"),
	SUBJECT(stream_total, STREAM_TOTAL, LATENCY_STREAM, true, "streams"),
	SUBJECT(tunnel_idle, TUNNEL_IDLE, -1, true, "silences of tunnels"),
	SUBJECT(tunnel_total, TUNNEL_TOTAL, LATENCY_TUNNEL, true, "tunnels"),
};

/* What it comes to; `verdict` in the answer. */
enum verdict_on_timeout { IS_UNMEASURED, IS_UNSEEN, IS_FEW, IS_OFF, IS_CUTTING, IS_RARE, IS_LOOSE, IS_FITTING };
static const char *const verdict_words_on_timeout[] = {
	"unmeasured", "unseen", "few", "off", "cuts", "rare", "loose", "fits",
};

/* Everything that is said about one timeout of one upstream. */
struct finding {
	const struct subject *subject;
	const struct quantiles *quantiles; /* NULL: nothing observed */
	int64_t configured_ms;             /* LIMIT_OFF */
	bool is_observing;
	uint64_t n, n_reached, n_cut, n_would_cut;
	double share;
	int64_t enough_ms; /* a round limit that would have cut nothing, with room to spare; -1: unknown */
	enum verdict_on_timeout verdict;
};

static int64_t configured_ms(const struct timeouts *timeouts, const struct subject *subject)
{
	return *(const int64_t *)((const char *)timeouts + subject->offset);
}

/* A limit of 0 means "don't wait": what was granted at once isn't cut by it. */
static uint64_t n_reaching(const struct quantiles *quantiles, int64_t limit_ms)
{
	return quantiles && limit_ms >= 0 ? quantiles_n_reaching(quantiles, limit_ms == 0 ? 1000 : limit_ms * 1000) : 0;
}

/* Up to 1, 2, 3 or 5 times a power of ten. */
static int64_t round_up_ms(int64_t ms)
{
	static const int64_t steps[] = { 1, 2, 3, 5, 10 };
	int64_t power = 1;
	while (power * 10 < ms)
		power *= 10;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i] * power >= ms)
			return steps[i] * power;
	return 10 * power;
}

static int64_t enough_ms(const struct quantiles *quantiles)
{
	int64_t rare_us = quantiles_at_us(quantiles, 0.999) * 5, worst_us = quantiles->max_us * 2;
	int64_t ms = (rare_us > worst_us ? rare_us : worst_us) / 1000;
	return ms < MIN_ENOUGH_MS ? MIN_ENOUGH_MS : round_up_ms(ms);
}

static enum verdict_on_timeout judge(const struct finding *finding)
{
	if (finding->subject->phase < 0)
		return IS_UNMEASURED;
	if (finding->n < FEW)
		return finding->n == 0 ? IS_UNSEEN : IS_FEW;
	if (finding->configured_ms < 0)
		return IS_OFF;
	if (finding->n_reached > 0)
		return finding->share <= RARE_SHARE ? IS_RARE : IS_CUTTING;
	bool is_loose = finding->enough_ms >= 0 && finding->configured_ms >= LOOSE_FACTOR * finding->enough_ms;
	return is_loose && !finding->subject->is_of_load ? IS_LOOSE : IS_FITTING;
}

static struct finding find(const struct upstream_def *upstream, const struct upstream_metrics *metrics,
			   const struct latency *latency, const struct subject *subject)
{
	struct finding finding = {
		.subject = subject,
		.quantiles = subject->phase >= 0 ? latency->phases[subject->phase] : NULL,
		.configured_ms = configured_ms(&upstream->policy.timeouts, subject),
		.is_observing = upstream->policy.mode == MODE_OBSERVE,
		.n_cut = metrics->timeouts[subject->label],
		.n_would_cut = metrics->observed_timeouts[subject->label],
		.enough_ms = -1,
	};
	finding.n = finding.quantiles ? finding.quantiles->n : 0;
	finding.n_reached = n_reaching(finding.quantiles, finding.configured_ms);
	finding.share = finding.n ? (double)finding.n_reached / (double)finding.n : 0;
	/* What was cut off hides how long it would have taken. */
	if (finding.n >= MANY && (finding.n_cut == 0 || finding.is_observing))
		finding.enough_ms = enough_ms(finding.quantiles);
	finding.verdict = judge(&finding);
	return finding;
}

/* ---- a sentence for a person ---- */

struct duration_text {
	char text[UNITS_TEXT_BYTES];
};

/* Three figures are enough: 0.21ms, 38.5ms, 1240ms, 31s. */
static struct duration_text say(int64_t elapsed_us)
{
	struct duration_text said;
	double ms = (double)elapsed_us / 1000;
	if (ms >= 10000)
		snprintf(said.text, sizeof(said.text), "%.1fs", ms / 1000);
	else
		snprintf(said.text, sizeof(said.text), ms < 1 ? "%.2fms" : ms < 100 ? "%.1fms" : "%.0fms", ms);
	return said;
}

static struct duration_text say_limit(int64_t ms)
{
	struct duration_text said;
	units_format_duration(ms, said.text);
	return said;
}

static void advise_on_reached(const struct finding *finding, struct buffer *out)
{
	const struct quantiles *quantiles = finding->quantiles;
	uint64_t n_cut = finding->is_observing ? finding->n_would_cut : finding->n_cut;
	buffer_printf(out, "%llu of %llu %s (%.3g%%) took that long or came within 6%% of it; %llu %s cut. ",
		      (unsigned long long)finding->n_reached, (unsigned long long)finding->n, finding->subject->what,
		      finding->share * 100, (unsigned long long)n_cut, finding->is_observing ? "would have been" : "were");
	buffer_printf(out, "Half took at most %s, 99%% at most %s. ", say(quantiles_at_us(quantiles, 0.5)).text,
		      say(quantiles_at_us(quantiles, 0.99)).text);
	if (finding->verdict == IS_RARE)
		buffer_printf(out, "Only outliers: leave it unless those were still wanted.");
	else if (finding->enough_ms >= 0)
		buffer_printf(out, "With %s nothing seen so far would have been cut.", say_limit(finding->enough_ms).text);
	else
		buffer_printf(out, "If they were still wanted, raise it; mode: observe shows how long they would have taken.");
}

static void advise_on_unreached(const struct finding *finding, struct buffer *out)
{
	buffer_printf(out, "%s of %llu %s took %s.",
		      finding->verdict == IS_OFF ? "Off. The slowest" : "Never reached: the slowest",
		      (unsigned long long)finding->n, finding->subject->what, say(finding->quantiles->max_us).text);
	if (finding->verdict == IS_OFF && finding->enough_ms >= 0)
		buffer_printf(out, " %s would have cut none.", say_limit(finding->enough_ms).text);
	else if (finding->verdict == IS_LOOSE)
		buffer_printf(out, " %s would still have cut none, and would end a stalled one sooner.",
			      say_limit(finding->enough_ms).text);
}

static void advise(const struct finding *finding, struct buffer *out)
{
	const char *what = finding->subject->what;
	switch (finding->verdict) {
	case IS_UNMEASURED:
		buffer_printf(out, "Ended %llu tunnels; %s are not measured.", (unsigned long long)finding->n_cut, what);
		break;
	case IS_UNSEEN:
		buffer_printf(out, "Nothing to go by: no %s so far.", what);
		break;
	case IS_FEW:
		buffer_printf(out, "Too few %s to judge: %llu so far, the slowest took %s.", what,
			      (unsigned long long)finding->n, say(finding->quantiles->max_us).text);
		break;
	case IS_CUTTING:
	case IS_RARE:
		advise_on_reached(finding, out);
		break;
	case IS_OFF:
	case IS_LOOSE:
	case IS_FITTING:
		advise_on_unreached(finding, out);
		break;
	}
}

/* ---- JSON ---- */

static void write_limit(struct buffer *out, int64_t limit_ms)
{
	json_member_string(out, "configured", say_limit(limit_ms).text);
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
static void write_routes(struct buffer *out, const struct upstream_def *upstream, const struct finding *finding)
{
	json_open(out, "routes", '[');
	for (size_t i = 0; i < upstream->n_routes; i++) {
		const struct route *route = &upstream->routes[i];
		int64_t limit_ms = configured_ms(&route->policy.timeouts, finding->subject);
		if (limit_ms == finding->configured_ms)
			continue;
		json_open(out, NULL, '{');
		json_member_string(out, "route", route->text);
		write_limit(out, limit_ms);
		write_reached(out, n_reaching(finding->quantiles, limit_ms), finding->n, limit_ms);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void write_finding(struct buffer *out, const struct upstream_def *upstream, const struct finding *finding)
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
	json_member_string(out, "verdict", verdict_words_on_timeout[finding->verdict]);
	advise(finding, &sentence);
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

/* An upstream that was never used has no metrics, and asking for advice must not make any. */
static const struct upstream_metrics *find_metrics(const char *name)
{
	static const struct upstream_metrics none;
	for (const struct upstream_metrics *metrics = metrics_first(); metrics; metrics = metrics->next)
		if (strcmp(metrics->name, name) == 0)
			return metrics;
	return &none;
}

static void write_upstream(struct buffer *out, struct front *front, const struct upstream_def *upstream)
{
	struct sum sum = { .metrics = find_metrics(upstream->name) };
	latency_merge(&sum.latency, &sum.metrics->latency);
	registry_each(front->room->registry, add_origin, &sum);
	json_open(out, NULL, '{');
	json_member_string(out, "upstream", upstream->name);
	json_member_string(out, "mode", upstream->policy.mode == MODE_OBSERVE ? "observe" : "enforce");
	json_open(out, "timeouts", '[');
	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		struct finding finding = find(upstream, sum.metrics, &sum.latency, &subjects[i]);
		write_finding(out, upstream, &finding);
	}
	json_close(out, ']');
	json_close(out, '}');
	latency_clear(&sum.latency);
}

void admin_answer_advice(struct front *front, const struct request *request, struct admin_answer *answer)
{
	const struct config *config = front_config(front);
	struct buffer *out = &answer->body, wanted = { 0 };
	enum query_result found = admin_query(request, "upstream", &wanted);
	size_t n_shown = 0, n_left_out = 0;
	if (found == QUERY_BAD) {
		admin_refuse(answer, 400, SLICE("The query can't be read: ?upstream=NAME, percent-encoded.\n"));
		buffer_clear(&wanted);
		return;
	}
	answer->content_type = "application/json";
	json_open(out, NULL, '{');
	json_open(out, "upstreams", '[');
	for (size_t i = 0; i <= config->n_upstreams; i++) {
		bool is_last = i == config->n_upstreams;
		const struct upstream_def *upstream = is_last ? &config->unmatched : &config->upstreams[i];
		if ((is_last && config->global.unmatched_deny) ||
		    (found == QUERY_FOUND && !slice_equals(buffer_slice(&wanted), slice_of(upstream->name))))
			continue;
		if (n_shown == MAX_SHOWN) {
			n_left_out++;
			continue;
		}
		n_shown++;
		write_upstream(out, front, upstream);
	}
	json_close(out, ']');
	json_member_integer(out, "left_out", (int64_t)n_left_out);
	json_close(out, '}');
	buffer_append(out, "\n", 1);
	buffer_clear(&wanted);
}
