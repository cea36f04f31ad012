/* The command line: what was asked for, and the commands. */
#ifndef EVENKEEL_CLI_H
#define EVENKEEL_CLI_H

#include "proxy.h"

enum cli_command { CLI_RUN, CLI_CHECK, CLI_EXPLAIN, CLI_SCHEMA };

struct cli {
	enum cli_command command;
	struct proxy_options options;
	bool as_json;             /* check --format json, explain --json */
	const char *arguments[3]; /* what follows the options */
	int n_arguments;
};

/* -1: go on with cli_run; else the exit code (--help, --version, or a usage error, already said on stderr). */
int cli_parse(struct cli *cli, int argc, char **argv);
int cli_run(const struct cli *cli);

#endif
