/* What the parts of TLS know of one another: contexts, connections, verification, session cache. Private to tls*.c. */
#ifndef EVENKEEL_NET_TLS_PRIVATE_H
#define EVENKEEL_NET_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "../base/list.h"
#include "tls.h"

#define TLS_MAX_DETAIL 220

struct tls_context {
	unsigned references;
	struct list link; /* all contexts that live */
	unsigned char digest[32];
	SSL_CTX *ssl;
	bool is_verifying;
	unsigned char (*pins)[32]; /* SHA-256 of the SPKI */
	size_t n_pins;
	struct list sessions; /* of struct session_entry, least recently used first */
	size_t n_sessions;
};

struct tls_connection {
	struct tls_context *context; /* one reference */
	SSL *ssl;
	int fd; /* borrowed */
	char *wanted_name;  /* what the certificate must be for */
	char *session_key;
	bool is_established;
	bool is_broken;    /* no close_notify can be sent any more */
	bool has_ended;    /* the peer's side; ours may go on after STREAM_EOF */
	long end;          /* has_ended: STREAM_EOF, STREAM_ERROR or STREAM_TRUNCATED */
	int end_error;     /* STREAM_ERROR: errno, or EPROTO */
	bool has_write_failed; /* what the peer had sent before can still be read */
	int write_error;
	int error_number;  /* what the socket said during the operation at hand */
	bool has_seen_eof; /* FIN */
	bool read_wants_write, write_wants_read;
	bool has_read_data;
	int alert;       /* the peer's last word, its number and 1; 0: none */
	bool is_refused; /* by that alert the peer refused the handshake */
	bool is_certificate_bad;
	char certificate_detail[TLS_MAX_DETAIL];
};

/* tls_socket.c: a BIO that never raises SIGPIPE and notes what the socket said in the connection. */
BIO *tls_socket_new(struct tls_connection *connection);

/* tls_failure.c */
void tls_describe_failure(const struct tls_connection *connection, char *detail, size_t capacity);
void tls_note_alert(struct tls_connection *connection); /* after a read that failed */

/* tls_verify.c: for SSL_CTX_set_cert_verify_callback. */
int tls_verify(X509_STORE_CTX *store, void *context);
bool tls_pin_parse(const char *text, unsigned char pin[32]);

/* tls_session.c */
void tls_sessions_use(struct tls_connection *connection); /* offers an earlier connection's session, if there is one */
int tls_sessions_keep(SSL *ssl, SSL_SESSION *session);    /* for SSL_CTX_sess_set_new_cb */
void tls_sessions_clear(struct tls_context *context);

/* tls_files.c: what a rule's files hold. False: one line in error says which can't be read. */
struct tls_files {
	unsigned char *ca, *certificate, *key; /* own; NULL: none */
	size_t n_ca, n_certificate, n_key;
};
bool tls_files_read(struct tls_files *files, const struct tls_rule *rule, char *error, size_t error_capacity);
void tls_files_clear(struct tls_files *files);

/* tls_store.c: where the system's authorities are and when they last changed (they are too many to be compared), and the
 * authorities themselves: borrowed. */
void tls_system_store_stamp(unsigned char stamp[32]);
X509_STORE *tls_system_store(void);

/* tls_context_make.c: the SSL_CTX of a rule. NULL on failure, with one line in error. */
SSL_CTX *tls_context_make(const struct tls_rule *rule, const struct tls_files *files, char *error,
			  size_t error_capacity);

#endif
