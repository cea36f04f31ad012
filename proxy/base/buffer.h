/*
 * A FIFO of bytes in one flat piece: append at the end, consume from the start. Memory is given back as soon as
 * it is empty (buffer_consume frees), so that an idle connection holds none.
 */
#ifndef EVENKEEL_BASE_BUFFER_H
#define EVENKEEL_BASE_BUFFER_H

#include <stdarg.h>
#include <stddef.h>

#include "slice.h"

struct buffer {
	char *data; /* owns; NULL when capacity is 0 */
	size_t start, end, capacity;
};

static inline size_t buffer_length(const struct buffer *buffer) { return buffer->end - buffer->start; }
static inline const char *buffer_start(const struct buffer *buffer) { return buffer->data + buffer->start; }
static inline struct slice buffer_slice(const struct buffer *buffer)
{
	return (struct slice){ buffer->data ? buffer->data + buffer->start : "", buffer_length(buffer) };
}

/* Room for at least n more bytes at the end; returns where to write them, then buffer_grow(n) claims them. */
char *buffer_reserve(struct buffer *buffer, size_t n);
void buffer_grow(struct buffer *buffer, size_t n);

void buffer_append(struct buffer *buffer, const void *bytes, size_t n);
static inline void buffer_append_slice(struct buffer *buffer, struct slice s)
{
	buffer_append(buffer, s.data, s.length);
}
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments);

/* Drops n bytes from the start; frees the memory when nothing is left. */
void buffer_consume(struct buffer *buffer, size_t n);

/* Empties without freeing (for scratch buffers that are filled again at once). */
void buffer_reset(struct buffer *buffer);

/* Empties and frees. */
void buffer_clear(struct buffer *buffer);

#endif
