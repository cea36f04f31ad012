/* The bytes of a policy file, from wherever they come, bounded in size and time. */
#ifndef EVENKEEL_CONFIG_SOURCE_H
#define EVENKEEL_CONFIG_SOURCE_H

#include "faults.h"

/*
 * Reads path whole. Returns the bytes (malloc'd, NUL behind them) and their number, or NULL with one fault that has no
 * line. A pipe is read until its end as long as something comes every few seconds; devices without end meet the bound.
 */
char *source_read(const char *path, size_t *length, struct fault_list *faults);

#endif
