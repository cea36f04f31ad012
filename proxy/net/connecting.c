#include "connecting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/check.h"
#include "../base/clock.h"

#define STAGGER_MS 250 /* RFC 8305 5: Connection Attempt Delay */

struct contender { /* one address in the race */
	struct connecting *connecting;
	struct address address;
	int fd; /* -1: not started, or over */
	struct event event;
	struct timer timer;
};

struct connecting {
	struct loop *loop;
	const struct dial_order *order;
	connected_fn done;
	void *owner;
	struct timer stagger;
	struct deferred report; /* the outcome, when it was there before the loop turned */
	struct connected outcome; /* so far: the failure to tell of if no other address answers */
	size_t n, n_started, n_open;
	struct contender contenders[];
};

static void contender_close(struct contender *contender, bool is_kept)
{
	if (contender->fd < 0)
		return;
	event_del(&contender->event);
	timer_clear(&contender->timer);
	if (!is_kept)
		close(contender->fd);
	contender->fd = -1;
	contender->connecting->n_open--;
}

static enum dial_status status_of(int error_number)
{
	switch (error_number) {
	case ECONNREFUSED:
	case ECONNRESET:
		return DIAL_REFUSED;
	case ETIMEDOUT:
		return DIAL_TIMEOUT;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
	case EAGAIN:
		return DIAL_NO_DESCRIPTORS;
	default:
		return DIAL_UNREACHABLE;
	}
}

/* A family that this machine has no route for says little; what a reachable address said is told instead. */
static bool is_worth_telling(const struct connecting *connecting, enum dial_status status)
{
	enum dial_status told = connecting->outcome.status;
	return told == DIAL_OK || told == DIAL_DENIED || told == DIAL_UNREACHABLE || status != DIAL_UNREACHABLE;
}

static void note_failure(struct connecting *connecting, const struct address *address, enum dial_status status,
			 const char *reason)
{
	if (!is_worth_telling(connecting, status))
		return;
	char text[INET6_ADDRSTRLEN];
	address_format(address, text, sizeof(text));
	bool is_v6 = address->socket.any.sa_family == AF_INET6;
	connecting->outcome.status = status;
	snprintf(connecting->outcome.detail, sizeof(connecting->outcome.detail), "connect to %s%s%s:%u failed: %s",
		 is_v6 ? "[" : "", text, is_v6 ? "]" : "", connecting->order->port, reason);
}

/* Reports when nothing is left to wait for. */
static void settle(struct connecting *connecting)
{
	if (connecting->n_open == 0 && connecting->n_started == connecting->n)
		loop_defer(connecting->loop, &connecting->report);
}

static void start_next(struct connecting *connecting);

static void contender_fail(struct contender *contender, enum dial_status status, const char *reason)
{
	struct connecting *connecting = contender->connecting;
	note_failure(connecting, &contender->address, status, reason);
	contender_close(contender, false);
	start_next(connecting); /* at once */
}

bool connecting_is_echo(int fd, const struct address *address)
{
	struct address here;
	socklen_t length = sizeof(here.socket);
	memset(&here, 0, sizeof(here));
	if (getsockname(fd, &here.socket.any, &length) != 0 || !address_equals(&here, address))
		return false;
	in_port_t there_port = address->socket.any.sa_family == AF_INET ? address->socket.v4.sin_port :
									  address->socket.v6.sin6_port;
	in_port_t here_port = here.socket.any.sa_family == AF_INET ? here.socket.v4.sin_port : here.socket.v6.sin6_port;
	return here_port == there_port;
}

static void contender_succeed(struct contender *contender)
{
	struct connecting *connecting = contender->connecting;
	struct connected *outcome = &connecting->outcome;
	outcome->fd = contender->fd;
	outcome->status = DIAL_OK;
	outcome->address = contender->address;
	if (outcome->address.socket.any.sa_family == AF_INET)
		outcome->address.socket.v4.sin_port = 0;
	else
		outcome->address.socket.v6.sin6_port = 0;
	contender_close(contender, true);
	for (size_t i = 0; i < connecting->n; i++)
		contender_close(&connecting->contenders[i], false);
	timer_set(&connecting->stagger, MONO_NEVER);
	loop_defer(connecting->loop, &connecting->report);
}

static void on_event(evutil_socket_t fd, short what, void *context)
{
	(void)what;
	struct contender *contender = context;
	int error_number = 0;
	socklen_t length = sizeof(error_number);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &length) != 0)
		error_number = errno;
	if (error_number == 0 && connecting_is_echo(fd, &contender->address))
		error_number = ECONNREFUSED;
	if (error_number != 0)
		contender_fail(contender, status_of(error_number), strerror(error_number));
	else
		contender_succeed(contender);
}

static void on_due(void *owner)
{
	struct contender *contender = owner;
	char reason[64];
	snprintf(reason, sizeof(reason), "no answer within %lld ms", (long long)contender->connecting->order->connect_ms);
	contender_fail(contender, DIAL_TIMEOUT, reason);
}

/* 0 when it is on its way, else the error. */
static int contender_start(struct contender *contender)
{
	struct connecting *connecting = contender->connecting;
	const struct address *address = &contender->address;
	sa_family_t family = address->socket.any.sa_family;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (connect(fd, &address->socket.any, length) != 0 && errno != EINPROGRESS && errno != EINTR) {
		int error_number = errno;
		close(fd);
		return error_number;
	}
	contender->fd = fd;
	connecting->n_open++;
	event_assign(&contender->event, connecting->loop->base, fd, EV_WRITE, on_event, contender);
	event_add(&contender->event, NULL);
	timer_set(&contender->timer, mono_add_ms(clock_now(), connecting->order->connect_ms));
	return 0;
}

/* Starts addresses until one is on its way; those that fail on the spot (no route, say) take no time. */
static void start_next(struct connecting *connecting)
{
	while (connecting->n_started < connecting->n) {
		struct contender *contender = &connecting->contenders[connecting->n_started++];
		int error_number = contender_start(contender);
		if (error_number == 0)
			break;
		note_failure(connecting, &contender->address, status_of(error_number), strerror(error_number));
	}
	bool has_more = connecting->n_started < connecting->n;
	timer_set(&connecting->stagger, has_more ? mono_add_ms(clock_now(), STAGGER_MS) : MONO_NEVER);
	if (!has_more)
		settle(connecting);
}

static void on_stagger(void *owner)
{
	start_next(owner);
}

static void report(struct deferred *item)
{
	struct connecting *connecting = LIST_ENTRY_OF(item, struct connecting, report);
	struct connected outcome = connecting->outcome;
	connecting->outcome.fd = -1; /* the callee's from here */
	connecting->done(connecting->owner, &outcome);
}

static void add(struct connecting *connecting, const struct address *address)
{
	struct contender *contender = &connecting->contenders[connecting->n++];
	contender->connecting = connecting;
	contender->address = *address;
	contender->fd = -1;
	if (address->socket.any.sa_family == AF_INET)
		contender->address.socket.v4.sin_port = htons(connecting->order->port);
	else
		contender->address.socket.v6.sin6_port = htons(connecting->order->port);
	timer_init(&contender->timer, connecting->loop, on_due, contender);
}

/* The allowed addresses of the family, the first ones (those of equal worth) in turn; returns how many. */
static size_t pick(const struct connecting *connecting, const struct address_list *list, sa_family_t family,
		   const struct address **picked)
{
	const struct address *allowed[RESOLVE_MAX_ADDRESSES];
	size_t n = 0, n_equal = 0;
	for (size_t i = 0; i < list->n && n < RESOLVE_MAX_ADDRESSES; i++) {
		const struct address *address = &list->items[i];
		if (address->socket.any.sa_family == family &&
		    !address_is_denied(address, connecting->order->deny, connecting->order->n_deny))
			allowed[n++] = address;
	}
	while (n_equal < n && address_precedence(allowed[n_equal]) == address_precedence(allowed[0]))
		n_equal++;
	for (size_t i = 0; i < n; i++)
		picked[i] = i < n_equal ? allowed[(i + list->n_dials) % n_equal] : allowed[i];
	return n;
}

/*
 * RFC 8305 4: the preferred family first, then the two in turn. Within a family the addresses take turns, so that
 * connections spread over them and a retry goes to another one than the contender that failed.
 */
static void interleave(struct connecting *connecting, struct address_list *list)
{
	const struct address *first[RESOLVE_MAX_ADDRESSES], *second[RESOLVE_MAX_ADDRESSES];
	bool is_v6_first = list->n > 0 && list->items[0].socket.any.sa_family == AF_INET6;
	size_t n_first = pick(connecting, list, is_v6_first ? AF_INET6 : AF_INET, first);
	size_t n_second = pick(connecting, list, is_v6_first ? AF_INET : AF_INET6, second);
	for (size_t i = 0; i < n_first || i < n_second; i++) {
		if (i < n_first)
			add(connecting, first[i]);
		if (i < n_second)
			add(connecting, second[i]);
	}
	list->n_dials++;
}

static void note_denied(struct connecting *connecting, const struct address_list *list)
{
	char text[INET6_ADDRSTRLEN] = "none";
	if (list->n > 0)
		address_format(&list->items[0], text, sizeof(text));
	connecting->outcome.status = DIAL_DENIED;
	snprintf(connecting->outcome.detail, sizeof(connecting->outcome.detail),
		 list->n > 1 ? "%s and the %zu other addresses of %.100s are in egress.deny_addresses" :
			       "%s is in egress.deny_addresses",
		 text, list->n - 1, connecting->order->host);
}

struct connecting *connecting_start(struct loop *loop, struct address_list *addresses, const struct dial_order *order,
				    connected_fn done, void *owner)
{
	struct connecting *connecting =
		xcalloc(1, sizeof(*connecting) + addresses->n * sizeof(connecting->contenders[0]));
	connecting->loop = loop;
	connecting->order = order;
	connecting->done = done;
	connecting->owner = owner;
	connecting->outcome.fd = -1;
	timer_init(&connecting->stagger, loop, on_stagger, connecting);
	deferred_init(&connecting->report, report);
	interleave(connecting, addresses);
	if (connecting->n == 0)
		note_denied(connecting, addresses);
	start_next(connecting);
	return connecting;
}

void connecting_free(struct connecting **connecting)
{
	struct connecting *gone = *connecting;
	if (gone == NULL)
		return;
	*connecting = NULL;
	for (size_t i = 0; i < gone->n; i++)
		contender_close(&gone->contenders[i], false);
	timer_clear(&gone->stagger);
	deferred_cancel(&gone->report);
	if (gone->outcome.fd >= 0)
		close(gone->outcome.fd);
	free(gone);
}
