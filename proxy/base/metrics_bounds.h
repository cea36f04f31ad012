/* The bucket bounds of the histograms, shared by what counts (metrics.c) and what renders (metrics_render.c). */
#ifndef EVENKEEL_BASE_METRICS_BOUNDS_H
#define EVENKEEL_BASE_METRICS_BOUNDS_H

#include <stddef.h>
#include <stdint.h>

struct metrics_bound {
	int64_t value;          /* microseconds, or a plain number */
	const char *text;       /* as Prometheus' text format writes `le` */
	const char *open_text;  /* as OpenMetrics does: a float */
};

struct metrics_bounds {
	const struct metrics_bound *items;
	size_t n;
};

extern const struct metrics_bounds metrics_duration_bounds;
extern const struct metrics_bounds metrics_count_bounds;

#endif
