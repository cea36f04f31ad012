/* The taxonomy of outcomes as an enum with its facts; see outcome.def. */
#ifndef EVENKEEL_POLICY_OUTCOME_H
#define EVENKEEL_POLICY_OUTCOME_H

#include <stdbool.h>

#include "../../config/policy.h"
#include "../base/metrics.h"

enum outcome {
#define OUTCOME(name, word, kind, unsent, status, error, label, detail) OUTCOME_##name,
#include "outcome.def"
#undef OUTCOME
	N_OUTCOMES
};

struct outcome_facts {
	const char *word;
	enum retry_kind kind;
	bool is_unsent;
	int status;
	const char *proxy_error;
	enum attempt_label label;
	const char *detail;
};

extern const struct outcome_facts outcome_facts[N_OUTCOMES];

/* The `reason` of a retry: "429" for OUTCOME_RESPONSE (written into storage), else the kind as `retry.on` spells it. */
const char *outcome_reason(enum outcome outcome, int status, char storage[static 24]);
const char *retry_kind_word(enum retry_kind kind); /* "dns_failure" ... */

#endif
