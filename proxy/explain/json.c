/* The explanation for programs: the same content as the text. */
#include "../base/json.h"
#include "explanation.h"

/* A member whose value some put_ function writes. */
static void add_text(struct buffer *out, const char *name, struct buffer *text)
{
	json_member_slice(out, name, buffer_slice(text));
	buffer_clear(text);
}

static void add_place(struct buffer *out, const struct config *config, unsigned line)
{
	struct buffer text = {0};

	put_place(&text, config, line);
	add_text(out, "origin", &text);
}

static void add_milliseconds(struct buffer *out, const char *name, int64_t ms)
{
	if (ms < 0)
		json_member_string(out, name, NULL);
	else
		json_member_integer(out, name, ms);
}

static void add_switch(struct buffer *out, const char *name, bool value)
{
	buffer_printf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

/* Begins an element of an array whose first one follows its bracket. */
static void begin_element(struct buffer *out)
{
	struct slice so_far = buffer_slice(out);

	buffer_printf(out, so_far.data[so_far.length - 1] == '[' ? "{" : ",{");
}

static void add_upstream(struct buffer *out, const struct explanation *explanation)
{
	const struct config *config = explanation->config;
	const struct upstream_def *upstream = explanation->match.upstream;
	struct buffer text = {0};

	json_member_string(out, "upstream", upstream ? upstream->name : NULL);
	put_upstream_reason(&text, explanation);
	add_text(out, "upstream_reason", &text);
	put_upstream_place(&text, explanation);
	add_text(out, "upstream_origin", &text);
	buffer_printf(out, ",\"other_upstreams\":[");
	for (size_t i = 0; i < config->n_upstreams; i++) {
		if (&config->upstreams[i] == upstream)
			continue;
		begin_element(out);
		json_member_string(out, "upstream", config->upstreams[i].name);
		put_other_upstream_reason(&text, explanation, &config->upstreams[i]);
		add_text(out, "reason", &text);
		add_place(out, config, config->upstreams[i].line);
		buffer_printf(out, "}");
	}
	buffer_printf(out, "]");
}

static void add_route(struct buffer *out, const struct explanation *explanation)
{
	const struct match *match = &explanation->match;
	struct buffer text = {0};

	json_member_string(out, "route", match->route ? match->route->text : NULL);
	put_route_reason(&text, explanation);
	add_text(out, "route_reason", &text);
	if (match->route)
		put_place(&text, explanation->config, match->route->line);
	if (match->route)
		add_text(out, "route_origin", &text);
	buffer_printf(out, ",\"other_routes\":[");
	for (size_t i = 0; has_route_choice(explanation) && i < match->upstream->n_routes; i++) {
		const struct route *other = &match->upstream->routes[i];
		if (other == match->route)
			continue;
		begin_element(out);
		json_member_string(out, "route", other->text);
		put_other_route_reason(&text, explanation, other);
		add_text(out, "reason", &text);
		add_place(out, explanation->config, other->line);
		buffer_printf(out, "}");
	}
	buffer_printf(out, "]");
}

struct value_list {
	struct buffer *out;
	const struct config *config;
};

static void add_value(void *owner, const struct shown_value *value)
{
	struct value_list *list = owner;

	begin_element(list->out);
	json_member_string(list->out, "group", value->group);
	json_member_string(list->out, "key", value->key->path);
	json_member_string(list->out, "value", value->text);
	add_place(list->out, list->config, value->line);
	buffer_printf(list->out, "}");
}

static void add_note(void *owner, const struct buffer *note)
{
	struct buffer *out = owner;
	struct slice so_far = buffer_slice(out);

	if (so_far.data[so_far.length - 1] != '[')
		buffer_printf(out, ",");
	json_string(out, buffer_slice(note));
}

static void add_effects(struct buffer *out, const struct explanation *explanation)
{
	struct effect effects[MAX_EFFECTS];
	size_t n = explanation_effects(explanation, effects);

	buffer_printf(out, ",\"limits\":[");
	for (size_t i = 0; i < n; i++) {
		const struct outcome_facts *facts = &outcome_facts[effects[i].outcome];
		begin_element(out);
		json_member_string(out, "limit", effects[i].name);
		add_milliseconds(out, "ms", effects[i].ms);
		json_member_string(out, "span", effects[i].span);
		json_member_string(out, "overtaken_by", effects[i].overtaken_by);
		add_switch(out, "only_counted", effects[i].is_only_counted);
		add_switch(out, "retried", effects[i].is_retried);
		if (effects[i].ends_tunnel) {
			add_switch(out, "closes_tunnel", true);
		} else {
			json_member_integer(out, "status", facts->status);
			json_member_string(out, "error", facts->proxy_error);
		}
		buffer_printf(out, "}");
	}
	buffer_printf(out, "]");
}

static const char *const cut_words[] = {
	[TIMELINE_ATTEMPT] = "attempt",
	[TIMELINE_TOTAL] = "total",
	[TIMELINE_NOTHING] = "nothing",
	[TIMELINE_NOT_BEGUN] = "not_begun",
};

static void add_timeline(struct buffer *out, const struct timeline *timeline)
{
	buffer_printf(out, ",\"timeline\":{");
	json_member_integer(out, "max_attempts", timeline->max_attempts);
	buffer_printf(out, ",\"attempts\":[");
	for (size_t i = 0; i < timeline->n_steps; i++) {
		const struct timeline_step *step = &timeline->steps[i];
		begin_element(out);
		json_member_integer(out, "attempt", (int64_t)i + 1);
		json_member_integer(out, "backoff_min_ms", step->backoff_min_ms);
		json_member_integer(out, "backoff_max_ms", step->backoff_max_ms);
		json_member_integer(out, "start_ms", step->start_ms);
		add_milliseconds(out, "slot_ms", step->slot_ms);
		add_milliseconds(out, "end_ms", step->end_ms);
		json_member_string(out, "cut_by", cut_words[step->cut]);
		buffer_printf(out, "}");
	}
	buffer_printf(out, "]");
	add_milliseconds(out, "longest_ms", timeline->longest_ms);
	add_switch(out, "longest_is_total", timeline->is_by_total);
	add_milliseconds(out, "without_total_ms", timeline->plain_ms);
	add_milliseconds(out, "without_total_with_retry_after_ms", timeline->asked_ms);
	json_member_string(out, "unbounded_by", timeline->unbounded_by);
	add_milliseconds(out, "application_timeout_ms", timeline->client_timeout_ms);
	buffer_printf(out, "}");
}

static const char *const kind_words[N_EXPLANATION_KINDS] = {
	[EXPLAINED_REQUEST] = "request",
	[EXPLAINED_OPAQUE_TUNNEL] = "opaque_tunnel",
	[EXPLAINED_HTTP_TUNNEL] = "http_tunnel",
	[EXPLAINED_HOST_DENIED] = "host_denied",
	[EXPLAINED_PORT_DENIED] = "port_denied",
};

void explanation_print_json(const struct explanation *explanation, struct buffer *out)
{
	struct value_list list = {out, explanation->config};
	struct buffer text = {0};
	bool has_policy = explanation_has_policy(explanation);

	buffer_printf(out, "{");
	json_member_slice(out, "method", explanation->method);
	put_url(&text, explanation);
	add_text(out, "url", &text);
	json_member_string(out, "kind", kind_words[explanation->kind]);
	add_upstream(out, explanation);
	if (explanation->match.upstream && explanation->kind != EXPLAINED_PORT_DENIED)
		add_route(out, explanation);
	if (has_policy) {
		put_destination(&text, explanation);
		add_text(out, "connects_to", &text);
	} else {
		json_member_integer(out, "status", 403);
		json_member_string(out, "error", "http_request_denied");
	}
	buffer_printf(out, ",\"notes\":[");
	explanation_notes(explanation, add_note, out);
	buffer_printf(out, "],\"values\":[");
	explanation_values(explanation, add_value, &list);
	buffer_printf(out, "]");
	if (has_policy) {
		add_effects(out, explanation);
		add_timeline(out, &explanation->timeline);
	}
	buffer_printf(out, "}\n");
}
