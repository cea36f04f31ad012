#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* dprintf and not the log: the log's own state may be what is broken. */
void check_failed(const char *condition, const char *file, int line, const char *function)
{
	dprintf(2, "evenkeel: %s:%d: %s: broken invariant: %s\n", file, line, function, condition);
	abort();
}

static void *have(void *memory, size_t size)
{
	if (memory)
		return memory;
	dprintf(2, "evenkeel: out of memory: %zu bytes can't be had; lower the limits in the policy file\n", size);
	exit(1);
}

void *xmalloc(size_t size)
{
	return have(malloc(size ? size : 1), size);
}

void *xcalloc(size_t n, size_t size)
{
	return have(calloc(n ? n : 1, size ? size : 1), n * size);
}

void *xrealloc(void *old, size_t size)
{
	return have(realloc(old, size ? size : 1), size);
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t length)
{
	size_t n = strnlen(text, length);
	char *copy = xmalloc(n + 1);

	memcpy(copy, text, n);
	copy[n] = '\0';
	return copy;
}
