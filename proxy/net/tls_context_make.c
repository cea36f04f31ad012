#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/check.h"
#include "../base/log.h"
#include "tls_private.h"

static const int protocol_versions[] = {
	[TLS_1_0] = TLS1_VERSION, [TLS_1_1] = TLS1_1_VERSION, [TLS_1_2] = TLS1_2_VERSION, [TLS_1_3] = TLS1_3_VERSION
};

/* The first thing that OpenSSL complained of, in its own words. */
static const char *reason(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_error());
	return text != NULL ? text : "not understood";
}

/* Never asks at a terminal. */
static int refuse_passphrase(char *out, int capacity, int is_writing, void *context)
{
	(void)out;
	(void)capacity;
	(void)is_writing;
	(void)context;
	return -1;
}

static bool add_authorities(SSL_CTX *ssl, const struct tls_rule *rule, const struct tls_files *files, char *error,
			    size_t capacity)
{
	BIO *memory = BIO_new_mem_buf(files->ca, (int)files->n_ca);
	CHECK(memory != NULL);
	X509_STORE *store = SSL_CTX_get_cert_store(ssl);
	size_t n = 0;
	STACK_OF(X509_INFO) *items = PEM_X509_INFO_read_bio(memory, NULL, refuse_passphrase, NULL);
	bool is_good = items != NULL;
	for (int i = 0; i < sk_X509_INFO_num(items) && is_good; i++) {
		X509_INFO *item = sk_X509_INFO_value(items, i);
		if (item->x509 != NULL) {
			is_good = X509_STORE_add_cert(store, item->x509) == 1;
			n++;
		}
		if (item->crl != NULL && is_good) {
			is_good = X509_STORE_add_crl(store, item->crl) == 1;
			X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
		}
	}
	if (!is_good)
		snprintf(error, capacity, "tls.ca_file: %s: %s", rule->ca_file, reason());
	else if (n == 0)
		snprintf(error, capacity, "tls.ca_file: %s: no PEM certificate is in it", rule->ca_file);
	sk_X509_INFO_pop_free(items, X509_INFO_free);
	BIO_free(memory);
	return is_good && n > 0;
}

static bool use_certificate(SSL_CTX *ssl, const struct tls_rule *rule, const struct tls_files *files, char *error,
			    size_t capacity)
{
	BIO *memory = BIO_new_mem_buf(files->certificate, (int)files->n_certificate);
	CHECK(memory != NULL);
	X509 *leaf = PEM_read_bio_X509(memory, NULL, refuse_passphrase, NULL);
	bool is_good = leaf != NULL && SSL_CTX_use_certificate(ssl, leaf) == 1;
	if (!is_good)
		snprintf(error, capacity, "tls.client_cert: %s: %s", rule->client_cert,
			 leaf == NULL ? "no PEM certificate is in it" : reason());
	X509_free(leaf);
	X509 *next;
	while (is_good && (next = PEM_read_bio_X509(memory, NULL, refuse_passphrase, NULL)) != NULL) {
		is_good = SSL_CTX_add0_chain_cert(ssl, next) == 1;
		if (!is_good) {
			X509_free(next);
			snprintf(error, capacity, "tls.client_cert: %s: %s", rule->client_cert, reason());
		}
	}
	BIO_free(memory);
	ERR_clear_error(); /* the end of the file is an error to PEM_read */
	return is_good;
}

static bool use_key(SSL_CTX *ssl, const struct tls_rule *rule, const struct tls_files *files, char *error,
		    size_t capacity)
{
	const char *path = rule->client_key != NULL ? rule->client_key : rule->client_cert;
	BIO *memory = BIO_new_mem_buf(files->key, (int)files->n_key);
	CHECK(memory != NULL);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(memory, NULL, refuse_passphrase, NULL);
	BIO_free(memory);
	if (key == NULL) {
		bool is_locked = ERR_GET_REASON(ERR_peek_error()) == PEM_R_BAD_PASSWORD_READ ||
				 ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_BAD_PASSWORD_READ;
		snprintf(error, capacity, "tls.client_key: %s: %s", path,
			 is_locked ? "it is encrypted, and nobody is there to give the passphrase" :
				     "no PEM private key is in it");
		return false;
	}
	bool is_used = SSL_CTX_use_PrivateKey(ssl, key) == 1 && SSL_CTX_check_private_key(ssl) == 1;
	EVP_PKEY_free(key);
	if (!is_used)
		snprintf(error, capacity, "tls.client_key: %s: it doesn't belong to tls.client_cert %s", path,
			 rule->client_cert);
	return is_used;
}

static const char *key_log_path(void)
{
	const char *path = secure_getenv("SSLKEYLOGFILE");
	return path != NULL && path[0] != '\0' ? path : NULL;
}

static void write_key_log(const SSL *ssl, const char *line)
{
	(void)ssl;
	static int fd = -2; /* -2: not opened yet, -1: can't be */
	if (fd == -2) {
		fd = open(key_log_path(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			log_message(LOG_WARN, "tls", "SSLKEYLOGFILE can't be opened: %s", strerror(errno));
	}
	char text[512];
	int n = snprintf(text, sizeof(text), "%s\n", line);
	if (fd >= 0 && n > 0 && n < (int)sizeof(text) && write(fd, text, (size_t)n) < 0)
		return; /* an aid for debugging: a full disk must not stop traffic */
}

/* Said once, before there is a connection. */
static void use_key_log(SSL_CTX *ssl)
{
	static bool is_said;
	const char *path = key_log_path();
	if (path == NULL)
		return;
	SSL_CTX_set_keylog_callback(ssl, write_key_log);
	if (!is_said)
		log_message(LOG_WARN, "tls", "SSLKEYLOGFILE is set: whoever reads %s can read all TLS traffic with upstreams", path);
	is_said = true;
}

static void set_options(SSL_CTX *ssl, const struct tls_rule *rule)
{
	static const unsigned char protocols[] = "\x08http/1.1";
	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_clear_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF); /* a cut must never look like an end */
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(ssl, 1); /* one recv for a record, not one for its header and one for its body */
	if (rule->min_version < TLS_1_2) {
		/* These need SHA-1, which security levels above 0 refuse; the user asked for them by name. */
		SSL_CTX_set_security_level(ssl, 0);
		CHECK(SSL_CTX_set_cipher_list(ssl, "DEFAULT:@SECLEVEL=0") == 1);
	}
	CHECK(SSL_CTX_set_min_proto_version(ssl, protocol_versions[rule->min_version]) == 1);
	CHECK(SSL_CTX_set_max_proto_version(ssl, 0) == 1);
	CHECK(SSL_CTX_set_alpn_protos(ssl, protocols, sizeof(protocols) - 1) == 0);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ssl, tls_sessions_keep);
	use_key_log(ssl);
}

static void set_verification(SSL_CTX *ssl, const struct tls_rule *rule)
{
	X509_VERIFY_PARAM *checks = SSL_CTX_get0_param(ssl);
	/* A certificate in ca_file is trusted whether it is a root or not, as curl and Go take it. */
	X509_VERIFY_PARAM_set_flags(checks, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
	X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
							X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	bool has_checks = rule->verify || rule->pins.n > 0;
	SSL_CTX_set_verify(ssl, has_checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	SSL_CTX_set_cert_verify_callback(ssl, tls_verify, NULL);
}

SSL_CTX *tls_context_make(const struct tls_rule *rule, const struct tls_files *files, char *error,
			  size_t error_capacity)
{
	ERR_clear_error();
	SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
	if (ssl == NULL) {
		snprintf(error, error_capacity, "tls: OpenSSL can't start: %s", reason());
		return NULL;
	}
	set_options(ssl, rule);
	set_verification(ssl, rule);
	bool is_good = true;
	if (files->ca != NULL)
		is_good = add_authorities(ssl, rule, files, error, error_capacity);
	else
		SSL_CTX_set1_cert_store(ssl, tls_system_store());
	if (is_good && files->certificate != NULL)
		is_good = use_certificate(ssl, rule, files, error, error_capacity) &&
			  use_key(ssl, rule, files, error, error_capacity);
	ERR_clear_error();
	if (is_good)
		return ssl;
	SSL_CTX_free(ssl);
	return NULL;
}
