#include "yaml_hints.h"

#include <string.h>

struct line {
	const char *at;
	size_t length;
};

/* Without its end; empty when there is no such line. */
static struct line find_line(const char *text, size_t length, unsigned number)
{
	const char *at = text, *end = text + length, *stop;

	while (number > 1) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			return (struct line){text, 0};
		at++;
		number--;
	}
	stop = memchr(at, '\n', (size_t)(end - at));
	return (struct line){at, (size_t)((stop ? stop : end) - at)};
}

/* The byte at a column, which libyaml counts in characters. */
static const char *find_column(struct line line, unsigned column)
{
	const char *at = line.at, *end = line.at + line.length;

	while (at < end && --column > 0)
		do
			at++;
		while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
	return at;
}

static bool line_has(struct line line, const char *what)
{
	return line.length && memmem(line.at, line.length, what, strlen(what));
}

static bool is_indented_by_tab(struct line line)
{
	size_t blanks = 0;

	while (blanks < line.length && (line.at[blanks] == ' ' || line.at[blanks] == '\t'))
		blanks++;
	return blanks && memchr(line.at, '\t', blanks);
}

static const char *hint_bad_start(struct arena *arena, struct line line, const struct place *place)
{
	const char *at = find_column(line, place->column);

	if (at < line.at + line.length && *at == '\t')
		return "a tab can't indent YAML: use spaces";
	if (at < line.at + line.length && strchr("@`%", *at))
		return arena_printf(arena, "a value can't begin with %c unless it is quoted", *at);
	return NULL;
}

static const char *hint_alias(struct line line, const struct place *place)
{
	const char *at = find_column(line, place->column);

	while (at > line.at && *at != '*' && *at != '&')
		at--;
	return at < line.at + line.length && *at == '&'
		       ? "an unquoted & begins an anchor: quote the value"
		       : "an unquoted * begins an alias: quote the value, as in \"*.example.com\"";
}

/* What is surely meant; NULL when that can't be told. */
static const char *certain_hint(
	struct arena *arena, const char *problem, const char *context, struct line line, const struct place *place)
{
	if (is_indented_by_tab(line))
		return "a tab can't indent YAML: use spaces";
	if (strstr(problem, "cannot start any token"))
		return hint_bad_start(arena, line, place);
	if (strstr(problem, "alphabetic or numeric") && context &&
		(strstr(context, "alias") || strstr(context, "anchor")))
		return hint_alias(line, place);
	if (context && strstr(context, "quoted scalar") && strstr(problem, "end of stream"))
		return "this quote is not closed";
	return NULL;
}

static const char *likely_hint(const char *problem, const char *context, struct line line)
{
	if (line_has(line, "${"))
		return "quote ${...} inside {} and []";
	if (line_has(line, "[::") || line_has(line, "]:"))
		return "an address that begins with [ must be quoted, as in \"[::1]:3128\"";
	if (strstr(problem, "mapping values are not allowed"))
		return "a second \": \" on one line, or an indentation that doesn't fit; quote the value if it is one "
		       "text";
	if (strstr(problem, "could not find expected ':'"))
		return "\": \" is missing after a key, or a line is not indented as it should be";
	if (strstr(problem, "did not find expected key") || strstr(problem, "<block end>"))
		return "the indentation doesn't fit the lines above";
	if (context && strstr(context, "flow"))
		return "a [ or { is not closed, or a comma is missing";
	return NULL;
}

const char *yaml_hint(struct arena *arena, const char *problem, const char *context, const char *text, size_t length,
	const struct place *place)
{
	struct line line = find_line(text, length, place->line);
	const char *hint = certain_hint(arena, problem, context, line, place);

	if (hint)
		return hint;
	hint = likely_hint(problem, context, line);
	if (hint)
		return arena_printf(arena, "not YAML: %s: %s", problem, hint);
	return context ? arena_printf(arena, "not YAML: %s (%s)", problem, context)
		       : arena_printf(arena, "not YAML: %s", problem);
}

size_t yaml_utf8_length(const unsigned char *c, size_t left)
{
	unsigned code;

	return yaml_utf8_decode(c, left, &code);
}

size_t yaml_utf8_decode(const unsigned char *c, size_t left, unsigned *code)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length = c[0] < 0x80             ? 1
			: (c[0] & 0xe0) == 0xc0 ? 2
			: (c[0] & 0xf0) == 0xe0 ? 3
			: (c[0] & 0xf8) == 0xf0 ? 4
						: 0;

	if (length == 0 || length > left)
		return 0;
	*code = length == 1 ? c[0] : c[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (c[i] & 0x3fu);
	}
	if (*code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return length;
}

/* YAML 1.1, 5.1: what may stand in a file as it is. */
bool yaml_is_printable(unsigned code)
{
	if (code < 0xa0)
		return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code < 0x7f) || code == 0x85;
	return code != 0xfeff && code != 0xfffe && code != 0xffff;
}

bool yaml_check_bytes(const char *text, size_t length, struct fault_list *faults)
{
	const unsigned char *at = (const unsigned char *)text, *end = at + length;
	struct place place = {1, 1, 0};

	if (length >= 2 && ((at[0] == 0xff && at[1] == 0xfe) || (at[0] == 0xfe && at[1] == 0xff))) {
		fault_add(faults, FAULT_ERROR, place, "the file is UTF-16: save it as UTF-8");
		return false;
	}
	while (at < end) {
		unsigned code = 0;
		size_t n = yaml_utf8_decode(at, (size_t)(end - at), &code);

		if (n == 0) {
			fault_add(faults, FAULT_ERROR, place, "byte 0x%02x is not UTF-8: is this a text file?", *at);
			return false;
		}
		if (!yaml_is_printable(code)) {
			fault_add(faults, FAULT_ERROR, place, "control character U+%04X: is this a text file?", code);
			return false;
		}
		if (*at == '\n')
			place = (struct place){place.line + 1, 0, 0};
		place.column++;
		at += n;
	}
	return true;
}
