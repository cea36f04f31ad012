/* JSON text into a buffer: for error bodies and admin answers. */
#ifndef EVENKEEL_BASE_JSON_H
#define EVENKEEL_BASE_JSON_H

#include <stdint.h>

#include "buffer.h"

/* The value in quotes, escaped; bad UTF-8 becomes U+FFFD. */
void json_string(struct buffer *out, struct slice value);

/* A member, preceded by a comma unless it is the first behind '{'. value NULL: null. */
void json_member_string(struct buffer *out, const char *name, const char *value);
void json_member_slice(struct buffer *out, const char *name, struct slice value);
void json_member_integer(struct buffer *out, const char *name, int64_t value);

#endif
