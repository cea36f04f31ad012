/* The key table holds together with itself, the example file and the schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../config/document.h"
#include "../../config/keys.h"
#include "../../config/schema.h"
#include "../../config/suggest.h"

static void test_rows_are_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_keys; i++) {
		const struct key *key = &keys[i];

		assert_true(strlen(key->path) < KEY_MAX_PATH_BYTES);
		assert_int_equal(key->scope & (key->scope - 1), 0); /* one scope each */
		assert_true(*key->doc && key->doc[strlen(key->doc) - 1] != '.');
		assert_null(strchr(key->doc, '\n'));
		assert_ptr_equal(key_find(key->path, key->scope), key); /* no second row of that path */
		if (key_has_value(key))
			assert_true(key->built_in || (key->flags & KEY_REQUIRED));
	}
}

/* Every dotted path has a row for the section that it is in. */
static void test_sections_have_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_keys; i++) {
		char section[KEY_MAX_PATH_BYTES];
		char *dot;

		strcpy(section, keys[i].path);
		dot = strrchr(section, '.');
		if (!dot)
			continue;
		*dot = '\0';
		assert_non_null(key_find(section, keys[i].scope));
		assert_true(key_find(section, keys[i].scope)->type == KEY_SECTION ||
			    key_find(section, keys[i].scope)->type == KEY_SWITCH);
	}
}

static const void *owner_of(const struct config *config, const struct key *key)
{
	static const struct route no_route;

	switch (key->scope) {
	case KEY_GLOBAL:
		return &config->global;
	case KEY_POLICY:
		return &config->defaults;
	case KEY_UPSTREAM:
		return &config->unmatched;
	default:
		return &no_route;
	}
}

/* What the table says is built in is what is in force, spelt as it would be printed. */
static void test_built_in_texts_are_canonical(void **state)
{
	struct fault_list faults;
	struct config *config;
	char now[512];

	(void)state;
	fault_list_init(&faults);
	config = config_load(NULL, &faults);
	for (size_t i = 0; i < n_keys; i++) {
		if (!key_has_value(&keys[i]) || !keys[i].built_in)
			continue;
		key_format_value(&keys[i], owner_of(config, &keys[i]), now, sizeof(now));
		assert_string_equal(now, *keys[i].built_in ? keys[i].built_in : "~");
	}
	config_unref(&config);
	fault_list_clear(&faults);
}

static void test_format_is_cut(void **state)
{
	struct fault_list faults;
	struct config *config;
	char small[8] = "zzzzzzz";

	(void)state;
	fault_list_init(&faults);
	config = config_load(NULL, &faults);
	assert_int_equal(
		key_format_value(key_find("retry.methods", KEY_POLICY), &config->defaults, small, sizeof(small)), 40);
	assert_string_equal(small, "[GET, H");
	assert_int_equal(key_format_value(key_find("retry.methods", KEY_POLICY), &config->defaults, NULL, 0), 40);
	config_unref(&config);
	fault_list_clear(&faults);
}

static void assert_scalar(const char *text, const char *expected)
{
	char *printed = NULL;
	size_t n;
	FILE *out = open_memstream(&printed, &n);
	struct arena arena = {NULL};
	struct fault_list faults;
	struct document document;

	key_print_scalar(out, text);
	fclose(out);
	assert_string_equal(printed, expected);
	fault_list_init(&faults);
	document_parse(&arena, printed, strlen(printed), &faults, &document);
	assert_int_equal(faults.n, 0);
	assert_string_equal(document.root->text, text);
	arena_clear(&arena);
	fault_list_clear(&faults);
	free(printed);
}

static void test_scalars(void **state)
{
	(void)state;
	assert_scalar("api.example.com", "api.example.com");
	assert_scalar("/v1/*", "/v1/*");
	assert_scalar("127.0.0.1:3128", "127.0.0.1:3128");
	assert_scalar("10.0.0.0/8", "10.0.0.0/8");
	assert_scalar("*.example.com", "\"*.example.com\"");
	assert_scalar("[::1]:80", "\"[::1]:80\"");
	assert_scalar("fe80::/10", "\"fe80::/10\"");
	assert_scalar("Yes", "\"Yes\"");
	assert_scalar("off", "\"off\"");
	assert_scalar("1.2", "\"1.2\"");
	assert_scalar("0123", "\"0123\"");
	assert_scalar("", "\"\"");
	assert_scalar("a b", "\"a b\"");
	assert_scalar("a: b", "\"a: b\"");
	assert_scalar("a:", "\"a:\"");
	assert_scalar("q\"\\", "\"q\\\"\\\\\"");
	assert_scalar("${X}", "\"$${X}\"");
	assert_scalar("/\xc3\xa9", "\"/\xc3\xa9\"");
	assert_scalar("$${X}", "\"$$${X}\"");
	assert_scalar("\xc2\x80", "\"\\u0080\"");
	assert_scalar("a\nb", "\"a\\u000ab\"");
}

/* ---- policies.example.yaml ---- */

static struct document read_example(struct arena *arena, struct fault_list *faults, char **text)
{
	FILE *file = fopen("policies.example.yaml", "r");
	struct document document;
	size_t n;

	if (!file)
		fail_msg("policies.example.yaml can't be read");
	*text = calloc(1, DOCUMENT_MAX_BYTES);
	n = fread(*text, 1, DOCUMENT_MAX_BYTES - 1, file);
	fclose(file);
	document_parse(arena, *text, n, faults, &document);
	return document;
}

static const struct node *walk(const struct node *map, const char *path)
{
	char part[KEY_MAX_PATH_BYTES];

	while (map && *path) {
		size_t n = strcspn(path, ".");

		memcpy(part, path, n);
		part[n] = '\0';
		map = node_get(map, part);
		path += path[n] ? n + 1 : n;
	}
	return map;
}

static bool is_in_example(const struct node *root, const char *text, const struct key *key)
{
	const struct node *upstream = node_get(root, "upstreams")->entries[0].value;
	const struct node *map = key->scope == KEY_GLOBAL     ? root
				 : key->scope == KEY_POLICY   ? node_get(root, "defaults")
				 : key->scope == KEY_UPSTREAM ? upstream
							      : node_get(upstream, "routes")->entries[0].value;
	char in_comment[KEY_MAX_PATH_BYTES + 4];
	const char *dot = strchr(key->path, '.');

	if (walk(map, key->path))
		return true;
	/* the maps that are off by default stand in comments */
	snprintf(in_comment, sizeof(in_comment), "# %.*s: {", dot ? (int)(dot - key->path) : 0, key->path);
	text = dot ? strstr(text, in_comment) : NULL;
	snprintf(in_comment, sizeof(in_comment), "%s: ", dot ? dot + 1 : "");
	return text && strstr(text, in_comment) && strstr(text, in_comment) < strchr(text, '\n');
}

static void test_example_has_every_key(void **state)
{
	struct arena arena = {NULL};
	struct fault_list faults;
	struct document document;
	char *text;

	(void)state;
	fault_list_init(&faults);
	document = read_example(&arena, &faults, &text);
	assert_int_equal(faults.n, 0);
	for (size_t i = 0; i < n_keys; i++)
		if (!is_in_example(document.root, text, &keys[i]))
			fail_msg("policies.example.yaml lacks %s", keys[i].path);
	free(text);
	arena_clear(&arena);
	fault_list_clear(&faults);
}

/* The example is good, has nothing to warn of, and its defaults and top level are the built-in ones. */
static void test_example_is_built_in(void **state)
{
	struct fault_list faults;
	struct config *config, *built_in;

	(void)state;
	fault_list_init(&faults);
	built_in = config_load(NULL, &faults);
	config = config_load("policies.example.yaml", &faults);
	if (faults.n)
		fail_msg("%u: %s", faults.items[0].line, faults.items[0].message);
	for (size_t i = 0; i < n_keys; i++)
		if ((keys[i].scope == KEY_GLOBAL || keys[i].scope == KEY_POLICY) &&
			!key_is_equal(&keys[i], owner_of(config, &keys[i]), owner_of(built_in, &keys[i])))
			fail_msg("%s is not the built-in value", keys[i].path);
	config_unref(&config);
	config_unref(&built_in);
	fault_list_clear(&faults);
}

/* ---- schema ---- */

/* JSON is YAML: the document reader reads the schema, too. */
static void test_schema_has_every_key(void **state)
{
	struct arena arena = {NULL};
	struct fault_list faults;
	struct document document;
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	(void)state;
	schema_print(out);
	fclose(out);
	fault_list_init(&faults);
	for (char *c = text; (c = strstr(c, "${")); c++)
		memcpy(c, "__", 2); /* not references here */
	document_parse(&arena, text, n, &faults, &document);
	assert_int_equal(faults.n, 0);
	assert_string_equal(node_get(document.root, "$schema")->text, "https://json-schema.org/draft/2020-12/schema");
	for (size_t i = 0; i < n_keys; i++) {
		const char *name = strrchr(keys[i].path, '.') ? strrchr(keys[i].path, '.') + 1 : keys[i].path;
		char member[KEY_MAX_PATH_BYTES + 4];

		snprintf(member, sizeof(member), "\"%s\":{", name);
		if (!strstr(text, member))
			fail_msg("the schema lacks %s", keys[i].path);
		if (keys[i].type != KEY_STRUCTURE && !strstr(text, "description"))
			fail_msg("the schema does not describe %s", keys[i].path);
	}
	arena_clear(&arena);
	fault_list_clear(&faults);
	free(text);
}

static void test_suggestions(void **state)
{
	struct suggestion near = suggestion_for("totl");

	(void)state;
	suggestion_consider(&near, "attempt");
	assert_null(near.best);
	suggestion_consider(&near, "total");
	assert_string_equal(near.best, "total");
	assert_int_equal(edit_distance("defualts", "defaults"), 1);
	assert_int_equal(edit_distance("max-attempts", "Max_Attempts"), 0);
	assert_int_equal(edit_distance("", "abc"), 3);
	assert_int_equal(edit_distance("kitten", "sitting"), 3);
	near = suggestion_for("host");
	suggestion_consider(&near, "port");
	assert_null(near.best);
	near = suggestion_for("");
	suggestion_consider(&near, "on");
	assert_null(near.best);
	near = suggestion_for("warning");
	suggestion_consider(&near, "warn");
	assert_string_equal(near.best, "warn");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_sound),
		cmocka_unit_test(test_sections_have_rows),
		cmocka_unit_test(test_built_in_texts_are_canonical),
		cmocka_unit_test(test_format_is_cut),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_example_has_every_key),
		cmocka_unit_test(test_example_is_built_in),
		cmocka_unit_test(test_schema_has_every_key),
		cmocka_unit_test(test_suggestions),
	};

	for (int i = 0; i < 4 && access("policies.example.yaml", R_OK) != 0; i++)
		if (chdir("..") < 0)
			break;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
