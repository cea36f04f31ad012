#include "arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES 16384
#define ARENA_ALIGNMENT _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

static void out_of_memory(void)
{
	fputs("evenkeel: out of memory while reading the policy file\n", stderr);
	abort();
}

void *config_realloc(void *old, size_t size)
{
	void *memory = realloc(old, size ? size : 1);

	if (!memory)
		out_of_memory();
	return memory;
}

static struct arena_block *add_block(struct arena *arena, size_t size)
{
	struct arena_block *block;

	if (size > SIZE_MAX - sizeof(*block))
		out_of_memory();
	block = config_realloc(NULL, sizeof(*block) + size);
	block->next = arena->blocks;
	block->used = 0;
	block->size = size;
	arena->blocks = block;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->blocks;
	void *memory;

	if (size > SIZE_MAX - ARENA_ALIGNMENT)
		out_of_memory();
	size = (size + ARENA_ALIGNMENT - 1) & ~(ARENA_ALIGNMENT - 1);
	if (!block || block->size - block->used < size)
		block = add_block(arena, size > ARENA_BLOCK_BYTES ? size : ARENA_BLOCK_BYTES);
	memory = block->bytes + block->used;
	block->used += size;
	memset(memory, 0, size);
	return memory;
}

char *arena_strndup(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_alloc(arena, length + 1);

	if (length)
		memcpy(copy, text, length);
	return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
	return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(struct arena *arena, const char *format, ...)
{
	va_list arguments, again;
	int length;
	char *text;

	va_start(arguments, format);
	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (length < 0)
		length = 0;
	text = arena_alloc(arena, (size_t)length + 1);
	vsnprintf(text, (size_t)length + 1, format, again);
	va_end(again);
	return text;
}

void arena_clear(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
}
