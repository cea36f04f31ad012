#include "latency.h"

#include <stdlib.h>

#include "check.h"

const char *const latency_phase_words[N_LATENCY_PHASES] = {
	"queue", "connect", "tls", "first_byte", "attempt", "total", "silence", "stream", "tunnel",
};

static struct quantiles *get(struct latency *latency, enum latency_phase phase)
{
	if (!latency->phases[phase])
		latency->phases[phase] = xcalloc(1, sizeof(*latency->phases[phase]));
	return latency->phases[phase];
}

void latency_add(struct latency *latency, enum latency_phase phase, int64_t elapsed_us)
{
	quantiles_add(get(latency, phase), elapsed_us);
}

void latency_merge(struct latency *latency, const struct latency *from)
{
	for (enum latency_phase phase = 0; phase < N_LATENCY_PHASES; phase++)
		if (from->phases[phase])
			quantiles_merge(get(latency, phase), from->phases[phase]);
}

void latency_clear(struct latency *latency)
{
	for (enum latency_phase phase = 0; phase < N_LATENCY_PHASES; phase++) {
		free(latency->phases[phase]);
		latency->phases[phase] = NULL;
	}
}
