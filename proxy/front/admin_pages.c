/* GET /config, GET /explain and the dashboard at GET /. */
#include <stdio.h>
#include <stdlib.h>

#include "../../config/dump.h"
#include "../base/check.h"
#include "../explain/explain.h"
#include "admin.h"

void admin_answer_config(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)request;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	CHECK(out != NULL);
	config_dump_yaml(out, front_config(front));
	CHECK(fclose(out) == 0);
	answer->content_type = "application/yaml";
	buffer_append(&answer->body, text, length);
	free(text);
}

/* format=json or Accept: application/json; else text. False: a format that there isn't. */
static bool wants_json(const struct request *request, bool *is_json)
{
	struct buffer format = { 0 };
	enum query_result found = admin_query(request, "format", &format);
	bool is_known = found == QUERY_MISSING;
	*is_json = is_known && admin_accepts(request, SLICE("application/json"));
	if (found == QUERY_FOUND) {
		*is_json = slice_equals(buffer_slice(&format), SLICE("json"));
		is_known = *is_json || slice_equals(buffer_slice(&format), SLICE("text"));
	}
	buffer_clear(&format);
	return is_known;
}

void admin_answer_explain(struct front *front, const struct request *request, struct admin_answer *answer)
{
	struct buffer method = { 0 }, url = { 0 };
	enum query_result has_method = admin_query(request, "method", &method);
	enum query_result has_url = admin_query(request, "url", &url);
	bool is_json = false;
	char error[EXPLAIN_ERROR_BYTES] = "";
	if (has_url != QUERY_FOUND || has_method == QUERY_BAD || !wants_json(request, &is_json)) {
		admin_refuse(answer, 400, SLICE("Ask /explain?method=GET&url=..., the URL percent-encoded; format=json or text.\n"));
	} else if (explain(front_config(front), has_method == QUERY_FOUND ? buffer_slice(&method) : SLICE("GET"),
			   buffer_slice(&url), is_json, &answer->body, error, sizeof(error))) {
		answer->content_type = is_json ? "application/json" : "text/plain; charset=utf-8";
	} else {
		admin_refuse(answer, 400, slice_of(error));
		buffer_append(&answer->body, "\n", 1);
	}
	buffer_clear(&method);
	buffer_clear(&url);
}

/*
 * dashboard.html, as it is in the source tree. Its style and script name the nonce of each answer, so that the browser
 * runs them and nothing else.
 */
__asm__(".section .rodata\n"
	".global dashboard_html_start\n"
	".global dashboard_html_end\n"
	"dashboard_html_start:\n"
	".incbin \"proxy/front/dashboard.html\"\n"
	"dashboard_html_end:\n"
	".byte 0\n"
	".previous\n");
extern const char dashboard_html_start[], dashboard_html_end[];

#define NONCE_PLACE SLICE("@NONCE@")

static void append_with_nonce(struct buffer *out, struct slice page, struct slice nonce)
{
	struct slice place = NONCE_PLACE;
	while (page.length > 0) {
		const char *at = memmem(page.data, page.length, place.data, place.length);
		size_t n = at ? (size_t)(at - page.data) : page.length;
		buffer_append(out, page.data, n);
		if (at) {
			buffer_append_slice(out, nonce);
			n += place.length;
		}
		page = (struct slice){ page.data + n, page.length - n };
	}
}

void admin_answer_dashboard(struct front *front, const struct request *request, struct admin_answer *answer)
{
	(void)request;
	char nonce[33];
	snprintf(nonce, sizeof(nonce), "%016llx%016llx", (unsigned long long)rng_u64(&front->loop->rng),
		 (unsigned long long)rng_u64(&front->loop->rng));
	snprintf(answer->field_storage, sizeof(answer->field_storage),
		 "Content-Security-Policy: default-src 'none'; connect-src 'self'; img-src data:; style-src 'nonce-%s'; "
		 "script-src 'nonce-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
		 "Referrer-Policy: no-referrer\r\n", nonce, nonce);
	answer->more_fields = answer->field_storage;
	answer->content_type = "text/html; charset=utf-8";
	size_t length = (size_t)(dashboard_html_end - dashboard_html_start);
	append_with_nonce(&answer->body, (struct slice){ dashboard_html_start, length }, slice_of(nonce));
}
