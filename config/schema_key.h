/* What schema.c, which prints maps of keys, asks of schema_key.c, which prints one key. For these two only. */
#ifndef EVENKEEL_CONFIG_SCHEMA_KEY_H
#define EVENKEEL_CONFIG_SCHEMA_KEY_H

#include <stdio.h>

#include "keys.h"

/* The alternative that any scalar has: ${NAME}. */
#define SCHEMA_ENVIRONMENT "{\"$ref\":\"#/$defs/environment\"}"

void schema_print_leaf(FILE *out, const struct key *key); /* an object: a key that holds no keys of its own */

/* Members of an object: `"name":"text"`, `"description":...`, and `,"default":...` (nothing for a key without one). */
void schema_print_member(FILE *out, const char *name, const char *text);
void schema_print_description(FILE *out, const struct key *key);
void schema_print_default(FILE *out, const struct key *key);

#endif
