#include "dump.h"

#include <string.h>

#include "keys.h"
#include "private.h"

struct dump {
	FILE *out;
	const struct config *config;
	unsigned scopes;
	bool is_route;
	const void *owners[4];
};

static const void *owner_of(const struct dump *dump, const struct key *key)
{
	return dump->owners[__builtin_ctz(key->scope)];
}

/* Keys whose empty value can't be written, only left out. */
static bool is_left_out(const struct dump *dump, const struct key *key)
{
	char value[8];

	if (dump->is_route && (key->flags & KEY_NOT_IN_ROUTES))
		return true;
	if (key->scope == KEY_ROUTE || key->type == KEY_PORTS) {
		key_format_value(key, owner_of(dump, key), value, sizeof(value));
		return !strcmp(value, "[]");
	}
	return false;
}

static void print_origin(const struct dump *dump, const struct key *key)
{
	unsigned line = config_origin(dump->config, owner_of(dump, key), key).line;

	if (line)
		fprintf(dump->out, " # line %u", line);
	fputc('\n', dump->out);
}

static bool has_children(const struct dump *dump, const char *prefix)
{
	for (size_t i = 0; i < n_keys; i++)
		if ((keys[i].scope & dump->scopes) && key_is_child(&keys[i], prefix) &&
			(keys[i].type == KEY_SECTION || !is_left_out(dump, &keys[i])))
			return true;
	return false;
}

static void print_keys(const struct dump *dump, const char *prefix, int indent);

static void print_key(const struct dump *dump, const struct key *key, const char *prefix, int indent)
{
	char inner[KEY_MAX_PATH_BYTES + 1];
	bool is_switch = key->type == KEY_SWITCH;

	snprintf(inner, sizeof(inner), "%s.", key->path);
	if (key->type == KEY_SECTION && !has_children(dump, inner))
		return;
	fprintf(dump->out, "%*s%s:", indent, "", key->path + strlen(prefix));
	if (key->type == KEY_SECTION || (is_switch && *((const char *)owner_of(dump, key) + key->offset))) {
		if (is_switch)
			print_origin(dump, key);
		else
			fputc('\n', dump->out);
		print_keys(dump, inner, indent + 2);
		return;
	}
	fputc(' ', dump->out);
	key_print_value(dump->out, key, owner_of(dump, key));
	print_origin(dump, key);
}

static void print_keys(const struct dump *dump, const char *prefix, int indent)
{
	for (size_t i = 0; i < n_keys; i++) {
		const struct key *key = &keys[i];

		if (!(key->scope & dump->scopes) || key->type == KEY_STRUCTURE || !key_is_child(key, prefix))
			continue;
		if (key->type == KEY_SECTION || !is_left_out(dump, key))
			print_key(dump, key, prefix, indent);
	}
}

static void print_route(FILE *out, const struct config *config, const struct route *route)
{
	struct dump dump = {.out = out, .config = config, .scopes = KEY_ROUTE, .is_route = true};

	dump.owners[1] = &route->policy;
	dump.owners[3] = route;
	fprintf(out, "      - # line %u\n", route->line);
	print_keys(&dump, "", 8); /* name and match first */
	dump.scopes = KEY_POLICY;
	print_keys(&dump, "", 8);
}

static void print_upstream(FILE *out, const struct config *config, const struct upstream_def *upstream)
{
	struct dump dump = {.out = out, .config = config, .scopes = KEY_UPSTREAM};

	dump.owners[1] = &upstream->policy;
	dump.owners[2] = upstream;
	fprintf(out, "  - # line %u\n", upstream->line);
	print_keys(&dump, "", 4);
	dump.scopes = KEY_POLICY;
	print_keys(&dump, "", 4);
	if (upstream->n_routes)
		fputs("    routes:\n", out);
	for (size_t i = 0; i < upstream->n_routes; i++)
		print_route(out, config, &upstream->routes[i]);
}

void config_dump_yaml(FILE *out, const struct config *config)
{
	struct dump global = {.out = out, .config = config, .scopes = KEY_GLOBAL};
	struct dump defaults = {.out = out, .config = config, .scopes = KEY_POLICY};

	global.owners[0] = &config->global;
	defaults.owners[1] = &config->defaults;
	fprintf(out, "# effective policies of %s\n", config->path ? config->path : "the built-in defaults");
	print_keys(&global, "", 0);
	fputs("defaults:\n", out);
	print_keys(&defaults, "", 2);
	if (config->n_upstreams)
		fputs("upstreams:\n", out);
	for (size_t i = 0; i < config->n_upstreams; i++)
		print_upstream(out, config, &config->upstreams[i]);
}
