/* Stopping: first stop taking, then finish, then close. */
#include "base/clock.h"
#include "base/log.h"
#include "proxy.h"

static void log_drain(const struct proxy *proxy, const char *stage, int64_t left_ms)
{
	struct log_line line;
	if (!log_begin(&line, LOG_INFO, "drain"))
		return;
	log_string(&line, "stage", stage);
	log_integer(&line, "clients", (int64_t)front_n_clients(proxy->front));
	log_integer(&line, "exchanges", (int64_t)proxy->room.n_exchanges);
	if (left_ms >= 0)
		log_integer(&line, "left_ms", left_ms);
	log_end(&line);
}

static void finish(struct proxy *proxy)
{
	proxy->state = PROXY_STOPPED;
	loop_stop(proxy->loop);
}

static void cut(struct proxy *proxy)
{
	log_drain(proxy, "cut", -1);
	exchange_cut_all(&proxy->room);
	front_cut(proxy->front);
	finish(proxy);
}

void proxy_stop_if_idle(struct proxy *proxy)
{
	if (proxy->state == PROXY_DRAINING && proxy->room.n_exchanges == 0 && front_n_clients(proxy->front) == 0)
		finish(proxy);
}

static void stop_taking(struct proxy *proxy)
{
	const struct drain_rule *rule = &proxy->config->global.drain;
	proxy->state = PROXY_DRAINING;
	proxy->room.is_draining = true;
	log_drain(proxy, "closing", rule->timeout_ms);
	timer_set(&proxy->drain_timer, mono_add_ms(clock_now(), rule->timeout_ms));
	if (proxy->is_handed_over)
		front_hand_over(proxy->front);
	else
		front_stop_taking(proxy->front);
	proxy_stop_if_idle(proxy);
}

void proxy_drain_due(void *owner)
{
	struct proxy *proxy = owner;
	if (proxy->state == PROXY_LEAVING)
		stop_taking(proxy);
	else if (proxy->state == PROXY_DRAINING)
		cut(proxy);
}

void proxy_hand_over(struct proxy *proxy)
{
	proxy->is_handed_over = true;
	process_metrics.draining = true;
	stop_taking(proxy);
}

void proxy_drain(struct proxy *proxy)
{
	if (proxy->is_handed_over) {
		/* The first signal asks for what is under way: a service that is stopped while it upgrades. */
		proxy->is_handed_over = false;
		return;
	}
	switch (proxy->state) {
	case PROXY_RUNNING:
	case PROXY_STARTING:
		break;
	case PROXY_LEAVING:
		stop_taking(proxy);
		if (proxy->state != PROXY_DRAINING)
			return;
		/* fall through */
	case PROXY_DRAINING:
		cut(proxy);
		return;
	case PROXY_STOPPED:
		return;
	}
	int64_t delay_ms = proxy->config->global.drain.delay_ms;
	process_metrics.draining = true;
	notify_stopping(proxy->notify);
	proxy->state = PROXY_LEAVING;
	if (delay_ms <= 0) {
		stop_taking(proxy);
		return;
	}
	log_drain(proxy, "delay", delay_ms);
	timer_set(&proxy->drain_timer, mono_add_ms(clock_now(), delay_ms));
}
