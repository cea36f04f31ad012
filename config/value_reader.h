/* What the files that read values share: the value at hand, and the way to refuse it. For values*.c only. */
#ifndef EVENKEEL_CONFIG_VALUE_READER_H
#define EVENKEEL_CONFIG_VALUE_READER_H

#include "values.h"

struct reader {
	struct arena *arena;
	struct fault_list *faults;
	const struct key *key;
	const struct node *node;
	char *member; /* owner + offset */
};

/* value_faults.c. Each returns false: `return value_reject(...)`. The path of the key comes before the message. */
bool value_reject(const struct reader *reader, const struct node *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool value_reject_kind(const struct reader *reader, const struct node *node);
bool value_reject_word(const struct reader *reader, const struct node *node, const char *const *words,
		       const char *also);
#define REJECT(reader, ...) value_reject(reader, (reader)->node, __VA_ARGS__)

/* The text of a scalar that may be used; NULL after a fault. */
const char *value_scalar(const struct reader *reader, const struct node *node);

bool value_is_reserved_field(const char *name);                    /* framing and hop-by-hop header fields */
bool value_is_off(const char *text);                                /* "off", and what YAML 1.1 tools write for it */
int value_find_word(const char *const *words, const char *text);    /* its place, or -1 */
bool value_is_list(const struct reader *reader);                    /* false after a fault */
void value_store_array(const struct reader *reader, const void *items, size_t n); /* pointer and the size_t behind it */
bool value_read_port(const struct reader *reader, const struct node *node, uint16_t *port);

/* values_text.c */
bool value_read_text(const struct reader *reader);
bool value_read_texts(const struct reader *reader);

/* values_list.c */
bool value_read_ports(const struct reader *reader);
bool value_read_connect_ports(const struct reader *reader);
bool value_read_cidrs(const struct reader *reader);
bool value_read_retry_on(const struct reader *reader);
bool value_read_listen(const struct reader *reader);
bool value_read_admin(const struct reader *reader);
bool value_read_fields(const struct reader *reader);

#endif
