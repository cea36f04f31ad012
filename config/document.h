/*
 * YAML text to a tree of nodes that know their line and column. Everything that is YAML and not policy is settled
 * here: anchors, aliases, merge keys, duplicate keys, ${NAME}, and the bounds that keep a hostile file harmless.
 * Only this file includes libyaml.
 */
#ifndef EVENKEEL_CONFIG_DOCUMENT_H
#define EVENKEEL_CONFIG_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "faults.h"

#define DOCUMENT_MAX_BYTES (1024 * 1024)
#define DOCUMENT_MAX_DEPTH 64
#define DOCUMENT_MAX_ANCHORS 1000
#define DOCUMENT_MAX_NODES 100000 /* with every alias counted as what it stands for */

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node_entry {
	struct node *key; /* NULL in a list */
	struct node *value;
};

struct node {
	enum node_kind kind;
	unsigned line, column; /* 1-based; of what an alias stands for, the place of the anchor */
	size_t weight;         /* nodes in it, itself included */
	bool is_plain;         /* scalar without quotes */
	bool is_open;          /* still being read: an alias to it would be a circle */
	bool is_faulty;        /* already reported: not to be judged again */
	bool has_control;      /* scalar with a character that no value may hold, NUL included */
	const char *text;      /* scalar: NUL-terminated, ${NAME} replaced */
	const char *source;    /* scalar: as written, when that differs from text */
	struct node_entry *entries;
	size_t n, capacity;
};

struct document {
	struct node *root; /* NULL: the file holds nothing */
	bool is_whole;     /* false: the YAML broke off; what was read before is in the tree */
};

/* Nodes and text live in the arena. Faults are added for everything that is not right; the tree is usable even so. */
void document_parse(struct arena *arena, const char *text, size_t length, struct fault_list *faults,
		    struct document *document);

/* The value of key in a map, or NULL. */
const struct node *node_get(const struct node *map, const char *key);

/* True for a plain scalar that stands for "nothing": empty, ~ or null. */
bool node_is_null(const struct node *node);

/* "a list", "a map", "text": for messages. */
const char *node_kind_word(const struct node *node);

static inline struct place node_place(const struct node *node)
{
	return (struct place){ node->line, node->column, 0 };
}

#endif
