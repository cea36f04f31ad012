/* New policies into the running process: parse all, judge all, then swap. */
#include <stdio.h>
#include <string.h>

#include "../config/hosts.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/json.h"
#include "proxy.h"

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

void proxy_log_warnings(const struct fault_list *faults)
{
	for (size_t i = 0; i < faults->n; i++) {
		const struct fault *fault = &faults->items[i];
		struct log_line line;
		if (fault->severity != FAULT_WARNING || !log_begin(&line, LOG_WARN, "policy_warning"))
			continue;
		log_string(&line, "file", fault->file);
		log_integer(&line, "line", fault->line);
		log_string(&line, "message", fault->message);
		log_end(&line);
	}
}

static void log_fault(const struct fault *fault)
{
	struct log_line line;
	if (fault->severity != FAULT_ERROR || !log_begin(&line, LOG_ERROR, "reload"))
		return;
	log_string(&line, "result", "fault");
	log_string(&line, "file", fault->file);
	log_integer(&line, "line", fault->line);
	log_integer(&line, "column", fault->column);
	log_string(&line, "message", fault->message);
	log_end(&line);
}

static void faults_to_json(struct buffer *json, const struct fault_list *faults)
{
	buffer_append_slice(json, SLICE("{\"result\":\"failed\",\"faults\":["));
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
		buffer_append_slice(json, SLICE("}\n"));
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
static void swap_in(struct proxy *proxy, struct config *fresh)
{
	struct config *old = proxy->config;
	proxy->config = fresh;
	log_configure(fresh->global.log_level, fresh->global.log_text);
	resolver_configure(proxy->resolver, &fresh->global.dns);
	registry_reconcile(proxy->registry, fresh);
	config_unref(&old);
	proxy_watch(proxy);
	process_metrics.reloads_ok++;
	process_metrics.reload_last_success_wall_ms = clock_wall_ms();
}

bool proxy_check_tls(const struct config *config, char *error, size_t error_capacity)
{
	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];
		char why[256];
		struct tls_context *context = tls_context_get(&upstream->tls, why, sizeof(why));
		if (!context) {
			snprintf(error, error_capacity, "%s:%u: upstream %s: tls: %s", config->path ? config->path : "",
				 upstream->line, upstream->name, why);
			return false;
		}
		tls_context_unref(&context);
	}
	return true;
}

static void announce(struct proxy *proxy, struct config *fresh, const struct fault_list *faults, struct buffer *json)
{
	swap_in(proxy, fresh);
	proxy_log_warnings(faults);
	struct log_line line;
	if (log_begin(&line, LOG_INFO, "reload")) {
		log_string(&line, "result", "ok");
		log_string(&line, "config", proxy->options->config_path);
		log_end(&line);
	}
	if (json)
		buffer_append_slice(json, SLICE("{\"result\":\"ok\"}\n"));
}

static bool read_judge_swap(struct proxy *proxy, const char *path, struct buffer *json)
{
	struct fault_list faults;
	fault_list_init(&faults);
	char error[512];
	bool is_good = false;
	struct config *fresh = config_load(path, &faults);
	if (!fresh) {
		for (size_t i = 0; i < faults.n; i++)
			log_fault(&faults.items[i]);
		if (json)
			faults_to_json(json, &faults);
		snprintf(error, sizeof(error), "%zu fault%s in %s; the old policies stay in force", faults.n_errors,
			 faults.n_errors == 1 ? "" : "s", path);
		refuse(error, json);
	} else {
		proxy_apply_options(proxy, fresh);
		char why[384];
		is_good = proxy_check_tls(fresh, why, sizeof(why)) && front_apply(proxy->front, fresh, why, sizeof(why));
		if (!is_good) {
			snprintf(error, sizeof(error), "%s; the old policies stay in force", why);
			refuse(error, json);
			config_unref(&fresh);
		}
	}
	if (is_good)
		announce(proxy, fresh, &faults, json);
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
