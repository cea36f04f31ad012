#include "explain.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/check.h"
#include "../policy/egress.h"
#include "explanation.h"

#define MAX_METHOD_BYTES 64

void put_place(struct buffer *out, const struct config *config, unsigned line)
{
	if (line == 0 || !config->path)
		buffer_append_slice(out, SLICE("built-in"));
	else
		buffer_printf(out, "%s:%u", config->path, line);
}

void put_key_place(struct buffer *out, const struct config *config, const void *owner, const char *path, unsigned scope)
{
	const struct key *key = key_find(path, scope);

	CHECK(key != NULL);
	put_place(out, config, config_origin(config, owner, key).line);
}

static void put_authority(struct buffer *out, const char *host, uint16_t port)
{
	buffer_printf(out, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

void put_url(struct buffer *out, const struct explanation *explanation)
{
	const struct target *target = &explanation->target;

	if (target->form == TARGET_AUTHORITY) {
		put_authority(out, target->host, target->port);
		return;
	}
	buffer_printf(out, target->is_https ? "https://" : "http://");
	if (target->port != (target->is_https ? EGRESS_HTTPS_PORT : EGRESS_HTTP_PORT))
		put_authority(out, target->host, target->port);
	else
		buffer_printf(out, target->is_ipv6_literal ? "[%s]" : "%s", target->host);
	if (explanation->path[0] == '/') /* not the "*" of an OPTIONS for the whole server */
		buffer_append(out, explanation->path, explanation->path_length);
}

void put_destination(struct buffer *out, const struct explanation *explanation)
{
	if (explanation->kind != EXPLAINED_OPAQUE_TUNNEL)
		buffer_printf(out, explanation->is_tls ? "https://" : "http://");
	put_authority(out, explanation->host, explanation->port);
}

static bool is_token(struct slice text)
{
	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		bool is_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
		if (!is_word && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.length > 0 && text.length <= MAX_METHOD_BYTES;
}

/* NULL, or what is wrong. */
static const char *read_request(struct explanation *explanation, struct slice url)
{
	if (!is_token(explanation->method))
		return "bad method: it must be a token such as GET (RFC 9110 9.1)";
	bool is_connect = slice_equals(explanation->method, SLICE("CONNECT"));
	const char *fault = target_parse(url, is_connect, &explanation->target);
	if (fault)
		return fault;
	if (!is_connect && explanation->target.form != TARGET_ABSOLUTE)
		return "no host in it";
	struct slice path = explanation->target.path;
	explanation->path = xmalloc(path.length + 1); /* one for the "/" or "*" of an empty one */
	if (is_connect)
		return NULL;
	if (path.length == 0 && slice_equals(explanation->method, SLICE("OPTIONS"))) /* RFC 9112 3.2.4 */
		path = SLICE("*");
	explanation->path_length = target_match_path(path, explanation->path, path.length + 1);
	return NULL;
}

static enum explanation_kind kind_of(const struct explanation *explanation)
{
	const struct egress_rule *egress = &explanation->config->global.egress;
	const struct upstream_def *upstream = explanation->match.upstream;

	if (!upstream)
		return EXPLAINED_HOST_DENIED;
	if (explanation->target.form != TARGET_AUTHORITY)
		return EXPLAINED_REQUEST;
	if (egress_is_opaque_port(egress, upstream, explanation->target.port))
		return EXPLAINED_OPAQUE_TUNNEL;
	return egress->tunnel_http ? EXPLAINED_HTTP_TUNNEL : EXPLAINED_PORT_DENIED;
}

static void find_destination(struct explanation *explanation)
{
	const struct upstream_def *upstream = explanation->match.upstream;

	explanation->host = explanation->target.host;
	explanation->port = explanation->target.port;
	explanation->is_tls = explanation->target.is_https;
	if (explanation->is_local_port) {
		explanation->host = egress_local_host(upstream); /* `check` sees to it that there is one */
		explanation->port = egress_local_port(upstream);
		explanation->is_tls = upstream->tls.originate;
		return;
	}
	if (explanation->is_tls || !upstream || !upstream->tls.originate ||
		explanation->kind == EXPLAINED_OPAQUE_TUNNEL)
		return;
	explanation->is_tls = true;
	explanation->port = egress_port(upstream, explanation->port);
}

/* Before a tunnel stands there is no response: neither its status nor its Retry-After can lead to a retry. */
static void make_timeline(struct explanation *explanation)
{
	struct policy policy = *explanation->match.policy;

	if (explanation->kind == EXPLAINED_OPAQUE_TUNNEL) {
		policy.retry.on =
			(struct retry_on){.kinds = policy.retry.on.kinds & (RETRY_DNS_FAILURE | RETRY_CONNECT_FAILURE)};
		policy.retry.retry_after.honor = false;
	}
	timeline_make(&explanation->timeline, &policy);
}

static void find_match(struct explanation *explanation)
{
	struct slice path = {explanation->path, explanation->path_length};
	struct match *match = &explanation->match;

	match->upstream = find_local_port(explanation->config, &explanation->target);
	explanation->is_local_port = match->upstream != NULL;
	if (!explanation->is_local_port) {
		*match = match_request(explanation->config, slice_of(explanation->target.host),
			explanation->target.port, explanation->method, path);
		return;
	}
	match->route = match_route(match->upstream, explanation->method, path);
	match->policy = match->route ? &match->route->policy : &match->upstream->policy;
}

static void find_policy(struct explanation *explanation)
{
	find_match(explanation);
	explanation->kind = kind_of(explanation);
	if (explanation->kind == EXPLAINED_HTTP_TUNNEL) { /* routes are for the requests inside */
		explanation->match.route = NULL;
		explanation->match.policy = &explanation->match.upstream->policy;
	}
	find_destination(explanation);
	if (explanation->match.policy)
		make_timeline(explanation);
}

bool explain(const struct config *config, struct slice method, struct slice url, bool as_json, struct buffer *out,
	char *error, size_t error_capacity)
{
	struct explanation explanation = {.config = config, .method = method};
	const char *fault = read_request(&explanation, url);

	if (fault) {
		snprintf(error, error_capacity,
			"%s: write METHOD http://HOST[:PORT][/PATH] (or https://), or CONNECT HOST:PORT", fault);
		return false;
	}
	find_policy(&explanation);
	if (as_json)
		explanation_print_json(&explanation, out);
	else
		explanation_print_text(&explanation, out);
	free(explanation.path);
	return true;
}
