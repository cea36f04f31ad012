#include "tunnel.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../exchange/access.h"
#include "flow.h"

#define REST_MS 1000             /* quiet for so long: a pipe is given back */
#define ENDED_SIDE_CHECK_MS 100  /* a side that has ended its way isn't read any more: how often it is asked for a reset */

struct tunnel {
	struct wire *wire;
	struct lease lease;
	struct config *config;   /* own reference: the policy and the lease's order live in it */
	struct origin *origin;   /* own reference */
	const struct policy *policy;
	struct flow up, down;    /* client to origin, origin to client */
	uint64_t n_head_bytes;   /* of the 200 or 101, which `down` carries too */
	struct timer timer;
	struct mono established, last_moved;
	int64_t idle_ms, total_ms; /* LIMIT_OFF once they were only counted (mode: observe) */
	struct access_facts facts; /* its slices are copies: texts */
	char *texts[3];
	struct upstream_metrics *metrics;
	struct deferred kick, free_late;
	bool is_over;
};

/* ---- the end ---- */

static void free_tunnel_late(struct deferred *item)
{
	struct tunnel *tunnel = LIST_ENTRY_OF(item, struct tunnel, free_late);
	origin_unref(&tunnel->origin);
	config_unref(&tunnel->config);
	for (size_t i = 0; i < sizeof(tunnel->texts) / sizeof(tunnel->texts[0]); i++)
		free(tunnel->texts[i]);
	free(tunnel);
}

static void count_bytes(struct tunnel *tunnel)
{
	uint64_t up = tunnel->up.n_bytes;
	uint64_t down = tunnel->down.n_bytes > tunnel->n_head_bytes ? tunnel->down.n_bytes - tunnel->n_head_bytes : 0;
	tunnel->metrics->tunnel_bytes_sent += up - tunnel->facts.request_bytes;
	tunnel->metrics->tunnel_bytes_received += down - tunnel->facts.response_bytes;
	tunnel->facts.request_bytes = up;
	tunnel->facts.response_bytes = down;
}

static void end(struct tunnel *tunnel, bool resets_client, bool resets_origin)
{
	struct wire *wire = tunnel->wire;
	struct front *front = wire->front;
	if (tunnel->is_over)
		return;
	tunnel->is_over = true;
	count_bytes(tunnel);
	tunnel->facts.ended = clock_now();
	access_record(&tunnel->facts);
	latency_add(&tunnel->origin->latency, LATENCY_TUNNEL, mono_elapsed_us(tunnel->established, tunnel->facts.ended));
	tunnel->metrics->tunnels_active--;
	front->n_tunnels--;
	timer_clear(&tunnel->timer);
	deferred_cancel(&tunnel->kick);
	wire->tunnel = NULL;
	wire_close(wire, resets_client);
	if (resets_origin)
		stream_close(lease_stream(&tunnel->lease), true);
	pool_release(&tunnel->lease, false, -1);
	flow_clear(&tunnel->up);
	flow_clear(&tunnel->down);
	loop_defer(front->loop, &tunnel->free_late);
}

void tunnel_cut(struct tunnel *tunnel)
{
	tunnel->facts.is_aborted = true;
	end(tunnel, true, true);
}

/* ---- relaying ---- */

static void arm(struct tunnel *tunnel)
{
	struct mono due = mono_min(mono_add_ms(tunnel->last_moved, tunnel->idle_ms),
				   mono_add_ms(tunnel->established, tunnel->total_ms));
	struct mono now = clock_now();
	if (tunnel->up.is_blocked || tunnel->down.is_blocked)
		due = mono_min(due, mono_add_ms(now, WIRE_PEER_CHECK_MS));
	else if (tunnel->up.is_ended || tunnel->down.is_ended)
		due = mono_min(due, mono_add_ms(now, ENDED_SIDE_CHECK_MS));
	else if (splice_pipe_is_open(&tunnel->up.pipe) || splice_pipe_is_open(&tunnel->down.pipe))
		due = mono_min(due, mono_add_ms(now, REST_MS));
	timer_set(&tunnel->timer, due);
}

static void pump(struct tunnel *tunnel, struct flow *flow)
{
	uint64_t before = flow->n_bytes;
	bool had_pipe = splice_pipe_is_open(&flow->pipe), was_blocked = flow->is_blocked, was_ended = flow->is_ended;
	enum flow_result result = flow_pump(flow);
	if (result == FLOW_FAILED) {
		end(tunnel, true, true);
		return;
	}
	if (tunnel->up.is_ended && tunnel->down.is_ended) {
		end(tunnel, false, false);
		return;
	}
	if (flow->n_bytes != before) {
		tunnel->last_moved = clock_now();
		count_bytes(tunnel);
	}
	if (flow->is_blocked != was_blocked || flow->is_ended != was_ended || splice_pipe_is_open(&flow->pipe) != had_pipe)
		arm(tunnel);
}

static void on_client_readable(void *owner)
{
	struct tunnel *tunnel = owner;
	pump(tunnel, &tunnel->up);
}

static void on_client_writable(void *owner)
{
	struct tunnel *tunnel = owner;
	pump(tunnel, &tunnel->down);
}

static void on_origin_readable(void *owner)
{
	struct tunnel *tunnel = owner;
	pump(tunnel, &tunnel->down);
}

static void on_origin_writable(void *owner)
{
	struct tunnel *tunnel = owner;
	pump(tunnel, &tunnel->up);
}

static const struct stream_ops client_ops = { .on_readable = on_client_readable, .on_writable = on_client_writable };
static const struct lease_ops origin_ops = { .on_readable = on_origin_readable, .on_writable = on_origin_writable };

/* ---- limits ---- */

/*
 * POLLHUP says that both ways have ended, which is no reset when our own has: what the peer sent before its end may
 * still wait to be read.
 */
static bool is_reset(const struct stream *stream, bool has_our_end)
{
	struct pollfd asked = { .fd = stream->fd };
	short signs = has_our_end ? POLLERR | POLLNVAL : POLLERR | POLLNVAL | POLLHUP;
	return poll(&asked, 1, 0) > 0 && (asked.revents & signs);
}

/* A side that isn't read, for the moment or since it ended its way, may be reset all the same. */
static bool is_unread_side_reset(const struct tunnel *tunnel)
{
	bool is_up_unread = tunnel->up.is_blocked || tunnel->up.is_ended;
	bool is_down_unread = tunnel->down.is_blocked || tunnel->down.is_ended;
	return (is_up_unread && is_reset(tunnel->up.from, tunnel->down.is_ended)) ||
	       (is_down_unread && is_reset(tunnel->down.from, tunnel->up.is_ended));
}

/* True: the tunnel was ended. */
static bool apply_limit(struct tunnel *tunnel, int64_t *limit_ms, struct mono since, enum timeout_label label, struct mono now)
{
	if (!mono_reached(mono_add_ms(since, *limit_ms), now))
		return false;
	if (tunnel->policy->mode == MODE_OBSERVE) {
		tunnel->metrics->observed_timeouts[label]++;
		*limit_ms = LIMIT_OFF;
		return false;
	}
	tunnel->metrics->timeouts[label]++;
	/* Nothing was under way in an idle one: an end will do. What is cut while it moves must not look complete. */
	bool is_cut = label != TIMEOUT_LABEL_TUNNEL_IDLE || tunnel->up.is_blocked || tunnel->down.is_blocked;
	end(tunnel, is_cut, is_cut);
	return true;
}

static void on_due(void *owner)
{
	struct tunnel *tunnel = owner;
	struct mono now = clock_now();
	if (is_unread_side_reset(tunnel)) {
		end(tunnel, true, true);
		return;
	}
	if (apply_limit(tunnel, &tunnel->total_ms, tunnel->established, TIMEOUT_LABEL_TUNNEL_TOTAL, now) ||
	    apply_limit(tunnel, &tunnel->idle_ms, tunnel->last_moved, TIMEOUT_LABEL_TUNNEL_IDLE, now))
		return;
	if (mono_reached(mono_add_ms(tunnel->last_moved, REST_MS), now)) {
		flow_rest(&tunnel->up);
		flow_rest(&tunnel->down);
	}
	arm(tunnel);
}

/* ---- the beginning ---- */

static void write_connected(struct buffer *out, const struct response_rewrite *rewrite)
{
	buffer_append_slice(out, SLICE("HTTP/1.1 200 Connection established\r\n"));
	buffer_printf(out, "Via: 1.1 evenkeel (%.*s)\r\n", SLICE_ARGS(rewrite->via_id));
	for (size_t i = 0; i < rewrite->n_extra; i++)
		buffer_printf(out, "%.*s: %.*s\r\n", SLICE_ARGS(rewrite->extra[i].name), SLICE_ARGS(rewrite->extra[i].value));
	buffer_append_slice(out, SLICE("\r\n"));
}

static struct slice copy_text(struct tunnel *tunnel, size_t i, struct slice text)
{
	tunnel->texts[i] = xstrndup(text.data ? text.data : "", text.length);
	return (struct slice){ tunnel->texts[i], text.length };
}

static void take_facts(struct tunnel *tunnel, const struct exchange *exchange)
{
	struct access_facts *facts = &tunnel->facts;
	exchange_access_facts(exchange, facts);
	facts->id = copy_text(tunnel, 0, facts->id);
	facts->method = copy_text(tunnel, 1, facts->method);
	facts->url = copy_text(tunnel, 2, facts->url);
	facts->client = tunnel->wire->client_address;
	facts->verdict = VERDICT_OK; /* whatever the attempts before came to: it was established */
	facts->request_bytes = facts->response_bytes = 0;
	tunnel->metrics = facts->metrics;
}

static void run_kick(struct deferred *item)
{
	struct tunnel *tunnel = LIST_ENTRY_OF(item, struct tunnel, kick);
	pump(tunnel, &tunnel->down);
	if (!tunnel->is_over)
		pump(tunnel, &tunnel->up);
	if (!tunnel->is_over)
		arm(tunnel);
}

void tunnel_start(struct client *client, struct lease *lease, const struct response *response,
		  const struct response_rewrite *rewrite, struct slice early)
{
	struct wire *wire = client->wire;
	struct front *front = wire->front;
	struct tunnel *tunnel = xcalloc(1, sizeof(*tunnel));
	tunnel->wire = wire;
	tunnel->config = config_ref(client->config);
	tunnel->origin = origin_ref(lease->order.origin);
	tunnel->policy = client->order.match.policy;
	tunnel->idle_ms = tunnel->policy->timeouts.tunnel_idle_ms;
	tunnel->total_ms = tunnel->policy->timeouts.tunnel_total_ms;
	take_facts(tunnel, client->exchange);
	lease_init(&tunnel->lease);
	pool_move(&tunnel->lease, lease, &origin_ops, tunnel);
	wire_enter_tunnel(wire, tunnel);
	stream_set_owner(&wire->stream, &client_ops, tunnel);

	struct stream *origin = lease_stream(&tunnel->lease);
	flow_init(&tunnel->up, &wire->stream, origin);
	flow_init(&tunnel->down, origin, &wire->stream);
	/* First bytes sent along with the CONNECT, and what the origin sent behind its 101. */
	tunnel->up.pending = wire->input;
	tunnel->down.pending = wire->output;
	wire->input = wire->output = (struct buffer){ 0 };
	if (response)
		h1_write_response(&tunnel->down.pending, response, rewrite);
	else
		write_connected(&tunnel->down.pending, rewrite);
	tunnel->n_head_bytes = buffer_length(&tunnel->down.pending);
	buffer_append_slice(&tunnel->down.pending, early);

	if (!response) {
		tunnel->metrics->opaque_tunnels++;
		tunnel_warn(front, &client->order);
	}
	tunnel->metrics->tunnels_active++;
	front->n_tunnels++;
	tunnel->established = tunnel->last_moved = clock_now();
	timer_init(&tunnel->timer, front->loop, on_due, tunnel);
	deferred_init(&tunnel->kick, run_kick);
	deferred_init(&tunnel->free_late, free_tunnel_late);
	stream_resume_reading(&wire->stream);
	loop_defer(front->loop, &tunnel->kick);
}
