/*
 * Every tests/policies/{good,bad}/NAME.yaml is loaded, and what check_print says of it must be NAME.expect to the byte.
 * good: a config is made (there may be warnings); bad: none is. EVENKEEL_UPDATE_FIXTURES=1 writes the .expect files
 * anew, to be read through in the diff.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../config/check.h"
#include "../../config/load.h"

#define MAX_FIXTURES 1000

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text;
	long length;

	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	length = ftell(file);
	rewind(file);
	text = calloc(1, (size_t)length + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, (size_t)length, file), length);
	fclose(file);
	return text;
}

static char *check_output(const char *path, bool *is_good)
{
	struct fault_list faults;
	struct config *config;
	char *output = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&output, &length);

	fault_list_init(&faults);
	config = config_load(path, &faults);
	*is_good = config != NULL;
	assert_int_equal(*is_good, faults.n_errors == 0);
	check_print(stream, &faults, false);
	fclose(stream);
	config_unref(&config);
	fault_list_clear(&faults);
	return output;
}

static void check_fixture(const char *path, bool is_good_wanted)
{
	char expect_path[512];
	bool is_good;
	char *output = check_output(path, &is_good), *expected;

	snprintf(expect_path, sizeof(expect_path), "%.*s.expect", (int)(strlen(path) - strlen(".yaml")), path);
	if (getenv("EVENKEEL_UPDATE_FIXTURES") && *getenv("EVENKEEL_UPDATE_FIXTURES")) {
		FILE *file = fopen(expect_path, "w");

		assert_non_null(file);
		fputs(output, file);
		fclose(file);
	}
	expected = read_file(expect_path);
	if (!expected)
		fail_msg("%s is missing; the output was:\n%s", expect_path, output);
	if (strcmp(output, expected) != 0)
		fail_msg("%s\n--- expected:\n%s--- got:\n%s", path, expected, output);
	if (is_good != is_good_wanted)
		fail_msg("%s is %s", path, is_good ? "good" : "bad");
	free(expected);
	free(output);
}

static int is_yaml(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 5 && !strcmp(entry->d_name + length - 5, ".yaml");
}

static size_t check_folder(const char *folder, bool is_good_wanted)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, is_yaml, alphasort);
	char path[512];

	if (n < 0)
		fail_msg("%s can't be read", folder);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		check_fixture(path, is_good_wanted);
		free(entries[i]);
	}
	free(entries);
	return (size_t)n;
}

static void test_good(void **state)
{
	(void)state;
	assert_true(check_folder("tests/policies/good", true) >= 10);
}

static void test_bad(void **state)
{
	(void)state;
	assert_true(check_folder("tests/policies/bad", false) >= 20);
}

/* The file's name is printed as it was given, so this runs from the top of the tree whatever the caller's folder. */
static void go_to_top(void)
{
	for (int i = 0; i < 4 && access("tests/policies", R_OK) != 0; i++)
		if (chdir("..") < 0)
			return;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
	};

	go_to_top();
	setenv("FIXTURE_HOST", "api.example.com", 1);
	setenv("FIXTURE_EMPTY", "", 1);
	setenv("FIXTURE_BAD_DURATION", "5 s", 1);
	unsetenv("FIXTURE_UNSET");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
