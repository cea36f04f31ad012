/* New policies into the running process: parse all, judge all, then swap. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../config/hosts.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/json.h"
#include "proxy.h"
#include "reload_report.h"

#define LOG_MAX_FAULTS 50

bool proxy_take_options(struct proxy *proxy, char *error, size_t error_capacity)
{
	const struct proxy_options *options = proxy->options;
	const char *why = NULL;
	if (options->n_listen > 0) {
		struct listen_address *items = arena_alloc(&proxy->arena, options->n_listen * sizeof(*items));
		for (size_t i = 0; i < options->n_listen; i++) {
			if (!listen_parse(&proxy->arena, options->listen[i], &items[i], &why)) {
				snprintf(error, error_capacity, "--listen %s: %s", options->listen[i], why);
				return false;
			}
		}
		proxy->listen = (struct listen_list){ items, options->n_listen };
	}
	if (!options->admin)
		return true;
	proxy->has_admin = true;
	proxy->admin_is_on = strcmp(options->admin, "off") != 0;
	if (proxy->admin_is_on && !listen_parse(&proxy->arena, options->admin, &proxy->admin, &why)) {
		snprintf(error, error_capacity, "--admin %s: %s", options->admin, why);
		return false;
	}
	return true;
}

void proxy_apply_options(const struct proxy *proxy, struct config *config)
{
	if (proxy->listen.n > 0)
		config->global.listen = proxy->listen;
	if (proxy->has_admin) {
		config->global.admin_is_on = proxy->admin_is_on;
		config->global.admin = proxy->admin;
	}
	if (proxy->options->has_log_level)
		config->global.log_level = proxy->options->log_level;
}

/* One line for each fault or warning, up to LOG_MAX_FAULTS: a file can have thousands, and the log other things to say. */
static void log_faults(const struct fault_list *faults, enum fault_severity severity)
{
	bool is_error = severity == FAULT_ERROR;
	enum log_level level = is_error ? LOG_ERROR : LOG_WARN;
	const char *event = is_error ? "reload" : "policy_warning";
	size_t n = 0;
	for (size_t i = 0; i < faults->n; i++) {
		const struct fault *fault = &faults->items[i];
		struct log_line line;
		if (fault->severity != severity || ++n > LOG_MAX_FAULTS || !log_begin(&line, level, event))
			continue;
		log_string(&line, "result", is_error ? "fault" : NULL);
		log_string(&line, "file", fault->file);
		log_integer(&line, "line", fault->line);
		log_integer(&line, "column", fault->column);
		log_string(&line, "message", fault->message);
		log_end(&line);
	}
	struct log_line line;
	if (n <= LOG_MAX_FAULTS || !log_begin(&line, level, event))
		return;
	char message[80];
	snprintf(message, sizeof(message), "and %zu more (evenkeel check shows them all)", n - LOG_MAX_FAULTS);
	log_string(&line, "result", is_error ? "fault" : NULL);
	log_string(&line, "message", message);
	log_end(&line);
}

void proxy_log_warnings(const struct fault_list *faults)
{
	log_faults(faults, FAULT_WARNING);
}

static void faults_to_json(struct buffer *json, const struct fault_list *faults)
{
	buffer_append_slice(json, SLICE("{\"result\":\"failed\",\"message\":\"the old policies stay in force\",\"faults\":["));
	for (size_t i = 0; i < faults->n; i++) {
		const struct fault *fault = &faults->items[i];
		if (i > 0)
			buffer_append(json, ",", 1);
		buffer_append(json, "{", 1);
		json_member_string(json, "severity", fault->severity == FAULT_ERROR ? "error" : "warning");
		json_member_string(json, "file", fault->file);
		json_member_integer(json, "line", fault->line);
		json_member_integer(json, "column", fault->column);
		json_member_string(json, "message", fault->message);
		buffer_append(json, "}", 1);
	}
	buffer_append_slice(json, SLICE("]}\n"));
}

static bool refuse(const char *why, struct buffer *json)
{
	process_metrics.reloads_failed++;
	struct log_line line;
	if (log_begin(&line, LOG_ERROR, "reload")) {
		log_string(&line, "result", "failed");
		log_string(&line, "message", why);
		log_end(&line);
	}
	if (json && buffer_length(json) == 0) {
		buffer_append(json, "{", 1);
		json_member_string(json, "result", "failed");
		json_member_string(json, "message", why);
		buffer_append_slice(json, SLICE(",\"faults\":[]}\n")); /* none of the file's own */
	}
	return false;
}

void proxy_watch(struct proxy *proxy)
{
	const struct config *config = proxy->config;
	bool is_on = config->global.watch && proxy->options->config_path;
	watch_set(proxy->watch, proxy->options->config_path, is_on ? config : NULL);
}

/* Everything that can fail has been done: listeners are open, files are read. From here on nothing can go wrong. */
static void swap_in(struct proxy *proxy, struct config *fresh, uint64_t *identities)
{
	struct config *old = proxy->config;
	proxy->config = fresh;
	free(proxy->tls_identities);
	proxy->tls_identities = identities;
	log_configure(fresh->global.log_level, fresh->global.log_text);
	resolver_configure(proxy->resolver, &fresh->global.dns);
	registry_reconcile(proxy->registry, fresh);
	config_unref(&old);
	proxy_watch(proxy);
	process_metrics.reloads_ok++;
	process_metrics.reload_last_success_wall_ms = clock_wall_ms();
}

static void add_tls_fault(const struct config *config, const struct upstream_def *upstream, const char *why,
			  struct fault_list *faults)
{
	char key[64], message[384];
	/* It begins with the key that is at fault: "tls.ca_file: ...". */
	snprintf(key, sizeof(key), "%.*s", (int)strcspn(why, ":"), why);
	snprintf(message, sizeof(message), "upstream %s: %s", upstream->name, why);
	config_add_fault(config, upstream, key, message, faults);
}

uint64_t *proxy_check_tls(const struct config *config, struct fault_list *faults)
{
	/* Each is kept until all are made: upstreams of the same kind share one, and the system's store is read once. */
	struct tls_context **contexts = xcalloc(config->n_upstreams + 1, sizeof(*contexts));
	uint64_t *identities = xcalloc(config->n_upstreams + 1, sizeof(*identities));
	bool is_good = true;
	for (size_t i = 0; i < config->n_upstreams; i++) {
		char why[320];
		contexts[i] = tls_context_get(&config->upstreams[i].tls, why, sizeof(why));
		if (contexts[i]) {
			identities[i] = tls_context_identity(contexts[i]);
			continue;
		}
		add_tls_fault(config, &config->upstreams[i], why, faults);
		is_good = false;
	}
	for (size_t i = 0; i < config->n_upstreams; i++)
		tls_context_unref(&contexts[i]);
	free(contexts);
	if (!is_good) {
		free(identities);
		identities = NULL;
	}
	return identities;
}

/* The place of the upstream of that name; n_upstreams: there is none. hint: looked at first, for order seldom changes. */
static size_t place_of_upstream(const struct config *config, const char *name, size_t hint)
{
	if (hint < config->n_upstreams && strcmp(config->upstreams[hint].name, name) == 0)
		return hint;
	for (size_t i = 0; i < config->n_upstreams; i++)
		if (strcmp(config->upstreams[i].name, name) == 0)
			return i;
	return config->n_upstreams;
}

/* Files that are the same by name and others by content: the diff of the two configs can't tell. */
static void add_new_files(const struct proxy *proxy, const struct config *fresh, const uint64_t *identities,
			  struct change_list *changes)
{
	const struct config *old = proxy->config;
	size_t hint = 0;
	for (size_t i = 0; i < fresh->n_upstreams; i++) {
		size_t place = place_of_upstream(old, fresh->upstreams[i].name, hint);
		if (place == old->n_upstreams)
			continue;
		hint = place + 1;
		if (proxy->tls_identities[place] != identities[i])
			report_add_new_files(changes, fresh->upstreams[i].name);
	}
}

static void announce(struct proxy *proxy, struct config *fresh, uint64_t *identities, const struct fault_list *faults,
		     struct buffer *json)
{
	struct change_list changes = { 0 };
	config_diff(proxy->config, fresh, &changes);
	add_new_files(proxy, fresh, identities, &changes);
	swap_in(proxy, fresh, identities);
	proxy_log_warnings(faults);
	report_log(&changes, proxy->options->config_path);
	if (json)
		report_json(&changes, json);
	change_list_clear(&changes);
}

static bool refuse_faults(const char *path, const struct fault_list *faults, struct buffer *json)
{
	char error[768];
	log_faults(faults, FAULT_ERROR);
	if (json)
		faults_to_json(json, faults);
	const struct fault *first = faults->items; /* errors and warnings are sorted by line */
	while (first->severity != FAULT_ERROR)
		first++;
	if (faults->n_errors == 1)
		snprintf(error, sizeof(error), "%s:%u: %.512s; the old policies stay in force", path, first->line, first->message);
	else
		snprintf(error, sizeof(error), "%zu faults in %s; the old policies stay in force", faults->n_errors, path);
	return refuse(error, json);
}

static bool judge_and_swap(struct proxy *proxy, struct config *fresh, struct fault_list *faults, struct buffer *json)
{
	char why[384], error[512];
	proxy_apply_options(proxy, fresh);
	uint64_t *identities = proxy_check_tls(fresh, faults);
	if (identities && front_apply(proxy->front, fresh, why, sizeof(why))) {
		announce(proxy, fresh, identities, faults, json);
		return true;
	}
	if (identities) {
		snprintf(error, sizeof(error), "%s; the old policies stay in force", why);
		refuse(error, json);
	} else {
		refuse_faults(proxy->options->config_path, faults, json);
	}
	free(identities);
	config_unref(&fresh);
	return false;
}

static bool read_judge_swap(struct proxy *proxy, const char *path, struct buffer *json)
{
	struct fault_list faults;
	fault_list_init(&faults);
	watch_look(proxy->watch); /* what is written from now on is news */
	struct config *fresh = config_load(path, &faults);
	bool is_good = fresh ? judge_and_swap(proxy, fresh, &faults, json) : refuse_faults(path, &faults, json);
	fault_list_clear(&faults);
	return is_good;
}

bool proxy_reload(struct proxy *proxy, struct buffer *json)
{
	const char *path = proxy->options->config_path;
	if (!path)
		return refuse("there is no policy file to read again: the process was started without -c", json);
	if (proxy->state != PROXY_RUNNING)
		return refuse("the process is stopping", json);
	notify_reloading(proxy->notify);
	bool is_good = read_judge_swap(proxy, path, json);
	notify_ready(proxy->notify);
	return is_good;
}
