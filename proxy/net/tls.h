/*
 * TLS to origins on OpenSSL 3. A context is made from one tls_rule: CA store, client certificate, pins, minimum
 * version, session cache. It is shared by reference count and known by an identity: two rules with the same files
 * (content and all) have the same identity, so that a reload with a changed certificate gets a new one and old
 * connections aren't reused.
 */
#ifndef EVENKEEL_NET_TLS_H
#define EVENKEEL_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../config/policy.h"

struct tls_context;
struct tls_connection; /* one SSL */

/*
 * Reads the files. NULL on failure, with one line in error (which file, which key, what is wrong, e.g. that the key does
 * not belong to the certificate). The same content gives back the same context with one more reference.
 */
struct tls_context *tls_context_get(const struct tls_rule *rule, char *error, size_t error_capacity);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context **context);
uint64_t tls_context_identity(const struct tls_context *context);

struct tls_connection *tls_connect(struct tls_context *context, int fd, const char *host, const char *server_name);
enum tls_step { TLS_DONE, TLS_WANT_READ, TLS_WANT_WRITE, TLS_STEP_CLOSED, TLS_STEP_BAD_CERTIFICATE, TLS_STEP_FAILED };
/*
 * One step of the handshake; on failure detail says which check failed: "expired since 2024-01-02T03:04:05Z",
 * "name mismatch: wanted a, certificate is for b, c", "unknown issuer CN=...", "self-signed certificate CN=...",
 * "revoked", "pin mismatch: ...", or the alert.
 */
enum tls_step tls_handshake(struct tls_connection *connection, char *detail, size_t detail_capacity);
bool tls_is_resumed(const struct tls_connection *connection);
void tls_connection_free(struct tls_connection **connection);

/* For net/stream.c: results as stream_read / stream_write (STREAM_*). An ended or failed side stays so. */
long tls_read(struct tls_connection *connection, void *bytes, size_t capacity, int *error_number);
long tls_write(struct tls_connection *connection, const void *bytes, size_t length, int *error_number);
bool tls_has_pending(const struct tls_connection *connection);
/* What the operation that last gave STREAM_AGAIN waits for, when it isn't its own direction. */
bool tls_read_wants_write(const struct tls_connection *connection);
bool tls_write_wants_read(const struct tls_connection *connection);
/* Is application data, the end or an error there right now? Takes in tickets and the like on the way. */
bool tls_is_readable_now(struct tls_connection *connection);
/*
 * After STREAM_ERROR: did the peer end the connection with an alert? detail names it and the peer. is_refusal: it is
 * the answer to our side of a TLS 1.3 handshake (our certificate was asked for, or isn't liked), so that nothing that
 * was sent since has been looked at.
 */
bool tls_alert(const struct tls_connection *connection, bool *is_refusal, char *detail, size_t detail_capacity);
/* Sends close_notify; false: the socket is full, call again when it is writable. */
bool tls_shutdown(struct tls_connection *connection);

#endif
