/*
 * The one form of a URL path that routes are matched on. Patterns of the policy file and paths of requests both go
 * through here, so that no spelling of a path gets round a route: `/%63harge` and `/a/../charge` are `/charge`.
 */
#ifndef EVENKEEL_CONFIG_PATHS_H
#define EVENKEEL_CONFIG_PATHS_H

#include <stddef.h>

/*
 * Writes the normal form of the path in[0..n) (no query, no fragment) to out and returns its length, which is never
 * more than n. out has room for n bytes and may be the same memory as in. No NUL is added.
 *
 *   percent-encoded unreserved characters are decoded, once          RFC 3986 6.2.2.2
 *   so are bytes that no URI holds as they are (quotes, braces,
 *   non-ASCII): raw and encoded, they mean the same
 *   the hex digits of every other percent-encoding become upper case RFC 3986 6.2.2.1
 *   dot segments are removed, those that were encoded as well        RFC 3986 5.2.4
 *
 * A `%` that two hex digits don't follow is kept as it is, as are empty segments (`//`). Decoding is done once, as an
 * origin does it: `%2541` is `%2541`.
 */
size_t path_normalise(const char *in, size_t n, char *out);

#endif
