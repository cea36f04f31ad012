/* Names and what they resolved to, for as long as that may be believed. Bounded; the least used go first. Private. */
#ifndef EVENKEEL_NET_NAME_CACHE_H
#define EVENKEEL_NET_NAME_CACHE_H

#include "resolve.h"

#define NAME_CACHE_MAX_NAMES 4096

struct name_cache;

struct name_cache *name_cache_new(struct rng *rng); /* rng: for a hash that no one can aim at */
void name_cache_free(struct name_cache **cache);
void name_cache_empty(struct name_cache *cache);

/* Takes a reference of its own. addresses NULL: the name does not exist. */
void name_cache_put(struct name_cache *cache, const char *name, struct address_list *addresses, struct mono expires);

/* True when something is known at `now`; *addresses is then a new reference, or NULL for a name that does not exist. */
bool name_cache_get(struct name_cache *cache, const char *name, struct mono now, struct address_list **addresses);
size_t name_cache_n(const struct name_cache *cache);

#endif
