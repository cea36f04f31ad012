/*
 * config_load: from a policy file to an immutable snapshot, or to the list of everything that is wrong with it.
 *
 * "Parse all, judge all, then swap": a config is either complete and valid or it isn't made. It is shared by
 * reference count; single-threaded, so the count needs no lock. Whoever looks a policy up in it and keeps the
 * pointer takes a reference for as long as it keeps it.
 */
#ifndef EVENKEEL_CONFIG_LOAD_H
#define EVENKEEL_CONFIG_LOAD_H

#include "policy.h"

enum fault_severity { FAULT_ERROR, FAULT_WARNING };

struct fault {
	enum fault_severity severity;
	const char *file; /* borrowed from the fault list */
	unsigned line, column; /* 1-based; 0: the fault has no place (unreadable file) */
	char *message;     /* one line: the faulty text, what is expected, the mend */
	unsigned related_line; /* 0, or the second line that a contradiction involves */
};

struct fault_list {
	struct fault *items;
	size_t n, capacity;
	size_t n_errors, n_warnings;
	char *file; /* a list holds the faults of one file: loading into it again empties it first */
	char *text; /* the file's bytes, for showing the faulty line; may be NULL */
	size_t text_length;
};

void fault_list_init(struct fault_list *faults);
void fault_list_clear(struct fault_list *faults);

struct config {
	unsigned references;
	const char *path; /* NULL: built-in defaults */
	struct global_rule global;
	struct policy defaults;
	struct upstream_def *upstreams; /* in file order */
	size_t n_upstreams;
	/* The upstream that unmatched hosts get: name "default", policy = defaults, tls built-in. */
	struct upstream_def unmatched;
	struct config_private *private; /* owns: arena, provenance, match index */
};

/*
 * Reads, validates and merges PATH (NULL: the built-in defaults, which can't fail).
 * Returns a config with one reference, or NULL when there is at least one error. Warnings do not fail it.
 * Every fault found is appended to faults, sorted by line.
 */
struct config *config_load(const char *path, struct fault_list *faults);

/* The same from memory; NAME stands in for the file's name in faults. For tests and fuzzing. */
struct config *config_load_text(const char *name, const char *text, size_t length, struct fault_list *faults);

/*
 * A fault of a loaded config that only its user can find, such as a certificate that can't be read: an error more in
 * faults, which are those of its config_load, at the place of that key of the upstream (or of the upstream itself when
 * the file doesn't set it), sorted in.
 */
void config_add_fault(const struct config *config, const struct upstream_def *upstream, const char *key_path,
		      const char *message, struct fault_list *faults);

/*
 * Where an effective value came from: the line of the policy file that set it, in whichever scope that was; 0: built
 * in. owner is the struct that holds the value: &config->global, a struct policy of this config, an upstream or a
 * route.
 */
struct key; /* a row of the key table, keys.h */
struct config_origin {
	unsigned line;
};
struct config_origin config_origin(const struct config *config, const void *owner, const struct key *key);

struct config *config_ref(struct config *config);
void config_unref(struct config **config); /* nulls the pointer */

#endif
