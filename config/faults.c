#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

#define MAX_QUOTED_BYTES 60
#define N_QUOTED 6

void fault_list_init(struct fault_list *faults)
{
	*faults = (struct fault_list){0};
}

void fault_list_clear(struct fault_list *faults)
{
	for (size_t i = 0; i < faults->n; i++)
		free(faults->items[i].message);
	free(faults->items);
	free(faults->file);
	free(faults->text);
	fault_list_init(faults);
}

void fault_list_open(struct fault_list *faults, const char *file, const char *text, size_t length)
{
	char *name = config_realloc(NULL, strlen(file) + 1), *copy = NULL;

	strcpy(name, file);
	if (text) {
		copy = config_realloc(NULL, length + 1);
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	fault_list_clear(faults);
	faults->file = name;
	faults->text = copy;
	faults->text_length = text ? length : 0;
}

void fault_vadd(struct fault_list *faults, enum fault_severity severity, struct place place, const char *format,
	va_list arguments)
{
	struct fault *fault;
	char *message;

	if (faults->n == faults->capacity) {
		faults->capacity = faults->capacity ? faults->capacity * 2 : 16;
		faults->items = config_realloc(faults->items, faults->capacity * sizeof(*faults->items));
	}
	if (vasprintf(&message, format, arguments) < 0) {
		message = config_realloc(NULL, 1);
		message[0] = '\0';
	}
	for (char *c = message; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?'; /* one line, whatever a library's message held */
	fault = &faults->items[faults->n++];
	*fault = (struct fault){.severity = severity,
		.file = faults->file,
		.line = place.line,
		.column = place.column,
		.message = message,
		.related_line = place.related_line};
	if (severity == FAULT_ERROR)
		faults->n_errors++;
	else
		faults->n_warnings++;
}

void fault_add(struct fault_list *faults, enum fault_severity severity, struct place place, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fault_vadd(faults, severity, place, format, arguments);
	va_end(arguments);
}

static int compare_unsigned(unsigned a, unsigned b)
{
	return a < b ? -1 : a > b;
}

static int compare_faults(const void *left, const void *right)
{
	const struct fault *a = left, *b = right;
	int order = compare_unsigned(a->line, b->line);

	if (order == 0)
		order = compare_unsigned(a->column, b->column);
	if (order == 0)
		order = compare_unsigned(a->severity, b->severity);
	return order ? order : strcmp(a->message, b->message);
}

void fault_list_sort(struct fault_list *faults)
{
	size_t kept = 0;

	if (faults->n == 0)
		return;
	qsort(faults->items, faults->n, sizeof(*faults->items), compare_faults);
	for (size_t i = 1; i < faults->n; i++) {
		if (compare_faults(&faults->items[kept], &faults->items[i]) != 0) {
			faults->items[++kept] = faults->items[i];
			continue;
		}
		if (faults->items[i].severity == FAULT_ERROR)
			faults->n_errors--;
		else
			faults->n_warnings--;
		free(faults->items[i].message);
	}
	faults->n = kept + 1;
}

/* Never in the middle of a UTF-8 sequence. */
static size_t cut_length(const char *text, size_t length)
{
	size_t cut = MAX_QUOTED_BYTES;

	if (length <= MAX_QUOTED_BYTES)
		return length;
	while (cut > 0 && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	return cut;
}

const char *fault_quote_n(const char *text, size_t length)
{
	static char buffers[N_QUOTED][MAX_QUOTED_BYTES * 4 + 8];
	static unsigned next;
	char *out = buffers[next++ % N_QUOTED], *at = out;
	size_t n = cut_length(text, length);

	*at++ = '"';
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n' || c == '\t')
			at += sprintf(at, "\\%c", c == '\n' ? 'n' : 't');
		else if (c < 0x20 || c == 0x7f)
			at += sprintf(at, "\\x%02x", c);
		else
			*at++ = (char)c;
	}
	if (n < length)
		at += sprintf(at, "...");
	*at++ = '"';
	*at = '\0';
	return out;
}

const char *fault_quote(const char *text)
{
	return fault_quote_n(text, strlen(text));
}
