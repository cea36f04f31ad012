/*
 * Policy files with bytes changed, doubled, cut and mixed: whatever comes, a config is made exactly when there is no
 * error, every fault has its place, and what was made survives being written out and read back. Deterministic; the seed
 * and the number of rounds can be set (EVENKEEL_SEED, EVENKEEL_ROUNDS) for longer runs.
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

#include "config_properties.h"

#define MAX_FILES 300
#define MAX_BYTES 65536

struct text {
	char *bytes;
	size_t length;
};

static struct text files[MAX_FILES];
static size_t n_files;
static uint64_t random_state;

static size_t pick(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return n ? (size_t)(random_state % n) : 0;
}

static void add_file(const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file || n_files == MAX_FILES)
		fail_msg("%s can't be read", path);
	files[n_files].bytes = malloc(MAX_BYTES);
	files[n_files].length = fread(files[n_files].bytes, 1, MAX_BYTES / 2, file);
	n_files++;
	fclose(file);
}

static void add_folder(const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);
	char path[512];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (strstr(path, ".yaml"))
			add_file(path);
		free(entries[i]);
	}
	free(entries);
}

static void replace(struct text *text, size_t at, size_t n_old, const char *with, size_t n_new)
{
	if (text->length - n_old + n_new > MAX_BYTES)
		return;
	memmove(text->bytes + at + n_new, text->bytes + at + n_old, text->length - at - n_old);
	memcpy(text->bytes + at, with, n_new);
	text->length += n_new - n_old;
}

/* Pieces that mean something to YAML or to us. */
static const char *const pieces[] = {
	"\n",
	"  ",
	"\t",
	": ",
	"- ",
	"[",
	"]",
	"{",
	"}",
	"*a",
	"&a ",
	"<<: *a\n",
	"\"",
	"'",
	"#",
	"|\n",
	">",
	"!!s ",
	"?",
	"---\n",
	"...",
	"%",
	"${HOME}",
	"${X",
	"off",
	"on",
	"0",
	"99999999",
	"-1",
	"1.5",
	"20%",
	"1ms",
	"10h",
	"64KiB",
	"~",
	"null",
	"x-a: ",
	"total: ",
	"routes:\n",
	"match: ",
	"hosts: ",
	"name: ",
	"\x80",
	"\xc3\xa9",
	"\0",
	"\r\n",
	"breaker: ",
	"retry: ",
	"defaults:\n",
	"upstreams:\n",
	"/../",
	"%2e%2e",
	"\"*\"",
	"[::1]",
	"127.0.0.1:1",
	"unix:/x",
};

static void mutate(struct text *text)
{
	size_t at = pick(text->length + 1), n = pick(20);
	const char *piece = pieces[pick(sizeof(pieces) / sizeof(pieces[0]))];
	const struct text *other = &files[pick(n_files)];
	size_t from = pick(other->length);
	char byte = (char)pick(256);

	if (n > text->length - at)
		n = text->length - at;
	switch (pick(6)) {
	case 0:
		replace(text, at, n ? 1 : 0, &byte, 1);
		break;
	case 1:
		replace(text, at, n, "", 0);
		break;
	case 2:
		replace(text, at, 0, piece, strlen(piece) ? strlen(piece) : 1);
		break;
	case 3:
		replace(text, at, n, other->bytes + from, pick(other->length - from) % 200);
		break;
	case 4:
		text->length = at;
		break;
	default:
		replace(text, at, n, piece, strlen(piece) ? strlen(piece) : 1);
		break;
	}
}

static void test_mutations(void **state)
{
	const char *rounds_text = getenv("EVENKEEL_ROUNDS"), *seed = getenv("EVENKEEL_SEED");
	int rounds = rounds_text ? atoi(rounds_text) : 1500, n_good = 0;
	struct text text = {malloc(MAX_BYTES + 1), 0};
	FILE *sink = fopen("/dev/null", "w");

	(void)state;
	random_state = seed ? strtoull(seed, NULL, 10) : 20250101;
	for (int i = 0; i < rounds; i++) {
		const struct text *file =
			&files[pick(1 + pick(n_files))]; /* the good ones come first, and more often */
		size_t n_mutations = 1 + pick(1 + pick(6));

		memcpy(text.bytes, file->bytes, file->length);
		text.length = file->length;
		while (n_mutations-- > 0)
			mutate(&text);
		n_good += config_properties_of(text.bytes, text.length, sink);
	}
	fclose(sink);
	free(text.bytes);
	assert_in_range(n_good, rounds / 20, rounds - rounds / 20); /* both sides are tried */
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations)};
	int failed;

	for (int i = 0; i < 4 && access("tests/policies", R_OK) != 0; i++)
		if (chdir("..") < 0)
			break;
	add_folder("tests/policies/good");
	add_folder("tests/policies/bad");
	add_file("policies.example.yaml");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (size_t i = 0; i < n_files; i++)
		free(files[i].bytes);
	return failed;
}
