/*
 * How long the phases of requests took: one distribution for each phase, made when it is first needed. An origin
 * has one such set; those of origins that are gone live on, summed up, in their upstream's.
 */
#ifndef EVENKEEL_BASE_LATENCY_H
#define EVENKEEL_BASE_LATENCY_H

#include "quantiles.h"

enum latency_phase {
	LATENCY_QUEUE,      /* waiting for a slot of the pool */
	LATENCY_CONNECT,    /* new connections: TCP, all addresses that were tried */
	LATENCY_TLS,        /* new connections: the handshake */
	LATENCY_FIRST_BYTE, /* request sent -> final response headers complete */
	LATENCY_ATTEMPT,    /* slot taken -> last byte of the response's body; streams left out */
	LATENCY_TOTAL,      /* the whole exchange, retries and waits included; streams left out */
	LATENCY_SILENCE,    /* the longest one within a response's body */
	LATENCY_STREAM,     /* exchanges whose response is of a stream type, from their start */
	LATENCY_TUNNEL,     /* tunnels, from their being established */
	N_LATENCY_PHASES
};

struct latency { /* all zero: empty */
	struct quantiles *phases[N_LATENCY_PHASES]; /* owns; NULL: nothing yet */
};

extern const char *const latency_phase_words[N_LATENCY_PHASES];

void latency_add(struct latency *latency, enum latency_phase phase, int64_t elapsed_us);
void latency_merge(struct latency *latency, const struct latency *from);
void latency_clear(struct latency *latency); /* frees */

#endif
