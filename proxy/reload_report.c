#include "reload_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

static const char *const kind_names[] = {
	[CHANGE_ADDED] = "added",
	[CHANGE_REMOVED] = "removed",
	[CHANGE_CHANGED] = "changed",
};

/* Where a change of this scope belongs: behind the last one of the same scope, or at the end. SIZE_MAX: its `tls` has changed
 * by name, so that nothing need be said of the files. */
static size_t place_of(const struct change_list *changes, const char *scope)
{
	size_t place = changes->n;
	for (size_t i = 0; i < changes->n; i++) {
		const struct change *change = &changes->items[i];
		if (strcmp(change->scope, scope) != 0)
			continue;
		if (change->key == NULL || strncmp(change->key, "tls.", 4) == 0)
			return SIZE_MAX;
		place = i + 1;
	}
	return place;
}

void report_add_new_files(struct change_list *changes, const char *upstream)
{
	char scope[256];
	snprintf(scope, sizeof(scope), "upstreams[%s]", upstream);
	size_t place = place_of(changes, scope);
	if (place == SIZE_MAX)
		return;
	if (changes->n >= MAX_CHANGES) {
		changes->n_left_out++;
		return;
	}
	if (changes->n == changes->capacity) {
		changes->capacity = changes->capacity ? changes->capacity * 2 : 16;
		changes->items = xrealloc(changes->items, changes->capacity * sizeof(*changes->items));
	}
	struct change *change = &changes->items[place];
	memmove(change + 1, change, (changes->n - place) * sizeof(*change));
	changes->n++;
	*change = (struct change){
		.kind = CHANGE_CHANGED,
		.scope = xstrdup(scope),
		.key = xstrdup("tls"),
		.after = xstrdup("new content of the files it names"),
	};
}

/* ---- whose change it is ---- */

/* NAME of "upstreams[NAME]" and "upstreams[NAME].routes[0]"; length 0: none. */
static struct slice upstream_of(const struct change *change)
{
	static const char prefix[] = "upstreams[";
	size_t n = sizeof(prefix) - 1;
	if (strncmp(change->scope, prefix, n) != 0)
		return SLICE("");
	return (struct slice){ change->scope + n, strcspn(change->scope + n, "]") };
}

static bool is_whole_upstream(const struct change *change)
{
	return change->key == NULL && strstr(change->scope, "].") == NULL;
}

/* What happened to the upstream of this change, seen as a whole. */
static enum change_kind kind_for_upstream(const struct change *change)
{
	return is_whole_upstream(change) ? change->kind : CHANGE_CHANGED;
}

/* Changes of one upstream stand together, so its name is new when the one before is another's. */
static bool names_upstream(const struct change_list *changes, size_t i, enum change_kind kind, struct slice *name)
{
	*name = upstream_of(&changes->items[i]);
	if (name->length == 0 || kind_for_upstream(&changes->items[i]) != kind)
		return false;
	return i == 0 || !slice_equals(upstream_of(&changes->items[i - 1]), *name);
}

static size_t n_upstreams(const struct change_list *changes, enum change_kind kind)
{
	size_t n = 0;
	struct slice name;
	for (size_t i = 0; i < changes->n; i++)
		n += names_upstream(changes, i, kind, &name);
	return n;
}

static void summarize(const struct change_list *changes, struct buffer *text)
{
	size_t n = changes->n + changes->n_left_out;
	if (n == 0) {
		buffer_append_slice(text, SLICE("nothing has changed"));
		return;
	}
	buffer_printf(text, "%zu change%s; upstreams: %zu added, %zu removed, %zu changed", n, n == 1 ? "" : "s",
		      n_upstreams(changes, CHANGE_ADDED), n_upstreams(changes, CHANGE_REMOVED),
		      n_upstreams(changes, CHANGE_CHANGED));
	if (changes->n_left_out > 0)
		buffer_printf(text, " (and %zu changes that are not looked into)", changes->n_left_out);
}

/* ---- the log ---- */

static void log_change(const struct change *change)
{
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "reload"))
		return;
	log_string(&line, "result", "change");
	log_string(&line, "change", kind_names[change->kind]);
	log_string(&line, "scope", change->scope[0] ? change->scope : NULL);
	log_string(&line, "key", change->key);
	log_string(&line, "before", change->before);
	log_string(&line, "after", change->after);
	log_end(&line);
}

static void log_names(struct log_line *line, const char *key, const struct change_list *changes, enum change_kind kind)
{
	struct buffer names = { 0 };
	struct slice name;
	/* A value is cut at LOG_MAX_VALUE_BYTES: no use in gathering more. */
	for (size_t i = 0; i < changes->n && buffer_length(&names) <= LOG_MAX_VALUE_BYTES; i++) {
		if (!names_upstream(changes, i, kind, &name))
			continue;
		if (buffer_length(&names) > 0)
			buffer_append(&names, " ", 1);
		buffer_append_slice(&names, name);
	}
	if (buffer_length(&names) > 0)
		log_slice(line, key, buffer_slice(&names));
	buffer_clear(&names);
}

void report_log(const struct change_list *changes, const char *path)
{
	for (size_t i = 0; i < changes->n && i < REPORT_MAX_LINES; i++)
		log_change(&changes->items[i]);
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "reload"))
		return;
	struct buffer message = { 0 };
	summarize(changes, &message);
	log_string(&line, "result", "ok");
	log_string(&line, "config", path);
	log_integer(&line, "changes", (int64_t)(changes->n + changes->n_left_out));
	log_names(&line, "upstreams_added", changes, CHANGE_ADDED);
	log_names(&line, "upstreams_removed", changes, CHANGE_REMOVED);
	log_names(&line, "upstreams_changed", changes, CHANGE_CHANGED);
	log_slice(&line, "message", buffer_slice(&message));
	log_end(&line);
	buffer_clear(&message);
}

/* ---- POST /reload ---- */

static void names_to_json(struct buffer *json, const struct change_list *changes, enum change_kind kind)
{
	struct slice name;
	json_open(json, kind_names[kind], '[');
	for (size_t i = 0; i < changes->n; i++)
		if (names_upstream(changes, i, kind, &name))
			json_item_slice(json, name);
	json_close(json, ']');
}

static void change_to_json(struct buffer *json, const struct change *change)
{
	json_open(json, NULL, '{');
	json_member_string(json, "change", kind_names[change->kind]);
	json_member_string(json, "scope", change->scope);
	json_member_string(json, "key", change->key);
	json_member_string(json, "before", change->before);
	json_member_string(json, "after", change->after);
	json_close(json, '}');
}

void report_json(const struct change_list *changes, struct buffer *json)
{
	struct buffer message = { 0 };
	summarize(changes, &message);
	json_open(json, NULL, '{');
	json_member_string(json, "result", "ok");
	json_member_slice(json, "message", buffer_slice(&message));
	json_open(json, "upstreams", '{');
	names_to_json(json, changes, CHANGE_ADDED);
	names_to_json(json, changes, CHANGE_REMOVED);
	names_to_json(json, changes, CHANGE_CHANGED);
	json_close(json, '}');
	json_open(json, "changes", '[');
	for (size_t i = 0; i < changes->n; i++)
		change_to_json(json, &changes->items[i]);
	json_close(json, ']');
	if (changes->n_left_out > 0)
		json_member_integer(json, "left_out", (int64_t)changes->n_left_out);
	json_close(json, '}');
	buffer_append(json, "\n", 1);
	buffer_clear(&message);
}
