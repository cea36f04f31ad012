/*
 * What is said about one timeout: its configured value beside what was observed of the phase that it bounds. What a
 * timeout cut off counts with the time it had got, so the true need may be longer than what is seen: mode: observe
 * shows it. Computes and words; asks nobody.
 */
#ifndef EVENKEEL_FRONT_ADVICE_H
#define EVENKEEL_FRONT_ADVICE_H

#include "../../config/policy.h"
#include "../base/metrics.h"

struct advice_subject {
	const char *key; /* of `timeouts` */
	enum timeout_label label;
	int phase;       /* enum latency_phase; -1: not measured */
	bool is_of_load; /* how long it takes is a matter of load: no shorter limit is proposed for a quiet time */
	size_t offset;   /* in struct timeouts */
	const char *what; /* was observed */
};

#define N_ADVICE_SUBJECTS 10
extern const struct advice_subject advice_subjects[N_ADVICE_SUBJECTS]; /* in the order of the keys */

/* What it comes to; `verdict` in the answer. */
enum advice_verdict {
	ADVICE_UNMEASURED, /* the phase isn't */
	ADVICE_UNSEEN,     /* nothing was observed */
	ADVICE_FEW,        /* too little for a judgement */
	ADVICE_OFF,        /* there is no such limit */
	ADVICE_CUTTING,    /* the limit is reached, or nearly, by more than outliers */
	ADVICE_RARE,       /* by outliers only */
	ADVICE_LOOSE,      /* never, and it is much longer than what would do */
	ADVICE_FITTING,    /* never */
	N_ADVICE_VERDICTS
};
extern const char *const advice_verdict_words[N_ADVICE_VERDICTS];

/* Everything that is said about one timeout of one upstream. */
struct advice {
	const struct advice_subject *subject;
	const struct quantiles *quantiles; /* NULL: nothing observed */
	int64_t configured_ms;             /* LIMIT_OFF */
	bool is_observing;
	uint64_t n, n_reached, n_cut, n_would_cut;
	double share;
	int64_t enough_ms; /* a round limit that would have cut nothing, with room to spare; -1: unknown */
	enum advice_verdict verdict;
};

/* metrics, latency: of the upstream whose policy it is; borrowed for as long as the result is used. */
struct advice advice_find(const struct policy *policy, const struct upstream_metrics *metrics,
			  const struct latency *latency, const struct advice_subject *subject);

/* Appends a sentence or two for a person. */
void advice_word(const struct advice *finding, struct buffer *out);

int64_t advice_limit_ms(const struct timeouts *timeouts, const struct advice_subject *subject);

/* How many observations a limit would cut; 0 when it is off. quantiles may be NULL. */
uint64_t advice_n_reaching(const struct quantiles *quantiles, int64_t limit_ms);

#endif
