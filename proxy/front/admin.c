#include "admin.h"

#include <event2/http.h>

#include "../base/check.h"
#include "../base/metrics.h"
#include "refuse.h"

#define TEXT "text/plain; charset=utf-8"
#define OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

static void answer_livez(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)front;
	(void)request;
	answer->content_type = TEXT;
	buffer_append_slice(&answer->body, SLICE("ok\n"));
}

static void answer_readyz(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)request;
	bool is_ready = front->hooks.is_ready(front->hooks.owner);
	answer->status = is_ready ? 200 : 503;
	answer->content_type = TEXT;
	buffer_append_slice(&answer->body, is_ready ? SLICE("ok\n") : SLICE("draining\n"));
}

/* Are the parameters of a media range, up to the next comma, without q=0? */
static bool is_wanted(struct slice rest)
{
	for (size_t i = 0; i + 2 < rest.length && rest.data[i] != ','; i++) {
		if ((rest.data[i] | 0x20) != 'q' || rest.data[i + 1] != '=' || !memchr("; \t", rest.data[i - (i > 0)], 3))
			continue;
		size_t at = i + 2;
		while (at < rest.length && (rest.data[at] == '0' || rest.data[at] == '.'))
			at++;
		return at < rest.length && rest.data[at] >= '1' && rest.data[at] <= '9';
	}
	return true;
}

/* Preferences don't matter: only those who want it name it. */
bool admin_accepts(const struct request *request, struct slice type)
{
	for (long i = -1; (i = head_find(&request->head, SLICE("Accept"), (size_t)(i + 1))) >= 0;) {
		struct slice value = head_value(&request->head, (size_t)i);
		for (size_t at = 0; at + type.length <= value.length; at++) {
			size_t end = at + type.length;
			if (strncasecmp(value.data + at, type.data, type.length) == 0 &&
			    (end == value.length || memchr(" \t;,", value.data[end], 4)) &&
			    (at == 0 || memchr(" \t,", value.data[at - 1], 3)))
				return is_wanted((struct slice){ value.data + end, value.length - end });
		}
	}
	return false;
}

static void answer_metrics(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)front;
	bool is_openmetrics = admin_accepts(request, SLICE("application/openmetrics-text"));
	answer->content_type = is_openmetrics ? OPENMETRICS : "text/plain; version=0.0.4; charset=utf-8";
	metrics_render(&answer->body, is_openmetrics);
}

static void answer_reload(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)request;
	answer->content_type = "application/json";
	answer->status = front->hooks.reload(front->hooks.owner, &answer->body);
}

static void answer_drain(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)request;
	answer->status = 202;
	answer->content_type = "application/json";
	buffer_append_slice(&answer->body, SLICE("{\"draining\":true}\n"));
	front->hooks.drain(front->hooks.owner);
}

/* The admin port's table of contents: a further endpoint is a further line. */
static const struct admin_route routes[] = {
	{ "/livez", "GET", true, answer_livez },
	{ "/readyz", "GET", true, answer_readyz },
	{ "/metrics", "GET", true, answer_metrics },
	{ "/", "GET", false, admin_answer_dashboard },
	{ "/upstreams", "GET", false, admin_answer_upstreams },
	{ "/advice", "GET", false, admin_answer_advice },
	{ "/config", "GET", false, admin_answer_config },
	{ "/explain", "GET", false, admin_answer_explain },
	{ "/reload", "POST", false, answer_reload },
	{ "/drain", "POST", false, answer_drain },
};

static void write_answer(struct wire *wire, struct admin_answer *answer)
{
	const struct request *request = &wire->message->request;
	bool is_keep_alive = request->is_keep_alive && wire->is_request_complete && !wire->is_closing_soon;
	struct buffer fields = { 0 };
	if (answer->content_type)
		buffer_printf(&fields, "Content-Type: %s\r\n", answer->content_type);
	buffer_printf(&fields, "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
	if (answer->more_fields)
		buffer_append_slice(&fields, slice_of(answer->more_fields));
	struct own_reply reply = { .status = answer->status, .fields = buffer_slice(&fields),
				   .body = buffer_slice(&answer->body) };
	reply_write(wire, &reply, request, is_keep_alive);
	buffer_clear(&fields);
	buffer_clear(&answer->body);
	wire->must_close = !is_keep_alive;
	wire_flush(wire);
	wire_expect_flushed(wire);
	wire_rearm(wire);
}

void admin_refuse(struct admin_answer *answer, int status, struct slice text)
{
	answer->status = status;
	answer->content_type = TEXT;
	buffer_append_slice(&answer->body, text);
}

static bool is_method_allowed(const struct admin_route *route, const struct request *request)
{
	return slice_equals(request->method, slice_of(route->method)) ||
	       (request->is_head && strcmp(route->method, "GET") == 0);
}

static void answer_route(struct wire *wire, const struct admin_route *route)
{
	struct front *front = wire->front;
	const struct request *request = &wire->message->request;
	struct admin_answer answer = { .status = 200 };
	if ((route == NULL || !route->is_open) && !admin_host_is_allowed(&front_config(front)->global, request)) {
		admin_refuse(&answer, 403,
			     SLICE("The Host of this request is none of the admin port's names; add it to admin_hosts.\n"));
	} else if (route == NULL) {
		admin_refuse(&answer, 404, SLICE("No such endpoint.\n"));
	} else if (!is_method_allowed(route, request)) {
		admin_refuse(&answer, 405, SLICE("This endpoint takes another method.\n"));
		answer.more_fields = strcmp(route->method, "GET") == 0 ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";
	} else if (strcmp(route->method, "POST") == 0 && !admin_origin_is_allowed(request)) {
		admin_refuse(&answer, 403, SLICE("A page of another site may not do this.\n"));
	} else {
		route->answer(front, request, &answer);
	}
	write_answer(wire, &answer);
}

static void on_unknown(struct evhttp_request *request, void *context)
{
	answer_route(wire_of_dispatch(context, request), NULL);
}

/* evhttp gives a callback one argument, and two things have to be known. */
struct admin_binding {
	struct listener *listener;
	const struct admin_route *route;
};

static void on_route(struct evhttp_request *request, void *context)
{
	const struct admin_binding *binding = context;
	answer_route(wire_of_dispatch(binding->listener, request), binding->route);
}

void admin_set_routes(struct evhttp *http, struct listener *listener)
{
	size_t n = sizeof(routes) / sizeof(routes[0]);
	listener->bindings = xcalloc(n, sizeof(*listener->bindings));
	for (size_t i = 0; i < n; i++) {
		listener->bindings[i] = (struct admin_binding){ listener, &routes[i] };
		CHECK(evhttp_set_cb(http, routes[i].path, on_route, &listener->bindings[i]) == 0);
	}
	evhttp_set_gencb(http, on_unknown, listener);
}
