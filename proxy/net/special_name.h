/*
 * Names that no name server is asked for: literals, localhost, .onion, and what can be no host name at all. Private to
 * this room; resolve.c is its one user.
 */
#ifndef EVENKEEL_NET_SPECIAL_NAME_H
#define EVENKEEL_NET_SPECIAL_NAME_H

#include "resolve.h"

/* name: lower case. True: it is one, *status is RESOLVE_OK or RESOLVE_NO_NAME, and *addresses the caller's
 * reference or NULL. */
bool special_name_find(const char *name, enum resolve_status *status, struct address_list **addresses);

#endif
