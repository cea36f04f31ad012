/* How the rest of this room writes faults down. The list itself is public: load.h. */
#ifndef EVENKEEL_CONFIG_FAULTS_H
#define EVENKEEL_CONFIG_FAULTS_H

#include <stdarg.h>

#include "load.h"

/* A place in the file; line 0: none. related_line 0: none. */
struct place {
	unsigned line, column;
	unsigned related_line;
};

/* One fault more; what can't be printed in the message is escaped. */
void fault_add(struct fault_list *faults, enum fault_severity severity, struct place place, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void fault_vadd(struct fault_list *faults, enum fault_severity severity, struct place place, const char *format,
		va_list arguments) __attribute__((format(printf, 4, 0)));

/* By line, then column, errors first; a fault that was found twice (through an alias) stays once. */
void fault_list_sort(struct fault_list *faults);

/* Binds the list to one file: drops what it held before and copies the name and (when not NULL) the text. */
void fault_list_open(struct fault_list *faults, const char *file, const char *text, size_t length);

/*
 * text in double quotes, for a message: control characters escaped, cut to a readable length. Cycles through a few
 * static buffers, so that one message may hold several.
 */
const char *fault_quote(const char *text);
const char *fault_quote_n(const char *text, size_t length);

#endif
