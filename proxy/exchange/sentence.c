/* What an error of our own says to a person: what happened, by which limit, and why it was not tried again. */
#include <stdio.h>

#include "machine.h"

/* The words of the room that failed name the address or the name, and say it all. */
static bool says_it_all(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_DNS_FAILURE:
	case OUTCOME_DNS_TIMEOUT:
	case OUTCOME_DNS_NO_NAME:
	case OUTCOME_ADDRESS_DENIED:
	case OUTCOME_CONNECT_REFUSED:
	case OUTCOME_CONNECT_UNREACHABLE:
	case OUTCOME_CONNECT_TIMEOUT:
	case OUTCOME_MAX_PENDING:
		return true;
	default:
		return false;
	}
}

/* The limit that struck, in ms; LIMIT_OFF: none, or the words have it. */
static int64_t limit_ms(const struct exchange *exchange, enum outcome outcome)
{
	const struct timeouts *timeouts = &exchange->policy->timeouts;
	switch (outcome) {
	case OUTCOME_TOTAL_TIMEOUT:
		return exchange->order.total_ms;
	case OUTCOME_ATTEMPT_TIMEOUT:
		return timeouts->attempt_ms;
	case OUTCOME_HEADERS_TIMEOUT:
		return timeouts->response_headers_ms;
	case OUTCOME_BODY_IDLE:
		return timeouts->body_idle_ms;
	case OUTCOME_POOL_WAIT:
	case OUTCOME_RATE_LIMIT:
		return timeouts->pool_wait_ms;
	default:
		return LIMIT_OFF;
	}
}

static void say_limit(const struct exchange *exchange, enum outcome outcome, char out[static 80])
{
	int64_t ms = limit_ms(exchange, outcome);
	bool is_asked = outcome == OUTCOME_TOTAL_TIMEOUT && ms != exchange->policy->timeouts.total_ms;
	out[0] = '\0';
	if (ms >= 0)
		snprintf(out, 80, " (%lld ms%s)", (long long)ms, is_asked ? ", as the request's Evenkeel-Timeout says" : "");
}

static const char *explain_verdict(const struct exchange *exchange, char storage[static 96])
{
	switch (exchange->verdict) {
	case VERDICT_METHOD:
		return "; not retried: the method is not in retry.methods and the request bears no idempotency key";
	case VERDICT_BODY:
		return "; not retried: the request body is larger than limits.request_buffer and was not kept";
	case VERDICT_ATTEMPTS:
		snprintf(storage, 96, "; attempts made: %lld, allowed: %lld (retry.max_attempts)",
			 (long long)exchange->n_attempts, (long long)exchange->order.max_attempts);
		return storage;
	case VERDICT_BUDGET:
		return "; not retried: the retry budget of this origin is used up (retry.budget)";
	case VERDICT_DEADLINE:
		return "; not retried: no time is left within timeouts.total";
	case VERDICT_BREAKER:
		return "; not retried: the circuit breaker is open";
	case VERDICT_NESTED:
		return "; not retried: the request is itself a retry of a proxy before this one (retry.nested)";
	default:
		return "";
	}
}

void sentence_compose(const struct exchange *exchange, enum outcome outcome, const char *detail,
		      char out[static SENTENCE_BYTES])
{
	const char *what = outcome_facts[outcome].detail;
	char limit[80], storage[96];
	bool has_detail = detail != NULL && *detail != '\0';
	bool is_detail_enough = has_detail && says_it_all(outcome);
	/* These two say it themselves. */
	bool is_why_said = outcome == OUTCOME_TOTAL_TIMEOUT || outcome == OUTCOME_BREAKER_OPEN;
	say_limit(exchange, outcome, limit);
	snprintf(out, SENTENCE_BYTES, "%s%s%s%s%s", is_detail_enough ? detail : what, limit,
		 has_detail && !is_detail_enough ? ": " : "", has_detail && !is_detail_enough ? detail : "",
		 is_why_said ? "" : explain_verdict(exchange, storage));
}
