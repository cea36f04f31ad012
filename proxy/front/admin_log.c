/* SIGUSR1: what /upstreams tells, a log line for each origin. */
#include <stdio.h>

#include "../base/clock.h"
#include "../base/log.h"
#include "admin.h"

static void log_pool(struct log_line *line, const struct origin *origin)
{
	log_integer(line, "idle", (int64_t)origin->n_idle);
	log_integer(line, "active", (int64_t)origin->n_leased);
	log_integer(line, "connecting", (int64_t)origin->n_connecting);
	log_integer(line, "pending", (int64_t)origin->n_waiting);
	log_integer(line, "in_flight", (int64_t)origin->n_seats);
}

static void log_guards(struct log_line *line, const struct origin *origin, const struct policy *policy, struct mono now)
{
	struct budget budget = origin->budget; /* a copy: looking at it moves its clock */
	if (policy && policy->breaker.is_on)
		log_string(line, "breaker", admin_breaker_word(origin));
	if (policy && policy->retry.budget.is_on)
		log_integer(line, "budget_left", (int64_t)budget_left(&budget, &policy->retry.budget, now));
	log_integer(line, "quiet_ms", mono_is_set(origin->quiet_until) ? mono_left_ms(now, origin->quiet_until) : 0);
}

static void log_addresses(struct log_line *line, const struct origin *origin)
{
	char text[RESOLVE_MAX_ADDRESSES * 48] = "";
	size_t length = 0;
	for (size_t i = 0; origin->addresses && i < origin->addresses->n && length + 48 < sizeof(text); i++) {
		if (i > 0)
			text[length++] = ' ';
		length += address_format(&origin->addresses->items[i], text + length, sizeof(text) - length);
	}
	log_slice(line, "addresses", (struct slice){ text, length });
}

static void log_latency(struct log_line *line, const struct origin *origin)
{
	for (enum latency_phase phase = 0; phase < N_LATENCY_PHASES; phase++) {
		const struct quantiles *quantiles = origin->latency.phases[phase];
		char key[40];
		if (!quantiles)
			continue;
		snprintf(key, sizeof(key), "%s_p50_ms", latency_phase_words[phase]);
		log_ms(line, key, quantiles_at_us(quantiles, 0.5));
		snprintf(key, sizeof(key), "%s_p99_ms", latency_phase_words[phase]);
		log_ms(line, key, quantiles_at_us(quantiles, 0.99));
	}
}

static void log_origin(void *owner, const struct origin *origin)
{
	struct front *front = owner;
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "origin"))
		return;
	const struct upstream_def *upstream = origin->is_retired ? NULL
						: admin_find_upstream(front_config(front), origin->upstream_name);
	log_string(&line, "upstream", origin->upstream_name);
	log_string(&line, "scheme", origin->is_tls ? "https" : "http");
	log_string(&line, "host", origin->host);
	log_integer(&line, "port", origin->port);
	log_pool(&line, origin);
	log_guards(&line, origin, upstream ? &upstream->policy : NULL, clock_now());
	log_addresses(&line, origin);
	log_latency(&line, origin);
	log_end(&line);
}

void front_log_origins(struct front *front)
{
	registry_each(front->room->registry, log_origin, front);
}
