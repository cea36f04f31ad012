/*
 * The admin port. evhttp routes it (evhttp_set_cb, one line of a table for each endpoint); the wire reads the requests
 * and writes the answers.
 */
#ifndef EVENKEEL_FRONT_ADMIN_H
#define EVENKEEL_FRONT_ADMIN_H

#include "wire.h"

struct evhttp;

struct admin_answer {
	int status;
	const char *content_type; /* NULL: no body */
	const char *more_fields;  /* complete field lines; NULL: none */
	char field_storage[512];  /* for those that are made for one answer */
	struct buffer body;       /* owns; cleared after it was written */
};

/* One endpoint. Answers at once: fills answer, whose status is 200 and whose body is empty before. */
struct admin_route {
	const char *path;
	const char *method;       /* "GET" (HEAD too) or "POST" */
	bool is_open;             /* probes and scrapers: whatever Host says */
	void (*answer)(struct front *front, const struct request *request, struct admin_answer *answer);
};

/* One endpoint each, for the table in admin.c. */
void admin_answer_upstreams(struct front *front, const struct request *request, struct admin_answer *answer);
void admin_answer_advice(struct front *front, const struct request *request, struct admin_answer *answer);
void admin_answer_config(struct front *front, const struct request *request, struct admin_answer *answer);
void admin_answer_explain(struct front *front, const struct request *request, struct admin_answer *answer);
void admin_answer_dashboard(struct front *front, const struct request *request, struct admin_answer *answer);

/* A status and a line of text, or more of them, instead of an answer. */
void admin_refuse(struct admin_answer *answer, int status, struct slice text);

/* Is the media type named by Accept at all, and not with q=0? */
bool admin_accepts(const struct request *request, struct slice type);

/* admin_query.c: appends a parameter's decoded value. BAD: there twice, or an escape that isn't one. */
enum query_result { QUERY_MISSING, QUERY_FOUND, QUERY_BAD };
enum query_result admin_query(const struct request *request, const char *name, struct buffer *value);

/* admin_upstreams.c: by name in the policies in force, the built-in one too; NULL: there is none (any more). */
const struct upstream_def *admin_find_upstream(const struct config *config, const char *name);
const char *admin_breaker_word(const struct origin *origin);
/* The members n, p50, p90, p99, p99.9 and max of an object, in milliseconds; null when there is nothing (NULL). */
void admin_write_quantiles(struct buffer *out, const struct quantiles *quantiles);

void admin_set_routes(struct evhttp *http, struct listener *listener);

/* admin_guard.c: may this request be answered? False: a page of somebody else's site is behind it. */
bool admin_host_is_allowed(const struct global_rule *global, const struct request *request);
bool admin_origin_is_allowed(const struct request *request);

#endif
