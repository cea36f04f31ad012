#include "check.h"

#include <string.h>

#include "faults.h"
#include "yaml_hints.h"

#define MAX_SHOWN_COLUMNS 120

static const char *severity_word(const struct fault *fault)
{
	return fault->severity == FAULT_ERROR ? "error" : "warning";
}

void check_print_fault(FILE *out, const struct fault *fault)
{
	if (fault->line == 0)
		fprintf(out, "%s: %s: %s", fault->file ? fault->file : "", severity_word(fault), fault->message);
	else
		fprintf(out, "%s:%u:%u: %s: %s", fault->file, fault->line, fault->column, severity_word(fault),
			fault->message);
}

/* The start of column `column` (1-based, counted in characters), not past the end. */
static const char *at_column(const char *line, size_t length, unsigned column)
{
	const char *at = line, *end = line + length;

	while (at < end && --column > 0)
		do
			at++;
		while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
	return at;
}

/* Prints the stretch of the line around column; returns the column of its first character. */
static unsigned print_line(FILE *out, const char *line, size_t length, unsigned column)
{
	unsigned first = column > MAX_SHOWN_COLUMNS - 20 ? column - (MAX_SHOWN_COLUMNS - 20) : 1;
	const char *from = at_column(line, length, first);
	const char *to = at_column(line, length, first + MAX_SHOWN_COLUMNS);

	if (from > line)
		fputs("...", out);
	while (from < to) {
		size_t n = yaml_utf8_length((const unsigned char *)from, (size_t)(to - from));

		if (n == 0 || ((unsigned char)*from < 0x20 && *from != '\t') || *from == 0x7f)
			fputc('?', out);
		else
			fwrite(from, 1, n, out);
		from += n ? n : 1;
	}
	if (to < line + length)
		fputs("...", out);
	fputc('\n', out);
	return first;
}

static void print_caret(FILE *out, const char *line, size_t length, unsigned first, unsigned column)
{
	const char *at = at_column(line, length, first), *to = at_column(line, length, column);

	fputs("      | ", out);
	if (at > line)
		fputs("   ", out);
	for (; at < to; at++)
		if (((unsigned char)*at & 0xc0) != 0x80)
			fputc(*at == '\t' ? '\t' : ' ', out);
	fputs("^\n", out);
}

/* Faults come sorted by line, so lines are looked for onwards from the last one; a step back begins anew. */
struct line_finder {
	const struct fault_list *faults;
	unsigned number;
	const char *at; /* where that line begins; NULL: nothing found yet */
	size_t length;
};

/* Sets length to that of the line which begins at `at`, its end not counted. */
static void measure_line(struct line_finder *finder)
{
	const char *end = finder->faults->text + finder->faults->text_length;
	const char *stop = memchr(finder->at, '\n', (size_t)(end - finder->at));

	finder->length = (size_t)((stop ? stop : end) - finder->at);
}

/* False when there is no such line. */
static bool find_line(struct line_finder *finder, unsigned number)
{
	const char *end = finder->faults->text + finder->faults->text_length;

	if (!finder->faults->text)
		return false;
	if (!finder->at || number < finder->number) {
		finder->at = finder->faults->text;
		finder->number = 1;
		measure_line(finder);
	}
	for (; finder->number < number; finder->number++) {
		if (finder->at + finder->length == end)
			return false;
		finder->at += finder->length + 1;
		measure_line(finder);
	}
	return true;
}

#define MAX_SHOWN_LINE_BYTES 8192 /* a longer line was written by a tool; the column alone tells where */

static void print_place(FILE *out, struct line_finder *finder, unsigned number, unsigned column)
{
	size_t length = find_line(finder, number) ? finder->length : 0;
	unsigned first;

	if (length && finder->at[length - 1] == '\r')
		length--;
	if (length == 0 || length > MAX_SHOWN_LINE_BYTES)
		return;
	fprintf(out, "%5u | ", number);
	first = print_line(out, finder->at, length, column);
	if (column)
		print_caret(out, finder->at, length, first, column);
}

/* Does not begin with the file's name, so that a tool takes it for no fault. */
static void print_summary(FILE *out, const struct fault_list *faults)
{
	const char *file = faults->file ? faults->file : "the built-in policy";
	const char *errors = faults->n_errors == 1 ? "" : "s", *warnings = faults->n_warnings == 1 ? "" : "s";

	if (faults->n_errors && faults->n_warnings)
		fprintf(out, "%zu error%s and %zu warning%s in %s\n", faults->n_errors, errors, faults->n_warnings,
			warnings, file);
	else if (faults->n_errors)
		fprintf(out, "%zu error%s in %s\n", faults->n_errors, errors, file);
	else if (faults->n_warnings)
		fprintf(out, "%s is good, with %zu warning%s\n", file, faults->n_warnings, warnings);
	else
		fprintf(out, "%s is good\n", file);
}

static void print_text(FILE *out, const struct fault_list *faults)
{
	struct line_finder finder = {faults, 0, NULL, 0}, related = {faults, 0, NULL, 0};

	for (size_t i = 0; i < faults->n; i++) {
		const struct fault *fault = &faults->items[i];

		check_print_fault(out, fault);
		fputc('\n', out);
		if (fault->line == 0)
			continue;
		if (fault->related_line && fault->related_line < fault->line)
			print_place(out, &related, fault->related_line, 0);
		print_place(out, &finder, fault->line, fault->column);
		if (fault->related_line > fault->line)
			print_place(out, &related, fault->related_line, 0);
	}
	print_summary(out, faults);
}

void check_print_json_string(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	fputc('"', out);
	while (*at) {
		size_t n = yaml_utf8_length(at, strlen((const char *)at) < 4 ? strlen((const char *)at) : 4);

		if (n == 0) {
			fputs("\\ufffd", out);
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else if (*at < 0x20 || *at == 0x7f)
			fprintf(out, "\\u%04x", *at);
		else
			fwrite(at, 1, n, out);
		at += n;
	}
	fputc('"', out);
}

static void print_json_fault(FILE *out, const struct fault *fault)
{
	fprintf(out, "{\"severity\":\"%s\"", severity_word(fault));
	if (fault->line)
		fprintf(out, ",\"line\":%u,\"column\":%u", fault->line, fault->column);
	fputs(",\"message\":", out);
	check_print_json_string(out, fault->message);
	if (fault->related_line)
		fprintf(out, ",\"related_line\":%u", fault->related_line);
	fputc('}', out);
}

static void print_json(FILE *out, const struct fault_list *faults)
{
	fputs("{\"file\":", out);
	check_print_json_string(out, faults->file ? faults->file : "");
	fprintf(out, ",\"errors\":%zu,\"warnings\":%zu,\"faults\":[", faults->n_errors, faults->n_warnings);
	for (size_t i = 0; i < faults->n; i++) {
		fputs(i ? "," : "", out);
		print_json_fault(out, &faults->items[i]);
	}
	fputs("]}\n", out);
}

void check_print(FILE *out, const struct fault_list *faults, bool as_json)
{
	if (as_json)
		print_json(out, faults);
	else
		print_text(out, faults);
}
