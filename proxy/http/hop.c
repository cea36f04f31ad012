#include "hop.h"

#include "octet.h"

/*
 * End-to-end fields that a Connection field can't name away: those that the message can't do without, and those by
 * which origins tell who is asking (CVE-2022-31813).
 */
static const char *const essential[] = {
	"Authorization",
	"Cache-Control",
	"Content-Encoding",
	"Content-Length",
	"Content-Location",
	"Content-Range",
	"Content-Type",
	"Cookie",
	"Date",
	"Forwarded",
	"Host",
	"Location",
	"Set-Cookie",
	"Via",
	"X-Forwarded-For",
	"X-Forwarded-Host",
	"X-Forwarded-Proto",
	"X-Real-IP",
	"X-Request-Id",
};

static bool is_essential(struct slice name)
{
	for (size_t i = 0; i < sizeof(essential) / sizeof(essential[0]); i++)
		if (slice_equals_nocase(name, slice_of(essential[i])))
			return true;
	return false;
}

static bool is_option(struct slice token)
{
	return slice_equals_nocase(token, SLICE("close")) || slice_equals_nocase(token, SLICE("keep-alive")) ||
	       slice_equals_nocase(token, SLICE("upgrade"));
}

void hop_collect(const struct head *head, struct hop_names *names)
{
	names->n = 0;
	names->is_overfull = false;
	for (size_t i = 0; i < head->n_fields; i++) {
		if (head->fields[i].name_length != 10 || field_kind_of(head_name(head, i)) != FIELD_CONNECTION)
			continue;
		struct slice list = head_value(head, i), token;
		while (octets_next_element(&list, &token)) {
			if (is_option(token) || field_kind_of(token) >= FIELD_FIRST_HOP_BY_HOP || is_essential(token))
				continue;
			if (names->n == HOP_MAX_NAMES) {
				names->is_overfull = true;
				return;
			}
			names->names[names->n++] = token;
		}
	}
}

bool hop_is_named(const struct head *head, const struct hop_names *names, struct slice name)
{
	for (size_t i = 0; i < names->n; i++)
		if (slice_equals_nocase(names->names[i], name))
			return true;
	return names->is_overfull && !is_essential(name) && head_has_token(head, SLICE("connection"), name);
}

bool hop_is_hop_by_hop(const struct head *head, struct slice name)
{
	struct hop_names names;

	if (field_kind_of(name) >= FIELD_FIRST_HOP_BY_HOP)
		return true;
	hop_collect(head, &names);
	return hop_is_named(head, &names, name);
}

/* Does "evenkeel" stand before place, with white space between (RFC 9110 7.6.3: received-by RWS comment)? */
static bool is_our_comment(struct slice via, const char *place)
{
	const char *end = place;

	while (end > via.data && octet_is_blank(end[-1]))
		end--;
	return end < place && end - via.data >= 8 && memcmp(end - 8, "evenkeel", 8) == 0;
}

static bool via_names(struct slice via, struct slice instance_id)
{
	struct slice rest = via;

	while (rest.length > instance_id.length + 1) {
		const char *place = memchr(rest.data, '(', rest.length - instance_id.length - 1);
		if (!place)
			return false;
		if (place[instance_id.length + 1] == ')' &&
			memcmp(place + 1, instance_id.data, instance_id.length) == 0 && is_our_comment(via, place))
			return true;
		rest.length -= (size_t)(place + 1 - rest.data);
		rest.data = place + 1;
	}
	return false;
}

bool hop_is_loop(const struct head *head, struct slice instance_id)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (head->fields[i].name_length == 3 && field_kind_of(head_name(head, i)) == FIELD_VIA &&
			via_names(head_value(head, i), instance_id))
			return true;
	return false;
}
