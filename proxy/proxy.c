#include "proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../config/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "front/splice_pipe.h"

/* ---- what the front asks ---- */

static struct config *current_config(void *owner)
{
	return ((struct proxy *)owner)->config;
}

static bool is_ready(void *owner)
{
	return ((struct proxy *)owner)->state == PROXY_RUNNING;
}

static int hook_reload(void *owner, struct buffer *json)
{
	return proxy_reload(owner, json) ? 200 : 422;
}

static void hook_drain(void *owner)
{
	struct proxy *proxy = owner;
	if (proxy->state == PROXY_RUNNING)
		proxy_drain(proxy);
}

static void hook_idle(void *owner)
{
	proxy_stop_if_idle(owner);
}

/* ---- signals ---- */

static void reload_soon(struct deferred *item)
{
	proxy_reload(LIST_ENTRY_OF(item, struct proxy, reload_soon), NULL);
}

static void on_signal(evutil_socket_t signal_number, short what, void *owner)
{
	(void)what;
	struct proxy *proxy = owner;
	switch (signal_number) {
	case SIGHUP:
		loop_defer(proxy->loop, &proxy->reload_soon);
		break;
	case SIGUSR1:
		front_log_origins(proxy->front);
		break;
	case SIGUSR2:
		if (proxy->state == PROXY_RUNNING)
			upgrade_start(proxy->upgrade, proxy->front, proxy->notify);
		break;
	default:
		proxy_drain(proxy);
	}
}

static void watch_signals(struct proxy *proxy)
{
	static const int numbers[] = { SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGUSR2 };
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		event_assign(&proxy->signals[i], proxy->loop->base, numbers[i], EV_SIGNAL | EV_PERSIST, on_signal, proxy);
		event_add(&proxy->signals[i], NULL);
		proxy->n_signals++;
	}
}

/* ---- start ---- */

/* Two descriptors for each exchange, one for each idle client: what the limits promise should be there to be had. */
static void raise_descriptor_limit(const struct config *config)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	const struct global_limits *limits = &config->global.limits;
	if (limits->client_connections < 0 || limits->upstream_connections < 0)
		return;
	int64_t wanted = limits->client_connections + limits->upstream_connections + 2 * SPLICE_MAX_PIPES + 64;
	if (limit.rlim_cur != RLIM_INFINITY && (int64_t)limit.rlim_cur < wanted)
		log_message(LOG_WARN, "limits",
			    "the process may open %lld descriptors, but client_connections + upstream_connections want %lld: "
			    "accepting will pause when they run out (raise LimitNOFILE or ulimit -n)",
			    (long long)limit.rlim_cur, (long long)wanted);
}

static void log_start(const struct proxy *proxy)
{
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "start"))
		return;
	log_string(&line, "version", EVENKEEL_VERSION);
	log_integer(&line, "pid", getpid());
	log_string(&line, "config", proxy->options->config_path ? proxy->options->config_path : "built-in defaults");
	log_string(&line, "instance", proxy->room.instance_id);
	log_end(&line);
}

static bool load_first(struct proxy *proxy, char *error, size_t error_capacity)
{
	struct fault_list faults;
	fault_list_init(&faults);
	proxy->config = config_load(proxy->options->config_path, &faults);
	if (proxy->config)
		proxy->tls_identities = proxy_check_tls(proxy->config, &faults);
	if (!proxy->tls_identities) {
		check_print(stderr, &faults, false);
		snprintf(error, error_capacity, "%s: %zu fault%s, told above", proxy->options->config_path,
			 faults.n_errors, faults.n_errors == 1 ? "" : "s");
	} else {
		proxy_apply_options(proxy, proxy->config);
		log_configure(proxy->config->global.log_level, proxy->config->global.log_text);
		proxy_log_warnings(&faults);
	}
	fault_list_clear(&faults);
	return proxy->tls_identities != NULL;
}

static void on_files_changed(void *owner)
{
	struct proxy *proxy = owner;
	if (proxy->state == PROXY_RUNNING)
		proxy_reload(proxy, NULL);
}

static void on_upgraded(void *owner, pid_t heir)
{
	struct proxy *proxy = owner;
	if (heir < 0)
		return;
	if (proxy->state != PROXY_RUNNING) { /* told to stop meanwhile: that was meant for both */
		kill(heir, SIGTERM);
		return;
	}
	log_message(LOG_INFO, "upgrade", "process %ld has taken over; this one finishes what it has", (long)heir);
	notify_hand_over(proxy->notify, heir);
	proxy_hand_over(proxy);
}

static bool start(struct proxy *proxy, char *error, size_t error_capacity)
{
	log_open(STDERR_FILENO);
	if (!proxy_take_options(proxy, error, error_capacity) || !load_first(proxy, error, error_capacity))
		return false;
	proxy->loop = loop_new();
	proxy->resolver = resolver_new(proxy->loop, &proxy->config->global.dns);
	proxy->registry = registry_new(proxy->loop, proxy->resolver);
	registry_reconcile(proxy->registry, proxy->config);
	exchange_room_init(&proxy->room, proxy->loop, proxy->registry);
	timer_init(&proxy->drain_timer, proxy->loop, proxy_drain_due, proxy);
	deferred_init(&proxy->reload_soon, reload_soon);
	struct front_hooks hooks = {
		.owner = proxy,
		.current_config = current_config,
		.is_ready = is_ready,
		.reload = hook_reload,
		.drain = hook_drain,
		.on_idle = hook_idle,
	};
	proxy->front = front_new(proxy->loop, &proxy->room, &hooks);
	log_start(proxy);
	raise_descriptor_limit(proxy->config);
	if (!front_apply(proxy->front, proxy->config, error, error_capacity))
		return false;
	process_metrics.reload_last_success_wall_ms = clock_wall_ms();
	watch_signals(proxy);
	proxy->notify = notify_new(proxy->loop);
	proxy->upgrade = upgrade_new(proxy->loop, proxy->options->argv, on_upgraded, proxy);
	proxy->watch = watch_new(proxy->loop, on_files_changed, proxy);
	proxy_watch(proxy);
	upgrade_tell_ready(proxy->upgrade);
	notify_ready(proxy->notify);
	return true;
}

static void stop(struct proxy *proxy)
{
	for (size_t i = 0; i < proxy->n_signals; i++)
		event_del(&proxy->signals[i]);
	if (proxy->watch)
		watch_free(&proxy->watch);
	if (proxy->upgrade)
		upgrade_free(&proxy->upgrade);
	if (proxy->notify)
		notify_free(&proxy->notify);
	if (proxy->front)
		front_free(&proxy->front);
	if (proxy->loop)
		timer_clear(&proxy->drain_timer);
	if (proxy->registry)
		registry_free(&proxy->registry);
	if (proxy->resolver)
		resolver_free(&proxy->resolver);
	if (proxy->loop)
		loop_free(&proxy->loop);
	config_unref(&proxy->config);
	free(proxy->tls_identities);
	arena_clear(&proxy->arena);
	metrics_clear();
	log_flush_blocking(500);
}

int proxy_run(const struct proxy_options *options)
{
	struct proxy proxy = { .state = PROXY_STARTING, .options = options };
	char error[512] = "";
	if (!start(&proxy, error, sizeof(error))) {
		log_flush_blocking(500);
		fprintf(stderr, "evenkeel: not started: %s\n", error);
		stop(&proxy);
		return EXIT_NOT_STARTED;
	}
	proxy.state = PROXY_RUNNING;
	loop_run(proxy.loop);

	uint64_t n_cut = proxy.room.n_cut;
	struct log_line line;
	if (log_begin(&line, LOG_INFO, "stop")) {
		log_integer(&line, "cut", (int64_t)n_cut);
		log_integer(&line, "exit_code", n_cut > 0 ? EXIT_CUT : EXIT_STOPPED);
		log_end(&line);
	}
	stop(&proxy);
	return n_cut > 0 ? EXIT_CUT : EXIT_STOPPED;
}
