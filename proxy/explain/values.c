/* Every effective value of a request, and where it comes from. */
#include <stdlib.h>

#include "../base/check.h"
#include "explanation.h"

#define STACK_BYTES 512

struct walk {
	const struct explanation *explanation;
	void (*take)(void *owner, const struct shown_value *value);
	void *owner;
};

static void show(const struct walk *walk, const char *group, const struct key *key, const void *owner)
{
	char stack[STACK_BYTES], *text = stack;
	size_t length = key_format_value(key, owner, stack, sizeof(stack));

	if (length >= sizeof(stack)) {
		text = xmalloc(length + 1);
		key_format_value(key, owner, text, length + 1);
	}
	struct shown_value value = {group, key, text, config_origin(walk->explanation->config, owner, key).line};
	walk->take(walk->owner, &value);
	if (text != stack)
		free(text);
}

static bool is_below(const struct key *key, const struct key *section)
{
	size_t n = strlen(section->path);

	return strncmp(key->path, section->path, n) == 0 && key->path[n] == '.';
}

/* A switch that is off has nothing below it that rules. */
static void show_policy(const struct walk *walk)
{
	const struct policy *policy = walk->explanation->match.policy;
	const struct key *off = NULL;

	for (size_t i = 0; i < n_keys; i++) {
		const struct key *key = &keys[i];
		if (!(key->scope & KEY_POLICY) || !key_has_value(key) || (off && is_below(key, off)))
			continue;
		show(walk, "policy", key, policy);
		if (key->type == KEY_SWITCH && !*(const bool *)((const char *)policy + key->offset))
			off = key;
	}
}

/* Hosts without an entry have no name, match or port of their own. */
static bool is_shown_for(const struct key *key, bool is_unmatched)
{
	return !is_unmatched || strncmp(key->path, "tls.", 4) == 0;
}

static bool concerns_requests(const struct key *key)
{
	static const char *const paths[] = {"unmatched", "limits.", "client.", "egress.", "dns."};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strncmp(key->path, paths[i], strlen(paths[i])) == 0)
			return true;
	return false;
}

void explanation_values(
	const struct explanation *explanation, void (*take)(void *owner, const struct shown_value *value), void *owner)
{
	struct walk walk = {explanation, take, owner};
	const struct config *config = explanation->config;
	const struct match *match = &explanation->match;

	if (explanation_has_policy(explanation))
		show_policy(&walk);
	for (size_t i = 0; match->route && i < n_keys; i++)
		if ((keys[i].scope & KEY_ROUTE) && key_has_value(&keys[i]))
			show(&walk, "route", &keys[i], match->route);
	for (size_t i = 0; match->upstream && i < n_keys; i++)
		if ((keys[i].scope & KEY_UPSTREAM) && key_has_value(&keys[i]) &&
			is_shown_for(&keys[i], match->upstream == &config->unmatched))
			show(&walk, "upstream", &keys[i], match->upstream);
	for (size_t i = 0; i < n_keys; i++)
		if ((keys[i].scope & KEY_GLOBAL) && key_has_value(&keys[i]) && concerns_requests(&keys[i]))
			show(&walk, "process", &keys[i], &config->global);
}
