#include "head.h"

#include <stdlib.h>

#include "../base/check.h"
#include "octet.h"

void head_init(struct head *head)
{
	head->raw = (struct buffer){0};
	head->fields = head->inline_fields;
	head->n_fields = 0;
	head->capacity = HEAD_INLINE_FIELDS;
}

void head_clear(struct head *head)
{
	if (head->fields != head->inline_fields)
		free(head->fields);
	buffer_clear(&head->raw);
	head_init(head);
}

static void head_grow(struct head *head)
{
	size_t capacity = head->capacity * 2;

	if (head->fields == head->inline_fields) {
		head->fields = xmalloc(capacity * sizeof(*head->fields));
		memcpy(head->fields, head->inline_fields, sizeof(head->inline_fields));
	} else {
		head->fields = xrealloc(head->fields, capacity * sizeof(*head->fields));
	}
	head->capacity = capacity;
}

void head_add_field(struct head *head, struct field field)
{
	if (head->n_fields == head->capacity)
		head_grow(head);
	head->fields[head->n_fields++] = field;
}

long head_find(const struct head *head, struct slice name, size_t from)
{
	for (size_t i = from; i < head->n_fields; i++)
		if (slice_equals_nocase(head_name(head, i), name))
			return (long)i;
	return -1;
}

struct slice head_get(const struct head *head, struct slice name)
{
	long i = head_find(head, name, 0);

	return i < 0 ? (struct slice){NULL, 0} : head_value(head, (size_t)i);
}

bool head_has_token(const struct head *head, struct slice name, struct slice token)
{
	for (long i = head_find(head, name, 0); i >= 0; i = head_find(head, name, (size_t)i + 1)) {
		struct slice list = head_value(head, (size_t)i), element;

		while (octets_next_element(&list, &element))
			if (slice_equals_nocase(element, token))
				return true;
	}
	return false;
}
