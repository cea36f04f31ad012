#include "environment.h"

#include <stdlib.h>
#include <string.h>

#include "faults.h"

#define MAX_EXPANDED_BYTES 65536

struct text {
	char *bytes;
	size_t length, capacity;
};

static bool append(struct text *out, const char *bytes, size_t n)
{
	if (out->length + n >= MAX_EXPANDED_BYTES)
		return false;
	if (out->length + n + 1 > out->capacity) {
		out->capacity = (out->length + n + 1) * 2;
		out->bytes = config_realloc(out->bytes, out->capacity);
	}
	memcpy(out->bytes + out->length, bytes, n);
	out->length += n;
	out->bytes[out->length] = '\0';
	return true;
}

static size_t name_length(const char *at)
{
	size_t n = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return at[0] >= '0' && at[0] <= '9' ? 0 : n;
}

/* *at stands on `${`; appends what it means and moves *at behind the `}`. */
static bool expand_one(struct arena *arena, const char **at, struct text *out, const char **why)
{
	const char *name_start = *at + 2, *end = strchr(*at, '}');
	size_t length = name_length(name_start);
	const char *after = name_start + length, *name, *value;
	bool has_fallback;

	if (!end) {
		*why = arena_printf(arena, "%s: the closing } is missing", fault_quote(*at));
		return false;
	}
	has_fallback = after[0] == ':' && after[1] == '-';
	if (length == 0 || (after != end && !has_fallback)) {
		*why = arena_printf(arena, "%s: only ${NAME} and ${NAME:-fallback} are read; $${ stands for ${ itself",
			fault_quote_n(*at, (size_t)(end + 1 - *at)));
		return false;
	}
	name = arena_strndup(arena, name_start, length);
	value = getenv(name);
	if (!value && !has_fallback) {
		*why = arena_printf(
			arena, "the environment variable %s is not set; ${%s:-fallback} would allow that", name, name);
		return false;
	}
	*at = end + 1;
	if (has_fallback && (!value || !*value))
		return append(out, after + 2, (size_t)(end - after - 2));
	return append(out, value, strlen(value));
}

const char *environment_expand(struct arena *arena, const char *text, const char **why)
{
	struct text out = {NULL, 0, 0};
	const char *at = text, *result = NULL;

	if (!strstr(text, "${"))
		return text;
	append(&out, "", 0);
	*why = "the value is too long once ${...} is replaced";
	while (*at) {
		size_t plain = strcspn(at, "$");
		bool is_good = append(&out, at, plain);

		at += plain;
		if (is_good && strncmp(at, "$${", 3) == 0) {
			is_good = append(&out, "${", 2);
			at += 3;
		} else if (is_good && strncmp(at, "${", 2) == 0) {
			is_good = expand_one(arena, &at, &out, why);
		} else if (is_good && *at == '$') {
			is_good = append(&out, at++, 1);
		}
		if (!is_good)
			goto out;
	}
	result = arena_strndup(arena, out.bytes, out.length);
out:
	free(out.bytes);
	return result;
}
