/*
 * What must hold for any bytes whatever, shared by the mutation test and the fuzzer. A broken property aborts.
 *   - the outcome doesn't depend on how the bytes were cut;
 *   - a request that is taken is written so that it reads back as one request: one Host, the framing meant, nothing
 * left;
 *   - the same for responses;
 *   - a chunked body that both we and llhttp take is the same body, ending at the same byte.
 */
#ifndef EVENKEEL_TESTS_HTTP_PROPERTIES_H
#define EVENKEEL_TESTS_HTTP_PROPERTIES_H

#include <llhttp.h>

#include "../../proxy/http/h1_write.h"
#include "http_feed.h"

#define PROPERTY(condition)                                                                                            \
	((condition) ? (void)0 : (fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition), abort()))
#define PROPERTY_LIMIT 600

static inline void properties_of_cutting(const char *bytes, size_t n, size_t first, size_t step)
{
	const struct feed_answer answer = {
		.asked_upgrade = step % 2, .to_head = step % 5 == 4, .ending = FEED_CLEAN_EOF};
	char *whole = feed_request(bytes, n, 0, 0, PROPERTY_LIMIT, NULL);
	char *cut = feed_request(bytes, n, first, step, PROPERTY_LIMIT, NULL);

	PROPERTY(strcmp(whole, cut) == 0);
	free(whole);
	free(cut);
	whole = feed_response(bytes, n, 0, 0, PROPERTY_LIMIT, &answer);
	cut = feed_response(bytes, n, first, step, PROPERTY_LIMIT, &answer);
	PROPERTY(strcmp(whole, cut) == 0);
	free(whole);
	free(cut);
}

static inline size_t property_count(const struct head *head, struct slice name)
{
	size_t n = 0;

	for (long i = head_find(head, name, 0); i >= 0; i = head_find(head, name, (size_t)i + 1))
		n++;
	return n;
}

static inline void property_written_request(const struct request *request)
{
	const struct request_rewrite rewrite = {
		.host = SLICE("o:1"), .path = SLICE("/"), .via_id = SLICE("id"), .framing = request->framing};
	struct request again;
	struct request_reader reader;
	struct buffer out = {0};
	struct slice body;

	h1_write_request(&out, request, &rewrite, request->content_length);
	request_init(&again);
	request_reader_init(&reader, &again, 4 * PROPERTY_LIMIT);
	const char *at = buffer_start(&out);
	size_t left = buffer_length(&out);
	PROPERTY(request_reader_next(&reader, &at, &left, &body) == READ_HEAD);
	PROPERTY(left == 0 && again.framing == request->framing && again.content_length == request->content_length);
	PROPERTY(slice_equals(again.method, request->method));
	PROPERTY(slice_equals(head_get(&again.head, SLICE("host")), SLICE("o:1")));
	PROPERTY(
		property_count(&again.head, SLICE("connection")) == 0 && property_count(&again.head, SLICE("te")) == 0);
	request_reader_clear(&reader);
	request_clear(&again);
	buffer_clear(&out);
}

static inline void properties_of_requests(const char *bytes, size_t n)
{
	struct request request;
	struct request_reader reader;
	struct slice body;
	const char *at = bytes;
	size_t left = n;

	request_init(&request);
	request_reader_init(&reader, &request, PROPERTY_LIMIT);
	if (request_reader_next(&reader, &at, &left, &body) == READ_HEAD && !request.is_connect) {
		char *path = malloc(request.target.path.length + 1);
		PROPERTY(path != NULL);
		size_t length = target_match_path(request.target.path, path, request.target.path.length + 1);
		PROPERTY(length > 0 && length <= request.target.path.length + 1);
		free(path);
		property_written_request(&request);
	}
	request_reader_clear(&reader);
	request_clear(&request);
}

static inline void property_written_response(const struct response *response)
{
	const struct response_rewrite rewrite = {
		.via_id = SLICE("id"), .add_close = true, .add_chunked = response->framing == BODY_CHUNKED};
	struct response again;
	struct response_reader reader;
	struct buffer out = {0};
	struct slice body;

	h1_write_response(&out, response, &rewrite);
	response_init(&again);
	response_reader_init(&reader, &again, 4 * PROPERTY_LIMIT, false, false, true);
	const char *at = buffer_start(&out);
	size_t left = buffer_length(&out);
	enum read_event event = response_reader_next(&reader, &at, &left, &body);
	PROPERTY(event == READ_HEAD || event == READ_INTERIM);
	PROPERTY(left == 0 && again.status == response->status && again.framing == response->framing);
	PROPERTY(slice_equals(again.reason, response->reason));
	PROPERTY(!again.is_keep_alive);
	response_reader_clear(&reader);
	response_clear(&again);
	buffer_clear(&out);
}

static inline void properties_of_responses(const char *bytes, size_t n)
{
	struct response response;
	struct response_reader reader;
	struct slice body;
	const char *at = bytes;
	size_t left = n;

	response_init(&response);
	response_reader_init(&reader, &response, PROPERTY_LIMIT, false, false, true);
	enum read_event event = response_reader_next(&reader, &at, &left, &body);
	if (event == READ_HEAD || event == READ_INTERIM)
		property_written_response(&response);
	response_reader_clear(&reader);
	response_clear(&response);
}

static inline int property_on_body(llhttp_t *parser, const char *at, size_t length)
{
	buffer_append(parser->data, at, length);
	return 0;
}

static inline int property_on_end(llhttp_t *parser)
{
	(void)parser;
	return HPE_PAUSED;
}

/* -1: refused or not ended; else the bytes that it took. */
static inline long property_llhttp_body(const char *bytes, size_t n, struct buffer *out)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
	const llhttp_settings_t settings = {.on_body = property_on_body, .on_message_complete = property_on_end};
	llhttp_t parser;

	llhttp_init(&parser, HTTP_REQUEST, &settings);
	parser.data = out;
	PROPERTY(llhttp_execute(&parser, head, sizeof(head) - 1) == HPE_OK);
	if (llhttp_execute(&parser, bytes, n) != HPE_PAUSED)
		return -1;
	return llhttp_get_error_pos(&parser) - bytes;
}

static inline void properties_of_chunks(const char *bytes, size_t n)
{
	struct buffer ours = {0}, theirs = {0};
	struct body_reader reader;
	struct head trailers;
	struct read_error error;
	struct slice body;
	const char *at = bytes;
	size_t left = n;
	enum read_event event;

	head_init(&trailers);
	body_reader_start(&reader, BODY_CHUNKED, 0);
	while ((event = body_reader_next(&reader, &trailers, PROPERTY_LIMIT, &at, &left, &body, &error)) == READ_BODY)
		buffer_append_slice(&ours, body);
	long taken = property_llhttp_body(bytes, n, &theirs);
	if (event == READ_END && taken >= 0) {
		PROPERTY(taken == at - bytes);
		PROPERTY(slice_equals(buffer_slice(&ours), buffer_slice(&theirs)));
	}
	head_clear(&trailers);
	buffer_clear(&ours);
	buffer_clear(&theirs);
}

static inline void properties_of(const char *bytes, size_t n, size_t first, size_t step)
{
	properties_of_cutting(bytes, n, first, step);
	properties_of_requests(bytes, n);
	properties_of_responses(bytes, n);
	properties_of_chunks(bytes, n);
}

#endif
