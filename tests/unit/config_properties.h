/* What must hold of a policy file whatever its bytes are; for the mutation test and the fuzzer. A breach aborts. */
#ifndef EVENKEEL_TESTS_CONFIG_PROPERTIES_H
#define EVENKEEL_TESTS_CONFIG_PROPERTIES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../config/check.h"
#include "../../config/diff.h"
#include "../../config/dump.h"

#define MUST(condition, ...) ((condition) ? (void)0 : property_broken(#condition, __LINE__, "" __VA_ARGS__))

static inline void property_broken(const char *condition, int line, const char *detail)
{
	fprintf(stderr, "config_properties.h:%d: broken: %s %s\n", line, condition, detail);
	abort();
}

static inline void check_faults(const struct fault_list *faults, size_t n_lines)
{
	size_t n_errors = 0;

	for (size_t i = 0; i < faults->n; i++) {
		const struct fault *fault = &faults->items[i];

		n_errors += fault->severity == FAULT_ERROR;
		MUST(fault->line >= 1 && fault->line <= n_lines + 1);
		MUST(fault->column >= 1);
		MUST(fault->related_line <= n_lines + 1);
		MUST(*fault->message && !strpbrk(fault->message, "\r\n"));
		MUST(i == 0 || faults->items[i - 1].line <= fault->line);
	}
	MUST(n_errors == faults->n_errors);
	MUST(faults->n - n_errors == faults->n_warnings);
}

/* The text that a config is written out as loads to the same config, but for what is hidden in it. */
static inline void check_dump(const struct config *config)
{
	struct change_list changes = {0};
	struct fault_list faults;
	struct config *again;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	config_dump_yaml(out, config);
	fclose(out);
	fault_list_init(&faults);
	if (length <= 1024 * 1024 && !strstr(text, "(hidden)")) {
		again = config_load_text("dump", text, length, &faults);
		if (!again)
			property_broken(faults.items[0].message, (int)faults.items[0].line, text);
		config_diff(config, again, &changes);
		if (changes.n)
			property_broken(changes.items[0].key ? changes.items[0].key : "?", 0, changes.items[0].scope);
		change_list_clear(&changes);
		config_unref(&again);
	}
	fault_list_clear(&faults);
	free(text);
}

/* Returns whether the file was good. sink: where what is printed goes. */
static inline bool config_properties_of(const char *bytes, size_t length, FILE *sink)
{
	struct fault_list faults;
	struct config *config;
	bool is_good;
	char *exact = malloc(length ? length : 1); /* so that reading one byte too far is seen */
	size_t n_lines = 1;

	memcpy(exact, bytes, length);
	for (size_t i = 0; i < length; i++) /* what YAML takes for line ends, generously */
		n_lines += exact[i] == '\n' || exact[i] == '\r' || (unsigned char)exact[i] >= 0x80;
	fault_list_init(&faults);
	config = config_load_text("mutated", exact, length, &faults);
	free(exact);
	is_good = config != NULL;
	MUST(is_good == (faults.n_errors == 0));
	check_faults(&faults, n_lines);
	check_print(sink, &faults, false);
	check_print(sink, &faults, true);
	if (config)
		check_dump(config);
	config_unref(&config);
	fault_list_clear(&faults);
	return is_good;
}

#endif
