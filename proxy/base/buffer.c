#include "buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define BUFFER_MIN_CAPACITY 512

/* Moving the bytes down costs less than what was consumed before, so appending stays linear over a buffer's life. */
static bool is_worth_moving(const struct buffer *buffer, size_t n)
{
	size_t length = buffer_length(buffer);

	return buffer->start >= length && buffer->capacity - length >= n;
}

char *buffer_reserve(struct buffer *buffer, size_t n)
{
	size_t length = buffer_length(buffer);

	if (buffer->capacity - buffer->end >= n && buffer->data)
		return buffer->data + buffer->end;
	if (buffer->data && is_worth_moving(buffer, n)) {
		memmove(buffer->data, buffer->data + buffer->start, length);
	} else {
		CHECK(n <= SIZE_MAX / 4 && length <= SIZE_MAX / 4);
		size_t capacity = length + n;
		if (capacity < length * 2)
			capacity = length * 2;
		if (capacity < BUFFER_MIN_CAPACITY)
			capacity = BUFFER_MIN_CAPACITY;
		char *data = xmalloc(capacity);
		if (length > 0)
			memcpy(data, buffer->data + buffer->start, length);
		free(buffer->data);
		buffer->data = data;
		buffer->capacity = capacity;
	}
	buffer->start = 0;
	buffer->end = length;
	return buffer->data + buffer->end;
}

void buffer_grow(struct buffer *buffer, size_t n)
{
	CHECK(n <= buffer->capacity - buffer->end);
	buffer->end += n;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	memcpy(buffer_reserve(buffer, n), bytes, n);
	buffer->end += n;
}

void buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
{
	va_list again;
	char *place = buffer_reserve(buffer, 128);
	size_t room = buffer->capacity - buffer->end;

	va_copy(again, arguments);
	int n = vsnprintf(place, room, format, arguments);
	CHECK(n >= 0);
	if ((size_t)n >= room) {
		place = buffer_reserve(buffer, (size_t)n + 1);
		vsnprintf(place, (size_t)n + 1, format, again);
	}
	va_end(again);
	buffer->end += (size_t)n;
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	buffer_vprintf(buffer, format, arguments);
	va_end(arguments);
}

void buffer_consume(struct buffer *buffer, size_t n)
{
	CHECK(n <= buffer_length(buffer));
	buffer->start += n;
	if (buffer->start == buffer->end)
		buffer_clear(buffer);
}

void buffer_reset(struct buffer *buffer)
{
	buffer->start = buffer->end = 0;
}

void buffer_clear(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){ 0 };
}
