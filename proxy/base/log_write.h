/*
 * The sink of the log: a bounded ring of finished lines in front of a descriptor that is never waited for.
 * Only log.c uses it.
 */
#ifndef EVENKEEL_BASE_LOG_WRITE_H
#define EVENKEEL_BASE_LOG_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_RING_BYTES (256 * 1024)

void log_sink_open(int fd);                        /* borrows fd; what is buffered for an earlier one is kept */
bool log_sink_has_room(size_t length);
void log_sink_append(const char *text, size_t length); /* there must be room */
bool log_sink_write(uint64_t *n_lost_lines);       /* true when nothing is left; adds lines lost to a dead reader */
void log_sink_wait(int64_t max_ms);                /* until the reader takes more, or max_ms */

#endif
