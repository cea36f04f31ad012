#include "name_cache.h"

#include <stdlib.h>
#include <string.h>

#include "../base/check.h"

#define N_BUCKETS 1024

struct name_entry {
	struct list bucket_link, use_link;
	char *name;
	struct address_list *addresses; /* owns one reference; NULL: no such name */
	struct mono expires;
};

struct name_cache {
	uint64_t seed;
	size_t n;
	struct list by_use; /* the least recently used first */
	struct list buckets[N_BUCKETS];
};

struct name_cache *name_cache_new(struct rng *rng)
{
	struct name_cache *cache = xcalloc(1, sizeof(*cache));
	cache->seed = rng_u64(rng);
	list_init(&cache->by_use);
	for (size_t i = 0; i < N_BUCKETS; i++)
		list_init(&cache->buckets[i]);
	return cache;
}

static struct list *bucket_of(struct name_cache *cache, const char *name)
{
	uint64_t hash = cache->seed;
	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * 1099511628211u;
	return &cache->buckets[(hash ^ hash >> 32) % N_BUCKETS];
}

static void entry_free(struct name_cache *cache, struct name_entry *entry)
{
	list_remove(&entry->bucket_link);
	list_remove(&entry->use_link);
	address_list_unref(&entry->addresses);
	free(entry->name);
	free(entry);
	cache->n--;
}

static struct name_entry *entry_of(struct name_cache *cache, const char *name)
{
	struct list *bucket = bucket_of(cache, name);
	LIST_EACH(link, bucket) {
		struct name_entry *entry = LIST_ENTRY_OF(link, struct name_entry, bucket_link);
		if (strcmp(entry->name, name) == 0)
			return entry;
	}
	return NULL;
}

void name_cache_empty(struct name_cache *cache)
{
	while (!list_is_empty(&cache->by_use))
		entry_free(cache, LIST_ENTRY_OF(cache->by_use.next, struct name_entry, use_link));
}

void name_cache_free(struct name_cache **cache)
{
	if (*cache == NULL)
		return;
	name_cache_empty(*cache);
	free(*cache);
	*cache = NULL;
}

void name_cache_put(struct name_cache *cache, const char *name, struct address_list *addresses, struct mono expires)
{
	struct name_entry *old = entry_of(cache, name);
	if (old != NULL)
		entry_free(cache, old);
	else if (cache->n >= NAME_CACHE_MAX_NAMES)
		entry_free(cache, LIST_ENTRY_OF(cache->by_use.next, struct name_entry, use_link));
	struct name_entry *entry = xcalloc(1, sizeof(*entry));
	list_init(&entry->bucket_link);
	list_init(&entry->use_link);
	entry->name = xstrdup(name);
	entry->addresses = addresses != NULL ? address_list_ref(addresses) : NULL;
	entry->expires = expires;
	list_append(bucket_of(cache, name), &entry->bucket_link);
	list_append(&cache->by_use, &entry->use_link);
	cache->n++;
}

bool name_cache_get(struct name_cache *cache, const char *name, struct mono now, struct address_list **addresses)
{
	struct name_entry *entry = entry_of(cache, name);
	if (entry == NULL)
		return false;
	if (mono_reached(entry->expires, now)) {
		entry_free(cache, entry);
		return false;
	}
	list_remove(&entry->use_link);
	list_append(&cache->by_use, &entry->use_link);
	*addresses = entry->addresses != NULL ? address_list_ref(entry->addresses) : NULL;
	return true;
}

size_t name_cache_n(const struct name_cache *cache)
{
	return cache->n;
}
