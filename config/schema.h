/* The JSON Schema (draft 2020-12) of the policy file, for editors: `evenkeel schema`. Made from the key table. */
#ifndef EVENKEEL_CONFIG_SCHEMA_H
#define EVENKEEL_CONFIG_SCHEMA_H

#include <stdio.h>

/*
 * Accepts every file that `check` accepts, as a YAML 1.1 or 1.2 reader hands it over (on and off may have become true
 * and false, digits numbers, merge keys resolved or not). Refuses what is wrong by form: unknown keys, wrong types,
 * units. Rules across keys are `check`'s alone.
 */
void schema_print(FILE *out);

#endif
