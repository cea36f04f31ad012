#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../base/spare.h"
#include "refuse.h"
#include "tunnel.h"

static struct spare spare_clients = SPARE_OF(struct client);

static struct client *client_of(struct downstream *downstream)
{
	return LIST_ENTRY_OF(downstream, struct client, downstream);
}

static bool is_writable(const struct client *client)
{
	const struct wire *wire = client->wire;
	return wire->state == WIRE_BUSY && !wire->is_gone && !wire->is_gone_due;
}

static bool may_keep_alive(const struct client *client)
{
	const struct wire *wire = client->wire;
	const struct request *request = &wire->message->request;
	/*
	 * Answered before its body is here: at the end of the answer the rest is still under way, or, if it waits
	 * to be told to go on, may never come. Where the next request would start is unknown.
	 */
	return request->is_keep_alive && !wire->front->room->is_draining && !wire->is_closing_soon && wire->is_request_complete;
}

/* ---- the exchange's calls ---- */

static void send_continue(struct downstream *downstream)
{
	struct client *client = client_of(downstream);
	if (is_writable(client) && client->wire->message->request.minor_version > 0)
		buffer_append_slice(&client->wire->output, SLICE("HTTP/1.1 100 Continue\r\n\r\n"));
}

static void send_interim(struct downstream *downstream, const struct response *response)
{
	struct client *client = client_of(downstream);
	if (is_writable(client) && client->wire->message->request.minor_version > 0)
		h1_write_interim(&client->wire->output, response, slice_of(client->wire->front->room->instance_id));
}

static void send_head(struct downstream *downstream, const struct response *response, const struct response_rewrite *rewrite)
{
	struct client *client = client_of(downstream);
	const struct request *request = &client->wire->message->request;
	bool has_length = response->framing == BODY_LENGTH && !rewrite->drop_length;
	bool is_modern = request->minor_version > 0;

	client->has_body = response->framing != BODY_NONE;
	client->is_chunked = client->has_body && !has_length && is_modern;
	client->is_keep_alive = may_keep_alive(client) && (has_length || client->is_chunked || !client->has_body);
	struct response_rewrite full = *rewrite;
	full.add_chunked = client->is_chunked;
	full.add_close = !client->is_keep_alive;
	full.add_keep_alive = client->is_keep_alive && !is_modern;
	if (is_writable(client))
		h1_write_response(&client->wire->output, response, &full);
}

static bool send_body(struct downstream *downstream, struct slice data)
{
	struct client *client = client_of(downstream);
	if (data.length == 0 || !client->has_body || !is_writable(client))
		return true;
	if (!client->is_chunked)
		return wire_write_body(client->wire, SLICE(""), data, SLICE(""));
	char size[20];
	return wire_write_body(client->wire, (struct slice){ size, h1_chunk_start(size, data.length) }, data, SLICE("\r\n"));
}

static ssize_t splice_body(struct downstream *downstream, struct stream *from, uint64_t max, bool *is_full)
{
	_Static_assert(DOWNSTREAM_CANT_SPLICE == SPLICE_IMPOSSIBLE, "one number for it");
	struct client *client = client_of(downstream);
	if (!client->has_body || client->is_chunked || !is_writable(client))
		return DOWNSTREAM_CANT_SPLICE;
	return wire_splice(client->wire, from, max, is_full);
}

static void send_end(struct downstream *downstream, const struct head *trailers)
{
	struct client *client = client_of(downstream);
	if (!is_writable(client))
		return;
	if (client->is_chunked)
		h1_write_last_chunk(&client->wire->output, trailers);
	wire_expect_flushed(client->wire);
}

static void send_own(struct downstream *downstream, const struct own_reply *reply)
{
	struct client *client = client_of(downstream);
	const struct request *request = &client->wire->message->request;
	/* A CONNECT that failed may have its first bytes of a tunnel behind it: never parsed as HTTP. */
	client->is_keep_alive = may_keep_alive(client) && !reply->must_close && !request->is_connect;
	if (!is_writable(client))
		return;
	reply_write(client->wire, reply, request, client->is_keep_alive);
	wire_expect_flushed(client->wire);
}

static void abort_response(struct downstream *downstream)
{
	struct client *client = client_of(downstream);
	client->is_aborted = true;
	if (is_writable(client))
		wire_flush(client->wire); /* what was gathered is still the origin's */
}

static void flush(struct downstream *downstream)
{
	struct client *client = client_of(downstream);
	if (is_writable(client))
		wire_flush(client->wire);
}

static void pause_body(struct downstream *downstream)
{
	wire_pause_body(client_of(downstream)->wire);
}

static void resume_body(struct downstream *downstream)
{
	wire_resume_body(client_of(downstream)->wire);
}

static void become_tunnel(struct downstream *downstream, struct lease *lease, const struct response *response,
			  const struct response_rewrite *rewrite, struct slice early)
{
	struct client *client = client_of(downstream);
	client->is_tunnel = true;
	tunnel_start(client, lease, response, rewrite, early);
}

static void free_late(struct deferred *item)
{
	struct client *client = LIST_ENTRY_OF(item, struct client, free_late);
	client_discard(&client);
}

static void on_done(struct downstream *downstream, bool must_close)
{
	struct client *client = client_of(downstream);
	client->exchange = NULL;
	if (!client->is_tunnel)
		wire_end_request(client->wire, must_close || !client->is_keep_alive, client->is_aborted);
	client->wire = NULL;
	deferred_init(&client->free_late, free_late);
	loop_defer(client->front_loop, &client->free_late);
}

static const struct downstream_ops ops = {
	.send_continue = send_continue,
	.send_interim = send_interim,
	.send_head = send_head,
	.send_body = send_body,
	.splice_body = splice_body,
	.send_end = send_end,
	.send_own = send_own,
	.abort = abort_response,
	.flush = flush,
	.pause_body = pause_body,
	.resume_body = resume_body,
	.become_tunnel = become_tunnel,
	.on_done = on_done,
};

/* ---- the wire's events ---- */

static void on_body(void *owner, struct slice data)
{
	exchange_request_body(((struct client *)owner)->exchange, data);
}

static void on_body_end(void *owner, const struct head *trailers)
{
	exchange_request_end(((struct client *)owner)->exchange, trailers);
}

static void on_body_failed(void *owner, enum outcome outcome, const char *detail)
{
	exchange_request_failed(((struct client *)owner)->exchange, outcome, detail);
}

static void on_writable(void *owner)
{
	exchange_client_writable(((struct client *)owner)->exchange);
}

static void on_flushed(void *owner)
{
	exchange_client_flushed(((struct client *)owner)->exchange);
}

static void on_gone(void *owner)
{
	exchange_client_gone(((struct client *)owner)->exchange);
}

static const struct wire_user_ops user_ops = {
	.on_body = on_body,
	.on_body_end = on_body_end,
	.on_body_failed = on_body_failed,
	.on_writable = on_writable,
	.on_flushed = on_flushed,
	.on_gone = on_gone,
};

/* ---- life ---- */

struct client *client_new(struct wire *wire)
{
	struct client *client = spare_take(&spare_clients);
	*client = (struct client){ 0 };
	client->downstream.ops = &ops;
	client->wire = wire;
	client->front_loop = wire->front->loop;
	client->config = config_ref(wire->front->hooks.current_config(wire->front->hooks.owner));
	return client;
}

void client_start(struct client *client)
{
	struct wire *wire = client->wire;
	client->order.downstream = &client->downstream;
	client->order.request = &wire->message->request;
	client->order.config = client->config;
	client->order.client_address = wire->client_address;
	client->order.started = wire->message->started;
	wire_set_user(wire, &user_ops, client);
	client->exchange = exchange_start(wire->front->room, &client->order);
}

void client_discard(struct client **client)
{
	struct client *gone = *client;
	*client = NULL;
	config_unref(&gone->config);
	for (size_t i = 0; i < gone->n_owned; i++)
		free(gone->owned[i]);
	spare_give(&spare_clients, gone);
}

struct slice client_keep_printf(struct client *client, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	va_start(arguments, format);
	int n = vasprintf(&text, format, arguments);
	va_end(arguments);
	CHECK(n >= 0 && client->n_owned < CLIENT_MAX_OWNED);
	client->owned[client->n_owned++] = text;
	return (struct slice){ text, (size_t)n };
}
