/* URLs in the log: without credentials, and without what may be one. */
#include "log.h"

/* What the bytes that divide a URL divide; looked up, since every access line asks. */
enum { URL_SCHEME = 1, URL_PATH = 2, URL_QUERY = 4 };

static const unsigned char url_marks[256] = {
	[':'] = URL_SCHEME, ['@'] = URL_SCHEME, ['/'] = URL_PATH, ['?'] = URL_QUERY, ['#'] = URL_QUERY,
};

static size_t find_mark(struct slice text, size_t from, unsigned marks)
{
	while (from < text.length && !(url_marks[(unsigned char)text.data[from]] & marks))
		from++;
	return from;
}

/*
 * Where userinfo may be: [*start, *end). For "scheme://authority/..." that is the authority; for "/path" nothing; for
 * anything else (a CONNECT target, or nonsense such as "http:/u:p@h") all up to the query, for better too little shown
 * than a password.
 */
static void userinfo_range(struct slice url, size_t *start, size_t *end)
{
	size_t scheme = find_mark(url, 0, URL_SCHEME | URL_PATH | URL_QUERY);

	*start = *end = 0;
	if (url.length > 0 && url.data[0] == '/')
		return;
	*end = find_mark(url, 0, URL_QUERY);
	if (url.length - scheme > 3 && memcmp(url.data + scheme, "://", 3) == 0 && url.data[scheme + 3] != '/') {
		*start = scheme + 3;
		*end = find_mark(url, *start, URL_PATH | URL_QUERY);
	}
}

void log_url(struct log_line *line, const char *key, struct slice url)
{
	char shown[LOG_MAX_VALUE_BYTES + 1]; /* one more than fits, so that log_slice sees that it is cut */
	size_t start, end, rest, n = 0;

	userinfo_range(url, &start, &end);
	rest = start;
	for (size_t i = start; i < end; i++)
		if (url.data[i] == '@')
			rest = i + 1;
	if (!log_is_on(LOG_DEBUG))
		url.length = find_mark(url, rest, URL_QUERY);
	if (rest == start) { /* nothing in the middle to leave out: nearly always */
		log_slice(line, key, url);
		return;
	}
	for (size_t i = 0; i < start && n < sizeof shown; i++)
		shown[n++] = url.data[i];
	for (size_t i = rest; i < url.length && n < sizeof shown; i++)
		shown[n++] = url.data[i];
	log_slice(line, key, (struct slice){ shown, n });
}
