#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/check.h"
#include "tls_private.h"

#define MAX_FILE_BYTES (16 * 1024 * 1024)

static bool read_all(int fd, unsigned char *bytes, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t part = read(fd, bytes + done, n - done);
		if (part < 0 && errno == EINTR)
			continue;
		if (part == 0)
			errno = EIO; /* it shrank meanwhile */
		if (part <= 0)
			return false;
		done += (size_t)part;
	}
	return true;
}

/* Non-blocking, so that a FIFO by that name is an error and not a proxy that hangs. */
static bool read_file(const char *path, unsigned char **bytes, size_t *n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	struct stat status;
	bool is_read = false;
	if (fstat(fd, &status) == 0) {
		if (!S_ISREG(status.st_mode)) {
			errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
		} else if (status.st_size > MAX_FILE_BYTES) {
			errno = EFBIG;
		} else {
			*n = (size_t)status.st_size;
			*bytes = xmalloc(*n + 1);
			is_read = read_all(fd, *bytes, *n);
		}
	}
	int error_number = errno;
	close(fd);
	errno = error_number;
	return is_read;
}

static bool read_named(const char *key, const char *path, unsigned char **bytes, size_t *n, char *error,
		       size_t capacity)
{
	if (path == NULL || read_file(path, bytes, n))
		return true;
	snprintf(error, capacity, "tls.%s: %s: %s", key, path, strerror(errno));
	return false;
}

bool tls_files_read(struct tls_files *files, const struct tls_rule *rule, char *error, size_t error_capacity)
{
	memset(files, 0, sizeof(*files));
	/* A key without a file of its own may stand in the certificate's. */
	const char *key = rule->client_key != NULL ? rule->client_key : rule->client_cert;
	if (rule->client_key != NULL && rule->client_cert == NULL) {
		snprintf(error, error_capacity,
			 "tls.client_key: %s: there is no tls.client_cert that it could belong to", rule->client_key);
		return false;
	}
	if (read_named("ca_file", rule->ca_file, &files->ca, &files->n_ca, error, error_capacity) &&
	    read_named("client_cert", rule->client_cert, &files->certificate, &files->n_certificate, error,
		       error_capacity) &&
	    read_named("client_key", key, &files->key, &files->n_key, error, error_capacity))
		return true;
	tls_files_clear(files);
	return false;
}

void tls_files_clear(struct tls_files *files)
{
	free(files->ca);
	free(files->certificate);
	if (files->key != NULL)
		OPENSSL_cleanse(files->key, files->n_key);
	free(files->key);
	memset(files, 0, sizeof(*files));
}
