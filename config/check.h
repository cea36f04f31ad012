/* What `evenkeel check` prints: every fault with its line, for people or for tools. */
#ifndef EVENKEEL_CONFIG_CHECK_H
#define EVENKEEL_CONFIG_CHECK_H

#include <stdbool.h>
#include <stdio.h>

#include "load.h"

/*
 * Text: `FILE:LINE:COL: error|warning: message` for each fault, then the faulty line with a caret under the place, the
 * other line of a contradiction, and last one line that sums up. A fault without a place leaves LINE and COL out.
 * JSON: one object, {"file", "errors", "warnings", "faults": [{"severity", "line", "column", "message",
 * "related_line"}]}; line, column and related_line are left out where there is none.
 */
void check_print(FILE *out, const struct fault_list *faults, bool as_json);

/* `FILE:LINE:COL: error|warning: message`, without a line end: for logs and one-line errors. */
void check_print_fault(FILE *out, const struct fault *fault);

/* Text as a JSON string, quotes included; bytes that aren't UTF-8 become U+FFFD. */
void check_print_json_string(FILE *out, const char *text);

#endif
