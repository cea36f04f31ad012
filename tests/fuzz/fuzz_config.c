/*
 * libFuzzer over policy files: make fuzz, then
 *   build/fuzz/fuzz_config -dict=tests/fuzz/config.dict -max_len=4096 -max_total_time=60 NEW tests/policies/good \
 *       tests/policies/bad
 */
#include <stdint.h>

#include "../unit/config_properties.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;

	if (!sink)
		sink = fopen("/dev/null", "w");
	config_properties_of((const char *)data, size, sink);
	return 0;
}
