#include "dial.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "connecting.h"

struct dial {
	struct loop *loop;
	const struct dial_ops *ops;
	void *owner;
	char *host, *server_name; /* own; server_name may be NULL */
	struct dial_order order;  /* its strings point to the two above */
	enum dial_phase phase;
	bool is_over; /* done or cancelled: only the memory is still to go */
	struct resolve_answer answer; /* until begin has looked at it */
	char peer[64]; /* the address connected to, with its port */
	struct connecting *connecting;
	struct tls_connection *tls;
	struct event tls_event;
	bool is_tls_event_on;
	short tls_event_what;
	struct timer tls_timer;
	struct deferred begin, bury;
	struct dial_result result;
};

static void release(struct dial *dial)
{
	resolve_cancel(&dial->answer.query);
	address_list_unref(&dial->answer.addresses);
	connecting_free(&dial->connecting);
	if (dial->is_tls_event_on)
		event_del(&dial->tls_event);
	dial->is_tls_event_on = false;
	timer_clear(&dial->tls_timer);
	deferred_cancel(&dial->begin);
}

/* Everything is let go of at once; the memory stays until the safe point: a callback of ours may be on the stack. */
static void retire(struct dial *dial)
{
	dial->is_over = true;
	release(dial);
	loop_defer(dial->loop, &dial->bury);
}

static void bury(struct deferred *item)
{
	struct dial *dial = LIST_ENTRY_OF(item, struct dial, bury);
	tls_context_unref(&dial->order.tls);
	free(dial->host);
	free(dial->server_name);
	free(dial);
}

static void drop_socket(struct dial *dial)
{
	tls_connection_free(&dial->tls);
	if (dial->result.fd >= 0)
		close(dial->result.fd);
	dial->result.fd = -1;
}

static void finish(struct dial *dial, enum dial_status status)
{
	struct dial_result *result = &dial->result;
	result->status = status;
	if (status == DIAL_OK) {
		result->tls = dial->tls;
		dial->tls = NULL;
	} else {
		drop_socket(dial);
	}
	retire(dial);
	dial->ops->on_done(dial->owner, result);
}

static void fail(struct dial *dial, enum dial_status status, const char *detail)
{
	snprintf(dial->result.detail, sizeof(dial->result.detail), "%s", detail);
	finish(dial, status);
}

static void enter_phase(struct dial *dial, enum dial_phase phase)
{
	dial->phase = phase;
	if (dial->ops->on_phase != NULL)
		dial->ops->on_phase(dial->owner, phase); /* may cancel */
}

static void say_connected(struct dial *dial)
{
	char text[INET6_ADDRSTRLEN];
	address_format(&dial->result.address, text, sizeof(text));
	bool is_v6 = dial->result.address.socket.any.sa_family == AF_INET6;
	snprintf(dial->peer, sizeof(dial->peer), is_v6 ? "[%s]:%u" : "%s:%u", text, dial->order.port);
	snprintf(dial->result.detail, sizeof(dial->result.detail), "%s", dial->peer);
}

static void tls_wait(struct dial *dial, short what);

static void fail_tls(struct dial *dial, enum dial_status status, const char *reason)
{
	char line[256];
	snprintf(line, sizeof(line), "TLS handshake with %.63s: %.150s", dial->peer, reason);
	fail(dial, status, line);
}

static void tls_step_on(struct dial *dial)
{
	char detail[220];
	switch (tls_handshake(dial->tls, detail, sizeof(detail))) {
	case TLS_DONE:
		dial->result.secured = clock_now();
		finish(dial, DIAL_OK);
		return;
	case TLS_WANT_READ:
		tls_wait(dial, EV_READ);
		return;
	case TLS_WANT_WRITE:
		tls_wait(dial, EV_WRITE);
		return;
	case TLS_STEP_CLOSED:
		fail_tls(dial, DIAL_TLS_CLOSED, detail);
		return;
	case TLS_STEP_BAD_CERTIFICATE:
		fail(dial, DIAL_TLS_CERTIFICATE, detail);
		return;
	case TLS_STEP_FAILED:
		fail_tls(dial, DIAL_TLS_FAILED, detail);
		return;
	}
}

static void on_tls_event(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	tls_step_on(context);
}

/* The direction rarely changes during a handshake, so the event stays on until it does. */
static void tls_wait(struct dial *dial, short what)
{
	if (dial->is_tls_event_on && dial->tls_event_what == what)
		return;
	if (dial->is_tls_event_on)
		event_del(&dial->tls_event);
	short flags = (short)(what | EV_PERSIST);
	event_assign(&dial->tls_event, dial->loop->base, dial->result.fd, flags, on_tls_event, dial);
	event_add(&dial->tls_event, NULL);
	dial->is_tls_event_on = true;
	dial->tls_event_what = what;
}

static void on_tls_due(void *owner)
{
	struct dial *dial = owner;
	char reason[64];
	snprintf(reason, sizeof(reason), "not done within %lld ms", (long long)dial->order.tls_handshake_ms);
	fail_tls(dial, DIAL_TLS_TIMEOUT, reason);
}

static void secure(struct dial *dial)
{
	dial->tls = tls_connect(dial->order.tls, dial->result.fd, dial->host, dial->order.server_name);
	if (dial->tls == NULL) {
		fail(dial, DIAL_TLS_FAILED, "TLS could not be set up for this host name");
		return;
	}
	timer_set(&dial->tls_timer, mono_add_ms(dial->result.connected, dial->order.tls_handshake_ms));
	enter_phase(dial, DIAL_SECURING);
	if (!dial->is_over)
		tls_step_on(dial);
}

static void on_connected(void *owner, struct connected *connected)
{
	struct dial *dial = owner;
	if (connected->fd < 0) {
		fail(dial, connected->status, connected->detail);
		return;
	}
	dial->result.fd = connected->fd;
	dial->result.address = connected->address;
	dial->result.connected = clock_now();
	say_connected(dial);
	if (dial->order.tls == NULL)
		finish(dial, DIAL_OK);
	else
		secure(dial);
}

/*
 * No host is taken for an address in one of the spellings of old (2852039166, 0xa9.0xfe.43518,
 * 0251.0376.0251.0376). One that stands for a denied address is called denied all the same, so that whoever tries
 * it is told, counted and logged so.
 */
static bool stands_for_denied(const struct dial *dial)
{
	struct address meant = { 0 };
	meant.socket.any.sa_family = AF_INET;
	return inet_aton(dial->host, &meant.socket.v4.sin_addr) != 0 &&
	       address_is_denied(&meant, dial->order.deny, dial->order.n_deny);
}

static void fail_resolving(struct dial *dial, enum resolve_status status)
{
	char line[256];
	if (status == RESOLVE_TIMEOUT) {
		snprintf(line, sizeof(line), "no answer in time to the DNS query for %.150s", dial->host);
		fail(dial, DIAL_DNS_TIMEOUT, line);
	} else if (status == RESOLVE_NO_NAME && stands_for_denied(dial)) {
		snprintf(line, sizeof(line), "%.200s stands for an address in egress.deny_addresses", dial->host);
		fail(dial, DIAL_DENIED, line);
	} else if (status == RESOLVE_NO_NAME) {
		snprintf(line, sizeof(line), "no such name: %.200s", dial->host);
		fail(dial, DIAL_DNS_NO_NAME, line);
	} else {
		snprintf(line, sizeof(line), "the DNS query for %.150s failed", dial->host);
		fail(dial, DIAL_DNS_FAILED, line);
	}
}

static void proceed(struct dial *dial, enum resolve_status status, struct address_list *addresses)
{
	if (status != RESOLVE_OK) {
		fail_resolving(dial, status);
		return;
	}
	dial->result.resolved = clock_now();
	address_list_ref(addresses);
	enter_phase(dial, DIAL_CONNECTING);
	if (!dial->is_over)
		dial->connecting = connecting_start(dial->loop, addresses, &dial->order, on_connected, dial);
	address_list_unref(&addresses);
}

static void on_resolved(void *owner, enum resolve_status status, struct address_list *addresses)
{
	struct dial *dial = owner;
	dial->answer.query = NULL;
	proceed(dial, status, addresses);
}

/* Even when the answer was there at once, the owner hears nothing before dial_start has returned. */
static void begin(struct deferred *item)
{
	struct dial *dial = LIST_ENTRY_OF(item, struct dial, begin);
	struct address_list *addresses = dial->answer.addresses;
	dial->answer.addresses = NULL;
	proceed(dial, dial->answer.status, addresses);
	address_list_unref(&addresses);
}

struct dial *dial_start(struct loop *loop, struct resolver *resolver, const struct dial_order *order,
			const struct dial_ops *ops, void *owner)
{
	struct dial *dial = xcalloc(1, sizeof(*dial));
	dial->loop = loop;
	dial->ops = ops;
	dial->owner = owner;
	dial->order = *order;
	dial->order.host = dial->host = xstrdup(order->host);
	dial->server_name = order->server_name != NULL ? xstrdup(order->server_name) : NULL;
	dial->order.server_name = dial->server_name;
	if (order->tls != NULL)
		dial->order.tls = tls_context_ref(order->tls);
	dial->result.fd = -1;
	timer_init(&dial->tls_timer, loop, on_tls_due, dial);
	deferred_init(&dial->begin, begin);
	deferred_init(&dial->bury, bury);
	dial->answer = resolver_lookup(resolver, dial->host, on_resolved, dial);
	if (!dial->answer.is_pending)
		loop_defer(loop, &dial->begin);
	return dial;
}

void dial_cancel(struct dial **dial)
{
	struct dial *gone = *dial;
	*dial = NULL;
	if (gone == NULL || gone->is_over)
		return;
	drop_socket(gone);
	retire(gone);
}

enum dial_phase dial_phase(const struct dial *dial)
{
	return dial->phase;
}
