/* ${NAME} and ${NAME:-fallback} in the values of a policy file. */
#ifndef EVENKEEL_CONFIG_ENVIRONMENT_H
#define EVENKEEL_CONFIG_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"

/*
 * Replaces the references in text. An empty variable counts as unset for `:-`; `$${` stands for `${` itself; what a
 * variable holds is not looked through again, so that it can't bring in references or YAML of its own.
 * Returns the result (text itself when there is nothing to replace), or NULL with the reason in *why (in the arena).
 */
const char *environment_expand(struct arena *arena, const char *text, const char **why);

#endif
