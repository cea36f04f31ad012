/* "Did you mean": the known word that is nearest to a wrong one. */
#ifndef EVENKEEL_CONFIG_SUGGEST_H
#define EVENKEEL_CONFIG_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *wrong;
	const char *best; /* borrowed from what was considered; NULL: nothing is near enough */
	size_t distance;
};

static inline struct suggestion suggestion_for(const char *wrong)
{
	return (struct suggestion){ wrong, NULL, (size_t)-1 };
}

/* Keeps candidate when it is nearer than what was kept before, and near at all: a third of its letters may differ. */
void suggestion_consider(struct suggestion *suggestion, const char *candidate);

/* Edits (insert, delete, replace, swap neighbours) between two words, case and -/_ aside; (size_t)-1: too long. */
size_t edit_distance(const char *a, const char *b);

#endif
