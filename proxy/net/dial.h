/*
 * From a host name to a connected socket, TLS handshake included when asked for: resolve, then happy eyeballs over all
 * addresses (RFC 8305: interleaved families, 250 ms between starts, a failure starts the next at once), then TLS.
 * Each address gets at most connect_ms, counted from its own start; what all together may take is for the exchange's
 * deadlines to say. One pass over the addresses and no loop: retrying is the exchange's.
 */
#ifndef EVENKEEL_NET_DIAL_H
#define EVENKEEL_NET_DIAL_H

#include "resolve.h"
#include "tls.h"

enum dial_status {
	DIAL_OK,
	DIAL_DNS_NO_NAME, DIAL_DNS_FAILED, DIAL_DNS_TIMEOUT,
	DIAL_DENIED,      /* every address is in egress.deny_addresses */
	DIAL_REFUSED, DIAL_UNREACHABLE, DIAL_TIMEOUT,
	DIAL_NO_DESCRIPTORS, /* EMFILE and the like: reported as unreachable, detail says why */
	DIAL_TLS_TIMEOUT, DIAL_TLS_CLOSED, DIAL_TLS_CERTIFICATE, DIAL_TLS_FAILED,
};

enum dial_phase { DIAL_RESOLVING, DIAL_CONNECTING, DIAL_SECURING };

struct dial_order { /* all copied or borrowed until done */
	const char *host;      /* lower case; name or IP literal */
	uint16_t port;
	int64_t connect_ms, tls_handshake_ms; /* LIMIT_OFF: unbounded here; the exchange's deadline still rules */
	const struct cidr *deny; /* borrowed: kept by the caller's config reference */
	size_t n_deny;
	struct tls_context *tls; /* NULL: plain */
	const char *server_name; /* SNI and name check; NULL: host */
};

struct dial;
struct dial_result {
	enum dial_status status;
	char detail[256];       /* for DIAL_OK: the address; else what failed, with the address and system's word */
	int fd;                 /* DIAL_OK: the caller's; else -1 */
	struct tls_connection *tls; /* the caller's */
	struct address address; /* the one connected to */
	struct mono resolved, connected, secured; /* stamps; secured unset for plain */
};

struct dial_ops {
	void (*on_phase)(void *owner, enum dial_phase phase); /* CONNECTING, SECURING */
	/* Exactly once, never from within dial_start. The dial is over then: forget the pointer (in here dial_cancel is
	 * still fine). */
	void (*on_done)(void *owner, struct dial_result *result);
};

struct dial *dial_start(struct loop *loop, struct resolver *resolver, const struct dial_order *order,
			const struct dial_ops *ops, void *owner);
void dial_cancel(struct dial **dial); /* silent, synchronous, idempotent (NULL is fine) */
enum dial_phase dial_phase(const struct dial *dial);

/* Is this address denied? IPv4-mapped and -compatible IPv6 (and 64:ff9b::/96) count as the IPv4 address they hold. */
bool address_is_denied(const struct address *address, const struct cidr *deny, size_t n_deny);

#endif
