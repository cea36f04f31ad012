/* The metrics that have no upstream label. */
#include <inttypes.h>
#include <string.h>

#include "log.h"
#include "metrics.h"
#include "metrics_process.h"
#include "metrics_text.h"
#include "version.h"

const char *const metrics_type_words[] = { "counter", "gauge", "histogram" };

void metrics_family_header(struct render *render, const char *name, const char *type, const char *help)
{
	int length = (int)strlen(name);

	render->family = name;
	if (render->is_openmetrics && strcmp(type, "counter") == 0 && length > 6 && strcmp(name + length - 6, "_total") == 0)
		length -= 6;
	if (strcmp(type, "info") == 0)
		length -= 5;
	buffer_printf(render->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, name, help, length, name, type);
}

static void single(struct render *render, const char *name, enum family_type type, const char *help, int64_t n)
{
	metrics_family_header(render, name, metrics_type_words[type], help);
	buffer_printf(render->out, "%s %" PRId64 "\n", name, n);
}

static void single_real(struct render *render, const char *name, enum family_type type, const char *help, double value)
{
	metrics_family_header(render, name, metrics_type_words[type], help);
	buffer_printf(render->out, "%s %.6f\n", name, value);
}

static void own_render(struct render *render)
{
	const struct process_metrics *own = &process_metrics;

	single(render, "evenkeel_client_connections", GAUGE, "Client connections open now.", own->client_connections);
	single(render, "evenkeel_upstream_connections", GAUGE, "Upstream connections open now, over all origins.",
	       own->upstream_connections);
	single(render, "evenkeel_buffered_bytes", GAUGE, "Bytes kept for replays and held-back responses.",
	       own->buffered_bytes);
	single(render, "evenkeel_draining", GAUGE, "1 while the proxy is stopping.", own->draining);
	single(render, "evenkeel_accept_paused_total", COUNTER,
	       "Times that accepting paused, at a limit or out of descriptors.", (int64_t)own->accept_paused);
	single(render, "evenkeel_log_lines_dropped_total", COUNTER,
	       "Log lines dropped because their reader was slow or gone.", (int64_t)log_n_dropped());
	metrics_family_header(render, "evenkeel_config_reloads_total", "counter", "Reloads of the policy file by result.");
	buffer_printf(render->out, "evenkeel_config_reloads_total{result=\"success\"} %" PRIu64 "\n", own->reloads_ok);
	buffer_printf(render->out, "evenkeel_config_reloads_total{result=\"failure\"} %" PRIu64 "\n", own->reloads_failed);
	single_real(render, "evenkeel_config_last_success_timestamp_seconds", GAUGE, "When the policy in force was loaded.",
		    (double)own->reload_last_success_wall_ms / 1000);
	metrics_family_header(render, "evenkeel_build_info", render->is_openmetrics ? "info" : "gauge", "The version that runs.");
	buffer_printf(render->out, "evenkeel_build_info{version=\"%s\"} 1\n", EVENKEEL_VERSION);
}

static void process_render(struct render *render)
{
	struct process_state state = process_state_read();

	if (state.cpu_seconds >= 0)
		single_real(render, "process_cpu_seconds_total", COUNTER, "CPU time used, user and system.", state.cpu_seconds);
	if (state.resident_bytes >= 0)
		single(render, "process_resident_memory_bytes", GAUGE, "Resident memory.", state.resident_bytes);
	if (state.virtual_bytes >= 0)
		single(render, "process_virtual_memory_bytes", GAUGE, "Virtual memory.", state.virtual_bytes);
	if (state.open_fds >= 0)
		single(render, "process_open_fds", GAUGE, "Open file descriptors.", state.open_fds);
	if (state.max_fds >= 0)
		single(render, "process_max_fds", GAUGE, "Limit of open file descriptors.", state.max_fds);
	if (state.start_seconds >= 0)
		single_real(render, "process_start_time_seconds", GAUGE, "Start of the process, since the epoch.",
			    state.start_seconds);
}

void metrics_own_render(struct render *render)
{
	own_render(render);
	process_render(render);
}
