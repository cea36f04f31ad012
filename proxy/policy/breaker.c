#include "breaker.h"

static int64_t slot_of(const struct breaker_rule *rule, struct mono now)
{
	int64_t window_ms = rule->window_ms < 1 ? 1 : rule->window_ms;
	int64_t length_us = window_ms > INT64_MAX / 1000 ? INT64_MAX / BREAKER_SLOTS : window_ms * 1000 / BREAKER_SLOTS;

	return now.us / length_us;
}

static void forget_counts(struct breaker *breaker)
{
	for (int i = 0; i < BREAKER_SLOTS; i++)
		breaker->requests[i] = breaker->failures[i] = 0;
	breaker->consecutive = 0;
}

void breaker_init(struct breaker *breaker)
{
	*breaker = (struct breaker){ .state = BREAKER_CLOSED };
}

/* A window that a reload changed renumbers the slots: a number that goes back, like one far ahead, starts afresh. */
static void advance(struct breaker *breaker, const struct breaker_rule *rule, struct mono now)
{
	int64_t present = slot_of(rule, now);
	int64_t consecutive = breaker->consecutive;

	if (present < breaker->slot || present - breaker->slot >= BREAKER_SLOTS) {
		forget_counts(breaker);
		breaker->consecutive = consecutive;
		breaker->slot = present;
	}
	while (breaker->slot < present) {
		breaker->slot++;
		breaker->requests[breaker->slot % BREAKER_SLOTS] = 0;
		breaker->failures[breaker->slot % BREAKER_SLOTS] = 0;
	}
}

static void open_at(struct breaker *breaker, struct mono now)
{
	breaker->state = BREAKER_OPEN;
	breaker->opened = now;
	breaker->n_trials = 0;
	forget_counts(breaker);
}

static bool is_open_over(const struct breaker *breaker, const struct breaker_rule *rule, struct mono now)
{
	return mono_reached(mono_add_ms(breaker->opened, rule->open_for_ms), now);
}

bool breaker_would_admit(const struct breaker *breaker, const struct breaker_rule *rule, struct mono now)
{
	if (!rule->is_on || breaker->state == BREAKER_CLOSED)
		return true;
	if (breaker->state == BREAKER_OPEN)
		return is_open_over(breaker, rule, now);
	return breaker->n_trials < rule->half_open;
}

bool breaker_admit(struct breaker *breaker, const struct breaker_rule *rule, struct mono now)
{
	if (!breaker_would_admit(breaker, rule, now))
		return false;
	if (!rule->is_on || breaker->state == BREAKER_CLOSED)
		return true;
	breaker->state = BREAKER_HALF_OPEN; /* from OPEN n_trials is 0 */
	breaker->n_trials++;
	return true;
}

static bool should_open(const struct breaker *breaker, const struct breaker_rule *rule)
{
	uint64_t requests = 0, failures = 0;

	if (rule->consecutive >= 0 && breaker->consecutive >= rule->consecutive)
		return true;
	if (rule->failure_ratio < 0)
		return false;
	for (int i = 0; i < BREAKER_SLOTS; i++) {
		requests += breaker->requests[i];
		failures += breaker->failures[i];
	}
	return failures > 0 && (int64_t)requests >= rule->min_requests &&
	       (double)failures >= rule->failure_ratio * (double)requests;
}

static void report_closed(struct breaker *breaker, const struct breaker_rule *rule, bool is_failure, struct mono now)
{
	advance(breaker, rule, now);
	int64_t slot = breaker->slot % BREAKER_SLOTS;
	breaker->requests[slot]++;
	breaker->failures[slot] += is_failure;
	breaker->consecutive = is_failure ? breaker->consecutive + 1 : 0;
	if (is_failure && should_open(breaker, rule))
		open_at(breaker, now);
}

void breaker_report(struct breaker *breaker, const struct breaker_rule *rule, bool is_failure, struct mono now)
{
	if (!rule->is_on)
		return;
	switch (breaker->state) {
	case BREAKER_CLOSED:
		report_closed(breaker, rule, is_failure, now);
		break;
	case BREAKER_HALF_OPEN:
		if (is_failure)
			open_at(breaker, now);
		else
			breaker_init(breaker);
		break;
	case BREAKER_OPEN: /* sent before it opened: nothing new */
		break;
	}
}

void breaker_forget(struct breaker *breaker)
{
	if (breaker->state == BREAKER_HALF_OPEN && breaker->n_trials > 0)
		breaker->n_trials--;
}

int64_t breaker_retry_after_ms(const struct breaker *breaker, const struct breaker_rule *rule, struct mono now)
{
	if (breaker_would_admit(breaker, rule, now))
		return 0;
	if (breaker->state == BREAKER_OPEN)
		return mono_left_ms(now, mono_add_ms(breaker->opened, rule->open_for_ms));
	return rule->open_for_ms < 1000 ? rule->open_for_ms : 1000; /* the trials under way decide it soon */
}
