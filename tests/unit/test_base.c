/* The small parts of base: check, clock, mono, rng, list, slice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "../../proxy/base/check.h"
#include "../../proxy/base/clock.h"
#include "../../proxy/base/list.h"
#include "../../proxy/base/rng.h"
#include "../../proxy/base/slice.h"

/* Runs act in a child; its wait status, and what it wrote to stderr. */
static int run_child(void (*act)(void), char *text, size_t capacity)
{
	int ends[2], status;

	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], 2);
		act();
		_exit(0);
	}
	close(ends[1]);
	ssize_t n = read(ends[0], text, capacity - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void break_invariant(void)
{
	int answer = 41;

	CHECK(answer == 42);
}

#if !defined(__SANITIZE_ADDRESS__)
static void ask_for_too_much(void)
{
	volatile size_t n = SIZE_MAX / 4;

	free(xcalloc(n, 1));
}
#endif

static void broken_invariant_says_where_and_aborts(void **state)
{
	(void)state;
	char text[512];
	int status = run_child(break_invariant, text, sizeof text);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(text, "test_base.c:"));
	assert_non_null(strstr(text, "break_invariant: broken invariant: answer == 42\n"));
}

static void no_memory_ends_with_one_clear_line(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	skip(); /* the sanitizer ends the process itself */
#else
	char text[512];
	int status = run_child(ask_for_too_much, text, sizeof text);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_non_null(strstr(text, "evenkeel: out of memory"));
#endif
}

static void strings_are_copied(void **state)
{
	(void)state;
	char *whole = xstrdup("abc"), *part = xstrndup("abcdef", 2), *shorter = xstrndup("a", 10);

	assert_string_equal(whole, "abc");
	assert_string_equal(part, "ab");
	assert_string_equal(shorter, "a");
	free(whole);
	free(part);
	free(shorter);
}

static void clocks_go_forward(void **state)
{
	(void)state;
	struct mono first = clock_now(), second = clock_now();

	assert_true(mono_is_set(first));
	assert_false(mono_before(second, first));
	int64_t difference = clock_wall_ms() / 1000 - (int64_t)time(NULL);
	assert_true(difference >= -1 && difference <= 1);
}

static void instants_and_durations(void **state)
{
	(void)state;
	struct mono at = { 5000000 };

	assert_int_equal(mono_add_ms(at, 250).us, 5250000);
	assert_true(mono_is_never(mono_add_ms(at, -1)));
	assert_true(mono_is_never(mono_add_ms(at, INT64_MAX)));
	assert_true(mono_is_never(mono_add_ms(MONO_NEVER, 0)));
	assert_int_equal(mono_elapsed_us(at, (struct mono){ 5000007 }), 7);
	assert_int_equal(mono_elapsed_us((struct mono){ 5000007 }, at), 0);
	assert_int_equal(mono_elapsed_us(MONO_ZERO, at), 0);
	assert_int_equal(mono_left_ms(at, (struct mono){ 5000001 }), 1);
	assert_int_equal(mono_left_ms(at, at), 0);
	assert_int_equal(mono_left_ms(at, MONO_NEVER), INT64_MAX);
}

static void same_seed_same_sequence(void **state)
{
	(void)state;
	struct rng a, b, other;
	int n_equal = 0;

	rng_init(&a, 1);
	rng_init(&b, 1);
	rng_init(&other, 2);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = rng_u64(&a);
		assert_true(value == rng_u64(&b));
		n_equal += value == rng_u64(&other);
	}
	assert_int_equal(n_equal, 0);
}

/* The first outputs of xoshiro256** for the state {1, 2, 3, 4}, as its authors' reference gives them. */
static void is_xoshiro256(void **state)
{
	(void)state;
	struct rng rng = { { 1, 2, 3, 4 } };

	assert_true(rng_u64(&rng) == 11520);
	assert_true(rng_u64(&rng) == 0);
	assert_true(rng_u64(&rng) == 1509978240);
	assert_true(rng_u64(&rng) == 1215971899390074240);
}

static void unit_is_uniform(void **state)
{
	(void)state;
	struct rng rng;
	int buckets[10] = { 0 };

	rng_init(&rng, 3);
	for (int i = 0; i < 100000; i++) {
		double value = rng_unit(&rng);
		assert_true(value >= 0 && value < 1);
		buckets[(int)(value * 10)]++;
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(buckets[i], 9500, 10500);
}

static void random_seeds_differ(void **state)
{
	(void)state;
	struct rng a, b;

	rng_init_random(&a);
	rng_init_random(&b);
	assert_memory_not_equal(&a, &b, sizeof a);
}

struct item {
	int number;
	struct list link;
};

static void list_keeps_order(void **state)
{
	(void)state;
	struct list head;
	struct item items[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };
	int expected = 0;

	list_init(&head);
	assert_true(list_is_empty(&head));
	list_init(&items[1].link);
	assert_false(list_is_linked(&items[1].link));
	list_append(&head, &items[1].link);
	list_append(&head, &items[2].link);
	list_prepend(&head, &items[0].link);
	LIST_EACH(link, &head)
		assert_int_equal(LIST_ENTRY_OF(link, struct item, link)->number, expected++);
	assert_int_equal(expected, 3);
	list_remove(&items[1].link);
	list_remove(&items[1].link); /* once more does nothing */
	assert_false(list_is_linked(&items[1].link));
	LIST_EACH_SAFE(link, after, &head)
		list_remove(link);
	assert_true(list_is_empty(&head));
}

static void slices_compare(void **state)
{
	(void)state;
	assert_true(slice_equals(SLICE("ab"), slice_of("ab")));
	assert_false(slice_equals(SLICE("ab"), SLICE("aB")));
	assert_true(slice_equals_nocase(SLICE("ab"), SLICE("aB")));
	assert_false(slice_equals_nocase(SLICE("ab"), SLICE("abc")));
	assert_true(slice_equals((struct slice){ NULL, 0 }, SLICE("")));
	assert_true(slice_equals(slice_trim(SLICE(" \t a b\t ")), SLICE("a b")));
	assert_int_equal(slice_trim(SLICE(" \t ")).length, 0);
	assert_int_equal(slice_trim((struct slice){ NULL, 0 }).length, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broken_invariant_says_where_and_aborts),
		cmocka_unit_test(no_memory_ends_with_one_clear_line),
		cmocka_unit_test(strings_are_copied),
		cmocka_unit_test(clocks_go_forward),
		cmocka_unit_test(instants_and_durations),
		cmocka_unit_test(same_seed_same_sequence),
		cmocka_unit_test(is_xoshiro256),
		cmocka_unit_test(unit_is_uniform),
		cmocka_unit_test(random_seeds_differ),
		cmocka_unit_test(list_keeps_order),
		cmocka_unit_test(slices_compare),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
