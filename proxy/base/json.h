/* JSON text into a buffer: for error bodies and admin answers. */
#ifndef EVENKEEL_BASE_JSON_H
#define EVENKEEL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "buffer.h"

/* The value in quotes, escaped; bad UTF-8 becomes U+FFFD. */
void json_string(struct buffer *out, struct slice value);

/* A member, preceded by a comma unless it is the first behind '{' or '['. value NULL: null. */
void json_member_string(struct buffer *out, const char *name, const char *value);
void json_member_slice(struct buffer *out, const char *name, struct slice value);
void json_member_integer(struct buffer *out, const char *name, int64_t value);
void json_member_limit(struct buffer *out, const char *name, int64_t value); /* below zero (LIMIT_OFF): null */
void json_member_bool(struct buffer *out, const char *name, bool value);
void json_member_ms(struct buffer *out, const char *name, int64_t elapsed_us); /* 1.234 */
void json_member_number(struct buffer *out, const char *name, double value);   /* four decimals at most; not finite: null */

/* bracket: '{' or '['. name NULL: an item of a list. Closed with '}' or ']'. */
void json_open(struct buffer *out, const char *name, char bracket);
void json_close(struct buffer *out, char bracket);
void json_item_slice(struct buffer *out, struct slice value); /* a string in a list */

#endif
