/*
 * Sessions to resume, by name and port of the peer. A session is kept only within the context that verified its peer,
 * so that resuming it skips no check that this context would have made. A TLS 1.3 ticket is used once (RFC 8446 C.4).
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "tls_private.h"

#define MAX_PEERS 256
#define MAX_SESSIONS_OF_PEER 32 /* as many connections as may be opened at once and find a ticket each */

struct session_entry {
	struct list link;
	char *key;
	size_t n;
	SSL_SESSION *sessions[MAX_SESSIONS_OF_PEER]; /* the newest last */
};

static struct session_entry *entry_of(struct tls_context *context, const char *key)
{
	LIST_EACH(link, &context->sessions) {
		struct session_entry *entry = LIST_ENTRY_OF(link, struct session_entry, link);
		if (strcmp(entry->key, key) == 0)
			return entry;
	}
	return NULL;
}

static void entry_free(struct tls_context *context, struct session_entry *entry)
{
	list_remove(&entry->link);
	context->n_sessions--;
	for (size_t i = 0; i < entry->n; i++)
		SSL_SESSION_free(entry->sessions[i]);
	free(entry->key);
	free(entry);
}

static struct session_entry *entry_new(struct tls_context *context, const char *key)
{
	if (context->n_sessions >= MAX_PEERS)
		entry_free(context, LIST_ENTRY_OF(context->sessions.next, struct session_entry, link));
	struct session_entry *entry = xcalloc(1, sizeof(*entry));
	entry->key = xstrdup(key);
	list_init(&entry->link);
	list_append(&context->sessions, &entry->link);
	context->n_sessions++;
	return entry;
}

static void drop_oldest(struct session_entry *entry)
{
	SSL_SESSION_free(entry->sessions[0]);
	entry->n--;
	memmove(entry->sessions, entry->sessions + 1, entry->n * sizeof(entry->sessions[0]));
}

int tls_sessions_keep(SSL *ssl, SSL_SESSION *session)
{
	struct tls_connection *connection = SSL_get_app_data(ssl);
	if (connection == NULL || connection->is_certificate_bad)
		return 0;
	struct session_entry *entry = entry_of(connection->context, connection->session_key);
	if (entry == NULL)
		entry = entry_new(connection->context, connection->session_key);
	if (entry->n == MAX_SESSIONS_OF_PEER)
		drop_oldest(entry);
	entry->sessions[entry->n++] = session;
	return 1; /* its reference is ours now */
}

static bool is_usable(const SSL_SESSION *session)
{
	int64_t end_s = (int64_t)SSL_SESSION_get_time(session) + (int64_t)SSL_SESSION_get_timeout(session);
	return SSL_SESSION_is_resumable(session) && end_s > clock_wall_ms() / 1000;
}

void tls_sessions_use(struct tls_connection *connection)
{
	struct tls_context *context = connection->context;
	struct session_entry *entry = entry_of(context, connection->session_key);
	if (entry == NULL)
		return;
	list_remove(&entry->link);
	list_append(&context->sessions, &entry->link);
	while (entry->n > 0) {
		SSL_SESSION *session = entry->sessions[entry->n - 1];
		bool is_good = is_usable(session);
		if (is_good)
			SSL_set_session(connection->ssl, session); /* takes its own reference */
		if (!is_good || SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION) {
			entry->n--;
			SSL_SESSION_free(session);
		}
		if (is_good)
			return;
	}
	entry_free(context, entry);
}

void tls_sessions_clear(struct tls_context *context)
{
	while (!list_is_empty(&context->sessions))
		entry_free(context, LIST_ENTRY_OF(context->sessions.next, struct session_entry, link));
}
