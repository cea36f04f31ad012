/*
 * libFuzzer over explain: make fuzz, then
 *   build/fuzz/fuzz_explain -max_len=2048 -max_total_time=60 tests/fuzz/corpus/explain
 * First line: the method; second: the URL; the rest: the policy file.
 */
#include "../../proxy/base/check.h"
#include "../../proxy/explain/explain.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice take_line(struct slice *rest)
{
	const char *end = rest->length > 0 ? memchr(rest->data, '\n', rest->length) : NULL;
	struct slice line = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
	size_t used = line.length + (end ? 1 : 0);

	*rest = (struct slice){rest->data + used, rest->length - used};
	return line;
}

/* Whole lines, and nothing in them that a terminal or a log would take for more than text. */
static void check_output(struct slice text)
{
	CHECK(text.length > 0 && text.data[text.length - 1] == '\n');
	for (size_t i = 0; i < text.length; i++)
		CHECK((unsigned char)text.data[i] >= 0x20 || text.data[i] == '\n');
}

static void explain_once(const struct config *config, struct slice method, struct slice url, bool as_json)
{
	struct buffer out = {0};
	char error[EXPLAIN_ERROR_BYTES] = "";

	if (explain(config, method, url, as_json, &out, error, sizeof(error))) {
		check_output(buffer_slice(&out));
		CHECK(!as_json || (size_t)((const char *)memchr(buffer_start(&out), '\n', buffer_length(&out)) -
					   buffer_start(&out)) == buffer_length(&out) - 1);
	} else {
		CHECK(buffer_length(&out) == 0 && error[0] != '\0' && strlen(error) < sizeof(error) - 1);
	}
	buffer_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = {(const char *)data, size};
	struct slice method = take_line(&rest), url = take_line(&rest);
	struct fault_list faults;

	fault_list_init(&faults);
	struct config *config = config_load_text("policy.yaml", rest.data, rest.length, &faults);
	if (config) {
		explain_once(config, method, url, false);
		explain_once(config, method, url, true);
	}
	fault_list_clear(&faults);
	config_unref(&config);
	return 0;
}
