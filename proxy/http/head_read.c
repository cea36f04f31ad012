#include "head_read.h"

#include "octet.h"

enum head_read head_read_line(
	struct head *head, size_t max_bytes, const char **at, size_t *left, uint32_t *line_at, struct slice *line)
{
	const char *feed = *left > 0 ? memchr(*at, '\n', *left) : NULL;
	size_t n = feed ? (size_t)(feed - *at) + 1 : *left;

	if (n > max_bytes - head->raw.end)
		return HEAD_READ_TOO_LARGE;
	buffer_append(&head->raw, *at, n);
	*at += n;
	*left -= n;
	if (!feed)
		return HEAD_READ_MORE;
	size_t length = head->raw.end - *line_at - 1;
	const char *start = head->raw.data + *line_at;
	if (length == 0 || start[length - 1] != '\r')
		return HEAD_READ_BARE_LF;
	*line = (struct slice){start, length - 1};
	*line_at = (uint32_t)head->raw.end;
	return HEAD_READ_LINE;
}

static const char *name_fault(struct slice line, size_t name_length)
{
	if (octet_is_blank(line.data[0]))
		return "line folding or white space before a field name (RFC 9112 5.2)";
	if (name_length == line.length)
		return "field line without a colon (RFC 9112 5)";
	if (name_length == 0 && line.data[0] == ':')
		return "empty field name (RFC 9112 5)";
	if (octet_is_blank(line.data[name_length]))
		return "white space in or after a field name (RFC 9112 5.1)";
	return "field name is not a token (RFC 9110 5.1)";
}

const char *head_read_field(struct head *head, struct slice line)
{
	size_t name_length = 0;

	while (name_length < line.length && octet_is(line.data[name_length], OCTET_TOKEN))
		name_length++;
	if (name_length == 0 || name_length == line.length || line.data[name_length] != ':')
		return name_fault(line, name_length);

	struct slice value = {line.data + name_length + 1, line.length - name_length - 1};
	if (!octets_are_value(value))
		return "control character (NUL, bare CR or the like) in a field value (RFC 9110 5.5)";
	value = octets_trim(value);
	head_add_field(head, (struct field){
				     .name_at = (uint32_t)(line.data - head->raw.data),
				     .name_length = (uint32_t)name_length,
				     .value_at = (uint32_t)(value.data - head->raw.data),
				     .value_length = (uint32_t)value.length,
			     });
	return NULL;
}
