/* What a struct config owns beside what everyone may see. For the files of this room only. */
#ifndef EVENKEEL_CONFIG_PRIVATE_H
#define EVENKEEL_CONFIG_PRIVATE_H

#include "arena.h"
#include "document.h"
#include "keys.h"

/* Where in the file a key stands; line 0: nowhere, the value is built-in. */
struct spot {
	unsigned line, column;
};

/* Where the values of one struct come from: spots[key_index(key)], and where it begins itself. */
struct origins {
	const void *owner;
	const struct spot *spots;
	struct spot self;
	bool is_faulty; /* a route whose match could not be read: not to be held against others */
};

/* An entry of upstreams[].match.hosts. HOST_SUFFIX: text begins with the dot, ".pay.example" for "*.pay.example". */
enum host_kind { HOST_EXACT, HOST_SUFFIX, HOST_ANY };
struct host_entry {
	enum host_kind kind;
	const char *text;
	size_t length;
	const struct upstream_def *upstream;
};

struct config_private {
	struct arena arena; /* every string and array of the config */
	struct origins *origins; /* sorted by owner once the config is complete */
	size_t n_origins, max_origins;
	struct host_entry *hosts; /* sorted by kind, text, upstream */
	size_t n_hosts;
};

/* index.c */
/* Returns the spots, to be written: those of inherited (NULL: none) for a start. self may be NULL. */
struct spot *origins_add(struct config *config, const void *owner, const struct spot *inherited,
			 const struct node *self);
void origins_sort(struct config *config);
const struct origins *origins_find(const struct config *config, const void *owner); /* after origins_sort; never NULL */
struct spot origins_spot(const struct config *config, const void *owner, const char *path);
void hosts_index(struct config *config); /* fills private->hosts */

/* apply.c: reads the keys of a map into the structs that its scopes name. */
struct target {
	struct config *config;
	struct fault_list *faults;
	unsigned scopes;      /* bits of enum key_scope that may stand in this map */
	bool is_route;
	void *owners[4];      /* by bit of enum key_scope */
	struct spot *spots[4];
	const char *where;    /* "in defaults", "at the top level": for unknown keys */
};
void apply_map(const struct target *target, const struct node *map);
void apply_built_in(struct config *config, unsigned scope, void *owner);

/* Rules across keys: validate.c, and the longer of them in validate_routes.c and validate_limits.c. */
void validate_config(const struct config *config, struct fault_list *faults);
void validate_routes(const struct config *config, struct fault_list *faults);
void validate_limits(const struct config *config, struct fault_list *faults);
/* The name of a method in small letters is another method, hardly meant: the one in capitals, or NULL. */
const char *method_meant(const char *method);

#endif
