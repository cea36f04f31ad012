#include "clock.h"

#include <time.h>

struct mono clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
	return (struct mono){ us > 0 ? us : 1 }; /* 0 means "unset" */
}

int64_t clock_wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
