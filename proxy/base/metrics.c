#include "metrics.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "metrics_bounds.h"

struct process_metrics process_metrics;

static struct upstream_metrics *first, *last;

static const struct metrics_bound duration_items[] = {
	{ 1000, "0.001", "0.001" }, { 2500, "0.0025", "0.0025" }, { 5000, "0.005", "0.005" },
	{ 10000, "0.01", "0.01" }, { 25000, "0.025", "0.025" }, { 50000, "0.05", "0.05" },
	{ 100000, "0.1", "0.1" }, { 250000, "0.25", "0.25" }, { 500000, "0.5", "0.5" },
	{ 1000000, "1", "1.0" }, { 2500000, "2.5", "2.5" }, { 5000000, "5", "5.0" },
	{ 10000000, "10", "10.0" }, { 30000000, "30", "30.0" }, { 60000000, "60", "60.0" },
};

static const struct metrics_bound count_items[] = {
	{ 1, "1", "1.0" }, { 2, "2", "2.0" }, { 3, "3", "3.0" }, { 4, "4", "4.0" }, { 5, "5", "5.0" }, { 8, "8", "8.0" },
};

#define N_OF(items) (sizeof(items) / sizeof *(items))

const struct metrics_bounds metrics_duration_bounds = { duration_items, N_OF(duration_items) };
const struct metrics_bounds metrics_count_bounds = { count_items, N_OF(count_items) };

_Static_assert(N_OF(duration_items) <= METRICS_MAX_BUCKETS, "a bucket for each bound");

struct upstream_metrics *metrics_first(void)
{
	return first;
}

/* Names come from policy files and are few; callers keep the pointer, so a walk is enough. */
struct upstream_metrics *metrics_upstream(const char *name)
{
	for (struct upstream_metrics *metrics = first; metrics; metrics = metrics->next)
		if (strcmp(metrics->name, name) == 0)
			return metrics;

	struct upstream_metrics *made = xcalloc(1, sizeof *made);
	made->name = xstrdup(name);
	if (last)
		last->next = made;
	else
		first = made;
	last = made;
	return made;
}

void metrics_clear(void)
{
	while (first) {
		struct upstream_metrics *next = first->next;
		latency_clear(&first->latency);
		free(first->name);
		free(first);
		first = next;
	}
	last = NULL;
}

static void observe(struct histogram *histogram, const struct metrics_bounds *bounds, int64_t value)
{
	size_t i = 0;

	if (value < 0)
		value = 0;
	while (i < bounds->n && value > bounds->items[i].value)
		i++;
	histogram->counts[i]++; /* i == bounds->n: +Inf */
	histogram->n++;
	histogram->sum_us += (uint64_t)value;
}

void histogram_observe_us(struct histogram *histogram, int64_t elapsed_us)
{
	observe(histogram, &metrics_duration_bounds, elapsed_us);
}

void histogram_observe_count(struct histogram *histogram, int64_t n)
{
	observe(histogram, &metrics_count_bounds, n);
}
