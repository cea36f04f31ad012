#include "outcome.h"

const struct outcome_facts outcome_facts[N_OUTCOMES] = {
#define OUTCOME(name, word, kind, unsent, status, error, label, detail) \
	[OUTCOME_##name] = { word, kind, unsent, status, error, ATTEMPT_LABEL_##label, detail },
#include "outcome.def"
#undef OUTCOME
};

const char *retry_kind_word(enum retry_kind kind)
{
	switch (kind) {
	case RETRY_DNS_FAILURE:
		return "dns_failure";
	case RETRY_CONNECT_FAILURE:
		return "connect_failure";
	case RETRY_RESET:
		return "reset";
	case RETRY_ATTEMPT_TIMEOUT:
		return "attempt_timeout";
	case RETRY_INCOMPLETE_BODY:
		return "incomplete_body";
	case RETRY_TLS_FAILURE:
		return "tls_failure";
	case RETRY_BAD_RESPONSE:
		return "bad_response";
	case RETRY_KIND_NONE:
		break;
	}
	return "none";
}

const char *outcome_reason(enum outcome outcome, int status, char storage[static 24])
{
	if (outcome != OUTCOME_RESPONSE) {
		const struct outcome_facts *facts = &outcome_facts[outcome];
		return facts->kind == RETRY_KIND_NONE ? facts->word : retry_kind_word(facts->kind);
	}
	unsigned left = status > 0 ? (unsigned)status : 0;
	char *start = storage + 23;
	*start = '\0';
	do {
		*--start = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	return start;
}
