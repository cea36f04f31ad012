/* Classes of octets in HTTP/1.1 messages, and the few text operations on field values that the room shares. */
#ifndef EVENKEEL_HTTP_OCTET_H
#define EVENKEEL_HTTP_OCTET_H

#include <stdint.h>

#include "../base/slice.h"

enum octet_class {
	OCTET_TOKEN = 1,  /* tchar, RFC 9110 5.6.2 */
	OCTET_VALUE = 2,  /* field-vchar, obs-text, SP, HTAB: RFC 9110 5.5 */
	OCTET_TARGET = 4, /* anything that can't end or split a request line: no SP, no controls */
	OCTET_HOST = 8,   /* letters, digits, - . _ ~ : the part of RFC 3986's reg-name that names have */
	OCTET_DIGIT = 16,
};

extern const uint8_t octet_classes[256];

static inline bool octet_is(char octet, enum octet_class wanted)
{
	return octet_classes[(unsigned char)octet] & wanted;
}

/* Are all octets of that class? True for an empty run. */
static inline bool octets_are(struct slice text, enum octet_class wanted)
{
	unsigned all = (unsigned)wanted;

	for (size_t i = 0; i < text.length; i++)
		all &= octet_classes[(unsigned char)text.data[i]];
	return all == (unsigned)wanted;
}

/*
 * octets_are(text, OCTET_VALUE), eight octets at a time: field values are most of a head. In a word without an octet under
 * 0x20 and without DEL all are good (the borrow of the subtraction can only add suspicion); others are looked up.
 */
static inline bool octets_are_value(struct slice text)
{
	const uint64_t each = 0x0101010101010101u, high = 0x80 * each;

	for (; text.length >= 8; text.data += 8, text.length -= 8) {
		uint64_t word, delete;

		memcpy(&word, text.data, 8);
		delete = word ^ 0x7f * each;
		if ((((word - 0x20 * each) & ~word) | ((delete - each) & ~delete)) & high &&
		    !octets_are((struct slice){ text.data, 8 }, OCTET_VALUE))
			return false;
	}
	return octets_are(text, OCTET_VALUE);
}

static inline bool octet_is_blank(char octet) { return octet == ' ' || octet == '\t'; }

/* Without white space at either end (OWS, RFC 9110 5.6.3). */
static inline struct slice octets_trim(struct slice text)
{
	while (text.length > 0 && octet_is_blank(text.data[0])) {
		text.data++;
		text.length--;
	}
	while (text.length > 0 && octet_is_blank(text.data[text.length - 1]))
		text.length--;
	return text;
}

/* Takes the next non-empty element off a comma-separated list (RFC 9110 5.6.1). False: there is none. */
bool octets_next_element(struct slice *list, struct slice *element);

/* 1*DIGIT and nothing else, up to INT64_MAX. */
bool octets_read_decimal(struct slice text, uint64_t *number);

#endif
