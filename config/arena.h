/*
 * Memory that is freed in one piece: a config, or the node tree of a document, is many small things with one life.
 * Memory that can't be had ends the process with one line: a policy file is bounded, so that can't be its fault.
 */
#ifndef EVENKEEL_CONFIG_ARENA_H
#define EVENKEEL_CONFIG_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_block *blocks; /* owns; the newest first */
};

void *arena_alloc(struct arena *arena, size_t size); /* zeroed, aligned for any type; never NULL */
char *arena_strndup(struct arena *arena, const char *text, size_t length);
char *arena_strdup(struct arena *arena, const char *text);
char *arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void arena_clear(struct arena *arena);

/* The heap for what grows in this room; never NULL. */
void *config_realloc(void *old, size_t size);

#endif
