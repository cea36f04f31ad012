/* For tests of TLS to origins: certificates made on the spot, and a server in a thread that behaves as told. */
#ifndef EVENKEEL_TESTS_NET_TLS_SERVER_H
#define EVENKEEL_TESTS_NET_TLS_SERVER_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct test_identity {
	X509 *certificate;
	EVP_PKEY *key;
};

struct test_certificate_order {
	const char *common_name; /* NULL: leaf */
	const char *names;      /* subjectAltName as openssl.cnf writes it: "DNS:a.test,IP:127.0.0.1"; NULL: none */
	const char *not_before; /* "20240102030405Z"; NULL: yesterday */
	const char *not_after;  /* NULL: tomorrow */
	bool is_authority;
};

/* issuer NULL: self-signed. */
struct test_identity test_identity_new(const struct test_certificate_order *order, const struct test_identity *issuer);
void test_identity_clear(struct test_identity *identity);
void test_write_certificate(const char *path, X509 *certificate);
void test_write_key(const char *path, EVP_PKEY *key, const char *passphrase); /* NULL: in the clear */
void test_pin(X509 *certificate, char out[64]); /* "sha256/..." */

enum test_behaviour {
	SERVER_ECHOES,          /* until the peer's end; then close_notify and FIN */
	SERVER_CUTS,            /* sends "partial" and FIN without close_notify */
	SERVER_ENDS,            /* sends "complete", close_notify, FIN */
	SERVER_SENDS_AFTER_END, /* waits for close_notify, then sends "late" and ends */
	SERVER_SPEAKS_HTTP, SERVER_CLOSES, SERVER_STAYS_SILENT,
	SERVER_FLOODS,          /* sends 4 MiB of a pattern and ends */
};

struct test_server {
	SSL_CTX *context; /* to be changed before start */
	enum test_behaviour behaviour;
	uint16_t port;
	int listener;
	pthread_t thread;
	bool is_running;
	/* Of the last connection; to be read after stop, or after the connection was over. */
	char server_name[64]; /* SNI; "" when none was sent */
	bool was_ended_by_notify;
	bool has_peer_certificate;
	unsigned n_handshakes, n_resumed;
};

void test_server_init(struct test_server *server, const struct test_identity *identity, enum test_behaviour behaviour);
void test_server_start(struct test_server *server);
void test_server_stop(struct test_server *server); /* and joins; keeps the port and the context */
void test_server_clear(struct test_server *server);

#endif
