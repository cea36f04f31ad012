#include "suggest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define MAX_WORD 48

static int fold(char c)
{
	return c == '-' ? '_' : tolower((unsigned char)c);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t edit_distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	size_t rows[3][MAX_WORD + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];

	if (n > MAX_WORD || m > MAX_WORD)
		return (size_t)-1;
	for (size_t j = 0; j <= m; j++)
		last[j] = before[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t replaced = last[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));

			row[j] = least(replaced, least(last[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = spare;
	}
	return last[m];
}

/* "warning" for "warn", "attempts" for "attempt": one begins with the other, which has three letters at least. */
static bool is_beginning(const char *a, const char *b)
{
	size_t n = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

	return n >= 3 && strncasecmp(a, b, n) == 0;
}

void suggestion_consider(struct suggestion *suggestion, const char *candidate)
{
	size_t longer = strlen(candidate) > strlen(suggestion->wrong) ? strlen(candidate) : strlen(suggestion->wrong);
	size_t distance = edit_distance(suggestion->wrong, candidate);

	if (distance == (size_t)-1 || distance >= suggestion->distance || isdigit((unsigned char)candidate[0]))
		return;
	if (distance > longer / 3 && !is_beginning(suggestion->wrong, candidate))
		return;
	suggestion->best = candidate;
	suggestion->distance = distance;
}
