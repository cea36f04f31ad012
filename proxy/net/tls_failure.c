/* What went wrong, in words, when it wasn't the certificate of the peer: alerts, versions, no TLS at all. */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>

#include "resolve.h"
#include "tls_private.h"

#define ALERT_NONE (-1)

/* The alert that the last operation failed with. */
static int alert_received(void)
{
	unsigned long error = ERR_peek_error();
	int reason = ERR_GET_REASON(error);
	return ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : ALERT_NONE;
}

static const char *least_version(const struct tls_connection *connection)
{
	switch (SSL_get_min_proto_version(connection->ssl)) {
	case TLS1_VERSION:
		return "1.0";
	case TLS1_1_VERSION:
		return "1.1";
	case TLS1_3_VERSION:
		return "1.3";
	default:
		return "1.2";
	}
}

/* OpenSSL 3.0 has no words for some of TLS 1.3's own. */
static const char *alert_words(int alert)
{
	switch (alert) {
	case SSL_AD_CERTIFICATE_REQUIRED:
		return "certificate required";
	case SSL_AD_MISSING_EXTENSION:
		return "missing extension";
	case SSL_AD_NO_APPLICATION_PROTOCOL:
		return "no application protocol";
	default:
		return SSL_alert_desc_string_long(alert);
	}
}

static void describe_alert(const struct tls_connection *connection, int alert, char *detail, size_t capacity)
{
	int n = snprintf(detail, capacity, "the peer refused with alert \"%s\"", alert_words(alert));
	if (alert == SSL_AD_PROTOCOL_VERSION && n > 0 && (size_t)n < capacity)
		snprintf(detail + n, capacity - (size_t)n, ": it speaks no version from tls.min_version %s on",
			 least_version(connection));
}

void tls_describe_failure(const struct tls_connection *connection, char *detail, size_t capacity)
{
	int reason = ERR_GET_REASON(ERR_peek_error()), alert = alert_received();
	const char *text = ERR_reason_error_string(ERR_peek_error());
	if (alert != ALERT_NONE)
		describe_alert(connection, alert, detail, capacity);
	else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
		 reason == SSL_R_PACKET_LENGTH_TOO_LONG)
		snprintf(detail, capacity, "the peer doesn't speak TLS on this port (%s)", text);
	else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_VERSION_TOO_LOW)
		snprintf(detail, capacity, "the peer offers no version that tls.min_version allows (it chose %s)",
			 SSL_get_version(connection->ssl));
	else
		snprintf(detail, capacity, "%s", text != NULL ? text : "failed");
}

/* Alerts by which a server refuses a handshake. */
static bool is_of_handshake(int alert)
{
	switch (alert) {
	case SSL_AD_HANDSHAKE_FAILURE:
	case SSL_AD_BAD_CERTIFICATE:
	case SSL_AD_UNSUPPORTED_CERTIFICATE:
	case SSL_AD_CERTIFICATE_REVOKED:
	case SSL_AD_CERTIFICATE_EXPIRED:
	case SSL_AD_CERTIFICATE_UNKNOWN:
	case SSL_AD_UNKNOWN_CA:
	case SSL_AD_ACCESS_DENIED:
	case SSL_AD_DECRYPT_ERROR:
	case SSL_AD_CERTIFICATE_REQUIRED:
		return true;
	default:
		return false;
	}
}

/*
 * In TLS 1.3 our side of the handshake ends before the server has judged our certificate, so its refusal comes when we
 * are reading already (RFC 8446 4.4.2.4). In earlier versions both sides end together, and a late alert is about
 * something else.
 */
void tls_note_alert(struct tls_connection *connection)
{
	int alert = alert_received();
	connection->alert = alert == ALERT_NONE ? 0 : alert + 1; /* 0 is close_notify */
	connection->is_refused = is_of_handshake(alert) && !connection->has_read_data &&
				 SSL_version(connection->ssl) >= TLS1_3_VERSION;
}

static void describe_peer(int fd, char *out, size_t capacity)
{
	struct address peer = { 0 };
	socklen_t length = sizeof(peer.socket);
	char text[INET6_ADDRSTRLEN];
	if (getpeername(fd, &peer.socket.any, &length) != 0 || peer.socket.any.sa_family == AF_UNSPEC) {
		snprintf(out, capacity, "the peer"); /* reset meanwhile */
		return;
	}
	bool is_v6 = peer.socket.any.sa_family == AF_INET6;
	address_format(&peer, text, sizeof(text));
	snprintf(out, capacity, is_v6 ? "[%s]:%u" : "%s:%u", text,
		 ntohs(is_v6 ? peer.socket.v6.sin6_port : peer.socket.v4.sin_port));
}

bool tls_alert(const struct tls_connection *connection, bool *is_refusal, char *detail, size_t capacity)
{
	if (connection->alert == 0)
		return false;
	*is_refusal = connection->is_refused;
	char peer[64], reason[TLS_MAX_DETAIL];
	describe_peer(connection->fd, peer, sizeof(peer));
	describe_alert(connection, connection->alert - 1, reason, sizeof(reason));
	snprintf(detail, capacity, "TLS%s with %s: %s", connection->is_refused ? " handshake" : "", peer, reason);
	return true;
}
