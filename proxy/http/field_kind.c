#include "field_kind.h"

/* The first octet tells most names apart without a call. */
#define IS(literal) ((name.data[0] | 0x20) == (literal)[0] && strncasecmp(name.data, literal, sizeof(literal) - 1) == 0)

static enum field_kind evenkeel_or_other(struct slice name)
{
	return name.length > 9 && IS("evenkeel-") ? FIELD_EVENKEEL : FIELD_OTHER;
}

static enum field_kind of_length_7_to_12(struct slice name)
{
	switch (name.length) {
	case 7:
		return IS("upgrade") ? FIELD_UPGRADE : IS("trailer") ? FIELD_TRAILER : FIELD_OTHER;
	case 10:
		return IS("connection")   ? FIELD_CONNECTION
		       : IS("keep-alive") ? FIELD_KEEP_ALIVE
					  : evenkeel_or_other(name);
	case 12:
		return IS("x-request-id") ? FIELD_REQUEST_ID : evenkeel_or_other(name);
	default:
		return evenkeel_or_other(name);
	}
}

static enum field_kind of_length_over_12(struct slice name)
{
	switch (name.length) {
	case 14:
		return IS("content-length") ? FIELD_CONTENT_LENGTH : evenkeel_or_other(name);
	case 16:
		return IS("proxy-connection") ? FIELD_PROXY_CONNECTION : evenkeel_or_other(name);
	case 17:
		return IS("transfer-encoding") ? FIELD_TRANSFER_ENCODING : evenkeel_or_other(name);
	case 18:
		return IS("proxy-authenticate") ? FIELD_PROXY_AUTHENTICATE : evenkeel_or_other(name);
	case 19:
		return IS("proxy-authorization") ? FIELD_PROXY_AUTHORIZATION : evenkeel_or_other(name);
	case 25:
		return IS("proxy-authentication-info") ? FIELD_PROXY_AUTHENTICATION_INFO : evenkeel_or_other(name);
	default:
		return evenkeel_or_other(name);
	}
}

enum field_kind field_kind_of(struct slice name)
{
	switch (name.length) {
	case 2:
		return IS("te") ? FIELD_TE : FIELD_OTHER;
	case 3:
		return IS("via") ? FIELD_VIA : FIELD_OTHER;
	case 4:
		return IS("host") ? FIELD_HOST : FIELD_OTHER;
	case 6:
		return IS("expect") ? FIELD_EXPECT : FIELD_OTHER;
	default:
		return name.length < 7     ? FIELD_OTHER
		       : name.length <= 12 ? of_length_7_to_12(name)
					   : of_length_over_12(name);
	}
}
