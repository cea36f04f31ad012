/* Evenkeel-Timeout and Evenkeel-Max-Attempts: what one request may say about its own policy. */
#include "retry.h"

#define MAX_TIMEOUT_MS (INT64_MAX / 4000) /* still a duration in microseconds */
#define MAX_ATTEMPTS 1000

static bool take_digits(struct slice *left, int64_t *number)
{
	size_t n = 0;

	*number = 0;
	for (; n < left->length && left->data[n] >= '0' && left->data[n] <= '9'; n++) {
		if (*number > MAX_TIMEOUT_MS)
			return false;
		*number = *number * 10 + (left->data[n] - '0');
	}
	*left = (struct slice){ left->data + n, left->length - n };
	return n > 0;
}

static int64_t take_unit_ms(struct slice *left)
{
	static const struct {
		const char *name;
		int64_t ms;
	} units[] = { { "ms", 1 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 } };

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t length = strlen(units[i].name);
		if (left->length >= length && memcmp(left->data, units[i].name, length) == 0) {
			*left = (struct slice){ left->data + length, left->length - length };
			return units[i].ms;
		}
	}
	return 0;
}

/* As in the policy file: "1500ms", "1m30s"; large units first, each once, no fraction. False: no duration above 0. */
static bool parse_duration(struct slice left, int64_t *total_ms)
{
	int64_t last_unit_ms = INT64_MAX, sum = 0;

	while (left.length > 0) {
		int64_t number, part;
		if (!take_digits(&left, &number))
			return false;
		int64_t unit_ms = take_unit_ms(&left);
		if (unit_ms == 0 || unit_ms >= last_unit_ms)
			return false;
		if (__builtin_mul_overflow(number, unit_ms, &part) || __builtin_add_overflow(sum, part, &sum) ||
		    sum > MAX_TIMEOUT_MS)
			return false;
		last_unit_ms = unit_ms;
	}
	*total_ms = sum;
	return sum > 0;
}

bool override_timeout(enum override override, struct slice value, int64_t *total_ms)
{
	int64_t wish_ms = LIMIT_OFF;

	if (override == OVERRIDE_OFF)
		return true;
	value = slice_trim(value);
	if (!slice_equals(value, SLICE("off")) && !parse_duration(value, &wish_ms))
		return false;
	if (override == OVERRIDE_ANY)
		*total_ms = wish_ms;
	else if (wish_ms != LIMIT_OFF && (*total_ms < 0 || wish_ms < *total_ms))
		*total_ms = wish_ms;
	return true;
}

bool override_max_attempts(enum override override, struct slice value, int64_t *max_attempts)
{
	int64_t wish;

	if (override == OVERRIDE_OFF)
		return true;
	value = slice_trim(value);
	if (!take_digits(&value, &wish) || value.length > 0 || wish < 1 || wish > MAX_ATTEMPTS)
		return false;
	if (override == OVERRIDE_ANY || wish < *max_attempts)
		*max_attempts = wish;
	return true;
}
