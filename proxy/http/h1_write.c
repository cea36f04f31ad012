#include "h1_write.h"

#include "field_kind.h"
#include "hop.h"

/* Field line i as it came, CRLF included: to where the next one starts, or the empty line that ends the head. */
static size_t line_end(const struct head *head, size_t i)
{
	return i + 1 < head->n_fields ? head->fields[i + 1].name_at : head->raw.end - 2;
}

static bool is_edited(const struct header_edit *edit, struct slice name)
{
	if (!edit)
		return false;
	for (size_t i = 0; i < edit->n_set; i++)
		if (slice_equals_nocase(slice_of(edit->set[i].name), name))
			return true;
	for (size_t i = 0; i < edit->remove.n; i++)
		if (slice_equals_nocase(slice_of(edit->remove.items[i]), name))
			return true;
	return false;
}

/* Of a kind to keep, and not named by Connection nor by the policy. */
struct keep_rule {
	bool drops[FIELD_N_KINDS];
	const struct header_edit *edit;
	const struct extra_field *extra; /* replace fields of their name */
	size_t n_extra;
};

static void keep_rule_init(struct keep_rule *rule, const struct header_edit *edit)
{
	memset(rule, 0, sizeof(*rule));
	for (int kind = FIELD_FIRST_HOP_BY_HOP; kind < FIELD_N_KINDS; kind++)
		rule->drops[kind] = true;
	rule->edit = edit && (edit->n_set > 0 || edit->remove.n > 0) ? edit : NULL;
}

static bool is_replaced(const struct keep_rule *rule, struct slice name)
{
	for (size_t i = 0; i < rule->n_extra; i++)
		if (slice_equals_nocase(rule->extra[i].name, name))
			return true;
	return false;
}

static bool is_kept(const struct head *head, const struct hop_names *named, const struct keep_rule *rule, size_t i)
{
	struct slice name = head_name(head, i);

	if (rule->drops[field_kind_of(name)])
		return false;
	return !(named->n > 0 && hop_is_named(head, named, name)) && !is_replaced(rule, name) &&
	       !is_edited(rule->edit, name);
}

/* The kept lines byte for byte; neighbours go out in one piece. */
static void write_kept(struct buffer *out, const struct head *head, const struct keep_rule *rule)
{
	struct hop_names named;
	size_t run_start = 0, run_end = 0;

	hop_collect(head, &named);
	for (size_t i = 0; i < head->n_fields; i++) {
		if (!is_kept(head, &named, rule, i))
			continue;
		size_t start = head->fields[i].name_at;
		if (start != run_end) {
			buffer_append(out, head->raw.data + run_start, run_end - run_start);
			run_start = start;
		}
		run_end = line_end(head, i);
	}
	if (run_end > run_start)
		buffer_append(out, head->raw.data + run_start, run_end - run_start);
}

static void write_text(struct buffer *out, struct slice text)
{
	buffer_append(out, text.data, text.length);
}

static void write_field(struct buffer *out, struct slice name, struct slice value)
{
	char *at = buffer_reserve(out, name.length + value.length + 4);

	memcpy(at, name.data, name.length);
	memcpy(at + name.length, ": ", 2);
	if (value.length > 0)
		memcpy(at + name.length + 2, value.data, value.length);
	memcpy(at + name.length + 2 + value.length, "\r\n", 2);
	buffer_grow(out, name.length + value.length + 4);
}

static void write_number_field(struct buffer *out, struct slice name, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	write_field(out, name, (struct slice){digits + at, sizeof(digits) - at});
}

static void write_via(struct buffer *out, struct slice id)
{
	write_text(out, SLICE("Via: 1.1 evenkeel ("));
	write_text(out, id);
	write_text(out, SLICE(")\r\n"));
}

static void write_edit(struct buffer *out, const struct header_edit *edit)
{
	for (size_t i = 0; edit && i < edit->n_set; i++)
		write_field(out, slice_of(edit->set[i].name), slice_of(edit->set[i].value));
}

/* The Upgrade lines as they came, which write_kept has left out with the hop-by-hop fields. */
static void write_upgrade(struct buffer *out, const struct head *head)
{
	write_text(out, SLICE("Connection: upgrade\r\n"));
	for (size_t i = 0; i < head->n_fields; i++)
		if (field_kind_of(head_name(head, i)) == FIELD_UPGRADE)
			buffer_append(out, head->raw.data + head->fields[i].name_at,
				line_end(head, i) - head->fields[i].name_at);
}

static bool keeps_length(const struct request *request, const struct request_rewrite *rewrite, uint64_t content_length)
{
	return rewrite->framing == BODY_LENGTH && request->framing == BODY_LENGTH &&
	       request->content_length == content_length;
}

void h1_write_request(struct buffer *out, const struct request *request, const struct request_rewrite *rewrite,
	uint64_t content_length)
{
	bool keeps = keeps_length(request, rewrite, content_length);
	struct keep_rule rule;

	keep_rule_init(&rule, rewrite->edit);
	rule.drops[FIELD_HOST] = rule.drops[FIELD_EVENKEEL] = true;
	rule.drops[FIELD_EXPECT] = !rewrite->forward_expect;
	rule.drops[FIELD_REQUEST_ID] = rewrite->request_id.length > 0;
	rule.drops[FIELD_CONTENT_LENGTH] = !keeps;

	buffer_reserve(out, request->head.raw.end + 256);
	write_text(out, request->method);
	write_text(out, SLICE(" "));
	write_text(out, rewrite->path);
	write_text(out, SLICE(" HTTP/1.1\r\nHost: "));
	write_text(out, rewrite->host);
	write_text(out, SLICE("\r\n"));
	write_kept(out, &request->head, &rule);
	write_via(out, rewrite->via_id);
	if (rewrite->request_id.length > 0)
		write_field(out, SLICE("X-Request-Id"), rewrite->request_id);
	if (rewrite->n_previous_attempts > 0)
		write_number_field(out, SLICE("Evenkeel-Previous-Attempts"), (uint64_t)rewrite->n_previous_attempts);
	write_edit(out, rewrite->edit);
	if (rewrite->framing == BODY_CHUNKED)
		write_text(out, SLICE("Transfer-Encoding: chunked\r\n"));
	else if (rewrite->framing == BODY_LENGTH && !keeps)
		write_number_field(out, SLICE("Content-Length"), content_length);
	if (rewrite->forward_upgrade)
		write_upgrade(out, &request->head);
	write_text(out, SLICE("\r\n"));
}

static void write_status_line(struct buffer *out, const struct response *response)
{
	int status = response->status;
	char line[13] = "HTTP/1.1 200 ";

	line[9] = (char)('0' + status / 100 % 10);
	line[10] = (char)('0' + status / 10 % 10);
	line[11] = (char)('0' + status % 10);
	buffer_append(out, line, sizeof(line));
	write_text(out, response->reason);
	write_text(out, SLICE("\r\n"));
}

/* No Content-Length may be sent with 1xx and 204 (RFC 9110 8.6). */
static bool may_have_length(int status)
{
	return status >= 200 && status != 204;
}

void h1_write_response(struct buffer *out, const struct response *response, const struct response_rewrite *rewrite)
{
	struct keep_rule rule;

	keep_rule_init(&rule, rewrite->edit);
	rule.extra = rewrite->extra;
	rule.n_extra = rewrite->n_extra;
	rule.drops[FIELD_CONTENT_LENGTH] =
		rewrite->drop_length || rewrite->add_chunked || !may_have_length(response->status);

	buffer_reserve(out, response->head.raw.end + 256);
	write_status_line(out, response);
	write_kept(out, &response->head, &rule);
	write_via(out, rewrite->via_id);
	for (size_t i = 0; i < rewrite->n_extra; i++)
		write_field(out, rewrite->extra[i].name, rewrite->extra[i].value);
	write_edit(out, rewrite->edit);
	if (rewrite->add_chunked)
		write_text(out, SLICE("Transfer-Encoding: chunked\r\n"));
	if (rewrite->forward_upgrade)
		write_upgrade(out, &response->head);
	else if (rewrite->add_close)
		write_text(out, SLICE("Connection: close\r\n"));
	else if (rewrite->add_keep_alive)
		write_text(out, SLICE("Connection: keep-alive\r\n"));
	write_text(out, SLICE("\r\n"));
}

void h1_write_interim(struct buffer *out, const struct response *response, struct slice via_id)
{
	const struct response_rewrite rewrite = {.via_id = via_id};

	h1_write_response(out, response, &rewrite);
}

size_t h1_chunk_start(char out[static 20], size_t length)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = 1;

	for (size_t rest = length >> 4; rest > 0; rest >>= 4)
		n++;
	for (size_t i = n, rest = length; i > 0; rest >>= 4)
		out[--i] = digits[rest & 15];
	out[n] = '\r';
	out[n + 1] = '\n';
	return n + 2;
}

void h1_write_chunk(struct buffer *out, struct slice data)
{
	char start[20];

	if (data.length == 0)
		return; /* an empty chunk would end the body */
	size_t n = h1_chunk_start(start, data.length);
	buffer_reserve(out, n + data.length + 2);
	buffer_append(out, start, n);
	buffer_append(out, data.data, data.length);
	buffer_append(out, "\r\n", 2);
}

void h1_write_last_chunk(struct buffer *out, const struct head *trailers)
{
	write_text(out, SLICE("0\r\n"));
	for (size_t i = 0; trailers && i < trailers->n_fields; i++)
		if (trailer_may_cross(head_name(trailers, i)))
			buffer_append(out, trailers->raw.data + trailers->fields[i].name_at,
				line_end(trailers, i) - trailers->fields[i].name_at);
	write_text(out, SLICE("\r\n"));
}
