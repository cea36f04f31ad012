#include "hosts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Lines beyond this are no hosts file that anybody wrote; lookups don't wait for the end of it. */
#define MAX_LINES 100000
#define BLANKS " \t\r\n"

static bool line_names(char *names, const char *name, size_t name_length)
{
	char *rest;
	for (char *word = strtok_r(names, BLANKS, &rest); word != NULL; word = strtok_r(NULL, BLANKS, &rest)) {
		size_t length = strlen(word);
		if (length > 1 && word[length - 1] == '.')
			length--;
		if (length == name_length && strncasecmp(word, name, length) == 0)
			return true;
	}
	return false;
}

static bool line_has(char *line, const char *name, size_t name_length, struct address *address)
{
	line[strcspn(line, "#")] = '\0';
	line += strspn(line, BLANKS);
	size_t length = strcspn(line, BLANKS);
	if (line[length] == '\0')
		return false;
	line[length] = '\0';
	return line_names(line + length + 1, name, name_length) && address_parse(line, address);
}

size_t hosts_find(const char *path, const char *name, struct address *out, size_t max)
{
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	size_t name_length = strlen(name);
	if (name_length > 1 && name[name_length - 1] == '.')
		name_length--;
	char line[4096];
	bool is_tail = false; /* of a line that did not fit: its words are not told apart from cut ones, so skip them */
	size_t n = 0;
	for (int i = 0; i < MAX_LINES && n < max && fgets(line, sizeof(line), file) != NULL; i++) {
		bool is_complete = strchr(line, '\n') != NULL;
		if (!is_tail && line_has(line, name, name_length, &out[n]))
			n++;
		is_tail = !is_complete;
	}
	fclose(file);
	return n;
}
