#include "advice.h"

#include <stddef.h>
#include <stdio.h>

#include "../../config/units.h"

#define FEW 100            /* observations: with fewer, no judgement */
#define MANY 1000          /* with fewer, no other limit is proposed */
#define RARE_SHARE 0.001   /* reached by no more than this: only outliers */
#define LOOSE_FACTOR 10    /* configured that many times above what would do: too long to help */
#define MIN_ENOUGH_MS 100  /* no shorter limit is proposed: a pause of any party takes that long */

#define SUBJECT(key, label, phase, is_of_load, what) \
	{ #key, TIMEOUT_LABEL_##label, phase, is_of_load, offsetof(struct timeouts, key##_ms), what }
const struct advice_subject advice_subjects[N_ADVICE_SUBJECTS] = {
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


const char *const advice_verdict_words[N_ADVICE_VERDICTS] = {
	"unmeasured", "unseen", "few", "off", "cuts", "rare", "loose", "fits",
};

int64_t advice_limit_ms(const struct timeouts *timeouts, const struct advice_subject *subject)
{
	return *(const int64_t *)((const char *)timeouts + subject->offset);
}

/* A limit of 0 means "don't wait": what was granted at once isn't cut by it. */
uint64_t advice_n_reaching(const struct quantiles *quantiles, int64_t limit_ms)
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

static enum advice_verdict judge(const struct advice *finding)
{
	if (finding->subject->phase < 0)
		return ADVICE_UNMEASURED;
	if (finding->n < FEW)
		return finding->n == 0 ? ADVICE_UNSEEN : ADVICE_FEW;
	if (finding->configured_ms < 0)
		return ADVICE_OFF;
	if (finding->n_reached > 0)
		return finding->share <= RARE_SHARE ? ADVICE_RARE : ADVICE_CUTTING;
	bool is_loose = finding->enough_ms >= 0 && finding->configured_ms >= LOOSE_FACTOR * finding->enough_ms;
	return is_loose && !finding->subject->is_of_load ? ADVICE_LOOSE : ADVICE_FITTING;
}

struct advice advice_find(const struct policy *policy, const struct upstream_metrics *metrics,
			  const struct latency *latency, const struct advice_subject *subject)
{
	struct advice finding = {
		.subject = subject,
		.quantiles = subject->phase >= 0 ? latency->phases[subject->phase] : NULL,
		.configured_ms = advice_limit_ms(&policy->timeouts, subject),
		.is_observing = policy->mode == MODE_OBSERVE,
		.n_cut = metrics->timeouts[subject->label],
		.n_would_cut = metrics->observed_timeouts[subject->label],
		.enough_ms = -1,
	};
	finding.n = finding.quantiles ? finding.quantiles->n : 0;
	finding.n_reached = advice_n_reaching(finding.quantiles, finding.configured_ms);
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

static void advise_on_reached(const struct advice *finding, struct buffer *out)
{
	const struct quantiles *quantiles = finding->quantiles;
	uint64_t n_cut = finding->is_observing ? finding->n_would_cut : finding->n_cut;
	buffer_printf(out, "%llu of %llu %s (%.3g%%) took that long or came within 6%% of it (%s: %llu). ",
		      (unsigned long long)finding->n_reached, (unsigned long long)finding->n, finding->subject->what,
		      finding->share * 100, finding->is_observing ? "would have been cut" : "cut", (unsigned long long)n_cut);
	buffer_printf(out, "Half took at most %s, 99%% at most %s. ", say(quantiles_at_us(quantiles, 0.5)).text,
		      say(quantiles_at_us(quantiles, 0.99)).text);
	if (finding->verdict == ADVICE_RARE)
		buffer_printf(out, "Only outliers: leave it unless those were still wanted.");
	else if (finding->enough_ms >= 0)
		buffer_printf(out, "With %s nothing seen so far would have been cut.", say_limit(finding->enough_ms).text);
	else
		buffer_printf(out, "If they were still wanted, raise it; mode: observe shows how long they would have taken.");
}

static void advise_on_unreached(const struct advice *finding, struct buffer *out)
{
	buffer_printf(out, "%s of %llu %s took %s.",
		      finding->verdict == ADVICE_OFF ? "Off. The slowest" : "Never reached: the slowest",
		      (unsigned long long)finding->n, finding->subject->what, say(finding->quantiles->max_us).text);
	if (finding->verdict == ADVICE_OFF && finding->enough_ms >= 0)
		buffer_printf(out, " %s would have cut none.", say_limit(finding->enough_ms).text);
	else if (finding->verdict == ADVICE_LOOSE)
		buffer_printf(out, " %s would still have cut none, and would end a stalled one sooner.",
			      say_limit(finding->enough_ms).text);
}

void advice_word(const struct advice *finding, struct buffer *out)
{
	const char *what = finding->subject->what;
	switch (finding->verdict) {
	case ADVICE_UNMEASURED:
		buffer_printf(out, "Ended %llu tunnels; %s are not measured.", (unsigned long long)finding->n_cut, what);
		break;
	case ADVICE_UNSEEN:
		buffer_printf(out, "Nothing to go by: no %s so far.", what);
		break;
	case ADVICE_FEW:
		buffer_printf(out, "Too few %s to judge: %llu so far, the slowest took %s.", what,
			      (unsigned long long)finding->n, say(finding->quantiles->max_us).text);
		break;
	case ADVICE_CUTTING:
	case ADVICE_RARE:
		advise_on_reached(finding, out);
		break;
	case ADVICE_OFF:
	case ADVICE_LOOSE:
	case ADVICE_FITTING:
		advise_on_unreached(finding, out);
		break;
	case N_ADVICE_VERDICTS:
		break;
	}
}
