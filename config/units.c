#include "units.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "faults.h"

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit duration_units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
#define N_DURATION_UNITS (sizeof(duration_units) / sizeof(duration_units[0]))

static const struct unit size_units[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1000000000},
	{"MB", 1000000}, {"KB", 1000}, {"B", 1}};
#define N_SIZE_UNITS (sizeof(size_units) / sizeof(size_units[0]))

static bool refuse(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, UNITS_WHY_BYTES, format, arguments);
	va_end(arguments);
	return false;
}

/* Digits from *at on; false when there are none or they don't fit. Moves *at behind them. */
static bool take_digits(const char **at, int64_t *value)
{
	const char *c = *at;

	*value = 0;
	for (; *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *c - '0', value))
			return false;
	if (c == *at)
		return false;
	*at = c;
	return true;
}

static bool is_digits(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] < '0' || text[i] > '9')
			return false;
	return n > 0;
}

static bool is_decimal(const char *text)
{
	const char *dot = strchr(text, '.');

	return dot ? is_digits(text, (size_t)(dot - text)) && is_digits(dot + 1, strlen(dot + 1))
		   : is_digits(text, strlen(text));
}

static const struct unit *find_unit(const struct unit *units, size_t n_units, const char *name, size_t length)
{
	for (size_t i = 0; i < n_units; i++)
		if (strlen(units[i].name) == length && memcmp(units[i].name, name, length) == 0)
			return &units[i];
	return NULL;
}

/* The traps that all numbers share; true when one was found. */
static bool refuse_number_traps(const char *text, char *why)
{
	if (text[0] == '\0')
		return !refuse(why, "no value");
	if (text[0] == '-')
		return !refuse(why, "%s is negative", fault_quote(text));
	if (text[0] == '+')
		return !refuse(why, "%s: write it without the sign", fault_quote(text));
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X' || text[1] == 'o' || text[1] == 'b'))
		return !refuse(why, "%s: only decimal numbers are read", fault_quote(text));
	if (text[0] == '0' && text[1] >= '0' && text[1] <= '9')
		return !refuse(why, "%s begins with 0, which YAML readers take for octal: write it without the zero",
			fault_quote(text));
	if (isdigit((unsigned char)text[0]) && strpbrk(text, "_,"))
		return !refuse(why, "%s: write the digits without separators", fault_quote(text));
	if (isdigit((unsigned char)text[0]) && strpbrk(text, " \t"))
		return !refuse(why, "%s: write it without the blank", fault_quote(text));
	return false;
}

static bool refuse_duration_unit(const char *text, const char *unit, size_t length, char *why)
{
	static const struct {
		const char *wrong, *right;
	} hints[] = {{"d", "days are written in hours, such as 24h"}, {"w", "weeks are written in hours"},
		{"us", "the smallest unit is ms"}, {"ns", "the smallest unit is ms"}};

	if (length == 0)
		return refuse(why, "%s has no unit: write %ss or %sms", fault_quote(text), text, text);
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (strlen(hints[i].wrong) == length && memcmp(hints[i].wrong, unit, length) == 0)
			return refuse(why, "%s: %s", fault_quote(text), hints[i].right);
	return refuse(why, "%s: the units are ms, s, m and h", fault_quote(text));
}

bool units_parse_duration(const char *text, int64_t *ms, char why[static UNITS_WHY_BYTES])
{
	const char *at = text;
	int64_t total = 0, last_factor = INT64_MAX;

	if (refuse_number_traps(text, why))
		return false;
	if (text[0] < '0' || text[0] > '9')
		return refuse(why, "%s is not a duration: write for example 250ms, 2s or 1m30s", fault_quote(text));
	while (*at) {
		const struct unit *unit;
		size_t length;
		int64_t value;
		const char *start = at;

		if (!take_digits(&at, &value))
			return *start >= '0' && *start <= '9'
				       ? refuse(why, "%s is too large", fault_quote(text))
				       : refuse(why, "%s is not a duration: write for example 250ms, 2s or 1m30s",
						 fault_quote(text));
		if (*at == '.')
			return refuse(why, "%s: no fractions: write 1.5s as 1500ms", fault_quote(text));
		length = strcspn(at, "0123456789");
		unit = find_unit(duration_units, N_DURATION_UNITS, at, length);
		if (!unit)
			return refuse_duration_unit(text, at, length, why);
		if (unit->factor >= last_factor)
			return refuse(
				why, "%s: units go from large to small, each once, as in 1m30s", fault_quote(text));
		if (__builtin_mul_overflow(value, unit->factor, &value) || __builtin_add_overflow(total, value, &total))
			return refuse(why, "%s is too large", fault_quote(text));
		last_factor = unit->factor;
		at += length;
	}
	*ms = total;
	return true;
}

/* "64k", "64Kb", "64kib": what was meant is plain, but not whether 1000 or 1024. */
static bool refuse_size_unit(const char *text, int64_t value, const char *unit, char *why)
{
	char first = (char)toupper((unsigned char)unit[0]);

	if (*unit == '.')
		return refuse(why, "%s: no fractions: write 1.5MiB as 1536KiB", fault_quote(text));
	if (strchr("KMG", first))
		return refuse(why, "%s: write %lld%ciB (1024) or %lld%cB (1000)", fault_quote(text), (long long)value,
			first, (long long)value, first);
	return refuse(
		why, "%s is not a size: the units are KiB MiB GiB, KB MB GB, or none for bytes", fault_quote(text));
}

bool units_parse_size(const char *text, int64_t *bytes, char why[static UNITS_WHY_BYTES])
{
	const char *at = text;
	const struct unit *unit;
	int64_t value;

	if (refuse_number_traps(text, why))
		return false;
	if (text[0] < '0' || text[0] > '9')
		return refuse(why, "%s is not a size: write for example 64KiB, 10MB or 4096", fault_quote(text));
	if (!take_digits(&at, &value))
		return refuse(why, "%s is too large", fault_quote(text));
	unit = find_unit(size_units, N_SIZE_UNITS, at, strlen(at));
	if (*at && !unit)
		return refuse_size_unit(text, value, at, why);
	if (unit && __builtin_mul_overflow(value, unit->factor, &value))
		return refuse(why, "%s is too large", fault_quote(text));
	*bytes = value;
	return true;
}

bool units_parse_number(const char *text, double *number, char why[static UNITS_WHY_BYTES])
{
	if (refuse_number_traps(text, why))
		return false;
	if (!is_decimal(text) || strlen(text) > 24)
		return refuse(why, "%s is not a number: write for example 2 or 1.5", fault_quote(text));
	*number = strtod(text, NULL);
	return true;
}

bool units_parse_ratio(const char *text, double *ratio, char why[static UNITS_WHY_BYTES])
{
	size_t length = strlen(text);
	char number[32];
	double value;
	bool is_percent = length > 0 && text[length - 1] == '%';

	if (refuse_number_traps(text, why))
		return false;
	if (is_percent)
		length--;
	if (length >= sizeof(number))
		return refuse(why, "%s is not a ratio: write for example 20%% or 0.2", fault_quote(text));
	memcpy(number, text, length);
	number[length] = '\0';
	if (!is_decimal(number))
		return refuse(why, "%s is not a ratio: write for example 20%% or 0.2", fault_quote(text));
	value = strtod(number, NULL) / (is_percent ? 100 : 1);
	if (value > 1 && !is_percent && value <= 100)
		return refuse(why, "%s is over 1: did you mean %s%%?", fault_quote(text), text);
	if (value > 1)
		return refuse(why, "%s is over 100%%", fault_quote(text));
	*ratio = value;
	return true;
}

bool units_parse_count(const char *text, int64_t *n, char why[static UNITS_WHY_BYTES])
{
	const char *at = text;
	int64_t value;

	if (refuse_number_traps(text, why))
		return false;
	if (is_digits(text, strlen(text))) {
		if (!take_digits(&at, &value))
			return refuse(why, "%s is too large", fault_quote(text));
		*n = value;
		return true;
	}
	if (is_decimal(text))
		return refuse(why, "%s is not a whole number", fault_quote(text));
	return refuse(why, "%s is not a number", fault_quote(text));
}

const char *units_format_duration(int64_t ms, char out[static UNITS_TEXT_BYTES])
{
	char *at = out;

	if (ms < 0)
		return strcpy(out, "off");
	if (ms == 0)
		return strcpy(out, "0s");
	if (ms < 120000) {
		sprintf(out, ms % 1000 ? "%lldms" : "%llds", (long long)(ms % 1000 ? ms : ms / 1000));
		return out;
	}
	for (size_t i = 0; i < N_DURATION_UNITS; i++) {
		int64_t count = ms / duration_units[i].factor;

		if (count)
			at += sprintf(at, "%lld%s", (long long)count, duration_units[i].name);
		ms %= duration_units[i].factor;
	}
	return out;
}

const char *units_format_size(int64_t bytes, char out[static UNITS_TEXT_BYTES])
{
	if (bytes < 0)
		return strcpy(out, "off");
	for (size_t i = 0; i < N_SIZE_UNITS; i++) {
		if (bytes > 0 && size_units[i].factor > 1 && bytes % size_units[i].factor == 0) {
			sprintf(out, "%lld%s", (long long)(bytes / size_units[i].factor), size_units[i].name);
			return out;
		}
	}
	sprintf(out, "%lld", (long long)bytes);
	return out;
}

const char *units_format_number(double number, char out[static UNITS_TEXT_BYTES])
{
	char *end;

	snprintf(out, UNITS_TEXT_BYTES, "%.9f", number);
	end = out + strlen(out);
	while (end[-1] == '0')
		*--end = '\0';
	if (end[-1] == '.')
		end[-1] = '\0';
	return out;
}

const char *units_format_ratio(double ratio, char out[static UNITS_TEXT_BYTES])
{
	if (ratio < 0)
		return strcpy(out, "off");
	units_format_number(round(ratio * 1e11) / 1e9, out);
	return strcat(out, "%");
}

const char *units_format_count(int64_t n, char out[static UNITS_TEXT_BYTES])
{
	if (n < 0)
		return strcpy(out, "off");
	sprintf(out, "%lld", (long long)n);
	return out;
}
