/*
 * CHECK: an invariant that stays on in release builds; a broken one prints where and aborts, since going on would
 * mix up users' bytes. Never used on input: bad input has an error path.
 * x*alloc: memory that can't be had ends the process with one clear line (every allocation here is bounded by a
 * limit, so this means that the limits are larger than the machine).
 */
#ifndef EVENKEEL_BASE_CHECK_H
#define EVENKEEL_BASE_CHECK_H

#include <stddef.h>

#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__, __func__))

void check_failed(const char *condition, const char *file, int line, const char *function)
	__attribute__((noreturn, cold));

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *old, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t length) __attribute__((malloc, returns_nonnull));

#endif
