/* What the readers of requests and responses report. */
#ifndef EVENKEEL_HTTP_READ_EVENT_H
#define EVENKEEL_HTTP_READ_EVENT_H

#include <stdbool.h>

enum read_event {
	READ_MORE,    /* all bytes are consumed, nothing is complete: feed more */
	READ_INTERIM, /* responses: a 1xx head is complete (101 comes as READ_HEAD) */
	READ_HEAD,
	READ_BODY,    /* *body is the next piece, already without chunk framing; borrowed from the input */
	READ_END,     /* the message is complete; trailers, if any, are in reader->trailers */
	READ_ERROR,   /* reader->error says why; the connection can't be used any further */
};

enum body_framing { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE };

struct read_error {
	int status;         /* requests: 400 414 431 501 505; responses: 0 */
	bool is_too_large;  /* the header (or trailer) section is over the limit */
	const char *detail; /* static text: what is wrong and, where one rules, the RFC section */
};

#endif
