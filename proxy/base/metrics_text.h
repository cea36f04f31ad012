/* What the parts of the exposition share. Only metrics_render.c and metrics_own.c use it. */
#ifndef EVENKEEL_BASE_METRICS_TEXT_H
#define EVENKEEL_BASE_METRICS_TEXT_H

#include <stdbool.h>

#include "buffer.h"

enum family_type { COUNTER, GAUGE, HISTOGRAM };

extern const char *const metrics_type_words[];

struct render {
	struct buffer *out;
	bool is_openmetrics;
	const char *family; /* set by metrics_family_header; with _total, when it has it */
};

/* HELP and TYPE. OpenMetrics names a counter's family without _total, and an info's without _info. */
void metrics_family_header(struct render *render, const char *name, const char *type, const char *help);

/* The metrics without an upstream: evenkeel_client_connections ..., process_*. */
void metrics_own_render(struct render *render);

#endif
