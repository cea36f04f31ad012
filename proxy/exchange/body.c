#include "body.h"

#include "../base/check.h"
#include "../base/metrics.h"

void request_body_init(struct request_body *body, int64_t max_kept_bytes, int64_t max_buffered_bytes)
{
	*body = (struct request_body){ .is_kept = true,
				       .max_kept_bytes = max_kept_bytes,
				       .max_buffered_bytes = max_buffered_bytes };
}

void request_body_clear(struct request_body *body)
{
	process_metrics.buffered_bytes -= (int64_t)buffer_length(&body->bytes);
	buffer_clear(&body->bytes);
}

static bool is_over(int64_t n, int64_t limit)
{
	return limit >= 0 && n > limit;
}

void request_body_append(struct request_body *body, struct slice data)
{
	if (data.length == 0)
		return;
	buffer_append_slice(&body->bytes, data);
	body->received += data.length;
	process_metrics.buffered_bytes += (int64_t)data.length;
	/* Past the process-wide bound a body is streamed rather than refused: it only loses the right to a replay. */
	if (is_over((int64_t)buffer_length(&body->bytes), body->max_kept_bytes) ||
	    is_over(process_metrics.buffered_bytes, body->max_buffered_bytes))
		body->is_kept = false;
}

struct slice request_body_from(const struct request_body *body, uint64_t sent)
{
	CHECK(sent >= body->dropped && sent <= body->received);
	struct slice rest = buffer_slice(&body->bytes);
	size_t skip = (size_t)(sent - body->dropped);
	return (struct slice){ rest.data + skip, rest.length - skip };
}

void request_body_sent(struct request_body *body, uint64_t sent)
{
	if (body->is_kept || sent <= body->dropped)
		return;
	size_t n = (size_t)(sent - body->dropped);
	buffer_consume(&body->bytes, n);
	process_metrics.buffered_bytes -= (int64_t)n;
	body->dropped = sent;
}
