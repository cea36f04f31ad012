/*
 * The one table of keys. The loader, the built-in defaults, `check`, `schema`, `explain`, the dump of effective
 * policies and the diff of a reload all read it; a key exists when it has a row, and is what the row says.
 */
#ifndef EVENKEEL_CONFIG_KEYS_H
#define EVENKEEL_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "load.h"

/* Where a key may stand, and which struct its offset counts from. */
enum key_scope {
	KEY_GLOBAL = 1 << 0,   /* top level: struct global_rule */
	KEY_POLICY = 1 << 1,   /* defaults, an upstream or a route: struct policy */
	KEY_UPSTREAM = 1 << 2, /* an item of upstreams: struct upstream_def */
	KEY_ROUTE = 1 << 3,    /* an item of routes: struct route */
};

enum key_type {
	KEY_STRUCTURE, /* a map or list that load.c walks itself: defaults, upstreams, routes */
	KEY_SECTION,   /* a map that holds keys of this table; has no value of its own */
	KEY_SWITCH,    /* off, on, or a map of the keys below it, which switches it on */
	KEY_DURATION, KEY_SIZE, KEY_COUNT, /* int64_t */
	KEY_RATIO, KEY_NUMBER,             /* double */
	KEY_BOOL,      /* off | on, or the two words of the row: bool */
	KEY_WORD,      /* one of the row's words: an enum whose values are the words' places */
	KEY_NAME, KEY_FIELD_NAME, KEY_FILE, KEY_SERVER_NAME, /* const char *; the row's first word stands for NULL */
	KEY_PORT,      /* uint16_t */
	KEY_METHODS, KEY_MEDIA_TYPES, KEY_HOST_PATTERNS, KEY_HOST_NAMES, KEY_PATHS, KEY_PINS, KEY_FIELD_NAMES,
	KEY_SERVERS,   /* struct string_list; KEY_SERVERS also takes the word `system` */
	KEY_PORTS,     /* const uint16_t * with its size_t behind it */
	KEY_CIDRS,     /* const struct cidr * with its size_t behind it */
	KEY_FIELDS,    /* const struct header_field * with its size_t behind it; a map of names to values */
	KEY_CONNECT_PORTS, /* struct egress_rule: a list of ports, or "any" */
	KEY_RETRY_ON,  /* struct retry_on */
	KEY_JITTER,    /* struct backoff_rule: a word or a ratio */
	KEY_LISTEN,    /* struct listen_list: one address or a list */
	KEY_ADMIN,     /* struct global_rule: an address, or off */
	N_KEY_TYPES
};

enum key_flags {
	KEY_MAY_BE_OFF = 1 << 0,
	KEY_MAY_BE_EMPTY = 1 << 1,      /* `key:` with nothing behind it means NULL */
	KEY_NOT_IN_ROUTES = 1 << 2,     /* a policy key that belongs to the upstream as a whole */
	KEY_REQUIRED = 1 << 3,
};

struct key {
	const char *path; /* "timeouts.total", from the map that its scope begins with */
	unsigned scope;   /* bits of enum key_scope */
	enum key_type type;
	unsigned flags;
	size_t offset;
	double min, max; /* ms, bytes, count, ratio or number */
	const char *const *words; /* NULL-terminated */
	const char *built_in; /* as YAML; NULL: none (a section, or a key that must be given) */
	const char *doc;      /* one line */
};

extern const struct key keys[];
extern const size_t n_keys;

#define KEY_MAX_PATH_BYTES 64

/* By path, among the rows whose scope shares a bit with scopes; NULL when there is none. */
const struct key *key_find(const char *path, unsigned scopes);
static inline size_t key_index(const struct key *key) { return (size_t)(key - keys); }

/* Does the row hold a value (or is it a mere section)? */
static inline bool key_has_value(const struct key *key) { return key->type > KEY_SECTION; }

/* Is the row directly inside the section prefix ("" or "retry.")? */
bool key_is_child(const struct key *key, const char *prefix);

/*
 * The effective value in its canonical YAML form: 30s, off, [GET, HEAD], "[::1]:3128". owner is the struct that the
 * row's scope names. Values of header fields that look like credentials are printed as "(hidden)".
 */
void key_print_value(FILE *out, const struct key *key, const void *owner);

/* The same into out[0..size), cut if need be, always NUL-terminated; returns the whole length, as snprintf does. */
size_t key_format_value(const struct key *key, const void *owner, char *out, size_t size);

/* Do two structs hold the same value? Hidden values count as what they are. */
bool key_is_equal(const struct key *key, const void *owner, const void *other);

/* A text as a YAML scalar that is read back as the same text, in a list or a map too. */
void key_print_scalar(FILE *out, const char *text);

/* The words that `retry.on` knows, by bit of enum retry_kind; NULL-terminated. */
extern const char *const key_retry_kind_words[];
extern const char *const key_jitter_words[]; /* by enum jitter, JITTER_FRACTION left out; NULL-terminated */

#endif
