/*
 * Memory of one size that comes and goes with every request: a few pieces are kept instead of going back to malloc,
 * whose small-block cache ends at 1 KiB. Single-threaded. Under AddressSanitizer nothing is kept, so that a use
 * after free is seen.
 *
 *     static struct spare spare_exchanges = SPARE_OF(struct exchange);
 */
#ifndef EVENKEEL_BASE_SPARE_H
#define EVENKEEL_BASE_SPARE_H

#include <stddef.h>

#define SPARE_MAX 64

struct spare {
	size_t size;
	size_t n;
	void *pieces[SPARE_MAX];
};

#define SPARE_OF(type) { .size = sizeof(type) }

void *spare_take(struct spare *spare) __attribute__((malloc, returns_nonnull)); /* not zeroed */
void spare_give(struct spare *spare, void *piece);

#endif
