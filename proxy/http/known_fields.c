#include "known_fields.h"

#include "octet.h"

static void note_connection(struct known_fields *known, struct slice list)
{
	struct slice element;

	while (octets_next_element(&list, &element)) {
		if (slice_equals_nocase(element, SLICE("close")))
			known->says_close = true;
		else if (slice_equals_nocase(element, SLICE("keep-alive")))
			known->says_keep_alive = true;
		else if (slice_equals_nocase(element, SLICE("upgrade")))
			known->says_upgrade = true;
	}
}

void known_fields_find(struct known_fields *known, const struct head *head)
{
	memset(known, 0, sizeof(*known));
	for (size_t i = 0; i < head->n_fields; i++) {
		enum field_kind kind = field_kind_of(head_name(head, i));

		if (kind == FIELD_OTHER)
			continue;
		if (known->n[kind]++ == 0)
			known->first[kind] = (uint32_t)i;
		if (kind == FIELD_CONNECTION)
			note_connection(known, head_value(head, i));
	}
}

const char *known_fields_framing(const struct known_fields *known, const struct head *head, int minor_version,
	bool *is_chunked, bool *has_length, uint64_t *content_length)
{
	uint32_t n_lengths = known->n[FIELD_CONTENT_LENGTH], n_codings = known->n[FIELD_TRANSFER_ENCODING];

	*is_chunked = n_codings > 0;
	*has_length = n_lengths > 0;
	*content_length = 0;
	if (n_lengths > 0 && n_codings > 0)
		return "both Content-Length and Transfer-Encoding (RFC 9112 6.1)";
	if (n_lengths > 1)
		return "more than one Content-Length (RFC 9112 6.3)";
	if (n_lengths == 1 &&
		!octets_read_decimal(known_field_value(known, head, FIELD_CONTENT_LENGTH), content_length))
		return "Content-Length is not a number (RFC 9110 8.6)";
	if (n_codings == 0)
		return NULL;
	if (minor_version == 0)
		return "Transfer-Encoding in an HTTP/1.0 message (RFC 9112 6.1)";
	if (n_codings > 1 ||
		!slice_equals_nocase(known_field_value(known, head, FIELD_TRANSFER_ENCODING), SLICE("chunked")))
		return "Transfer-Encoding other than exactly one \"chunked\" (RFC 9112 6.1)";
	return NULL;
}
