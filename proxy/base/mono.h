/*
 * Instants and durations. An instant is a struct, a duration is an int64_t of milliseconds (x_ms) or
 * microseconds (x_us), so the compiler refuses to add two instants.
 * "Never" is the greatest instant; a duration below zero (LIMIT_OFF) leads to it.
 */
#ifndef EVENKEEL_BASE_MONO_H
#define EVENKEEL_BASE_MONO_H

#include <stdbool.h>
#include <stdint.h>

struct mono {
	int64_t us; /* on the monotonic clock */
};

#define MONO_NEVER ((struct mono){ INT64_MAX })
#define MONO_ZERO ((struct mono){ 0 })

static inline bool mono_is_never(struct mono at) { return at.us == INT64_MAX; }
static inline bool mono_is_set(struct mono at) { return at.us != 0; }
static inline bool mono_before(struct mono a, struct mono b) { return a.us < b.us; }
static inline bool mono_reached(struct mono at, struct mono now) { return now.us >= at.us; }
static inline struct mono mono_min(struct mono a, struct mono b) { return a.us < b.us ? a : b; }

/* at + duration_ms; MONO_NEVER when duration_ms is negative (off), when `at` is never, or on overflow. */
static inline struct mono mono_add_ms(struct mono at, int64_t duration_ms)
{
	if (duration_ms < 0 || mono_is_never(at) || duration_ms > (INT64_MAX - at.us) / 1000)
		return MONO_NEVER;
	return (struct mono){ at.us + duration_ms * 1000 };
}

/* Microseconds from `from` to `to`; 0 when either is unset or `to` is earlier. INT64_MAX when `to` is never. */
static inline int64_t mono_elapsed_us(struct mono from, struct mono to)
{
	if (mono_is_never(to))
		return INT64_MAX;
	if (!mono_is_set(from) || !mono_is_set(to) || to.us < from.us)
		return 0;
	return to.us - from.us;
}

static inline int64_t mono_elapsed_ms(struct mono from, struct mono to) { return mono_elapsed_us(from, to) / 1000; }

/* Milliseconds left until `at`, rounded up so that a sleep of that length never ends early; 0 when reached;
 * INT64_MAX when never. */
static inline int64_t mono_left_ms(struct mono now, struct mono at)
{
	if (mono_is_never(at))
		return INT64_MAX;
	return at.us <= now.us ? 0 : (at.us - now.us + 999) / 1000;
}

#endif
