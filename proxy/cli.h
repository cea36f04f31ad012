/* The command line: what was asked for (cli.c), and the commands (cli_commands.c, health.c, init.c). */
#ifndef EVENKEEL_CLI_H
#define EVENKEEL_CLI_H

#include "proxy.h"

enum cli_command { CLI_RUN, CLI_CHECK, CLI_EXPLAIN, CLI_INIT, CLI_HEALTH, CLI_SCHEMA, N_CLI_COMMANDS };

#define CLI_MAX_ARGUMENTS 3

struct cli {
	enum cli_command command;
	struct proxy_options options;
	bool as_json;   /* check and explain: --json or --format json */
	bool from_env;  /* init */
	bool asks_ready; /* health: readiness in place of liveness */
	const char *arguments[CLI_MAX_ARGUMENTS]; /* what is left beside options and the command */
	int n_arguments;
};

/* -1: go on with cli_run; else the exit code (--help, --version, or a usage error, already said on stderr). */
int cli_parse(struct cli *cli, int argc, char **argv);
int cli_run(const struct cli *cli); /* the exit code */

/* "evenkeel: HINT" and where help is; returns EXIT_USAGE. */
int cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
