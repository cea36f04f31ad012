#include "access.h"

#include "../base/rng.h"

static void count(const struct access_facts *facts)
{
	struct upstream_metrics *metrics = facts->metrics;
	if (facts->is_cancelled) {
		metrics->requests_cancelled++;
		metrics->cancelled++;
	} else if (facts->is_aborted) {
		metrics->requests_aborted++;
	} else if (facts->status > 0 && facts->status < METRICS_N_CODES) {
		metrics->requests_by_code[facts->status]++;
	}
	histogram_observe_us(&metrics->request_seconds, mono_elapsed_us(facts->started, facts->ended));
	if (facts->n_attempts > 0)
		histogram_observe_count(&metrics->attempts_per_request, facts->n_attempts);
}

void access_record(const struct access_facts *facts)
{
	count(facts);
	struct log_line line;
	if (!facts->is_logged || !log_begin(&line, LOG_INFO, "request"))
		return;
	log_slice(&line, "id", facts->id);
	log_string(&line, "client", facts->client);
	log_slice(&line, "method", facts->method);
	log_url(&line, "url", facts->url);
	log_string(&line, "upstream", facts->upstream);
	log_string(&line, "route", facts->route);
	if (facts->status > 0)
		log_integer(&line, "status", facts->status);
	log_string(&line, "error", facts->error);
	if (facts->is_aborted)
		log_bool(&line, "aborted", true);
	log_integer(&line, "attempts", facts->n_attempts);
	log_string(&line, "verdict", verdict_words[facts->verdict]);
	log_ms(&line, "duration_ms", mono_elapsed_us(facts->started, facts->ended));
	log_ms(&line, "queue_ms", facts->queue_us);
	log_ms(&line, "connect_ms", facts->connect_us);
	log_ms(&line, "first_byte_ms", facts->first_byte_us);
	log_ms(&line, "backoff_ms", facts->backoff_us);
	log_integer(&line, "request_bytes", (int64_t)facts->request_bytes);
	log_integer(&line, "response_bytes", (int64_t)facts->response_bytes);
	log_bool(&line, "reused", facts->is_reused);
	log_end(&line);
}

static void put_hex(char *out, uint64_t value, int n_digits)
{
	while (n_digits-- > 0) {
		out[n_digits] = "0123456789abcdef"[value & 15];
		value >>= 4;
	}
}

/* RFC 9562 5.7: 48 bits of milliseconds, version, 12 random bits, variant, 62 random bits. */
void access_make_id(char out[static 37], int64_t now_wall_ms, struct rng *rng)
{
	uint64_t high = ((uint64_t)now_wall_ms << 16) | 0x7000 | (rng_u64(rng) >> 52);
	uint64_t low = (rng_u64(rng) >> 2) | (2ULL << 62);
	put_hex(out, high >> 32, 8);
	put_hex(out + 9, high >> 16, 4);
	put_hex(out + 14, high, 4);
	put_hex(out + 19, low >> 48, 4);
	put_hex(out + 24, low, 12);
	out[8] = out[13] = out[18] = out[23] = '-';
	out[36] = '\0';
}
