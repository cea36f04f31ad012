#include "spare.h"

#include <stdlib.h>

#include "check.h"

#if defined(__SANITIZE_ADDRESS__)
#define KEPT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEPT 0
#endif
#endif
#ifndef KEPT
#define KEPT SPARE_MAX
#endif

void *spare_take(struct spare *spare)
{
	return spare->n > 0 ? spare->pieces[--spare->n] : xmalloc(spare->size);
}

void spare_give(struct spare *spare, void *piece)
{
	if (spare->n + 1 <= KEPT) /* written so because KEPT may be 0 */
		spare->pieces[spare->n++] = piece;
	else
		free(piece);
}
