#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_room.h"
#include "net_tls_server.h"

static void set_extension(X509 *certificate, int kind, const char *value)
{
	X509V3_CTX context;
	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static void set_times(X509 *certificate, const struct test_certificate_order *order)
{
	ASN1_TIME *time = ASN1_TIME_new();
	X509_gmtime_adj(X509_getm_notBefore(certificate), -24 * 3600);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600);
	if (order->not_before != NULL) {
		assert_int_equal(ASN1_TIME_set_string_X509(time, order->not_before), 1);
		X509_set1_notBefore(certificate, time);
	}
	if (order->not_after != NULL) {
		assert_int_equal(ASN1_TIME_set_string_X509(time, order->not_after), 1);
		X509_set1_notAfter(certificate, time);
	}
	ASN1_TIME_free(time);
}

struct test_identity test_identity_new(const struct test_certificate_order *order, const struct test_identity *issuer)
{
	static long serial;
	struct test_identity made = { X509_new(), EVP_EC_gen("P-256") };
	assert_non_null(made.certificate);
	assert_non_null(made.key);
	X509_set_version(made.certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), ++serial);
	X509_NAME *name = X509_get_subject_name(made.certificate);
	const char *common_name = order->common_name != NULL ? order->common_name : "leaf";
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0);
	X509_set_issuer_name(made.certificate, issuer != NULL ? X509_get_subject_name(issuer->certificate) : name);
	X509_set_pubkey(made.certificate, made.key);
	set_times(made.certificate, order);
	if (order->is_authority)
		set_extension(made.certificate, NID_basic_constraints, "critical,CA:TRUE");
	if (order->names != NULL)
		set_extension(made.certificate, NID_subject_alt_name, order->names);
	assert_true(X509_sign(made.certificate, issuer != NULL ? issuer->key : made.key, EVP_sha256()) > 0);
	return made;
}

void test_identity_clear(struct test_identity *identity)
{
	X509_free(identity->certificate);
	EVP_PKEY_free(identity->key);
	*identity = (struct test_identity){ 0 };
}

void test_write_certificate(const char *path, X509 *certificate)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_X509(file, certificate), 1);
	fclose(file);
}

void test_write_key(const char *path, EVP_PKEY *key, const char *passphrase)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, passphrase != NULL ? EVP_aes_128_cbc() : NULL, passphrase,
						   passphrase != NULL ? (int)strlen(passphrase) : 0, NULL, NULL), 1);
	fclose(file);
}

void test_pin(X509 *certificate, char out[64])
{
	unsigned char *bytes = NULL, digest[32];
	int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);
	assert_true(n > 0);
	assert_int_equal(EVP_Digest(bytes, (size_t)n, digest, NULL, EVP_sha256(), NULL), 1);
	OPENSSL_free(bytes);
	strcpy(out, "sha256/");
	EVP_EncodeBlock((unsigned char *)out + 7, digest, sizeof(digest));
}

void test_server_init(struct test_server *server, const struct test_identity *identity, enum test_behaviour behaviour)
{
	memset(server, 0, sizeof(*server));
	server->behaviour = behaviour;
	server->context = SSL_CTX_new(TLS_server_method());
	assert_non_null(server->context);
	assert_int_equal(SSL_CTX_use_certificate(server->context, identity->certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(server->context, identity->key), 1);
	SSL_CTX_set_session_id_context(server->context, (const unsigned char *)"test", 4);
	server->listener = net_listen(AF_INET, &server->port);
}

static void echo(struct test_server *server, SSL *ssl)
{
	static char bytes[65536];
	int n;
	while ((n = SSL_read(ssl, bytes, sizeof(bytes))) > 0) {
		if (SSL_write(ssl, bytes, n) != n)
			return;
	}
	server->was_ended_by_notify = SSL_get_error(ssl, n) == SSL_ERROR_ZERO_RETURN;
	SSL_shutdown(ssl);
}

static void flood(SSL *ssl)
{
	static char bytes[4 * 1024 * 1024];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 251);
	SSL_write(ssl, bytes, sizeof(bytes));
	SSL_shutdown(ssl);
}

static void behave(struct test_server *server, SSL *ssl)
{
	char byte;
	switch (server->behaviour) {
	case SERVER_ECHOES:
		echo(server, ssl);
		return;
	case SERVER_CUTS:
		SSL_write(ssl, "partial", 7);
		return;
	case SERVER_ENDS:
		SSL_write(ssl, "complete", 8);
		SSL_shutdown(ssl);
		return;
	case SERVER_SENDS_AFTER_END:
		server->was_ended_by_notify = SSL_get_error(ssl, SSL_read(ssl, &byte, 1)) == SSL_ERROR_ZERO_RETURN;
		SSL_write(ssl, "late", 4);
		SSL_shutdown(ssl);
		return;
	case SERVER_FLOODS:
		flood(ssl);
		return;
	default:
		return;
	}
}

static void drain(int fd)
{
	char bytes[256];
	shutdown(fd, SHUT_WR);
	while (recv(fd, bytes, sizeof(bytes), 0) > 0)
		;
}

static void serve_tls(struct test_server *server, int fd)
{
	SSL *ssl = SSL_new(server->context);
	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1) {
		const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
		snprintf(server->server_name, sizeof(server->server_name), "%s", name != NULL ? name : "");
		server->n_handshakes++;
		server->n_resumed += SSL_session_reused(ssl) == 1;
		server->has_peer_certificate = SSL_get0_peer_certificate(ssl) != NULL;
		behave(server, ssl);
		/* Else OpenSSL would forget the session of a connection that was cut. */
		SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	}
	SSL_free(ssl);
	drain(fd);
}

static void serve(struct test_server *server, int fd)
{
	static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
	if (server->behaviour == SERVER_SPEAKS_HTTP) {
		send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
		drain(fd);
	} else if (server->behaviour == SERVER_STAYS_SILENT) {
		char bytes[4096];
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			;
	} else if (server->behaviour != SERVER_CLOSES) {
		serve_tls(server, fd);
	}
	close(fd);
}

static void *run(void *context)
{
	struct test_server *server = context;
	int fd;
	while ((fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		serve(server, fd);
	return NULL;
}

void test_server_start(struct test_server *server)
{
	assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
	server->is_running = true;
}

void test_server_stop(struct test_server *server)
{
	if (!server->is_running)
		return;
	shutdown(server->listener, SHUT_RD); /* wakes accept */
	pthread_join(server->thread, NULL);
	server->is_running = false;
}

void test_server_clear(struct test_server *server)
{
	test_server_stop(server);
	close(server->listener);
	SSL_CTX_free(server->context);
}
