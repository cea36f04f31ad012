/* A config back to YAML. */
#ifndef EVENKEEL_CONFIG_DUMP_H
#define EVENKEEL_CONFIG_DUMP_H

#include <stdio.h>

#include "load.h"

/*
 * The effective policies: every key of every scope with its value, inherited or not, each followed by a comment that
 * says where it was set (`# line 12`) unless it is built-in. Values of header fields that look like credentials are
 * "(hidden)"; but for those the text is a policy file that loads to the same policies.
 */
void config_dump_yaml(FILE *out, const struct config *config);

#endif
