/*
 * libFuzzer over the HTTP readers and writers: make fuzz, then
 *   build/fuzz/fuzz_http -dict=tests/fuzz/http.dict -max_len=2048 -max_total_time=60 tests/fuzz/corpus/http
 * The first two bytes say how the rest is cut into reads.
 */
#include "../unit/http_properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	properties_of((const char *)data + 2, size - 2, data[0], 1u + data[1] % 64u);
	return 0;
}
