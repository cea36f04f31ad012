/*
 * One message head, kept exactly as it came: the raw bytes, and an index of its fields as offsets into them.
 * Order, case, duplicates and odd spacing are thus kept by doing nothing.
 */
#ifndef EVENKEEL_HTTP_HEAD_H
#define EVENKEEL_HTTP_HEAD_H

#include <stdint.h>

#include "../base/buffer.h"
#include "../base/slice.h"

#define HEAD_INLINE_FIELDS 24

struct field {
	uint32_t name_at, name_length;   /* offsets into head.raw.data (raw.start is 0 while it is being read) */
	uint32_t value_at, value_length; /* without surrounding white space */
};

struct head {
	struct buffer raw;    /* owns: start line, field lines and the empty line */
	struct field *fields; /* inline_fields, or owned heap memory when there are more */
	size_t n_fields, capacity;
	struct field inline_fields[HEAD_INLINE_FIELDS];
};

void head_init(struct head *head);
void head_clear(struct head *head);
void head_add_field(struct head *head, struct field field);

static inline struct slice head_name(const struct head *head, size_t i)
{
	return (struct slice){ head->raw.data + head->fields[i].name_at, head->fields[i].name_length };
}

static inline struct slice head_value(const struct head *head, size_t i)
{
	return (struct slice){ head->raw.data + head->fields[i].value_at, head->fields[i].value_length };
}

/* Index of the first field of that name (case-insensitive) at or after `from`; -1: none. */
long head_find(const struct head *head, struct slice name, size_t from);
/* Value of the first such field; .data NULL when there is none. */
struct slice head_get(const struct head *head, struct slice name);
/* Does any such field's comma-separated list hold this token (case-insensitive)? */
bool head_has_token(const struct head *head, struct slice name, struct slice token);

#endif
