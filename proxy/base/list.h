/*
 * Intrusive doubly linked list with a head that is itself a link. An element is on at most one list per link; a link
 * that is on none points to itself, so removal is idempotent. Whoever is on a list is waiting for what the list says.
 */
#ifndef EVENKEEL_BASE_LIST_H
#define EVENKEEL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *previous;
};

#define LIST_ENTRY_OF(link, type, member) ((type *)(void *)((char *)(link) - offsetof(type, member)))
#define LIST_EACH(link, head) for (struct list *link = (head)->next; link != (head); link = link->next)
/* Safe against removal of the current element only. */
#define LIST_EACH_SAFE(link, after, head) \
	for (struct list *link = (head)->next, *after = link->next; link != (head); link = after, after = link->next)

static inline void list_init(struct list *link) { link->next = link->previous = link; }
static inline bool list_is_empty(const struct list *head) { return head->next == head; }
static inline bool list_is_linked(const struct list *link) { return link->next != link; }

static inline void list_remove(struct list *link)
{
	link->previous->next = link->next;
	link->next->previous = link->previous;
	list_init(link);
}

static inline void list_insert_before(struct list *place, struct list *link)
{
	link->next = place;
	link->previous = place->previous;
	place->previous->next = link;
	place->previous = link;
}

static inline void list_append(struct list *head, struct list *link) { list_insert_before(head, link); }
static inline void list_prepend(struct list *head, struct list *link) { list_insert_before(head->next, link); }

#endif
