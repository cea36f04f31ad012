#include "refuse.h"

#include <time.h>

#include "../base/clock.h"
#include "../exchange/access.h"

/* IMF-fixdate (RFC 9110 5.6.7), spelled out since strftime's names follow the locale. */
static void write_date(struct buffer *out)
{
	static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t seconds = (time_t)(clock_wall_ms() / 1000);
	struct tm at;
	gmtime_r(&seconds, &at);
	buffer_printf(out, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[at.tm_wday], at.tm_mday,
		      months[at.tm_mon], at.tm_year + 1900, at.tm_hour, at.tm_min, at.tm_sec);
}

void reply_write(struct wire *wire, const struct own_reply *reply, const struct request *request, bool is_keep_alive)
{
	struct buffer *out = &wire->output;
	buffer_printf(out, "HTTP/1.1 %d %s\r\n", reply->status, h1_reason(reply->status));
	write_date(out);
	buffer_append_slice(out, reply->fields);
	buffer_printf(out, "Content-Length: %zu\r\n", reply->body.length);
	if (!is_keep_alive)
		buffer_append_slice(out, SLICE("Connection: close\r\n"));
	else if (request->minor_version == 0)
		buffer_append_slice(out, SLICE("Connection: keep-alive\r\n"));
	buffer_append_slice(out, SLICE("\r\n"));
	if (!request->is_head)
		buffer_append_slice(out, reply->body);
}

static void record(struct wire *wire, struct slice request_id, struct slice url, const struct refusal *refusal,
		   uint64_t body_length)
{
	const char *upstream = refusal->upstream ? refusal->upstream : "-";
	struct access_facts facts = {
		.is_logged = front_config(wire->front)->global.log_access,
		.id = request_id,
		.method = wire->message->request.method,
		.url = url,
		.client = wire->client_address,
		.upstream = upstream,
		.route = refusal->route,
		.status = refusal->status,
		.error = refusal->error,
		.verdict = VERDICT_NOT_LISTED,
		.started = wire->message->started,
		.ended = clock_now(),
		.response_bytes = body_length,
		.metrics = metrics_upstream(upstream),
	};
	access_record(&facts);
}

void refuse_request(struct wire *wire, struct slice request_id, struct slice url, const struct refusal *refusal)
{
	const struct request *request = &wire->message->request;
	/* What follows a CONNECT was meant for the tunnel: it must never be taken for the next request. */
	bool must_close = refusal->must_close || request->is_connect || !wire->is_request_complete ||
			  wire->front->room->is_draining || wire->is_closing_soon;
	struct reply_facts facts = {
		.status = refusal->status,
		.error = refusal->error,
		.detail = refusal->detail,
		.upstream = refusal->upstream ? refusal->upstream : "-",
		.verdict = verdict_words[VERDICT_NOT_LISTED],
		.elapsed_ms = mono_elapsed_ms(wire->message->started, clock_now()),
		.request_id = request_id,
		.retry_after_s = refusal->status == 503 ? 1 : -1,
		.must_close = must_close,
	};
	struct own_reply reply;
	struct buffer storage = { 0 };
	reply_compose(&reply, &storage, &facts);
	bool is_keep_alive = request->is_keep_alive && !must_close;
	reply_write(wire, &reply, request, is_keep_alive);
	record(wire, request_id, url, refusal, request->is_head ? 0 : reply.body.length);
	buffer_clear(&storage);
	wire->must_close = !is_keep_alive;
	wire_flush(wire);
	wire_expect_flushed(wire);
	wire_rearm(wire);
}

/*
 * What was read of the request line so far, for the log and for HEAD. The reader only makes the slices good at the
 * end of the head, since the bytes move until then: their lengths say where they are.
 */
static void settle_request_line(struct request *request)
{
	struct slice raw = buffer_slice(&request->head.raw);
	size_t target_at = request->method.length + 1;
	if (target_at + request->target_text.length > raw.length)
		request->method.length = request->target_text.length = 0;
	request->method.data = raw.data;
	request->target_text.data = request->target_text.length > 0 ? raw.data + target_at : raw.data;
}

void refuse_unread(struct wire *wire, int status, const char *detail)
{
	struct request *request = &wire->message->request;
	/* Inside a tunnel that must speak HTTP: whatever this is, an HTTP answer would be no answer to it. */
	if (wire->inner != NULL && request->method.length == 0) {
		wire_close(wire, false);
		return;
	}
	wire_enter(wire, WIRE_BUSY);
	wire->is_request_complete = true; /* nothing more of it is read */
	wire->is_reply_complete = wire->is_full = false;
	settle_request_line(request);
	wire_name_client(wire, NULL);
	request->is_head = slice_equals(request->method, SLICE("HEAD"));
	request->is_keep_alive = false;
	char id[37];
	access_make_id(id, clock_wall_ms(), &wire->front->loop->rng);
	struct refusal refusal = { .status = status, .error = "http_request_error", .detail = detail, .must_close = true };
	refuse_request(wire, slice_of(id), request->target_text, &refusal);
}
