#include "cli.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../config/suggest.h"
#include "base/version.h"

static const char usage[] =
	"Usage: evenkeel [run] [-c FILE] [--listen ADDR]... [--admin ADDR|off] [--log-level LEVEL]\n"
	"       evenkeel check [-c] FILE [--json]\n"
	"       evenkeel explain [-c FILE] [METHOD] URL [--json]\n"
	"       evenkeel init [--from-env]\n"
	"       evenkeel health [-c FILE] [--admin ADDR] [--ready]\n"
	"       evenkeel schema\n"
	"\n"
	"A sidecar forward proxy that keeps an application's outgoing HTTP calls on an even keel: deadlines, bounded\n"
	"waiting, safe retries, honest errors. The application sets HTTP_PROXY=http://127.0.0.1:3128 and changes no "
	"code.\n"
	"\n"
	"Commands:\n"
	"  run      run the proxy in the foreground (the default); logs go to stderr\n"
	"  check    validate a policy file: every fault as FILE:LINE:COL: message; exit 0 good, 1 faults\n"
	"  explain  what the policy means for one request: its upstream and route and why, every effective value and "
	"where\n"
	"           it comes from, the worst-case timeline; METHOD is GET when left out; CONNECT takes HOST:PORT as "
	"URL\n"
	"  init     write a small commented policy file to stdout\n"
	"  health   ask a running proxy's admin port how it is, within 2 s; exit 0 healthy, 1 not\n"
	"  schema   print the JSON Schema (draft 2020-12) of the policy file, for editors\n"
	"\n"
	"Options:\n"
	"  -c, --config FILE      the policy file; without it the built-in defaults rule\n"
	"      --listen ADDR      run: listen here instead of the policy file's `listen`; may be repeated\n"
	"                         (127.0.0.1:3128, [::1]:3128, unix:/path.sock; port 0: any, see the log)\n"
	"      --admin ADDR|off   run: the admin port instead of the policy file's `admin`; health: where to ask\n"
	"      --log-level LEVEL  run: debug, info, warn or error instead of the policy file's `log.level`\n"
	"      --json             check, explain: JSON in place of text\n"
	"      --format FORMAT    check, explain: text or json\n"
	"      --from-env         init: propose upstreams from the URLs in *_URL, *_URI and *_ENDPOINT variables\n"
	"      --ready            health: ready for work (/readyz), not only alive (/livez)\n"
	"  -h, --help             this text\n"
	"  -V, --version          the version\n"
	"\n"
	"Signals: SIGHUP reads the policy file again; SIGTERM and SIGINT drain and stop, a second one stops at once;\n"
	"SIGUSR1 logs the state of every origin; SIGUSR2 starts the program anew and hands the listening sockets over.\n"
	"Exit codes: 0 clean stop, 1 could not start (check: faults), 2 usage, 3 stopped but had to cut work off.\n";

int cli_usage_error(const char *format, ...)
{
	va_list arguments;

	fputs("evenkeel: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("\nTry 'evenkeel --help'.\n", stderr);
	return EXIT_USAGE;
}

static const char *const command_words[N_CLI_COMMANDS] = {
	[CLI_RUN] = "run",
	[CLI_CHECK] = "check",
	[CLI_EXPLAIN] = "explain",
	[CLI_INIT] = "init",
	[CLI_HEALTH] = "health",
	[CLI_SCHEMA] = "schema",
};

#define FOR(command) (1u << (command))

enum { OPTION_LISTEN = 256, OPTION_ADMIN, OPTION_LOG_LEVEL, OPTION_FORMAT, OPTION_JSON, OPTION_FROM_ENV, OPTION_READY };

/* Which commands take an option. Those for all (--help, --version) end everything at once and need no row. */
static const struct {
	int code;
	const char *name;
	unsigned commands;
} option_rules[] = {
	{'c', "-c", FOR(CLI_RUN) | FOR(CLI_CHECK) | FOR(CLI_EXPLAIN) | FOR(CLI_HEALTH)},
	{OPTION_LISTEN, "--listen", FOR(CLI_RUN)},
	{OPTION_ADMIN, "--admin", FOR(CLI_RUN) | FOR(CLI_HEALTH)},
	{OPTION_LOG_LEVEL, "--log-level", FOR(CLI_RUN)},
	{OPTION_FORMAT, "--format", FOR(CLI_CHECK) | FOR(CLI_EXPLAIN)},
	{OPTION_JSON, "--json", FOR(CLI_CHECK) | FOR(CLI_EXPLAIN)},
	{OPTION_FROM_ENV, "--from-env", FOR(CLI_INIT)},
	{OPTION_READY, "--ready", FOR(CLI_HEALTH)},
};
#define N_OPTION_RULES (sizeof(option_rules) / sizeof(option_rules[0]))

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"admin", required_argument, NULL, OPTION_ADMIN},
	{"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
	{"format", required_argument, NULL, OPTION_FORMAT},
	{"json", no_argument, NULL, OPTION_JSON},
	{"from-env", no_argument, NULL, OPTION_FROM_ENV},
	{"ready", no_argument, NULL, OPTION_READY},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

/* What cli_parse learns on its way. */
struct parse {
	struct cli *cli;
	bool has_command;
	unsigned used; /* bits by place in option_rules */
};

static bool parse_level(const char *text, enum log_level *level)
{
	static const char *const words[] = {"debug", "info", "warn", "error"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(text, words[i]) == 0) {
			*level = (enum log_level)i;
			return true;
		}
	}
	return false;
}

static int take_command(struct parse *parse, const char *word)
{
	struct suggestion near = suggestion_for(word);
	for (size_t i = 0; i < N_CLI_COMMANDS; i++) {
		if (strcmp(word, command_words[i]) == 0) {
			parse->cli->command = (enum cli_command)i;
			parse->has_command = true;
			return -1;
		}
		suggestion_consider(&near, command_words[i]);
	}
	if (near.best)
		return cli_usage_error("unknown command '%s'; did you mean %s?", word, near.best);
	return cli_usage_error(
		"unknown command '%s'; the commands are run, check, explain, init, health and schema", word);
}

/* The first word is the command, the others its arguments. -1: fine so far. */
static int take_word(struct parse *parse, const char *word)
{
	struct cli *cli = parse->cli;
	if (!parse->has_command)
		return take_command(parse, word);
	if (cli->n_arguments == CLI_MAX_ARGUMENTS)
		return cli_usage_error("too many arguments");
	cli->arguments[cli->n_arguments++] = word;
	return -1;
}

static int take_format(struct cli *cli, const char *word)
{
	cli->as_json = strcmp(word, "json") == 0;
	if (!cli->as_json && strcmp(word, "text") != 0)
		return cli_usage_error("--format takes text or json");
	return -1;
}

static void note_use(struct parse *parse, int option)
{
	for (size_t i = 0; i < N_OPTION_RULES; i++)
		if (option_rules[i].code == option)
			parse->used |= 1u << i;
}

/* -1: fine so far. */
static int take_option(struct parse *parse, int option)
{
	struct cli *cli = parse->cli;
	note_use(parse, option);
	switch (option) {
	case 1:
		return take_word(parse, optarg);
	case 'c':
		cli->options.config_path = optarg;
		return -1;
	case OPTION_LISTEN:
		if (cli->options.n_listen == PROXY_MAX_LISTEN)
			return cli_usage_error("too many --listen options");
		cli->options.listen[cli->options.n_listen++] = optarg;
		return -1;
	case OPTION_ADMIN:
		cli->options.admin = optarg;
		return -1;
	case OPTION_LOG_LEVEL:
		cli->options.has_log_level = true;
		if (!parse_level(optarg, &cli->options.log_level))
			return cli_usage_error("--log-level takes debug, info, warn or error");
		return -1;
	case OPTION_FORMAT:
		return take_format(cli, optarg);
	case OPTION_JSON:
		cli->as_json = true;
		return -1;
	case OPTION_FROM_ENV:
		cli->from_env = true;
		return -1;
	case OPTION_READY:
		cli->asks_ready = true;
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

static int check_options(const struct parse *parse)
{
	unsigned command = FOR(parse->cli->command);
	for (size_t i = 0; i < N_OPTION_RULES; i++)
		if ((parse->used & (1u << i)) && !(option_rules[i].commands & command))
			return cli_usage_error(
				"%s takes no %s", command_words[parse->cli->command], option_rules[i].name);
	return -1;
}

static int check_arguments(struct cli *cli)
{
	switch (cli->command) {
	case CLI_CHECK:
		if (!cli->options.config_path && cli->n_arguments > 0)
			cli->options.config_path = cli->arguments[--cli->n_arguments];
		if (!cli->options.config_path)
			return cli_usage_error("check needs a policy file: evenkeel check FILE");
		break;
	case CLI_EXPLAIN:
		if (cli->n_arguments == 0)
			return cli_usage_error("explain needs a URL: evenkeel explain [-c FILE] [METHOD] URL");
		return cli->n_arguments > 2 ? cli_usage_error("too many arguments") : -1;
	default:
		if (cli->n_arguments > 0)
			return cli_usage_error("%s takes no arguments but options", command_words[cli->command]);
		return -1;
	}
	return cli->n_arguments > 0 ? cli_usage_error("too many arguments") : -1;
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
	*cli = (struct cli){.command = CLI_RUN, .options.argv = argv};
	struct parse parse = {.cli = cli};
	int option, code;
	/* "-": words come as option 1, in their place among the options, whatever POSIXLY_CORRECT says */
	while ((option = getopt_long(argc, argv, "-c:hV", long_options, NULL)) != -1) {
		code = take_option(&parse, option);
		if (code >= 0)
			return code;
	}
	for (; optind < argc; optind++) { /* behind "--" */
		code = take_word(&parse, argv[optind]);
		if (code >= 0)
			return code;
	}
	code = check_options(&parse);
	return code >= 0 ? code : check_arguments(cli);
}
