/* The commands that read a policy file and print. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../config/check.h"
#include "../config/schema.h"
#include "cli.h"
#include "explain/explain.h"
#include "health.h"
#include "init.h"

/* What went to stdout must have arrived: a full disk is no success. */
static int finish_output(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "evenkeel: can't write the output: %s\n", strerror(errno));
	return code == 0 ? 1 : code;
}

static int run_check(const struct cli *cli)
{
	struct fault_list faults;
	fault_list_init(&faults);
	struct config *config = config_load(cli->options.config_path, &faults);
	uint64_t *identities = config ? proxy_check_tls(config, &faults) : NULL;
	bool is_good = identities != NULL;
	check_print(stdout, &faults, cli->as_json);
	free(identities);
	fault_list_clear(&faults);
	config_unref(&config);
	return is_good ? 0 : 1;
}

static int run_explain(const struct cli *cli)
{
	struct fault_list faults;
	fault_list_init(&faults);
	struct config *config = config_load(cli->options.config_path, &faults);
	if (!config) {
		check_print(stderr, &faults, false);
		fault_list_clear(&faults);
		return 1;
	}
	struct slice method = cli->n_arguments == 2 ? slice_of(cli->arguments[0]) : SLICE("GET");
	struct buffer out = {0};
	char error[EXPLAIN_ERROR_BYTES];
	int code = 0;
	if (explain(config, method, slice_of(cli->arguments[cli->n_arguments - 1]), cli->as_json, &out, error,
		    sizeof(error)))
		fwrite(buffer_start(&out), 1, buffer_length(&out), stdout);
	else
		code = cli_usage_error("explain: %s", error);
	buffer_clear(&out);
	fault_list_clear(&faults);
	config_unref(&config);
	return code;
}

static int run_health(const struct cli *cli)
{
	struct fault_list faults;
	fault_list_init(&faults);
	struct config *config = config_load(cli->options.config_path, &faults);
	char error[HEALTH_ERROR_BYTES] = "";
	bool is_healthy = false;
	if (config)
		is_healthy = health_ask(&config->global, cli->options.admin, cli->asks_ready, error, sizeof(error));
	else
		snprintf(error, sizeof(error), "%s: %zu faults (evenkeel check shows them)", cli->options.config_path,
			faults.n_errors);
	if (!is_healthy)
		fprintf(stderr, "evenkeel: not healthy: %s\n", error);
	fault_list_clear(&faults);
	config_unref(&config);
	return is_healthy ? 0 : 1;
}

int cli_run(const struct cli *cli)
{
	switch (cli->command) {
	case CLI_CHECK:
		return finish_output(run_check(cli));
	case CLI_EXPLAIN:
		return finish_output(run_explain(cli));
	case CLI_INIT:
		init_print(stdout, cli->from_env);
		return finish_output(0);
	case CLI_HEALTH:
		return run_health(cli);
	case CLI_SCHEMA:
		schema_print(stdout);
		return finish_output(0);
	case CLI_RUN:
	case N_CLI_COMMANDS:
		break;
	}
	return proxy_run(&cli->options);
}
