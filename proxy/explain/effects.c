/* What each limit does when it strikes, and what else is worth knowing about a request's policy. */
#include "../../config/units.h"
#include "../policy/retry.h"
#include "explanation.h"

bool is_repeatable_method(const struct explanation *explanation)
{
	return retry_is_repeatable(&explanation->match.policy->retry, explanation->method, false);
}

static bool is_retried(const struct explanation *explanation, enum outcome outcome)
{
	const struct outcome_facts *facts = &outcome_facts[outcome];

	if (explanation->timeline.max_attempts < 2 ||
		!(explanation->match.policy->retry.on.kinds & (uint32_t)facts->kind))
		return false;
	if (explanation->kind == EXPLAINED_OPAQUE_TUNNEL)
		return facts->is_unsent;
	return facts->is_unsent || explanation->kind == EXPLAINED_HTTP_TUNNEL || is_repeatable_method(explanation);
}

static bool is_overtaken(int64_t ms, int64_t wider_ms)
{
	return ms >= 0 && wider_ms >= 0 && wider_ms <= ms;
}

static void add(struct effect *effects, size_t *n, const struct explanation *explanation, struct effect effect,
	bool is_inside_attempt)
{
	const struct timeouts *timeouts = &explanation->match.policy->timeouts;

	if (is_inside_attempt && is_overtaken(effect.ms, timeouts->attempt_ms))
		effect.overtaken_by = "timeouts.attempt";
	else if (effect.outcome != OUTCOME_TOTAL_TIMEOUT && !effect.ends_tunnel &&
		 is_overtaken(effect.ms, timeouts->total_ms) && effect.outcome != OUTCOME_BODY_IDLE &&
		 effect.outcome != OUTCOME_STREAM_TOTAL)
		effect.overtaken_by = "timeouts.total";
	effect.is_only_counted =
		explanation->match.policy->mode == MODE_OBSERVE && effect.outcome != OUTCOME_DNS_TIMEOUT;
	effect.is_retried = !effect.ends_tunnel && is_retried(explanation, effect.outcome);
	if (effect.is_only_counted)
		effect.overtaken_by = NULL;
	effects[(*n)++] = effect;
}

/* body_idle and stream_total are never overtaken: a response that is a stream has no other limits. */
size_t explanation_effects(const struct explanation *explanation, struct effect effects[static MAX_EFFECTS])
{
	const struct timeouts *timeouts = &explanation->match.policy->timeouts;
	bool is_tunnel = explanation->kind == EXPLAINED_OPAQUE_TUNNEL;
	size_t n = 0;

#define ADD(name_, ms_, span_, outcome_, is_inside)                                                                    \
	add(effects, &n, explanation,                                                                                  \
		(struct effect){.name = (name_), .ms = (ms_), .span = (span_), .outcome = (outcome_)}, is_inside)
	ADD("timeouts.pool_wait", timeouts->pool_wait_ms, "waiting for a slot or connection", OUTCOME_POOL_WAIT, false);
	ADD("dns.timeout", explanation->config->global.dns.timeout_ms, "name resolution", OUTCOME_DNS_TIMEOUT, true);
	ADD("timeouts.connect", timeouts->connect_ms, "TCP connect, each address tried", OUTCOME_CONNECT_TIMEOUT, true);
	if (explanation->is_tls)
		ADD("timeouts.tls_handshake", timeouts->tls_handshake_ms, "TLS handshake", OUTCOME_TLS_TIMEOUT, true);
	if (!is_tunnel) {
		ADD("timeouts.response_headers", timeouts->response_headers_ms,
			"request sent to response headers complete", OUTCOME_HEADERS_TIMEOUT, true);
		ADD("timeouts.body_idle", timeouts->body_idle_ms, "silence within the response body", OUTCOME_BODY_IDLE,
			false);
		ADD("timeouts.stream_total", timeouts->stream_total_ms, "a response of a type in stream_types",
			OUTCOME_STREAM_TOTAL, false);
	}
	ADD("timeouts.attempt", timeouts->attempt_ms,
		is_tunnel ? "slot taken to tunnel established" : "slot taken to last body byte",
		OUTCOME_ATTEMPT_TIMEOUT, false);
	ADD("timeouts.total", timeouts->total_ms,
		is_tunnel ? "CONNECT received to tunnel established" : "first request byte to last response byte",
		OUTCOME_TOTAL_TIMEOUT, false);
#undef ADD
	if (!is_tunnel)
		return n;
	add(effects, &n, explanation,
		(struct effect){.name = "timeouts.tunnel_idle",
			.ms = timeouts->tunnel_idle_ms,
			.span = "silence in the tunnel",
			.ends_tunnel = true},
		false);
	add(effects, &n, explanation,
		(struct effect){.name = "timeouts.tunnel_total",
			.ms = timeouts->tunnel_total_ms,
			.span = "the tunnel's whole life",
			.ends_tunnel = true},
		false);
	return n;
}

struct notes {
	void (*take)(void *owner, const struct buffer *note);
	void *owner;
};

static void note(const struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(const struct notes *notes, const char *format, ...)
{
	struct buffer text = {0};
	va_list arguments;

	va_start(arguments, format);
	buffer_vprintf(&text, format, arguments);
	va_end(arguments);
	notes->take(notes->owner, &text);
	buffer_clear(&text);
}

static void note_tunnel(const struct explanation *explanation, const struct notes *notes)
{
	const char *host = explanation->target.host;
	const char *bracket[2] = {
		explanation->target.is_ipv6_literal ? "[" : "", explanation->target.is_ipv6_literal ? "]" : ""};
	unsigned port = explanation->target.port;

	if (explanation->kind == EXPLAINED_HTTP_TUNNEL)
		note(notes,
			"The CONNECT is answered 200 at once and must then speak HTTP/1: each request inside gets "
			"policy, retries and errors as any other. To see its route, explain METHOD "
			"http://%s%s%s:%u/PATH.",
			bracket[0], host, bracket[1], port);
	if (explanation->kind == EXPLAINED_PORT_DENIED)
		note(notes,
			"CONNECT to port %u is refused: it is neither in egress.connect_ports nor in the upstream's "
			"match.ports, and egress.tunnel_http is off.",
			port);
	if (explanation->kind != EXPLAINED_OPAQUE_TUNNEL)
		return;
	note(notes,
		"Inside the tunnel nothing can be read, so these can't be enforced: retries after the 200, retry.on "
		"statuses, total, attempt, response_headers, body_idle, headers, hold_response, Evenkeel-* fields.");
	note(notes,
		"To have them: let the application ask http://%s%s%s/ and set tls: {originate: on} in the upstream, or "
		"give the upstream a local port with listen.",
		bracket[0], host, bracket[1]);
}

static void note_retries(const struct explanation *explanation, const struct notes *notes)
{
	const struct retry_rule *rule = &explanation->match.policy->retry;
	const struct timeouts *timeouts = &explanation->match.policy->timeouts;

	if (explanation->kind != EXPLAINED_REQUEST || explanation->timeline.max_attempts < 2)
		return;
	if (is_repeatable_method(explanation)) {
		if (timeouts->attempt_ms >= 0 && !is_overtaken(timeouts->attempt_ms, timeouts->total_ms) &&
			!is_retried(explanation, OUTCOME_ATTEMPT_TIMEOUT))
			note(notes, "attempt_timeout is not in retry.on: an attempt that timeouts.attempt cuts is the last "
				    "one. The timeline is of attempts that fail otherwise just before that.");
		return;
	}
	if (rule->idempotency_key)
		note(notes,
			"%.*s is not in retry.methods: once a byte of it was sent, it is repeated only when it bears "
			"%s.",
			SLICE_ARGS(explanation->method), rule->idempotency_key);
	else
		note(notes, "%.*s is not in retry.methods: once a byte of it was sent, it is never repeated.",
			SLICE_ARGS(explanation->method));
}

static void note_policy(const struct explanation *explanation, const struct notes *notes)
{
	const struct policy *policy = explanation->match.policy;
	char text[UNITS_TEXT_BYTES];

	if (policy->mode == MODE_OBSERVE)
		note(notes, "mode is observe: limits and retries are only decided, logged and counted; nothing is cut "
			    "or repeated.");
	if (policy->hedge.is_on && explanation->kind == EXPLAINED_REQUEST && policy->mode == MODE_ENFORCE &&
		is_repeatable_method(explanation))
		note(notes,
			"hedge: beside an attempt that has no answer after %s a second one is started; it counts as "
			"one of max_attempts.",
			units_format_duration(policy->hedge.after_ms, text));
	if (policy->timeouts.stream_types.n > 0 && explanation->kind != EXPLAINED_OPAQUE_TUNNEL &&
		policy->mode == MODE_ENFORCE)
		note(notes, "A response of a type in timeouts.stream_types is bounded by body_idle and stream_total "
			    "only, once its headers are in.");
	if (policy->override == OVERRIDE_ANY)
		note(notes, "override is any: a request may ask for more time with Evenkeel-Timeout and for more "
			    "attempts with Evenkeel-Max-Attempts.");
	if (!explanation->timeline.is_by_total && explanation->timeline.longest_ms >= 0 &&
		explanation->kind != EXPLAINED_OPAQUE_TUNNEL && is_repeatable_method(explanation))
		note(notes, "A kept-alive connection that the origin had closed is replaced once without using up an "
			    "attempt: that may add one more attempt to the longest wait.");
}

static bool is_ipv4_literal(const char *host)
{
	size_t length = strlen(host);

	return length > 0 && strspn(host, "0123456789.") == length;
}

void explanation_notes(
	const struct explanation *explanation, void (*take)(void *owner, const struct buffer *note), void *owner)
{
	const struct notes notes = {take, owner};
	const struct target *target = &explanation->target;

	if (target->has_userinfo)
		note(&notes, "The user name and password of the URL are dropped, never forwarded.");
	if (explanation->match.upstream)
		note_tunnel(explanation, &notes);
	if (!explanation_has_policy(explanation))
		return;
	if (strchr(explanation->host, ':') || is_ipv4_literal(explanation->host))
		note(&notes, "An address within egress.deny_addresses is answered 403 destination_ip_prohibited.");
	if (target->is_https)
		note(&notes,
			"Most clients send an https:// URL through a proxy as CONNECT %s%s%s:%u, an opaque tunnel: "
			"explain that to see what is left of the policy.",
			target->is_ipv6_literal ? "[" : "", target->host, target->is_ipv6_literal ? "]" : "",
			target->port);
	note_retries(explanation, &notes);
	note_policy(explanation, &notes);
}
