#include "init.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../config/arena.h"
#include "../config/hosts.h"
#include "base/check.h"
#include "http/target.h"

#define MAX_UPSTREAMS 50
#define MAX_PORTS 8
#define MAX_VARIABLES 4 /* named in the comment of one upstream */
#define MAX_NAME_BYTES 80
#define MAX_VARIABLE_BYTES 200 /* of a variable's name */

/* One host that the environment names. */
struct proposal {
	char name[MAX_NAME_BYTES + 16];
	char host[TARGET_MAX_HOST + 3];       /* IPv6 in brackets */
	const char *variables[MAX_VARIABLES]; /* borrowed from environ; end at '=' */
	size_t n_variables, n_more_variables;
	uint16_t ports[MAX_PORTS];
	size_t n_ports;
	bool has_odd_tls_port; /* https:// on another port than 443 */
	bool has_https;
};

struct proposals {
	struct proposal items[MAX_UPSTREAMS];
	size_t n;
	size_t n_left_out;
};

/* clang-format off */
static const char head[] =
	"# Evenkeel policy file. What is not written here has its built-in value.\n"
	"#   evenkeel explain -c FILE URL   what that comes to for one request\n"
	"#   evenkeel check FILE            what is wrong with it\n"
	"#   evenkeel schema                for completion in an editor\n"
	"\n"
	"listen: 127.0.0.1:3128           # HTTP_PROXY=http://127.0.0.1:3128 in the application's environment\n"
	"admin: 127.0.0.1:9128            # /livez, /readyz, /metrics, and a dashboard at /\n"
	"unmatched: allow                 # hosts without an entry below: allow (they get `defaults`) or deny (403)\n"
	"\n"
	"defaults:                        # for every upstream that says nothing else\n"
	"  timeouts:\n"
	"    total: 30s                   # a whole call, waits and retries included; the application's own is longer\n"
	"    attempt: 10s                 # one attempt\n"
	"  retry:\n"
	"    max_attempts: 3              # the first one included; 1 never retries\n"
	"\n";

static const char example[] =
	"upstreams: []                    # one entry for each service that the application calls:\n"
	"# - name: payments               # in metrics and logs\n"
	"#   match: {hosts: [api.payments.example, \"*.pay.example\"]}\n"
	"#   tls: {originate: on}         # the application asks http://, Evenkeel speaks https:// with the upstream;\n"
	"#                                # inside an https:// tunnel no timeout or retry could be enforced\n"
	"#   timeouts: {total: 8s, attempt: 3s}\n"
	"#   routes:                      # the first match wins\n"
	"#     - match: {methods: [POST], paths: [\"/v1/charges\"]}\n"
	"#       retry: {max_attempts: 1}\n";
/* clang-format on */

/* The length of the name that is left when the ending is taken off a variable's; 0: it isn't one of ours. */
static size_t stem_length(const char *name, size_t length)
{
	static const char *const endings[] = {"_BASE_URL", "_URL", "_URI", "_ENDPOINT"};

	if (strncmp(name, "EVENKEEL_", 9) == 0 || length > MAX_VARIABLE_BYTES)
		return 0;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);
		if (length > n && memcmp(name + length - n, endings[i], n) == 0)
			return length - n;
	}
	return 0;
}

/* "PAYMENTS_API" to "payments-api"; empty when nothing is left that a name may have. */
static void make_name(const char *stem, size_t length, char name[static MAX_NAME_BYTES + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < length && n < MAX_NAME_BYTES; i++) {
		char c = stem[i];
		if (isascii(c) && isalnum((unsigned char)c))
			name[n++] = (char)tolower((unsigned char)c);
		else if (n > 0 && name[n - 1] != '-')
			name[n++] = '-';
	}
	while (n > 0 && name[n - 1] == '-')
		n--;
	name[n] = '\0';
}

static bool is_name_taken(const struct proposals *proposals, const char *name)
{
	for (size_t i = 0; i < proposals->n; i++)
		if (strcmp(proposals->items[i].name, name) == 0)
			return true;
	return strcmp(name, "default") == 0;
}

static void choose_name(const struct proposals *proposals, const char *stem, size_t length, struct proposal *proposal)
{
	char name[MAX_NAME_BYTES + 1];

	make_name(stem, length, name);
	if (name[0] == '\0')
		snprintf(name, sizeof(name), "upstream");
	snprintf(proposal->name, sizeof(proposal->name), "%s", name);
	for (unsigned n = 2; is_name_taken(proposals, proposal->name); n++)
		snprintf(proposal->name, sizeof(proposal->name), "%s-%u", name, n);
}

/* An http or https URL whose host a policy file may name. */
static bool read_url(const char *value, struct target *target, char host[static TARGET_MAX_HOST + 3])
{
	struct arena arena = {NULL};
	const char *why;

	if (target_parse(slice_of(value), false, target) != NULL || target->form != TARGET_ABSOLUTE)
		return false;
	snprintf(host, TARGET_MAX_HOST + 3, target->is_ipv6_literal ? "[%s]" : "%s", target->host);
	bool is_good = host_parse_name(&arena, host, &why) != NULL;
	arena_clear(&arena);
	return is_good;
}

static void note_port(struct proposal *proposal, const struct target *target)
{
	proposal->has_https = proposal->has_https || target->is_https;
	proposal->has_odd_tls_port = proposal->has_odd_tls_port || (target->is_https && target->port != 443);
	for (size_t i = 0; i < proposal->n_ports; i++)
		if (proposal->ports[i] == target->port)
			return;
	if (proposal->n_ports < MAX_PORTS)
		proposal->ports[proposal->n_ports++] = target->port;
}

static struct proposal *find_proposal(struct proposals *proposals, const char *host)
{
	for (size_t i = 0; i < proposals->n; i++)
		if (strcmp(proposals->items[i].host, host) == 0)
			return &proposals->items[i];
	return NULL;
}

static void consider(struct proposals *proposals, const char *variable)
{
	const char *equals = strchr(variable, '=');
	struct target target;
	char host[TARGET_MAX_HOST + 3];
	size_t length = equals ? stem_length(variable, (size_t)(equals - variable)) : 0;

	if (length == 0 || !read_url(equals + 1, &target, host))
		return;
	struct proposal *proposal = find_proposal(proposals, host);
	if (!proposal && proposals->n == MAX_UPSTREAMS) {
		proposals->n_left_out++;
		return;
	}
	if (!proposal) {
		struct proposal fresh = {.n_variables = 0};
		choose_name(proposals, variable, length, &fresh);
		memcpy(fresh.host, host, sizeof(host));
		proposal = &proposals->items[proposals->n++];
		*proposal = fresh;
	}
	note_port(proposal, &target);
	if (proposal->n_variables < MAX_VARIABLES)
		proposal->variables[proposal->n_variables++] = variable;
	else
		proposal->n_more_variables++;
}

static size_t name_length(const char *variable)
{
	return strcspn(variable, "=");
}

static int compare_variables(const void *left, const void *right)
{
	const char *a = *(const char *const *)left, *b = *(const char *const *)right;
	size_t shorter = name_length(a) < name_length(b) ? name_length(a) : name_length(b);
	int order = memcmp(a, b, shorter);

	return order ? order : (name_length(a) > name_length(b)) - (name_length(a) < name_length(b));
}

/* A variable's name may hold anything but "=": what could end the comment line is not shown. */
static void print_variable(FILE *out, const char *variable)
{
	for (size_t i = 0; i < name_length(variable); i++)
		fputc(isascii(variable[i]) && isgraph((unsigned char)variable[i]) ? variable[i] : '?', out);
}

static void print_proposal(FILE *out, const struct proposal *proposal)
{
	fprintf(out, "  - name: \"%s\"  # ", proposal->name);
	for (size_t i = 0; i < proposal->n_variables; i++) {
		fputs(i ? ", " : "", out);
		print_variable(out, proposal->variables[i]);
	}
	if (proposal->n_more_variables > 0)
		fprintf(out, " and %zu more", proposal->n_more_variables);
	fprintf(out, "\n    match: {hosts: [\"%s\"]", proposal->host);
	if (proposal->has_odd_tls_port) { /* CONNECT to a port that is not 443 has to be allowed by name */
		fputs(", ports: [", out);
		for (size_t i = 0; i < proposal->n_ports; i++)
			fprintf(out, "%s%u", i ? ", " : "", proposal->ports[i]);
		fputs("]", out);
	}
	fputs("}\n", out);
	if (proposal->has_https)
		fputs("    # https:// is an opaque tunnel, in which no timeout or retry can be enforced. For the whole "
		      "policy, write\n"
		      "    # http:// in the variable and switch this on:\n"
		      "    # tls: {originate: on}\n",
			out);
	fputs("    # timeouts: {total: 8s, attempt: 3s}\n", out);
}

static void print_environment(FILE *out)
{
	struct proposals *proposals = xcalloc(1, sizeof(*proposals));
	size_t n = 0;

	while (environ && environ[n])
		n++;
	char **sorted = xcalloc(n + 1, sizeof(*sorted));
	if (n > 0)
		memcpy(sorted, environ, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_variables);
	for (size_t i = 0; i < n; i++)
		consider(proposals, sorted[i]);
	fputs(proposals->n > 0
			? "upstreams:\n"
			: "upstreams: []   # no *_URL, *_URI or *_ENDPOINT variable holds an http:// or https:// URL\n",
		out);
	for (size_t i = 0; i < proposals->n; i++)
		print_proposal(out, &proposals->items[i]);
	if (proposals->n_left_out > 0)
		fprintf(out, "  # %zu more URLs are in the environment.\n", proposals->n_left_out);
	free(sorted);
	free(proposals);
}

void init_print(FILE *out, bool from_env)
{
	fputs(head, out);
	if (from_env)
		print_environment(out);
	else
		fputs(example, out);
}
