/*
 * The second look: llhttp over a whole head that passed our own checks. Two independent parsers that must agree on
 * where the head ends, how many fields it has and how its body is framed leave no room for smuggling by one's mistake.
 */
#ifndef EVENKEEL_HTTP_SECOND_LOOK_H
#define EVENKEEL_HTTP_SECOND_LOOK_H

#include <stdint.h>

#include "head.h"

struct second_look {
	bool is_response;
	bool has_length, is_chunked; /* what the first look found */
	uint64_t content_length;
	int status;                  /* responses */
};

/* NULL when llhttp agrees, or what it says is wrong (static text). *is_unknown_method: it doesn't know the method. */
const char *second_look_at_head(const struct head *head, const struct second_look *first, bool *is_unknown_method);

#endif
