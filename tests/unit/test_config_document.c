/* YAML to nodes: places, anchors, merge keys, bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../config/document.h"
#include "../../config/environment.h"

static struct arena arena;
static struct fault_list faults;

static int set_up(void **state)
{
	(void)state;
	fault_list_init(&faults);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	arena_clear(&arena);
	fault_list_clear(&faults);
	return 0;
}

static struct document parse(const char *text)
{
	struct document document;

	document_parse(&arena, text, strlen(text), &faults, &document);
	return document;
}

static void assert_only_fault(unsigned line, unsigned column, const char *message)
{
	assert_int_equal(faults.n, 1);
	assert_string_equal(faults.items[0].message, message);
	assert_int_equal(faults.items[0].line, line);
	assert_int_equal(faults.items[0].column, column);
}

static void assert_text(const struct node *map, const char *key, const char *expected)
{
	const struct node *node = node_get(map, key);

	assert_non_null(node);
	assert_int_equal(node->kind, NODE_SCALAR);
	assert_string_equal(node->text, expected);
}

static void test_places(void **state)
{
	struct document document = parse("a: 1\nbé: {c: [x, \"y\"]}\n");
	const struct node *list;

	(void)state;
	assert_true(document.is_whole);
	assert_int_equal(document.root->kind, NODE_MAP);
	assert_int_equal(document.root->n, 2);
	assert_int_equal(document.root->entries[1].key->line, 2);
	assert_int_equal(document.root->entries[1].value->column, 5); /* characters, not bytes */
	list = node_get(node_get(document.root, "bé"), "c");
	assert_int_equal(list->kind, NODE_LIST);
	assert_int_equal(list->n, 2);
	assert_true(list->entries[0].value->is_plain);
	assert_false(list->entries[1].value->is_plain);
	assert_int_equal(list->entries[1].value->column, 13);
	assert_int_equal(document.root->weight, 9);
	assert_int_equal(faults.n, 0);
}

static void test_nothing(void **state)
{
	(void)state;
	assert_null(parse("").root);
	assert_null(parse("# comment\n").root);
	assert_true(node_is_null(parse("---\n").root));
	assert_true(node_is_null(parse("~").root));
	assert_true(node_is_null(parse("null").root));
	assert_false(node_is_null(parse("\"\"").root));
	assert_int_equal(faults.n, 0);
}

static void test_merge(void **state)
{
	struct document document = parse("a: &a {x: 1, y: 2}\n"
					 "b: &b {y: 3, z: 4}\n"
					 "one: {<<: *a, y: 9}\n"
					 "late: {y: 9, <<: *a}\n"
					 "two: {<<: [*a, *b]}\n"
					 "nested: &n {<<: *b, w: 0}\n"
					 "deep: {<<: *n}\n"
					 "plain: {\"<<\": 5}\n");
	const struct node *root = document.root;

	(void)state;
	assert_int_equal(faults.n, 0);
	assert_int_equal(node_get(root, "one")->n, 2);
	assert_text(node_get(root, "one"), "x", "1");
	assert_text(node_get(root, "one"), "y", "9");
	assert_text(node_get(root, "late"), "y", "9");
	assert_text(node_get(root, "late"), "x", "1");
	assert_text(node_get(root, "two"), "y", "2"); /* the first of a list wins */
	assert_text(node_get(root, "two"), "z", "4");
	assert_text(node_get(root, "deep"), "w", "0");
	assert_text(node_get(root, "deep"), "y", "3");
	assert_text(node_get(root, "plain"), "<<", "5"); /* quoted, it is a key like any other */
	assert_int_equal(node_get(node_get(root, "one"), "x")->line, 1);
}

static void test_anchor_can_be_set_again(void **state)
{
	struct document document = parse("a: &x 1\nb: *x\nc: &x 2\nd: *x\n");

	(void)state;
	assert_text(document.root, "b", "1");
	assert_text(document.root, "d", "2");
	assert_int_equal(faults.n, 0);
}

static void test_duplicates(void **state)
{
	(void)state;
	parse("a: 1\nb: 2\na: 3\n\"a\": 4\n");
	assert_int_equal(faults.n, 2);
	assert_string_equal(faults.items[0].message, "duplicate key \"a\": it is on line 1 already");
	assert_int_equal(faults.items[0].line, 3);
	assert_int_equal(faults.items[0].related_line, 1);
	assert_int_equal(faults.items[1].line, 4);
}

static void test_two_merge_keys(void **state)
{
	(void)state;
	parse("a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n");
	assert_only_fault(4, 3, "duplicate key \"<<\": merge several with a list, <<: [*a, *b]");
}

static void test_broken_off(void **state)
{
	struct document document = parse("a: 1\nb: {c: 2, d: [x\ne: 3\n");

	(void)state;
	assert_false(document.is_whole);
	assert_text(document.root, "a", "1"); /* what came before is there to be judged */
	assert_text(node_get(document.root, "b"), "c", "2");
	assert_int_equal(faults.n, 1);
}

static void test_depth(void **state)
{
	char text[400] = "";

	(void)state;
	for (int i = 0; i < 64; i++)
		strcat(text, "[");
	for (int i = 0; i < 64; i++)
		strcat(text, "]");
	assert_true(parse(text).is_whole);
	assert_int_equal(faults.n, 0);
	memmove(text + 1, text, strlen(text) + 1);
	strcat(text, "]");
	assert_false(parse(text).is_whole);
	assert_only_fault(1, 65, "nested deeper than 64 levels");
}

/* Each level holds the one before ten times: 10^10 values from eleven lines. */
static void test_alias_bomb(void **state)
{
	char text[2000] = "a0: &a0 [x]\n";

	(void)state;
	for (int i = 1; i <= 10; i++) {
		size_t n = strlen(text);

		n += (size_t)sprintf(text + n, "a%d: &a%d [", i, i);
		for (int j = 0; j < 10; j++)
			n += (size_t)sprintf(text + n, "%s*a%d", j ? "," : "", i - 1);
		sprintf(text + n, "]\n");
	}
	assert_false(parse(text).is_whole);
	assert_int_equal(faults.n, 1);
	assert_string_equal(faults.items[0].message,
		"the file holds more than 100000 values, counting each alias as what it stands for");
}

static void test_merge_bomb(void **state)
{
	char *text = malloc(1000000), *at = text;

	(void)state;
	assert_non_null(text);
	at += sprintf(at, "big: &big {");
	for (int i = 0; i < 5000; i++)
		at += sprintf(at, "k%d: 1, ", i);
	at += sprintf(at, "}\nmany:\n");
	for (int i = 0; i < 5000; i++)
		at += sprintf(at, "  - {<<: *big}\n");
	assert_false(parse(text).is_whole);
	assert_int_equal(faults.n, 1);
	free(text);
}

static void test_anchors_are_bounded(void **state)
{
	char *text = malloc(100000), *at = text;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < 1001; i++)
		at += sprintf(at, "- &a%d x\n", i);
	assert_false(parse(text).is_whole);
	assert_only_fault(1001, 3, "more than 1000 anchors");
	free(text);
}

static void test_circle(void **state)
{
	(void)state;
	parse("a: &a\n  b: [1, *a]\n");
	assert_only_fault(2, 10, "the alias *a stands inside what it stands for");
}

static void test_control_characters_are_marked(void **state)
{
	const struct document document = parse("a: \"x\\0y\"\nb: |\n  two\n  lines\nc: ok\n");

	(void)state;
	assert_true(node_get(document.root, "a")->has_control);
	assert_true(node_get(document.root, "b")->has_control);
	assert_false(node_get(document.root, "c")->has_control);
}

static void assert_expands(const char *text, const char *expected)
{
	const char *why = NULL, *result = environment_expand(&arena, text, &why);

	if (!result)
		fail_msg("%s: %s", text, why);
	assert_string_equal(result, expected);
}

static void assert_no_expansion(const char *text, const char *expected_why)
{
	const char *why = NULL;

	assert_null(environment_expand(&arena, text, &why));
	assert_string_equal(why, expected_why);
}

static void test_environment(void **state)
{
	(void)state;
	setenv("EVENKEEL_T", "v", 1);
	setenv("EVENKEEL_E", "", 1);
	unsetenv("EVENKEEL_U");
	assert_expands("plain $x {y} $", "plain $x {y} $");
	assert_expands("${EVENKEEL_T}", "v");
	assert_expands("a${EVENKEEL_T}b${EVENKEEL_T}", "avbv");
	assert_expands("${EVENKEEL_E}", "");
	assert_expands("${EVENKEEL_E:-f}", "f");
	assert_expands("${EVENKEEL_U:-f}", "f");
	assert_expands("${EVENKEEL_U:-}", "");
	assert_expands("${EVENKEEL_T:-f}", "v");
	assert_expands("$${EVENKEEL_T}", "${EVENKEEL_T}");
	assert_expands("$$${EVENKEEL_T}", "$${EVENKEEL_T}");
	assert_expands("${EVENKEEL_U:-a:b-c $d}", "a:b-c $d");
	assert_no_expansion("x${EVENKEEL_U}", "the environment variable EVENKEEL_U is not set; ${EVENKEEL_U:-fallback} "
					      "would allow that");
	assert_no_expansion("${EVENKEEL_T", "\"${EVENKEEL_T\": the closing } is missing");
	assert_no_expansion("${}", "\"${}\": only ${NAME} and ${NAME:-fallback} are read; $${ stands for ${ itself");
	assert_no_expansion(
		"${A-b}", "\"${A-b}\": only ${NAME} and ${NAME:-fallback} are read; $${ stands for ${ itself");
	assert_no_expansion(
		"${1A}", "\"${1A}\": only ${NAME} and ${NAME:-fallback} are read; $${ stands for ${ itself");
}

static void test_environment_is_bounded(void **state)
{
	char *value = calloc(1, 40001);
	const char *why = NULL;

	(void)state;
	assert_non_null(value);
	memset(value, 'x', 40000);
	setenv("EVENKEEL_T", value, 1);
	assert_null(environment_expand(&arena, "${EVENKEEL_T}${EVENKEEL_T}", &why));
	assert_string_equal(why, "the value is too long once ${...} is replaced");
	unsetenv("EVENKEEL_T");
	free(value);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_places),
		TEST(test_nothing),
		TEST(test_merge),
		TEST(test_anchor_can_be_set_again),
		TEST(test_duplicates),
		TEST(test_two_merge_keys),
		TEST(test_broken_off),
		TEST(test_depth),
		TEST(test_alias_bomb),
		TEST(test_merge_bomb),
		TEST(test_anchors_are_bounded),
		TEST(test_circle),
		TEST(test_control_characters_are_marked),
		TEST(test_environment),
		TEST(test_environment_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
