/*
 * The admin port. evhttp routes it (evhttp_set_cb, one line of a table for each endpoint); the wire reads the requests and
 * writes the answers.
 */
#ifndef EVENKEEL_FRONT_ADMIN_H
#define EVENKEEL_FRONT_ADMIN_H

#include "wire.h"

struct evhttp;

struct admin_answer {
	int status;
	const char *content_type; /* NULL: no body */
	const char *more_fields;  /* complete field lines; NULL: none */
	struct buffer body;       /* owns; cleared after it was written */
};

/* One endpoint. Answers at once: fills answer, whose status is 200 and whose body is empty before. */
struct admin_route {
	const char *path;
	const char *method;       /* "GET" (HEAD too) or "POST" */
	bool is_open;             /* probes and scrapers: whatever Host says */
	void (*answer)(struct front *front, const struct request *request, struct admin_answer *answer);
};

void admin_set_routes(struct evhttp *http, struct listener *listener);

/* guard.c: may this request be answered? False: a page of somebody else's site is behind it; detail says so. */
bool admin_host_is_allowed(const struct global_rule *global, const struct request *request);
bool admin_origin_is_allowed(const struct request *request);

#endif
