/* The fields that mean something to a proxy, told apart once so that nobody compares names twice. */
#ifndef EVENKEEL_HTTP_FIELD_KIND_H
#define EVENKEEL_HTTP_FIELD_KIND_H

#include "../base/slice.h"

enum field_kind {
	FIELD_OTHER,
	FIELD_HOST,
	FIELD_CONTENT_LENGTH,
	FIELD_EXPECT,
	FIELD_VIA,
	FIELD_REQUEST_ID,          /* X-Request-Id */
	FIELD_EVENKEEL,            /* Evenkeel-* */
	FIELD_FIRST_HOP_BY_HOP,    /* from here on: never cross a hop (RFC 9110 7.6.1) */
	FIELD_CONNECTION = FIELD_FIRST_HOP_BY_HOP,
	FIELD_KEEP_ALIVE,
	FIELD_PROXY_CONNECTION,
	FIELD_PROXY_AUTHENTICATE,
	FIELD_PROXY_AUTHORIZATION,
	FIELD_PROXY_AUTHENTICATION_INFO,
	FIELD_TE,
	FIELD_TRAILER,
	FIELD_TRANSFER_ENCODING,
	FIELD_UPGRADE,
	FIELD_N_KINDS,
};

enum field_kind field_kind_of(struct slice name);

#endif
