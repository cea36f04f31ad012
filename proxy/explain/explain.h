/*
 * What the policy file means for one request: which upstream and route it gets and why, where every value comes from,
 * and how long the application may have to wait for the answer. The `explain` command and the admin port's /explain
 * are this. Pure: reads a config, connects to nothing.
 */
#ifndef EVENKEEL_EXPLAIN_EXPLAIN_H
#define EVENKEEL_EXPLAIN_EXPLAIN_H

#include "../../config/load.h"
#include "../base/buffer.h"

/* For the buffer behind `error`: no message is longer. */
#define EXPLAIN_ERROR_BYTES 256

/*
 * url: http://HOST[:PORT][/PATH] or https://..., as a client's absolute form has it; with the method CONNECT HOST:PORT.
 * method: case-sensitive, as sent. Userinfo and query are never shown.
 * Appends text, or one JSON object and a line end, to out. A request that the policy refuses (403) is explained as
 * well. False: error says in one line what is wrong with method or url, and out is as it was.
 */
bool explain(const struct config *config, struct slice method, struct slice url, bool as_json, struct buffer *out,
	     char *error, size_t error_capacity);

#endif
