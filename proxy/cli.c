#include "cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "../config/check.h"
#include "../config/schema.h"

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "0.0.0-dev"
#endif

static const char usage[] =
	"Usage: evenkeel [run] [-c FILE] [--listen ADDR]... [--admin ADDR|off] [--log-level LEVEL]\n"
	"       evenkeel check [-c] FILE [--format text|json]\n"
	"       evenkeel schema\n"
	"\n"
	"A sidecar forward proxy that keeps an application's outgoing HTTP calls on an even keel: deadlines, bounded\n"
	"waiting, safe retries, honest errors. The application sets HTTP_PROXY=http://127.0.0.1:3128 and changes no code.\n"
	"\n"
	"Commands:\n"
	"  run      run the proxy in the foreground (the default); logs go to stderr\n"
	"  check    validate a policy file: every fault as FILE:LINE:COL: message; exit 0 good, 1 faults\n"
	"  schema   print the JSON Schema (draft 2020-12) of the policy file, for editors\n"
	"\n"
	"Options:\n"
	"  -c, --config FILE      the policy file; without it the built-in defaults rule\n"
	"      --listen ADDR      listen here instead of the policy file's `listen`; may be repeated\n"
	"                         (127.0.0.1:3128, [::1]:3128, unix:/path.sock; port 0: any, see the log)\n"
	"      --admin ADDR|off   the admin port instead of the policy file's `admin`\n"
	"      --log-level LEVEL  debug, info, warn or error instead of the policy file's `log.level`\n"
	"      --format FORMAT    of check: text or json\n"
	"  -h, --help             this text\n"
	"  -V, --version          the version\n"
	"\n"
	"Signals: SIGHUP reads the policy file again; SIGTERM and SIGINT drain and stop, a second one stops at once;\n"
	"SIGUSR1 logs the state of every origin.\n"
	"Exit codes: 0 clean stop, 1 could not start (check: faults), 2 usage, 3 stopped but had to cut work off.\n";

static int usage_error(const char *hint)
{
	fprintf(stderr, "evenkeel: %s\nTry 'evenkeel --help'.\n", hint);
	return EXIT_USAGE;
}

static bool parse_level(const char *text, enum log_level *level)
{
	static const char *const words[] = { "debug", "info", "warn", "error" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i]) == 0) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

static bool parse_command(struct cli *cli, const char *word)
{
	static const struct {
		const char *word;
		enum cli_command command;
	} commands[] = {
		{ "run", CLI_RUN },
		{ "check", CLI_CHECK },
		{ "schema", CLI_SCHEMA },
	};
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(word, commands[i].word) == 0) {
			cli->command = commands[i].command;
			return true;
		}
	}
	return false;
}

enum { OPTION_LISTEN = 256, OPTION_ADMIN, OPTION_LOG_LEVEL, OPTION_FORMAT };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "listen", required_argument, NULL, OPTION_LISTEN },
	{ "admin", required_argument, NULL, OPTION_ADMIN },
	{ "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
	{ "format", required_argument, NULL, OPTION_FORMAT },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* -1: fine so far. */
static int take_option(struct cli *cli, int option)
{
	switch (option) {
	case 'c':
		cli->options.config_path = optarg;
		return -1;
	case OPTION_LISTEN:
		if (cli->options.n_listen == PROXY_MAX_LISTEN)
			return usage_error("too many --listen options");
		cli->options.listen[cli->options.n_listen++] = optarg;
		return -1;
	case OPTION_ADMIN:
		cli->options.admin = optarg;
		return -1;
	case OPTION_LOG_LEVEL:
		cli->options.has_log_level = true;
		if (!parse_level(optarg, &cli->options.log_level))
			return usage_error("--log-level takes debug, info, warn or error");
		return -1;
	case OPTION_FORMAT:
		cli->as_json = strcmp(optarg, "json") == 0;
		if (!cli->as_json && strcmp(optarg, "text") != 0)
			return usage_error("--format takes text or json");
		return -1;
	case 'h':
		fputs(usage, stdout);
		return EXIT_STOPPED;
	case 'V':
		puts("evenkeel " EVENKEEL_VERSION);
		return EXIT_STOPPED;
	default:
		fputs("Try 'evenkeel --help'.\n", stderr); /* getopt has said what is wrong */
		return EXIT_USAGE;
	}
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	*cli = (struct cli){ .command = CLI_RUN };
	if (argc > 1 && argv[1][0] != '-') {
		if (!parse_command(cli, argv[1])) {
			fprintf(stderr, "evenkeel: unknown command '%s'\n", argv[1]);
			return usage_error("the commands are run, check and schema");
		}
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	int option;
	while ((option = getopt_long(argc, argv, "c:hV", long_options, NULL)) != -1) {
		int code = take_option(cli, option);
		if (code >= 0)
			return code;
	}
	for (; optind < argc; optind++) {
		if (cli->n_arguments == 3)
			return usage_error("too many arguments");
		cli->arguments[cli->n_arguments++] = argv[optind];
	}
	if (cli->command == CLI_CHECK && !cli->options.config_path && cli->n_arguments == 1)
		cli->options.config_path = cli->arguments[--cli->n_arguments];
	if (cli->command == CLI_CHECK && !cli->options.config_path)
		return usage_error("check needs a policy file: evenkeel check FILE");
	if (cli->n_arguments > 0)
		return usage_error(cli->command == CLI_RUN ? "run takes no arguments but options" : "too many arguments");
	return -1;
}

static int run_check(const struct cli *cli)
{
	struct fault_list faults;
	fault_list_init(&faults);
	struct config *config = config_load(cli->options.config_path, &faults);
	bool is_good = config != NULL;
	check_print(stdout, &faults, cli->as_json);
	char error[512];
	if (is_good && !proxy_check_tls(config, error, sizeof(error))) {
		is_good = false;
		fprintf(stderr, "%s\n", error);
	}
	if (is_good && !cli->as_json)
		printf("%s: good%s\n", cli->options.config_path, faults.n_warnings > 0 ? ", with warnings" : "");
	fault_list_clear(&faults);
	config_unref(&config);
	return is_good ? 0 : 1;
}

int cli_run(const struct cli *cli)
{
	switch (cli->command) {
	case CLI_CHECK:
		return run_check(cli);
	case CLI_SCHEMA:
		schema_print(stdout);
		return 0;
	case CLI_EXPLAIN:
	case CLI_RUN:
		break;
	}
	return proxy_run(&cli->options);
}
