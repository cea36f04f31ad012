/* One walk over a head's index: where the fields are that rule framing and connections. */
#ifndef EVENKEEL_HTTP_KNOWN_FIELDS_H
#define EVENKEEL_HTTP_KNOWN_FIELDS_H

#include "field_kind.h"
#include "head.h"

struct known_fields {
	uint32_t n[FIELD_N_KINDS];     /* how many */
	uint32_t first[FIELD_N_KINDS]; /* index of the first; meaningless when there is none */
	bool says_close, says_keep_alive, says_upgrade; /* tokens of Connection */
};

void known_fields_find(struct known_fields *known, const struct head *head);

static inline struct slice known_field_value(const struct known_fields *known, const struct head *head,
					     enum field_kind kind)
{
	return known->n[kind] > 0 ? head_value(head, known->first[kind]) : (struct slice){ NULL, 0 };
}

/*
 * Content-Length and Transfer-Encoding, which must leave no doubt (RFC 9112 6.1, 6.3): both, more than one of either,
 * a length that isn't 1*DIGIT, a coding other than one "chunked", chunked in HTTP/1.0. NULL, or what is wrong.
 */
const char *known_fields_framing(const struct known_fields *known, const struct head *head, int minor_version,
				 bool *is_chunked, bool *has_length, uint64_t *content_length);

#endif
