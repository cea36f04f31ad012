/*
 * Feeds bytes to the HTTP readers cut in any way and writes down what came out as one text, so that a test states the
 * whole outcome at once and two ways of cutting can be compared.
 */
#ifndef EVENKEEL_TESTS_HTTP_FEED_H
#define EVENKEEL_TESTS_HTTP_FEED_H

#include <stdio.h>
#include <stdlib.h>

#include "../../proxy/http/response.h"

#define FEED_LIMIT 65536

enum feed_ending { FEED_OPEN, FEED_CLEAN_EOF, FEED_BROKEN };

struct feed {
	struct buffer text; /* the transcript; NUL-terminated by feed_text */
	bool is_in_body;
	bool is_done;
};

static inline void feed_close_body(struct feed *feed)
{
	if (feed->is_in_body)
		buffer_printf(&feed->text, "\n");
	feed->is_in_body = false;
}

static inline void feed_body(struct feed *feed, struct slice piece)
{
	if (!feed->is_in_body)
		buffer_printf(&feed->text, "body ");
	feed->is_in_body = true;
	buffer_append_slice(&feed->text, piece);
}

static inline void feed_fields(struct feed *feed, const char *mark, const struct head *head)
{
	for (size_t i = 0; i < head->n_fields; i++)
		buffer_printf(&feed->text, "%s[%.*s][%.*s]\n", mark, SLICE_ARGS(head_name(head, i)),
			SLICE_ARGS(head_value(head, i)));
}

static inline const char *feed_framing(enum body_framing framing)
{
	static const char *const names[] = {"none", "length", "chunked", "until-close"};

	return names[framing];
}

static inline void feed_request_head(struct feed *feed, const struct request *request)
{
	buffer_printf(&feed->text, "%.*s %.*s 1.%d %s %llu%s%s%s%s\n", SLICE_ARGS(request->method),
		SLICE_ARGS(request->target_text), request->minor_version, feed_framing(request->framing),
		(unsigned long long)request->content_length, request->is_keep_alive ? " keep-alive" : "",
		request->expects_continue ? " continue" : "", request->wants_upgrade ? " upgrade" : "",
		request->accepts_trailers ? " trailers" : "");
	feed_fields(feed, "", &request->head);
}

static inline void feed_response_head(struct feed *feed, const struct response *response, const char *mark)
{
	buffer_printf(&feed->text, "%s%d [%.*s] 1.%d %s %llu%s%s%s %lld\n", mark, response->status,
		SLICE_ARGS(response->reason), response->minor_version, feed_framing(response->framing),
		(unsigned long long)response->content_length, response->has_content_length ? " length" : "",
		response->is_keep_alive ? " keep-alive" : "", response->is_upgrade ? " switch" : "",
		(long long)response->keep_alive_timeout_ms);
	feed_fields(feed, "", &response->head);
}

static inline void feed_error(struct feed *feed, const struct read_error *error)
{
	buffer_printf(
		&feed->text, "error %d%s %s\n", error->status, error->is_too_large ? " too-large" : "", error->detail);
	feed->is_done = true;
}

/* A copy of exactly these bytes, so that the sanitizer sees a read beyond them. */
static inline char *feed_copy(const char *bytes, size_t n)
{
	char *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	if (n > 0)
		memcpy(copy, bytes, n);
	return copy;
}

/* One read's worth of bytes. Messages are read one after another; stops at an error or after CONNECT and 101. */
static inline void feed_request_piece(
	struct feed *feed, struct request_reader *reader, struct request *request, const char *bytes, size_t n)
{
	char *copy = feed_copy(bytes, n);
	const char *at = copy;
	size_t left = n;

	while (!feed->is_done) {
		struct slice body = {NULL, 0};
		enum read_event event = request_reader_next(reader, &at, &left, &body);

		if (event == READ_BODY) {
			feed_body(feed, body);
			continue;
		}
		if (event == READ_MORE)
			break;
		feed_close_body(feed);
		if (event == READ_HEAD)
			feed_request_head(feed, request);
		if (event == READ_ERROR)
			feed_error(feed, &reader->error);
		if (event != READ_END)
			continue;
		feed_fields(feed, "trailer ", &reader->trailers);
		buffer_printf(&feed->text, "end\n");
		if (request->is_connect) {
			feed->is_done = true;
			break;
		}
		request_clear(request);
		request_reader_reset(reader, request);
	}
	free(copy);
}

static inline char *feed_finish(struct feed *feed)
{
	buffer_append(&feed->text, "", 1);
	char *text = strdup(buffer_start(&feed->text));
	buffer_clear(&feed->text);
	return text;
}

/*
 * Feeds n bytes in pieces: the first of `first` bytes (0: none), then of `step` bytes each (0: all that is left).
 * Returns the transcript, to be freed. is_idle, when given: is the reader idle at the end?
 */
static inline char *feed_request(const char *bytes, size_t n, size_t first, size_t step, size_t limit, bool *is_idle)
{
	struct feed feed = {.is_done = false};
	struct request request;
	struct request_reader reader;
	size_t at = 0;

	request_init(&request);
	request_reader_init(&reader, &request, limit);
	while (at < n && !feed.is_done) {
		size_t piece = at == 0 && first > 0 ? first : step > 0 ? step : n - at;

		if (piece > n - at)
			piece = n - at;
		feed_request_piece(&feed, &reader, &request, bytes + at, piece);
		at += piece;
	}
	feed_close_body(&feed);
	if (is_idle)
		*is_idle = request_reader_is_idle(&reader);
	request_reader_clear(&reader);
	request_clear(&request);
	return feed_finish(&feed);
}

struct feed_answer {
	bool to_head, to_connect, asked_upgrade;
	enum feed_ending ending;
};

static inline void feed_response_piece(
	struct feed *feed, struct response_reader *reader, struct response *response, const char *bytes, size_t n)
{
	char *copy = feed_copy(bytes, n);
	const char *at = copy;
	size_t left = n;

	while (!feed->is_done) {
		struct slice body = {NULL, 0};
		enum read_event event = response_reader_next(reader, &at, &left, &body);

		if (event == READ_BODY) {
			feed_body(feed, body);
			continue;
		}
		if (event == READ_MORE)
			break;
		feed_close_body(feed);
		if (event == READ_HEAD || event == READ_INTERIM)
			feed_response_head(feed, response, event == READ_HEAD ? "" : "interim ");
		if (event == READ_ERROR)
			feed_error(feed, &reader->error);
		if (event != READ_END)
			continue;
		feed_fields(feed, "trailer ", &reader->trailers);
		buffer_printf(&feed->text, "end\n");
		feed->is_done = true;
	}
	free(copy);
}

static inline char *feed_response(
	const char *bytes, size_t n, size_t first, size_t step, size_t limit, const struct feed_answer *answer)
{
	struct feed feed = {.is_done = false};
	struct response response;
	struct response_reader reader;
	size_t at = 0;

	response_init(&response);
	response_reader_init(&reader, &response, limit, answer->to_head, answer->to_connect, answer->asked_upgrade);
	while (at < n && !feed.is_done) {
		size_t piece = at == 0 && first > 0 ? first : step > 0 ? step : n - at;

		if (piece > n - at)
			piece = n - at;
		feed_response_piece(&feed, &reader, &response, bytes + at, piece);
		at += piece;
	}
	feed_close_body(&feed);
	if (!feed.is_done && answer->ending != FEED_OPEN) {
		if (response_reader_eof(&reader, answer->ending == FEED_CLEAN_EOF) == READ_END)
			buffer_printf(&feed.text, "end\n");
		else
			feed_error(&feed, &reader.error);
	}
	response_reader_clear(&reader);
	response_clear(&response);
	return feed_finish(&feed);
}

#endif
