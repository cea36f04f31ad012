#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "document.h"

#define PIPE_PATIENCE_MS 5000

static char *refuse(struct fault_list *faults, char *bytes, const char *reason)
{
	fault_add(faults, FAULT_ERROR, (struct place){0, 0, 0}, "can't be read: %s", reason);
	free(bytes);
	return NULL;
}

/* NULL when fd may be read. */
static const char *check_kind(int fd)
{
	struct stat facts;

	if (fstat(fd, &facts) < 0)
		return strerror(errno);
	if (S_ISDIR(facts.st_mode))
		return "it is a directory";
	if (!S_ISREG(facts.st_mode) && !S_ISFIFO(facts.st_mode) && !S_ISCHR(facts.st_mode))
		return "it is not a file";
	if (S_ISREG(facts.st_mode) && facts.st_size > DOCUMENT_MAX_BYTES)
		return "it is larger than 1 MiB";
	return NULL;
}

static char *read_all(int fd, size_t *length, struct fault_list *faults)
{
	char *bytes = config_realloc(NULL, DOCUMENT_MAX_BYTES + 2);

	*length = 0;
	for (;;) {
		struct pollfd readable = {fd, POLLIN, 0};
		int ready = poll(&readable, 1, PIPE_PATIENCE_MS);
		ssize_t n;

		if (ready == 0)
			return refuse(faults, bytes, "nothing came for 5 seconds");
		n = ready < 0 ? -1 : read(fd, bytes + *length, DOCUMENT_MAX_BYTES + 1 - *length);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return refuse(faults, bytes, strerror(errno));
		if (n == 0)
			break;
		*length += (size_t)n;
		if (*length > DOCUMENT_MAX_BYTES)
			return refuse(faults, bytes, "it is larger than 1 MiB");
	}
	bytes[*length] = '\0';
	return bytes;
}

char *source_read(const char *path, size_t *length, struct fault_list *faults)
{
	/* non-blocking, so that opening a pipe that nobody writes to returns */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const char *problem;
	char *bytes;

	if (fd < 0)
		return refuse(faults, NULL, strerror(errno));
	problem = check_kind(fd);
	bytes = problem ? refuse(faults, NULL, problem) : read_all(fd, length, faults);
	close(fd);
	return bytes;
}
