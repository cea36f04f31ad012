/* What a reload changed, key by key. */
#ifndef EVENKEEL_CONFIG_DIFF_H
#define EVENKEEL_CONFIG_DIFF_H

#include "load.h"

#define MAX_CHANGES 1000 /* more than that nobody reads */

enum change_kind { CHANGE_ADDED, CHANGE_REMOVED, CHANGE_CHANGED };

struct change {
	enum change_kind kind;
	char *scope;   /* "" for the top level, "defaults", "upstreams[NAME]", "upstreams[NAME].routes[TEXT]" */
	char *key;     /* "timeouts.total"; NULL when the whole upstream or route came or went */
	char *before;  /* canonical text; NULL when added or the whole thing changed */
	char *after;   /* NULL when removed */
};

struct change_list {
	struct change *items; /* owns */
	size_t n, capacity;
	size_t n_left_out; /* beyond MAX_CHANGES */
};

/*
 * Appends to changes (zeroed, or a list from before) what differs from before to after. Upstreams are paired by name,
 * routes by place. A value that an upstream or route merely inherits is reported where it was changed, not once more
 * for everyone who inherits it. Values that look like credentials are "(hidden)" on both sides.
 */
void config_diff(const struct config *before, const struct config *after, struct change_list *changes);
void change_list_clear(struct change_list *changes);

#endif
