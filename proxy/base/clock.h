/* The only room door through which time comes in. Everything that decides gets `now` as an argument. */
#ifndef EVENKEEL_BASE_CLOCK_H
#define EVENKEEL_BASE_CLOCK_H

#include "mono.h"

struct mono clock_now(void);     /* CLOCK_MONOTONIC; never 0 */
int64_t clock_wall_ms(void);     /* milliseconds since the epoch */

#endif
