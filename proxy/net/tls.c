#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/check.h"
#include "stream.h"
#include "tls_private.h"

static unsigned port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} peer;
	socklen_t length = sizeof(peer);
	memset(&peer, 0, sizeof(peer));
	if (getpeername(fd, &peer.any, &length) != 0)
		return 0;
	return peer.any.sa_family == AF_INET ? ntohs(peer.v4.sin_port) :
	       peer.any.sa_family == AF_INET6 ? ntohs(peer.v6.sin6_port) : 0;
}

static bool is_ip_literal(const char *name)
{
	unsigned char bytes[16];
	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* An IP literal is checked against the certificate's addresses and never sent as SNI (RFC 6066 3). */
static bool set_name(struct tls_connection *connection)
{
	const char *name = connection->wanted_name;
	if (is_ip_literal(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection->ssl), name) == 1;
	return X509_VERIFY_PARAM_set1_host(SSL_get0_param(connection->ssl), name, 0) == 1 &&
	       SSL_set_tlsext_host_name(connection->ssl, name) == 1;
}

static char *session_key(const char *host, const char *name, int fd)
{
	char *key;
	CHECK(asprintf(&key, "%s %s %u", name, host, port_of(fd)) > 0);
	return key;
}

struct tls_connection *tls_connect(struct tls_context *context, int fd, const char *host, const char *server_name)
{
	struct tls_connection *connection = xcalloc(1, sizeof(*connection));
	const char *name = server_name != NULL ? server_name : host;
	size_t length = strlen(name);
	connection->context = tls_context_ref(context);
	connection->fd = fd;
	connection->wanted_name = xstrndup(name, length > 1 && name[length - 1] == '.' ? length - 1 : length);
	connection->session_key = session_key(host, name, fd);
	ERR_clear_error();
	connection->ssl = SSL_new(context->ssl);
	CHECK(connection->ssl != NULL);
	SSL_set_app_data(connection->ssl, connection);
	BIO *socket = tls_socket_new(connection);
	SSL_set_bio(connection->ssl, socket, socket);
	SSL_set_connect_state(connection->ssl);
	if (length == 0 || !set_name(connection)) {
		ERR_clear_error();
		tls_connection_free(&connection);
		return NULL;
	}
	tls_sessions_use(connection);
	return connection;
}

static enum tls_step handshake_failed(struct tls_connection *connection, char *detail, size_t capacity)
{
	connection->is_broken = true;
	if (connection->is_certificate_bad) {
		snprintf(detail, capacity, "%s", connection->certificate_detail);
		return TLS_STEP_BAD_CERTIFICATE;
	}
	if (connection->error_number != 0) {
		snprintf(detail, capacity, "%s", strerror(connection->error_number));
		return TLS_STEP_CLOSED;
	}
	if (connection->has_seen_eof) {
		snprintf(detail, capacity, "the peer closed the connection");
		return TLS_STEP_CLOSED;
	}
	tls_describe_failure(connection, detail, capacity);
	return TLS_STEP_FAILED;
}

/* RFC 7301 3.2: a server may ignore ALPN, but must not choose what wasn't offered. */
static enum tls_step handshake_done(struct tls_connection *connection, char *detail, size_t capacity)
{
	const unsigned char *chosen;
	unsigned n;
	SSL_get0_alpn_selected(connection->ssl, &chosen, &n);
	if (n != 0 && (n != 8 || memcmp(chosen, "http/1.1", 8) != 0)) {
		connection->is_broken = true;
		snprintf(detail, capacity, "the peer chose a protocol (ALPN) other than http/1.1");
		return TLS_STEP_FAILED;
	}
	connection->is_established = true;
	return TLS_DONE;
}

enum tls_step tls_handshake(struct tls_connection *connection, char *detail, size_t detail_capacity)
{
	ERR_clear_error();
	detail[0] = '\0';
	int result = SSL_do_handshake(connection->ssl);
	enum tls_step step;
	if (result == 1)
		step = handshake_done(connection, detail, detail_capacity);
	else if (SSL_get_error(connection->ssl, result) == SSL_ERROR_WANT_READ)
		step = TLS_WANT_READ;
	else if (SSL_get_error(connection->ssl, result) == SSL_ERROR_WANT_WRITE)
		step = TLS_WANT_WRITE;
	else
		step = handshake_failed(connection, detail, detail_capacity);
	ERR_clear_error();
	return step;
}

bool tls_is_resumed(const struct tls_connection *connection)
{
	return SSL_session_reused(connection->ssl) == 1;
}

void tls_connection_free(struct tls_connection **connection)
{
	struct tls_connection *gone = *connection;
	if (gone == NULL)
		return;
	*connection = NULL;
	/* Else OpenSSL takes an end without close_notify for a reason never to resume the session. */
	if (gone->is_established && !gone->is_broken)
		SSL_set_shutdown(gone->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(gone->ssl);
	ERR_clear_error();
	tls_context_unref(&gone->context);
	free(gone->wanted_name);
	free(gone->session_key);
	free(gone);
}

static long end_with(struct tls_connection *connection, long end)
{
	connection->has_ended = true;
	connection->end = end;
	if (end != STREAM_EOF)
		connection->is_broken = true;
	return end;
}

/* What a failed SSL_read or SSL_peek means. */
static long judge_read(struct tls_connection *connection, int result)
{
	switch (SSL_get_error(connection->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return STREAM_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		connection->read_wants_write = true;
		return STREAM_AGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return end_with(connection, STREAM_EOF);
	default:
		break;
	}
	if (connection->error_number == 0 && connection->has_seen_eof)
		return end_with(connection, STREAM_TRUNCATED);
	tls_note_alert(connection);
	connection->end_error = connection->error_number != 0 ? connection->error_number : EPROTO;
	return end_with(connection, STREAM_ERROR);
}

static long judge_write(struct tls_connection *connection, int result)
{
	switch (SSL_get_error(connection->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		connection->write_wants_read = true;
		return STREAM_AGAIN;
	case SSL_ERROR_WANT_WRITE:
		return STREAM_AGAIN;
	default:
		break;
	}
	connection->has_write_failed = true;
	connection->is_broken = true;
	connection->write_error = connection->error_number != 0 ? connection->error_number : EPROTO;
	return STREAM_ERROR;
}

static void before_operation(struct tls_connection *connection)
{
	connection->error_number = 0;
	ERR_clear_error();
}

long tls_read(struct tls_connection *connection, void *bytes, size_t capacity, int *error_number)
{
	size_t total = 0;
	long verdict = connection->end;
	connection->read_wants_write = false;
	while (!connection->has_ended) {
		size_t room = capacity - total < INT_MAX ? capacity - total : INT_MAX;
		before_operation(connection);
		int n = SSL_read(connection->ssl, (char *)bytes + total, (int)room);
		if (n <= 0) {
			verdict = judge_read(connection, n);
			break;
		}
		connection->has_read_data = true;
		total += (size_t)n;
		if (total == capacity || SSL_has_pending(connection->ssl) == 0)
			break;
	}
	*error_number = connection->end_error;
	return total > 0 ? (long)total : verdict; /* after bytes, an end is told the next time */
}

long tls_write(struct tls_connection *connection, const void *bytes, size_t length, int *error_number)
{
	size_t total = 0;
	long verdict = connection->has_write_failed ? STREAM_ERROR : 0;
	connection->write_wants_read = false;
	while (total < length && !connection->has_write_failed) {
		size_t part = length - total < INT_MAX ? length - total : INT_MAX;
		before_operation(connection);
		int n = SSL_write(connection->ssl, (const char *)bytes + total, (int)part);
		if (n <= 0) {
			verdict = judge_write(connection, n);
			break;
		}
		total += (size_t)n;
	}
	*error_number = connection->write_error;
	return total > 0 ? (long)total : verdict;
}

bool tls_has_pending(const struct tls_connection *connection)
{
	return connection->has_ended || SSL_has_pending(connection->ssl) == 1;
}

bool tls_read_wants_write(const struct tls_connection *connection)
{
	return connection->read_wants_write;
}

bool tls_write_wants_read(const struct tls_connection *connection)
{
	return connection->write_wants_read;
}

bool tls_is_readable_now(struct tls_connection *connection)
{
	if (connection->has_ended)
		return true;
	char byte;
	before_operation(connection);
	int n = SSL_peek(connection->ssl, &byte, 1);
	return n > 0 || judge_read(connection, n) != STREAM_AGAIN;
}

bool tls_shutdown(struct tls_connection *connection)
{
	if (!connection->is_established || connection->is_broken)
		return true;
	ERR_clear_error();
	int result = SSL_shutdown(connection->ssl);
	bool is_full = result < 0 && SSL_get_error(connection->ssl, result) == SSL_ERROR_WANT_WRITE;
	ERR_clear_error();
	return !is_full;
}
