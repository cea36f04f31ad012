/* What /proc says of this process, for the process_* metrics. */
#ifndef EVENKEEL_BASE_METRICS_PROCESS_H
#define EVENKEEL_BASE_METRICS_PROCESS_H

#include <stdint.h>

/* -1: can't be known here (no /proc, or no permission); then the metric is left out. */
struct process_state {
	double cpu_seconds;
	int64_t resident_bytes, virtual_bytes;
	int64_t open_fds, max_fds; /* max_fds INT64_MAX: unlimited */
	double start_seconds;      /* since the epoch */
};

struct process_state process_state_read(void);

#endif
