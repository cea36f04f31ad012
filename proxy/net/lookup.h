/*
 * One lookup: a host name through the search list, A and AAAA asked at the same time, one verdict. Several may wait for
 * it. Private to this room.
 */
#ifndef EVENKEEL_NET_LOOKUP_H
#define EVENKEEL_NET_LOOKUP_H

#include "dns_channel.h"

#define LOOKUP_MAX_NAME 256

struct lookup;
/* Exactly once, from the loop's safe point; the lookup is the callback's to free. addresses: NULL unless RESOLVE_OK. */
typedef void (*lookup_done_fn)(void *owner, struct lookup *lookup, enum resolve_status status,
			       struct address_list *addresses);

struct lookup {
	struct list link;    /* the resolver's */
	struct list waiters; /* the resolver's */
	char *name;          /* owns */
	struct loop *loop;
	struct dns_channel *channel; /* borrowed */
	int64_t max_ttl_ms;
	lookup_done_fn done;
	void *owner;
	struct timer deadline; /* dns.timeout, for all steps together */
	struct timer patience; /* how long one family waits for the other */
	struct deferred judge;
	size_t candidate; /* step of the search list */
	bool is_due, is_patience_over;
	bool has_failed;  /* a step ended in a failure: then "no such name" isn't certain */
	struct dns_question *questions[2];
	struct dns_answer answers[2];
	bool is_answered[2];
};

struct lookup *lookup_start(struct loop *loop, struct dns_channel *channel, const char *name,
			    const struct dns_rule *rule, lookup_done_fn done, void *owner);
void lookup_restart(struct lookup *lookup, struct dns_channel *channel); /* on a new channel; the deadline stays */
void lookup_detach(struct lookup *lookup); /* drops its questions: before its channel goes */
void lookup_free(struct lookup **lookup);  /* silent; waiters must be gone */

#endif
