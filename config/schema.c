#include "schema.h"

#include <stdbool.h>
#include <string.h>

#include "schema_key.h"

struct map {
	unsigned scopes;
	bool is_route;
	bool is_definition; /* the sections of a policy are printed once, under $defs, and referred to from then on */
};

static void print_properties(FILE *out, const struct map *map, const char *prefix);

static const char *name_in(const struct key *key, const char *prefix)
{
	return key->path + strlen(prefix);
}

static void print_section(FILE *out, const struct map *map, const struct key *key)
{
	char prefix[KEY_MAX_PATH_BYTES + 1];
	bool is_match = !strcmp(key->path, "match") && (key->scope & KEY_UPSTREAM);

	snprintf(prefix, sizeof(prefix), "%s.", key->path);
	fprintf(out, "{\"type\":[\"object\"%s],", is_match ? "" : ",\"null\"");
	schema_print_description(out, key);
	fputs(",\"additionalProperties\":false,\"properties\":{", out);
	print_properties(out, map, prefix);
	fputs("}", out);
	if (is_match)
		fputs(",\"anyOf\":[{\"required\":[\"hosts\"]},{\"required\":[\"<<\"]}]", out);
	fputs("}", out);
}

/* off or on, or the map of the keys below. */
static void print_switch(FILE *out, const struct map *map, const struct key *key)
{
	fputc('{', out);
	schema_print_description(out, key);
	schema_print_default(out, key);
	fputs(",\"anyOf\":[{\"enum\":[\"on\",\"off\",true,false,\"true\",\"false\"]}," SCHEMA_ENVIRONMENT ",", out);
	print_section(out, map, key);
	fputs("]}", out);
}

static void print_structure(FILE *out, const struct key *key)
{
	if (!strcmp(key->path, "defaults"))
		fputs("{\"$ref\":\"#/$defs/policy\"}", out);
	else if (!strcmp(key->path, "upstreams"))
		fputs("{\"type\":[\"array\",\"null\"],\"items\":{\"$ref\":\"#/$defs/upstream\"}}", out);
	else
		fputs("{\"type\":[\"array\",\"null\"],\"items\":{\"$ref\":\"#/$defs/route\"}}", out);
}

static void print_properties(FILE *out, const struct map *map, const char *prefix)
{
	fputs("\"<<\":true", out);
	for (size_t i = 0; i < n_keys; i++) {
		const struct key *key = &keys[i];

		if (!(key->scope & map->scopes) || !key_is_child(key, prefix))
			continue;
		if (map->is_route && !strcmp(key->path, "pool"))
			continue;
		fprintf(out, ",\n\"%s\":", name_in(key, prefix));
		if (key->scope == KEY_POLICY && !map->is_definition)
			fprintf(out, "{\"$ref\":\"#/$defs/%s\"}", key->path);
		else if (key->type == KEY_SECTION)
			print_section(out, map, key);
		else if (key->type == KEY_SWITCH)
			print_switch(out, map, key);
		else if (key->type == KEY_STRUCTURE)
			print_structure(out, key);
		else
			schema_print_leaf(out, key);
	}
}

static void print_map(
	FILE *out, const char *name, unsigned scopes, const char *description, bool may_be_empty, const char *required)
{
	const struct map map = {scopes, scopes & KEY_ROUTE, false};

	fprintf(out, ",\n\"%s\":{\"type\":[\"object\"%s],", name, may_be_empty ? ",\"null\"" : "");
	schema_print_member(out, "description", description);
	fputs(",\"additionalProperties\":false,\"properties\":{", out);
	print_properties(out, &map, "");
	fprintf(out, "}%s}", required);
}

static void print_definitions(FILE *out)
{
	const struct map map = {KEY_POLICY, false, true};

	fputs("\"$defs\":{\n\"environment\":{\"type\":\"string\",\"pattern\":\"[$][{]\",\"description\":\"${NAME} or "
	      "${NAME:-fallback}, read from the environment\"}",
		out);
	for (size_t i = 0; i < n_keys; i++) {
		if (keys[i].scope != KEY_POLICY || !key_is_child(&keys[i], ""))
			continue;
		fprintf(out, ",\n\"%s\":", keys[i].path);
		if (keys[i].type == KEY_SECTION)
			print_section(out, &map, &keys[i]);
		else if (keys[i].type == KEY_SWITCH)
			print_switch(out, &map, &keys[i]);
		else
			schema_print_leaf(out, &keys[i]);
	}
	print_map(out, "policy", KEY_POLICY, "The policy that every upstream starts from", true, "");
	print_map(out, "upstream", KEY_POLICY | KEY_UPSTREAM, "Hosts that get a policy of their own", false,
		",\"anyOf\":[{\"required\":[\"name\",\"match\"]},{\"required\":[\"<<\"]}]");
	print_map(out, "route", KEY_POLICY | KEY_ROUTE, "A policy for some methods and paths", false, "");
	fputs("\n}", out);
}

void schema_print(FILE *out)
{
	const struct map map = {KEY_GLOBAL, false, true};

	fputs("{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n\"title\":\"Evenkeel policy file\",\n"
	      "\"type\":[\"object\",\"null\"],\n\"additionalProperties\":false,\n\"patternProperties\":{\"^x-\":{"
	      "\"description\":"
	      "\"Not read; a place for anchors\"}},\n\"properties\":{",
		out);
	print_properties(out, &map, "");
	fputs("},\n", out);
	print_definitions(out);
	fputs("}\n", out);
}
