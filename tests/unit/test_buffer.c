#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../proxy/base/buffer.h"
#include "../../proxy/base/rng.h"

static void bytes_come_out_as_they_went_in(void **state)
{
	(void)state;
	struct buffer buffer = { 0 };

	buffer_append(&buffer, "hello", 5);
	buffer_append_slice(&buffer, SLICE(", world"));
	assert_int_equal(buffer_length(&buffer), 12);
	assert_memory_equal(buffer_start(&buffer), "hello, world", 12);
	buffer_consume(&buffer, 7);
	assert_true(slice_equals(buffer_slice(&buffer), SLICE("world")));
	buffer_clear(&buffer);
	assert_null(buffer.data);
}

static void empty_holds_no_memory(void **state)
{
	(void)state;
	struct buffer buffer = { 0 };

	assert_true(slice_equals(buffer_slice(&buffer), SLICE("")));
	buffer_append(&buffer, NULL, 0);
	assert_null(buffer.data);
	buffer_append(&buffer, "x", 1);
	assert_non_null(buffer.data);
	buffer_consume(&buffer, 1);
	assert_null(buffer.data);
	assert_int_equal(buffer.capacity, 0);
	buffer_append(&buffer, "y", 1);
	buffer_reset(&buffer);
	assert_non_null(buffer.data);
	assert_int_equal(buffer_length(&buffer), 0);
	buffer_clear(&buffer);
}

static void reserved_room_is_claimed(void **state)
{
	(void)state;
	struct buffer buffer = { 0 };

	memcpy(buffer_reserve(&buffer, 10000), "abc", 3);
	assert_int_equal(buffer_length(&buffer), 0);
	buffer_grow(&buffer, 3);
	assert_true(slice_equals(buffer_slice(&buffer), SLICE("abc")));
	buffer_clear(&buffer);
}

static void printf_grows_as_needed(void **state)
{
	(void)state;
	struct buffer buffer = { 0 };
	char long_text[3000];

	memset(long_text, 'a', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = '\0';
	buffer_printf(&buffer, "%d-", 42);
	buffer_printf(&buffer, "%s!", long_text);
	assert_int_equal(buffer_length(&buffer), 3 + 2999 + 1);
	assert_memory_equal(buffer_start(&buffer), "42-aaa", 6);
	assert_int_equal(buffer_start(&buffer)[buffer_length(&buffer) - 1], '!');
	buffer_clear(&buffer);
}

/* A queue that never runs empty must neither grow without end nor mix its bytes up. */
static void a_busy_queue_stays_small(void **state)
{
	(void)state;
	struct buffer buffer = { 0 };
	struct rng rng;
	uint8_t next_in = 0, next_out = 0, chunk[700];
	size_t largest = 0;

	rng_init(&rng, 7);
	for (int round = 0; round < 20000; round++) {
		size_t n = rng_u64(&rng) % sizeof chunk;
		for (size_t i = 0; i < n; i++)
			chunk[i] = next_in++;
		buffer_append(&buffer, chunk, n);
		size_t keep = rng_u64(&rng) % 300;
		size_t n_out = buffer_length(&buffer) > keep ? buffer_length(&buffer) - keep : 0;
		for (size_t i = 0; i < n_out; i++)
			assert_int_equal((uint8_t)buffer_start(&buffer)[i], next_out++);
		buffer_consume(&buffer, n_out);
		largest = buffer.capacity > largest ? buffer.capacity : largest;
	}
	assert_true(largest <= 4096);
	buffer_clear(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_out_as_they_went_in),
		cmocka_unit_test(empty_holds_no_memory),
		cmocka_unit_test(reserved_room_is_claimed),
		cmocka_unit_test(printf_grows_as_needed),
		cmocka_unit_test(a_busy_queue_stays_small),
	};
	return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
