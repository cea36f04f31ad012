/* HTTP-date and Retry-After, by hand: strptime would follow the locale and forgive what the grammar doesn't. */
#include "backoff.h"

#define MAX_WAIT_MS (INT64_MAX / 4)

struct cursor {
	struct slice left;
	bool is_bad;
};

struct date {
	int64_t year;
	int month, day, hour, minute, second; /* month and day from 1 */
};

static void expect(struct cursor *at, const char *text)
{
	size_t length = strlen(text);

	if (at->is_bad || at->left.length < length || memcmp(at->left.data, text, length) != 0) {
		at->is_bad = true;
		return;
	}
	at->left = (struct slice){ at->left.data + length, at->left.length - length };
}

/* Exactly n digits. */
static int digits(struct cursor *at, size_t n)
{
	int value = 0;

	if (at->is_bad || at->left.length < n) {
		at->is_bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		char c = at->left.data[i];
		if (c < '0' || c > '9')
			at->is_bad = true;
		value = value * 10 + (c - '0');
	}
	at->left = (struct slice){ at->left.data + n, at->left.length - n };
	return at->is_bad ? 0 : value;
}

/* One of n names; its index. Case-sensitive, as RFC 9110 5.6.7 has it. */
static int one_of(struct cursor *at, const char *const *names, int n)
{
	for (int i = 0; i < n && !at->is_bad; i++) {
		size_t length = strlen(names[i]);
		if (at->left.length >= length && memcmp(at->left.data, names[i], length) == 0) {
			expect(at, names[i]);
			return i;
		}
	}
	at->is_bad = true;
	return 0;
}

static int month(struct cursor *at)
{
	static const char *const names[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

	return one_of(at, names, 12) + 1;
}

static void day_name(struct cursor *at)
{
	static const char *const names[] = { "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun" };

	one_of(at, names, 7);
}

static void time_of_day(struct cursor *at, struct date *date)
{
	date->hour = digits(at, 2);
	expect(at, ":");
	date->minute = digits(at, 2);
	expect(at, ":");
	date->second = digits(at, 2);
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* 60 is a leap second. The name of the day is not held against the date: the date is what counts. */
static bool is_possible(const struct date *date)
{
	static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int length = lengths[date->month - 1] + (date->month == 2 && is_leap(date->year));

	return date->day >= 1 && date->day <= length && date->hour <= 23 && date->minute <= 59 && date->second <= 60;
}

/* Days since 1970-01-01 in the Gregorian calendar; years count from March, so that the leap day comes last. */
static int64_t days_from_date(int64_t year, int month_of_year, int day)
{
	int64_t y = year - (month_of_year <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * (month_of_year + (month_of_year > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static int64_t date_to_ms(const struct date *date)
{
	int64_t seconds = days_from_date(date->year, date->month, date->day) * 86400 + date->hour * 3600 +
			  date->minute * 60 + date->second;

	return seconds * 1000;
}

/* The calendar year of an instant that isn't before 1970. */
static int64_t year_of_ms(int64_t ms)
{
	int64_t days = ms / 86400000, year = 1970 + days / 366; /* never too late, and early by little */

	while (days_from_date(year + 1, 1, 1) <= days)
		year++;
	return year;
}

/* The same month, day and time 50 calendar years later. */
static int64_t fifty_years_after_ms(int64_t ms)
{
	int64_t year = year_of_ms(ms), days = ms / 86400000;
	int month_of_year = 12;

	while (days_from_date(year, month_of_year, 1) > days)
		month_of_year--;
	int day = (int)(days - days_from_date(year, month_of_year, 1)) + 1;
	return days_from_date(year + 50, month_of_year, day) * 86400000 + ms % 86400000;
}

/*
 * RFC 9110 5.6.7: two digits that would lie more than 50 years ahead mean the past. The latest such year that isn't
 * too far ahead, so that shortly before a century's turn "00" is next year and not a century ago.
 */
static int64_t full_year(struct date date, int64_t now_wall_ms)
{
	int64_t now_ms = now_wall_ms > 0 ? now_wall_ms : 0, this_year = year_of_ms(now_ms);
	int64_t limit_ms = fifty_years_after_ms(now_ms);

	date.year += this_year - this_year % 100 + 100;
	while (date_to_ms(&date) > limit_ms)
		date.year -= 100;
	return date.year;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool imf_fixdate(struct slice value, struct date *date)
{
	struct cursor at = { value, false };

	day_name(&at);
	expect(&at, ", ");
	date->day = digits(&at, 2);
	expect(&at, " ");
	date->month = month(&at);
	expect(&at, " ");
	date->year = digits(&at, 4);
	expect(&at, " ");
	time_of_day(&at, date);
	expect(&at, " GMT");
	return !at.is_bad && at.left.length == 0;
}

/* Sunday, 06-Nov-94 08:49:37 GMT; the year is left at two digits */
static bool rfc850_date(struct slice value, struct date *date)
{
	static const char *const names[] = { "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday" };
	struct cursor at = { value, false };

	one_of(&at, names, 7);
	expect(&at, ", ");
	date->day = digits(&at, 2);
	expect(&at, "-");
	date->month = month(&at);
	expect(&at, "-");
	date->year = digits(&at, 2);
	expect(&at, " ");
	time_of_day(&at, date);
	expect(&at, " GMT");
	return !at.is_bad && at.left.length == 0;
}

/* Sun Nov  6 08:49:37 1994 */
static bool asctime_date(struct slice value, struct date *date)
{
	struct cursor at = { value, false };

	day_name(&at);
	expect(&at, " ");
	date->month = month(&at);
	expect(&at, " ");
	if (at.left.length > 0 && at.left.data[0] == ' ') {
		expect(&at, " ");
		date->day = digits(&at, 1);
	} else {
		date->day = digits(&at, 2);
	}
	expect(&at, " ");
	time_of_day(&at, date);
	expect(&at, " ");
	date->year = digits(&at, 4);
	return !at.is_bad && at.left.length == 0;
}

int64_t http_date_parse_ms(struct slice value, int64_t now_wall_ms)
{
	struct date date;

	value = slice_trim(value);
	if (imf_fixdate(value, &date) || asctime_date(value, &date)) {
		if (!is_possible(&date))
			return -1;
	} else if (rfc850_date(value, &date)) {
		date.year = full_year(date, now_wall_ms);
		if (!is_possible(&date))
			return -1;
	} else {
		return -1;
	}
	int64_t ms = date_to_ms(&date);
	return ms > 0 ? ms : 0;
}

/* All digits; saturates. -1: no number. */
static int64_t delta_seconds_ms(struct slice value)
{
	int64_t seconds = 0;

	if (value.length == 0)
		return -1;
	for (size_t i = 0; i < value.length; i++) {
		char c = value.data[i];
		if (c < '0' || c > '9')
			return -1;
		if (seconds <= MAX_WAIT_MS / 1000)
			seconds = seconds * 10 + (c - '0');
	}
	return seconds > MAX_WAIT_MS / 1000 ? MAX_WAIT_MS : seconds * 1000;
}

int64_t retry_after_parse_ms(struct slice value, int64_t now_wall_ms)
{
	value = slice_trim(value);
	int64_t wait_ms = delta_seconds_ms(value);
	if (wait_ms >= 0)
		return wait_ms;
	int64_t at_ms = http_date_parse_ms(value, now_wall_ms);
	if (at_ms < 0)
		return -1;
	return at_ms > now_wall_ms ? at_ms - now_wall_ms : 0;
}
