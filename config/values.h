/* One value of the policy file into the struct member that its row of the key table names. */
#ifndef EVENKEEL_CONFIG_VALUES_H
#define EVENKEEL_CONFIG_VALUES_H

#include "document.h"
#include "keys.h"

/*
 * Reads node as key's type into owner (the struct of the row's scope). Strings and arrays go into the arena.
 * Returns true; or false, with a fault for each thing that is wrong, and the member as it was.
 */
bool value_read(struct arena *arena, struct fault_list *faults, const struct key *key, const struct node *node,
		void *owner);

/* What the type looks like, for "expected ...; found ..." and for docs: "a duration such as 250ms, 2s or 1m30s". */
const char *value_type_words(const struct key *key);

/* Characters of a token (RFC 9110 5.6.2), at least one. */
bool value_is_token(const char *text);

#endif
