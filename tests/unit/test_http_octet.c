/* Classes of octets, lists and numbers; the names that mean something to a proxy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../proxy/http/field_kind.h"
#include "../../proxy/http/octet.h"

static void every_octet_has_its_classes(void **state)
{
	(void)state;
	for (int i = 0; i < 256; i++) {
		char octet = (char)i;
		bool is_letter_or_digit = (i >= '0' && i <= '9') || (i >= 'A' && i <= 'Z') || (i >= 'a' && i <= 'z');

		assert_int_equal(octet_is(octet, OCTET_TOKEN),
			is_letter_or_digit || (i > 0 && strchr("!#$%&'*+-.^_`|~", i) != NULL));
		assert_int_equal(octet_is(octet, OCTET_VALUE), i == '\t' || (i >= 0x20 && i != 0x7f));
		assert_int_equal(octet_is(octet, OCTET_TARGET), i > 0x20 && i != 0x7f);
		assert_int_equal(
			octet_is(octet, OCTET_HOST), is_letter_or_digit || (i > 0 && strchr("-._~", i) != NULL));
		assert_int_equal(octet_is(octet, OCTET_DIGIT), i >= '0' && i <= '9');
	}
}

/* Each octet at each place, among neighbours that could borrow or carry into it. */
static void values_are_judged_alike_by_words_and_by_octets(void **state)
{
	static const char neighbours[] = {'a', '\t', ' ', '!', '~', '\x80', '\xff'};
	char text[21];

	(void)state;
	for (size_t n = 0; n < sizeof(neighbours); n++)
		for (size_t at = 0; at < sizeof(text); at++)
			for (int i = 0; i < 256; i++) {
				memset(text, neighbours[n], sizeof(text));
				text[at] = (char)i;
				assert_int_equal(octets_are_value((struct slice){text, sizeof(text)}),
					i == '\t' || (i >= 0x20 && i != 0x7f));
			}
	assert_true(octets_are_value(SLICE("")));
}

static void lists_are_taken_apart(void **state)
{
	struct slice list = SLICE(" ,a,\t b c ,, ,d"), element;

	(void)state;
	assert_true(octets_next_element(&list, &element));
	assert_true(slice_equals(element, SLICE("a")));
	assert_true(octets_next_element(&list, &element));
	assert_true(slice_equals(element, SLICE("b c")));
	assert_true(octets_next_element(&list, &element));
	assert_true(slice_equals(element, SLICE("d")));
	assert_false(octets_next_element(&list, &element));
	list = SLICE(", ,");
	assert_false(octets_next_element(&list, &element));
}

static void decimals_are_digits_within_bounds(void **state)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1_0", "1.0", "9223372036854775808",
		"99999999999999999999", "18446744073709551617"};
	uint64_t number = 0;

	(void)state;
	assert_true(octets_read_decimal(SLICE("9223372036854775807"), &number));
	assert_int_equal(number, INT64_MAX);
	assert_true(octets_read_decimal(SLICE("00000000000000000000042"), &number));
	assert_int_equal(number, 42);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(octets_read_decimal(slice_of(bad[i]), &number));
		assert_int_equal(number, 42);
	}
}

static void names_are_known_in_any_case(void **state)
{
	static const struct {
		const char *name;
		enum field_kind kind;
	} cases[] = {
		{"HOST", FIELD_HOST},
		{"host", FIELD_HOST},
		{"hosT", FIELD_HOST},
		{"Hosts", FIELD_OTHER},
		{"tE", FIELD_TE},
		{"Via", FIELD_VIA},
		{"eXpect", FIELD_EXPECT},
		{"Content-Length", FIELD_CONTENT_LENGTH},
		{"Content_Length", FIELD_OTHER},
		{"X-Request-ID", FIELD_REQUEST_ID},
		{"connection", FIELD_CONNECTION},
		{"Keep-Alive", FIELD_KEEP_ALIVE},
		{"PROXY-CONNECTION", FIELD_PROXY_CONNECTION},
		{"Proxy-Authenticate", FIELD_PROXY_AUTHENTICATE},
		{"proxy-authorization", FIELD_PROXY_AUTHORIZATION},
		{"Proxy-Authentication-Info", FIELD_PROXY_AUTHENTICATION_INFO},
		{"trailer", FIELD_TRAILER},
		{"Transfer-Encoding", FIELD_TRANSFER_ENCODING},
		{"Upgrade", FIELD_UPGRADE},
		{"Evenkeel-X", FIELD_EVENKEEL},
		{"EVENKEEL-previous-attempts", FIELD_EVENKEEL},
		{"Evenkeel-Max", FIELD_EVENKEEL},
		{"Evenkeel-", FIELD_OTHER},
		{"Evenkeel", FIELD_OTHER},
		{"Evenkeel-Timeout", FIELD_EVENKEEL},
		{"A", FIELD_OTHER},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (field_kind_of(slice_of(cases[i].name)) != cases[i].kind)
			fail_msg("%s", cases[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_octet_has_its_classes),
		cmocka_unit_test(values_are_judged_alike_by_words_and_by_octets),
		cmocka_unit_test(lists_are_taken_apart),
		cmocka_unit_test(decimals_are_digits_within_bounds),
		cmocka_unit_test(names_are_known_in_any_case),
	};
	return cmocka_run_group_tests_name("http octet", tests, NULL, NULL);
}
