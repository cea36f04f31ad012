/* What libyaml says about broken YAML, in words that name the mend. */
#ifndef EVENKEEL_CONFIG_YAML_HINTS_H
#define EVENKEEL_CONFIG_YAML_HINTS_H

#include "arena.h"
#include "faults.h"

/* problem and context are libyaml's; place is where. Returns the message (in the arena, or static). */
const char *yaml_hint(struct arena *arena, const char *problem, const char *context, const char *text, size_t length,
		      const struct place *place);

/*
 * The text is checked before libyaml sees it, since it has no place for what isn't text: NUL, control characters,
 * bytes that aren't UTF-8. Returns true when all is well, else adds one fault.
 */
bool yaml_check_bytes(const char *text, size_t length, struct fault_list *faults);

/* Length of the UTF-8 sequence (RFC 3629) at c, of which `left` bytes are there; 0 when it is none. */
size_t yaml_utf8_length(const unsigned char *c, size_t left);
size_t yaml_utf8_decode(const unsigned char *c, size_t left, unsigned *code); /* the same, and the code point */
bool yaml_is_printable(unsigned code); /* may stand in YAML unescaped */

#endif
