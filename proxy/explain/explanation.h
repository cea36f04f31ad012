/* What text.c and json.c both tell. For the files of this room only. */
#ifndef EVENKEEL_EXPLAIN_EXPLANATION_H
#define EVENKEEL_EXPLAIN_EXPLANATION_H

#include "../../config/keys.h"
#include "../base/buffer.h"
#include "../http/target.h"
#include "../policy/match.h"
#include "../policy/outcome.h"
#include "timeline.h"

enum explanation_kind {
	EXPLAINED_REQUEST,       /* forwarded, with the whole policy */
	EXPLAINED_OPAQUE_TUNNEL, /* CONNECT: bytes are passed on unread */
	EXPLAINED_HTTP_TUNNEL,   /* CONNECT: HTTP/1 is expected inside, each request gets a policy of its own */
	EXPLAINED_HOST_DENIED,   /* 403: `unmatched: deny` */
	EXPLAINED_PORT_DENIED,   /* 403: CONNECT to a port that isn't allowed */
	N_EXPLANATION_KINDS
};

struct explanation {
	const struct config *config; /* borrowed, as all below but path */
	struct slice method;
	struct target target;
	char *path; /* owns: as routes are matched by it; not NUL-terminated */
	size_t path_length;
	struct match match; /* all NULL: EXPLAINED_HOST_DENIED */
	enum explanation_kind kind;
	bool is_local_port; /* the URL names an upstream's own `listen` address */
	bool is_tls;        /* towards the origin */
	const char *host;   /* that is connected to, no brackets */
	uint16_t port;
	struct timeline timeline;
};

/* Is there a policy to show? */
static inline bool explanation_has_policy(const struct explanation *explanation)
{
	return explanation->match.policy && explanation->kind != EXPLAINED_PORT_DENIED;
}

/* "built-in", or FILE:LINE. */
void put_place(struct buffer *out, const struct config *config, unsigned line);
void put_key_place(struct buffer *out, const struct config *config, const void *owner, const char *path,
	unsigned scope);

/* The URL without userinfo and query; HOST:PORT for CONNECT. */
void put_url(struct buffer *out, const struct explanation *explanation);
void put_destination(struct buffer *out, const struct explanation *explanation); /* "https://HOST:PORT" */

/* reasons.c: one clause each. Why this upstream or route, and where that is written; why not the others. */
void put_upstream_reason(struct buffer *out, const struct explanation *explanation);
void put_upstream_place(struct buffer *out, const struct explanation *explanation);
void put_other_upstream_reason(struct buffer *out, const struct explanation *explanation,
	const struct upstream_def *other);
void put_route_reason(struct buffer *out, const struct explanation *explanation);
void put_other_route_reason(struct buffer *out, const struct explanation *explanation, const struct route *other);
bool has_route_choice(const struct explanation *explanation); /* are routes asked at all? */

/* local_port.c: whose local port the URL names; NULL: nobody's. */
const struct upstream_def *find_local_port(const struct config *config, const struct target *target);

/* effects.c: what a limit does when it strikes, and what else is worth knowing. */
struct effect {
	const char *name; /* key below timeouts, or dns.timeout */
	int64_t ms;       /* LIMIT_OFF: never strikes */
	const char *span; /* what it measures */
	enum outcome outcome;
	const char *overtaken_by; /* a shorter limit that always strikes first; NULL: none */
	bool is_retried;
	bool is_only_counted; /* mode: observe */
	bool ends_tunnel; /* no answer any more: the tunnel is closed */
};
#define MAX_EFFECTS 12
size_t explanation_effects(const struct explanation *explanation, struct effect effects[static MAX_EFFECTS]);

/* Calls take for each note, a whole sentence. */
void explanation_notes(const struct explanation *explanation,
		       void (*take)(void *owner, const struct buffer *note), void *owner);

/* May a request of this method be repeated once it was sent, without an idempotency key? */
bool is_repeatable_method(const struct explanation *explanation);

/* values.c: calls take for every effective value, in the order of the key table. */
struct shown_value {
	const char *group; /* "policy", "upstream", "route", "process" */
	const struct key *key;
	const char *text;
	unsigned line; /* 0: built-in */
};
void explanation_values(const struct explanation *explanation,
			void (*take)(void *owner, const struct shown_value *value), void *owner);

void explanation_print_text(const struct explanation *explanation, struct buffer *out);
void explanation_print_json(const struct explanation *explanation, struct buffer *out);

#endif
