/* `evenkeel init`: a policy file to start from. */
#ifndef EVENKEEL_INIT_H
#define EVENKEEL_INIT_H

#include <stdbool.h>
#include <stdio.h>

/*
 * Writes a small commented policy file that `check` accepts. from_env: with an entry for each host that an environment
 * variable named *_URL, *_URI or *_ENDPOINT points to, in the order of the variables' names; of their values nothing
 * but scheme, host and port is written.
 */
void init_print(FILE *out, bool from_env);

#endif
