/* How faults are printed: text with a caret, JSON for tools. The texts themselves are held by the fixtures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/check.h"

static void assert_output(const char *name, const char *text, size_t length, bool as_json, const char *expected)
{
	struct fault_list faults;
	struct config *config;
	char *printed = NULL;
	size_t n;
	FILE *out = open_memstream(&printed, &n);

	fault_list_init(&faults);
	config = config_load_text(name, text, length, &faults);
	check_print(out, &faults, as_json);
	fclose(out);
	assert_string_equal(printed, expected);
	free(printed);
	config_unref(&config);
	fault_list_clear(&faults);
}

#define ASSERT_TEXT(text, expected) assert_output("p.yaml", text, sizeof(text) - 1, false, expected)
#define ASSERT_JSON(text, expected) assert_output("p.yaml", text, sizeof(text) - 1, true, expected)

static void test_good(void **state)
{
	(void)state;
	ASSERT_TEXT("", "p.yaml is good\n");
	ASSERT_JSON("", "{\"file\":\"p.yaml\",\"errors\":0,\"warnings\":0,\"faults\":[]}\n");
}

static void test_carets(void **state)
{
	(void)state;
	ASSERT_TEXT("watch: \t x", "p.yaml:1:10: error: watch: unknown value \"x\"; known are off, on\n"
				   "    1 | watch: \t x\n"
				   "      |        \t ^\n"
				   "1 error in p.yaml\n");
	ASSERT_TEXT("x-\xc3\xa9\xe2\x82\xac: {}\n{",
		"p.yaml:2:1: error: not YAML: could not find expected ':': \": \" is missing after a key, or a line "
		"is not indented as it should be\n"
		"    2 | {\n"
		"      | ^\n"
		"1 error in p.yaml\n");
}

static void test_related_lines(void **state)
{
	(void)state;
	ASSERT_TEXT("defaults:\n  timeouts:\n    attempt: 9s\n\n    total: 8s\n",
		"p.yaml:3:5: warning: timeouts.attempt 9s is longer than timeouts.total 8s: one slow attempt takes all "
		"the time "
		"there is\n"
		"    3 |     attempt: 9s\n"
		"      |     ^\n"
		"    5 |     total: 8s\n"
		"p.yaml is good, with 1 warning\n");
}

static void test_long_lines_are_cut(void **state)
{
	char text[10000] = "x-a: [";

	(void)state;
	memset(text + 6, ' ', 200);
	strcpy(text + 206, "]\nwatch: ");
	memset(text + strlen(text), 'v', 200);
	assert_output("p.yaml", text, strlen(text), false,
		"p.yaml:2:8: error: watch: unknown value "
		"\"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv...\"; known "
		"are off, on\n"
		"    2 | watch: vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
		"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv...\n"
		"      |        ^\n"
		"1 error in p.yaml\n");
	strcpy(text, "{x-a: ");
	memset(text + 6, ' ', 9000);
	strcpy(text + 9006, ", watch: x}\n");
	assert_output("p.yaml", text, strlen(text), false, /* made by a tool: the column says it all */
		"p.yaml:1:9016: error: watch: unknown value \"x\"; known are off, on\n1 error in p.yaml\n");
}

static void test_json(void **state)
{
	(void)state;
	ASSERT_JSON("\"a\\\"\\u00e9\": 1\nlisten: 127.0.0.1:1\nlisten: 127.0.0.1:1\n",
		"{\"file\":\"p.yaml\",\"errors\":2,\"warnings\":0,\"faults\":["
		"{\"severity\":\"error\",\"line\":1,\"column\":1,\"message\":\"unknown key \\\"a\\\"\xc3\xa9\\\" at "
		"the top level\"},"
		"{\"severity\":\"error\",\"line\":3,\"column\":1,\"message\":\"duplicate key \\\"listen\\\": it is on "
		"line 2 already\","
		"\"related_line\":2}]}\n");
	assert_output("a\"\n\xff.yaml", "- 1\n", 4, true,
		"{\"file\":\"a\\\"\\u000a\\ufffd.yaml\",\"errors\":1,\"warnings\":0,\"faults\":[{\"severity\":"
		"\"error\",\"line\":1,"
		"\"column\":1,\"message\":\"the policy file: expected a map of keys; found a list\"}]}\n");
}

static void test_no_place(void **state)
{
	struct fault_list faults;
	char *printed = NULL;
	size_t n;
	FILE *out = open_memstream(&printed, &n);

	(void)state;
	fault_list_init(&faults);
	assert_null(config_load("/nowhere/p.yaml", &faults));
	check_print(out, &faults, false);
	check_print(out, &faults, true);
	fclose(out);
	assert_string_equal(printed,
		"/nowhere/p.yaml: error: can't be read: No such file or directory\n1 error in /nowhere/p.yaml\n"
		"{\"file\":\"/nowhere/"
		"p.yaml\",\"errors\":1,\"warnings\":0,\"faults\":[{\"severity\":\"error\",\"message\":\"can't be "
		"read: No such file or directory\"}]}\n");
	free(printed);
	fault_list_clear(&faults);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_carets),
		cmocka_unit_test(test_related_lines),
		cmocka_unit_test(test_long_lines_are_cut),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_no_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
