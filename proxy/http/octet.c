#include "octet.h"

#define T (OCTET_TOKEN | OCTET_VALUE | OCTET_TARGET)
#define H (T | OCTET_HOST)
#define D (H | OCTET_DIGIT)
#define V (OCTET_VALUE | OCTET_TARGET)

const uint8_t octet_classes[256] = {
	['\t'] = OCTET_VALUE, [' '] = OCTET_VALUE,
	['!'] = T, ['"'] = V, ['#' ... '\''] = T, ['('] = V, [')'] = V, ['*'] = T, ['+'] = T, [','] = V,
	['-'] = H, ['.'] = H, ['/'] = V, ['0' ... '9'] = D, [':' ... '@'] = V,
	['A' ... 'Z'] = H, ['[' ... ']'] = V, ['^'] = T, ['_'] = H, ['`'] = T,
	['a' ... 'z'] = H, ['{'] = V, ['|'] = T, ['}'] = V, ['~'] = H,
	[0x80 ... 0xff] = V,
};

bool octets_next_element(struct slice *list, struct slice *element)
{
	while (list->length > 0) {
		const char *comma = memchr(list->data, ',', list->length);
		size_t length = comma ? (size_t)(comma - list->data) : list->length;
		size_t step = comma ? length + 1 : length;

		*element = octets_trim((struct slice){ list->data, length });
		list->data += step;
		list->length -= step;
		if (element->length > 0)
			return true;
	}
	return false;
}

bool octets_read_decimal(struct slice text, uint64_t *number)
{
	uint64_t sum = 0;

	if (text.length == 0)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		if (!octet_is(text.data[i], OCTET_DIGIT))
			return false;
		uint64_t digit = (uint64_t)(text.data[i] - '0');
		if (sum > (INT64_MAX - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*number = sum;
	return true;
}
