#include <errno.h>
#include <openssl/bio.h>
#include <sys/socket.h>

#include "../base/check.h"
#include "tls_private.h"

static int on_write(BIO *bio, const char *bytes, size_t length, size_t *n_written)
{
	struct tls_connection *connection = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	ssize_t n;
	do {
		n = send(connection->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0) {
		*n_written = (size_t)n;
		return 1;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		BIO_set_retry_write(bio);
	else
		connection->error_number = errno;
	return -1;
}

static int on_read(BIO *bio, char *bytes, size_t capacity, size_t *n_read)
{
	struct tls_connection *connection = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	ssize_t n;
	do {
		n = recv(connection->fd, bytes, capacity, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		*n_read = (size_t)n;
		return 1;
	}
	if (n == 0) {
		connection->has_seen_eof = true;
		return 0;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		BIO_set_retry_read(bio);
	else
		connection->error_number = errno;
	return -1;
}

static long on_control(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	struct tls_connection *connection = BIO_get_data(bio);
	switch (command) {
	case BIO_CTRL_FLUSH:
	case BIO_CTRL_DUP:
		return 1;
	case BIO_CTRL_EOF:
		return connection->has_seen_eof;
	default:
		return 0;
	}
}

static BIO_METHOD *method(void)
{
	static BIO_METHOD *made; /* for the life of the process */
	if (made != NULL)
		return made;
	made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "evenkeel socket");
	CHECK(made != NULL);
	BIO_meth_set_write_ex(made, on_write);
	BIO_meth_set_read_ex(made, on_read);
	BIO_meth_set_ctrl(made, on_control);
	return made;
}

BIO *tls_socket_new(struct tls_connection *connection)
{
	BIO *bio = BIO_new(method());
	CHECK(bio != NULL);
	BIO_set_data(bio, connection);
	BIO_set_init(bio, 1);
	return bio;
}
