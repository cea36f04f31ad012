#include "admit.h"

#include "../base/check.h"
#include "../base/clock.h"
#include "../exchange/access.h"
#include "../http/hop.h"
#include "../policy/egress.h"
#include "destination.h"

#define MAX_REQUEST_ID_BYTES 128

/* A client's own X-Request-Id is kept when it can do no harm in logs, headers and JSON; else it gets one of ours. */
static bool is_sound_id(struct slice id)
{
	if (id.length == 0 || id.length > MAX_REQUEST_ID_BYTES)
		return false;
	for (size_t i = 0; i < id.length; i++)
		if (id.data[i] <= 0x20 || id.data[i] >= 0x7f || id.data[i] == '"' || id.data[i] == '\\')
			return false;
	return true;
}

static void find_request_id(struct client *client)
{
	const struct head *head = &client->wire->message->request.head;
	struct exchange_order *order = &client->order;
	long at = head_find(head, SLICE("X-Request-Id"), 0);
	if (at >= 0 && is_sound_id(head_value(head, (size_t)at)) && head_find(head, SLICE("X-Request-Id"), (size_t)at + 1) < 0) {
		order->request_id = head_value(head, (size_t)at);
		order->is_own_request_id = true;
		return;
	}
	access_make_id(client->made_id, clock_wall_ms(), &client->wire->front->loop->rng);
	order->request_id = slice_of(client->made_id);
}

/* Evenkeel-Timeout and Evenkeel-Max-Attempts, as far as `override` lets them. */
static bool apply_overrides(struct client *client, struct refusal *refusal)
{
	const struct head *head = &client->wire->message->request.head;
	struct exchange_order *order = &client->order;
	const struct policy *policy = order->match.policy;
	order->total_ms = policy->timeouts.total_ms;
	order->max_attempts = policy->retry.max_attempts;
	order->is_nested = head_find(head, SLICE("Evenkeel-Previous-Attempts"), 0) >= 0;
	*refusal = (struct refusal){ .status = 400, .error = "http_request_error", .upstream = order->match.upstream->name,
				     .route = order->match.route ? order->match.route->text : NULL };
	for (long i = -1; (i = head_find(head, SLICE("Evenkeel-Timeout"), (size_t)(i + 1))) >= 0;) {
		if (!override_timeout(policy->override, head_value(head, (size_t)i), &order->total_ms)) {
			refusal->detail = "Evenkeel-Timeout is no duration: write it like 250ms, 2s or 1m30s";
			return false;
		}
	}
	for (long i = -1; (i = head_find(head, SLICE("Evenkeel-Max-Attempts"), (size_t)(i + 1))) >= 0;) {
		if (!override_max_attempts(policy->override, head_value(head, (size_t)i), &order->max_attempts)) {
			refusal->detail = "Evenkeel-Max-Attempts is no number of attempts: write a whole number from 1 on";
			return false;
		}
	}
	return true;
}

/* An Upgrade may cross when nothing but a tunnel can come of it: h2c would hide requests in it from every policy. */
static bool may_upgrade(const struct request *request)
{
	return request->wants_upgrade && request->framing == BODY_NONE &&
	       !head_has_token(&request->head, SLICE("Upgrade"), SLICE("h2c"));
}

static void answer_inner_connect(struct client *client)
{
	struct wire *wire = client->wire;
	const struct target *target = &wire->message->request.target;
	struct wire_authority *inner = xcalloc(1, sizeof(*inner));
	inner->host = xstrdup(target->host);
	inner->port = target->port;
	inner->host_field = target->is_ipv6_literal ? NULL : xstrdup(target->host);
	if (inner->host_field == NULL) {
		size_t length = strlen(target->host);
		inner->host_field = xcalloc(1, length + 3);
		inner->host_field[0] = '[';
		memcpy(inner->host_field + 1, target->host, length);
		inner->host_field[length + 1] = ']';
	}
	wire->inner = inner;
	buffer_append_slice(&wire->output, SLICE("HTTP/1.1 200 Connection established\r\n\r\n"));
	wire_flush(wire);
	wire_expect_flushed(wire);
	wire_rearm(wire);
}

/* True: the CONNECT goes on to the exchange; else it has been answered or refusal is set (status > 0). */
static bool judge_connect(struct client *client, struct refusal *refusal)
{
	if (egress_is_opaque_port(&client->config->global.egress, client->order.match.upstream, client->order.port))
		return true;
	if (client->config->global.egress.tunnel_http) {
		answer_inner_connect(client);
		return false;
	}
	*refusal = (struct refusal){
		.status = 403, .error = "http_request_denied",
		.upstream = client->order.match.upstream->name,
		.detail = "CONNECT to this port is not allowed: add it to egress.connect_ports or to an upstream's "
			  "match.ports, or set egress.tunnel_http: on",
	};
	return false;
}

static bool judge(struct client *client, struct refusal *refusal)
{
	struct wire *wire = client->wire;
	const struct request *request = &wire->message->request;
	client->order.url = request->target_text;
	find_request_id(client);
	if (hop_is_loop(&request->head, slice_of(wire->front->room->instance_id))) {
		*refusal = (struct refusal){ .status = outcome_facts[OUTCOME_LOOP].status,
					     .error = outcome_facts[OUTCOME_LOOP].proxy_error,
					     .detail = outcome_facts[OUTCOME_LOOP].detail };
		return false;
	}
	if (!destination_find(client, refusal) || !apply_overrides(client, refusal))
		return false;
	client->order.is_upgrade = may_upgrade(request);
	*refusal = (struct refusal){ 0 };
	return !request->is_connect || judge_connect(client, refusal);
}

void admit_request(struct wire *wire)
{
	struct client *client = client_new(wire);
	struct refusal refusal = { 0 };
	if (judge(client, &refusal)) {
		client_start(client);
		return;
	}
	if (refusal.status > 0)
		refuse_request(wire, client->order.request_id, client->order.url, &refusal);
	client_discard(&client);
}
