/*
 * How long the phases of an attempt and of an exchange took, into the origin's distributions (/upstreams, /advice).
 *
 * A phase counts when it came to its end, or when a timeout ended it: with the time it had got, so that what a
 * limit cuts off is seen to reach that limit. What the client cut off, or what failed by itself, says nothing about
 * how long it would have taken, and isn't counted.
 */
#include "../base/clock.h"
#include "machine.h"

static bool is_cut_by_limit(enum outcome outcome)
{
	return outcome_facts[outcome].label == ATTEMPT_LABEL_ATTEMPT_TIMEOUT || outcome == OUTCOME_CONNECT_TIMEOUT ||
	       outcome == OUTCOME_TLS_TIMEOUT || outcome == OUTCOME_POOL_WAIT;
}

/* from..to, or from..cut when the phase began and didn't end; cut is unset unless a limit ended the attempt. */
static void add(struct latency *latency, enum latency_phase phase, struct mono from, struct mono to, struct mono cut)
{
	struct mono end = mono_is_set(to) ? to : cut;
	if (mono_is_set(from) && mono_is_set(end))
		latency_add(latency, phase, mono_elapsed_us(from, end));
}

static void measure_connection(struct latency *latency, const struct lease *lease, struct mono cut)
{
	struct mono connected = mono_is_set(lease->securing) ? lease->securing : lease->held;
	add(latency, LATENCY_CONNECT, lease->connecting, connected, cut);
	add(latency, LATENCY_TLS, lease->securing, lease->held, cut);
}

void measure_attempt(struct exchange *exchange, const struct attempt *attempt, enum outcome outcome)
{
	struct latency *latency = &exchange->origin->latency;
	bool is_over = attempt->state == ATTEMPT_ENDED, is_cut = is_over && is_cut_by_limit(outcome);
	struct mono cut = is_cut ? attempt->ended : MONO_ZERO;
	add(latency, LATENCY_QUEUE, attempt->queued, attempt->began, cut);
	if (!attempt->lease.is_reused)
		measure_connection(latency, &attempt->lease, cut);
	if (!attempt->order.lease.is_tunnel)
		add(latency, LATENCY_FIRST_BYTE, attempt->request_sent, attempt->head_complete, cut);
	if (!is_over || (outcome != OUTCOME_RESPONSE && !is_cut))
		return;
	if (mono_is_set(attempt->head_complete)) {
		int64_t silence_us = is_cut && !attempt->is_reading_paused
					     ? mono_elapsed_us(attempt->last_read, attempt->ended) : 0;
		latency_add(latency, LATENCY_SILENCE,
			    silence_us > attempt->longest_silence_us ? silence_us : attempt->longest_silence_us);
	}
	if (!exchange->is_stream)
		add(latency, LATENCY_ATTEMPT, attempt->began, attempt->ended, MONO_ZERO);
}

void measure_exchange(struct exchange *exchange)
{
	if (!exchange->origin || exchange->is_cancelled || exchange->n_attempts == 0)
		return;
	latency_add(&exchange->origin->latency, exchange->is_stream ? LATENCY_STREAM : LATENCY_TOTAL,
		    mono_elapsed_us(exchange->order.started, clock_now()));
}
