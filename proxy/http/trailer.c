#include "request.h"

/*
 * Fields that are of use only before the body, or dangerous when they come after it (RFC 9110 6.5.1): framing, routing,
 * request modifiers, authentication, response control, and what says how to read the content.
 */
static const char *const head_only[] = {
	"Accept-Ranges", "Age", "Allow", "Authentication-Info", "Authorization", "Cache-Control", "Connection",
	"Content-Encoding", "Content-Length", "Content-Location", "Content-Range", "Content-Type", "Cookie", "Cookie2",
	"Date", "Expect", "Expires", "Forwarded", "From", "Host", "HTTP2-Settings", "If-Match", "If-Modified-Since",
	"If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive", "Location", "Max-Forwards", "Origin", "Pragma",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization", "Proxy-Connection", "Range", "Referer",
	"Retry-After", "Set-Cookie", "Set-Cookie2", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Vary",
	"Via", "Warning", "WWW-Authenticate", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP",
	"X-Request-Id",
};

bool trailer_may_cross(struct slice name)
{
	if (name.length >= 9 && strncasecmp(name.data, "Evenkeel-", 9) == 0)
		return false;
	for (size_t i = 0; i < sizeof(head_only) / sizeof(head_only[0]); i++)
		if (slice_equals_nocase(name, slice_of(head_only[i])))
			return false;
	return true;
}
