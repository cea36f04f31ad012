/*
 * Collecting a head (or a trailer section) line by line. Every line is judged as soon as its LF is there, by its own
 * bytes alone, so that the verdict doesn't depend on how the bytes were cut into reads.
 * This is the first of two looks at a head; llhttp has the second (second_look.h), and both must agree.
 */
#ifndef EVENKEEL_HTTP_HEAD_READ_H
#define EVENKEEL_HTTP_HEAD_READ_H

#include "head.h"

enum head_read {
	HEAD_READ_MORE,
	HEAD_READ_LINE,
	HEAD_READ_TOO_LARGE, /* the section is over max_bytes */
	HEAD_READ_BARE_LF,
};

/*
 * Appends bytes from (*at, *left) to head->raw up to and including the next LF. *line_at is where in raw the line under
 * work starts; the caller keeps it (0 at first). On HEAD_READ_LINE *line is the line without CRLF, borrowed from raw,
 * and *line_at the next one's start.
 */
enum head_read head_read_line(struct head *head, size_t max_bytes, const char **at, size_t *left, uint32_t *line_at,
			      struct slice *line);

/* Checks a field line of head->raw and adds it to the index. NULL, or what is wrong (RFC 9112 5). */
const char *head_read_field(struct head *head, struct slice line);

#endif
