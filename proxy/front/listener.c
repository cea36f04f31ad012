/* A listening socket and the evhttp that accepts on it. */
#include <errno.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/log.h"
#include "admin.h"
#include "admit.h"
#include "bind.h"
#include "wire.h"

static const char *const role_words[N_LISTENER_ROLES] = {
	[LISTENER_PROXY] = "proxy", [LISTENER_UPSTREAM] = "upstream", [LISTENER_ADMIN] = "admin",
};

static struct bufferevent *on_accept(struct event_base *base, void *context)
{
	(void)base;
	return wire_accept(context);
}

static void on_request(struct evhttp_request *request, void *context)
{
	struct listener *listener = context;
	admit_request(wire_of_dispatch(listener, request));
}

static struct evhttp *make_evhttp(struct listener *listener)
{
	struct evhttp *http = evhttp_new(listener->front->loop->base);
	CHECK(http != NULL);
	evhttp_set_bevcb(http, on_accept, listener);
	/* What evhttp is handed is always a GET: the request that counts is the wire's own. */
	evhttp_set_allowed_methods(http, EVHTTP_REQ_GET);
	if (listener->role == LISTENER_ADMIN)
		admin_set_routes(http, listener);
	else
		evhttp_set_gencb(http, on_request, listener);
	return http;
}

static bool may_accept(const struct listener *listener)
{
	const struct front *front = listener->front;
	if (!mono_is_never(front->resume_timer.due))
		return false;
	if (listener->role == LISTENER_ADMIN)
		return front->n_admin < FRONT_MAX_ADMIN_CLIENTS;
	return (int64_t)front->n_clients < front_config(front)->global.limits.client_connections;
}

void listener_update_accepting(struct front *front)
{
	LIST_EACH(link, &front->listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		if (listener->bound == NULL)
			continue;
		bool is_paused = !may_accept(listener);
		if (is_paused == listener->is_paused)
			continue;
		listener->is_paused = is_paused;
		if (is_paused) {
			process_metrics.accept_paused++;
			evconnlistener_disable(evhttp_bound_socket_get_listener(listener->bound));
		} else {
			evconnlistener_enable(evhttp_bound_socket_get_listener(listener->bound));
		}
	}
}

/* Accepting failed for want of descriptors or memory: whoever waits in the queue waits a little longer. */
static void pause_accepting(struct front *front, int number)
{
	log_message(LOG_WARN, "accept_paused", "accepting clients pauses for %d ms: %s", FRONT_ACCEPT_PAUSE_MS,
		    strerror(number));
	timer_set(&front->resume_timer, mono_add_ms(clock_now(), FRONT_ACCEPT_PAUSE_MS));
	listener_update_accepting(front);
}

/*
 * A listener's callbacks share one argument, and that is evhttp's: this finds ours again. The one place that needs to
 * know all listeners of the process.
 */
static struct list open_listeners = { &open_listeners, &open_listeners };

static void on_accept_error(struct evconnlistener *failed, void *context)
{
	(void)context;
	int number = errno;
	LIST_EACH(link, &open_listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, open_link);
		if (evhttp_bound_socket_get_listener(listener->bound) != failed)
			continue;
		pause_accepting(listener->front, number);
		return;
	}
}

static void free_listener(struct listener *listener)
{
	list_remove(&listener->link);
	if (listener->http)
		evhttp_free(listener->http);
	free(listener->address);
	free(listener->upstream);
	free(listener->unix_path);
	free(listener->bindings);
	free(listener);
}

static bool start_accepting(struct listener *listener, int fd)
{
	listener->http = make_evhttp(listener);
	listener->bound = evhttp_accept_socket_with_handle(listener->http, fd);
	if (listener->bound == NULL)
		return false;
	evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(listener->bound), on_accept_error);
	list_append(&open_listeners, &listener->open_link);
	return true;
}

/* The socket of a listener that served the same address in another role and is to be closed; -1: none. */
static int inherited_socket(struct front *front, const char *address)
{
	LIST_EACH(link, &front->listeners) {
		struct listener *old = LIST_ENTRY_OF(link, struct listener, link);
		if (old->bound == NULL || old->is_wanted || strcmp(old->address, address) != 0)
			continue;
		return fcntl(evhttp_bound_socket_get_fd(old->bound), F_DUPFD_CLOEXEC, 0);
	}
	return -1;
}

static bool share_port_of_retiring(struct front *front, uint16_t port, bool is_on)
{
	bool has_any = false;
	LIST_EACH(link, &front->listeners) {
		struct listener *old = LIST_ENTRY_OF(link, struct listener, link);
		if (old->bound == NULL || old->is_wanted || old->port != port)
			continue;
		bind_share_port(evhttp_bound_socket_get_fd(old->bound), is_on);
		has_any = true;
	}
	return has_any;
}

/* New before old, also where the two overlap (one address of a port becomes all of them, or the other way round). */
static int bind_beside_retiring(struct front *front, const struct listen_address *address, char *error, size_t error_capacity)
{
	int fd = bind_listening(address, false, error, error_capacity);
	if (fd >= 0 || errno != EADDRINUSE || address->unix_path || !share_port_of_retiring(front, address->port, true))
		return fd;
	fd = bind_listening(address, true, error, error_capacity);
	share_port_of_retiring(front, address->port, false);
	if (fd >= 0)
		bind_share_port(fd, false);
	return fd;
}

struct listener *listener_open(struct front *front, enum listener_role role, const struct listen_address *address,
			       const char *upstream, char *error, size_t error_capacity)
{
	bool is_lent = false;
	int fd = activation_find(&front->activation, address, &is_lent);
	if (fd < 0)
		fd = inherited_socket(front, address->text);
	if (fd < 0)
		fd = bind_beside_retiring(front, address, error, error_capacity);
	if (fd < 0)
		return NULL;
	struct listener *listener = xcalloc(1, sizeof(*listener));
	listener->front = front;
	listener->role = role;
	listener->address = xstrdup(address->text);
	listener->upstream = upstream ? xstrdup(upstream) : NULL;
	listener->is_lent = is_lent;
	listener->unix_path = address->unix_path && !is_lent ? xstrdup(address->unix_path) : NULL;
	listener->port = bind_real_port(fd);
	listener->is_wanted = true;
	list_init(&listener->open_link);
	list_append(&front->listeners, &listener->link);
	if (!start_accepting(listener, fd)) {
		snprintf(error, error_capacity, "listen %s: out of memory or descriptors", address->text);
		close(fd);
		free_listener(listener);
		return NULL;
	}
	return listener;
}

/* Does another one listen on the same socket (in another role, at a reload)? */
static bool has_heir(const struct listener *listener)
{
	LIST_EACH(link, &listener->front->listeners) {
		const struct listener *other = LIST_ENTRY_OF(link, struct listener, link);
		if (other != listener && other->bound && strcmp(other->address, listener->address) == 0)
			return true;
	}
	return false;
}

void listener_close(struct listener *listener)
{
	if (listener->bound == NULL)
		return;
	list_remove(&listener->open_link);
	if (listener->unix_path && !has_heir(listener) && !listener->front->keeps_socket_files)
		unlink(listener->unix_path);
	evhttp_del_accept_socket(listener->http, listener->bound);
	listener->bound = NULL;
	loop_defer(listener->front->loop, &listener->front->sweep);
}

void listener_sweep(struct front *front)
{
	LIST_EACH_SAFE(link, after, &front->listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		if (listener->bound == NULL && listener->n_wires == 0)
			free_listener(listener);
	}
}

size_t front_sockets(const struct front *front, int *fds, const char **names, size_t capacity)
{
	size_t n = 0;
	for (size_t i = 0; i < front->activation.n && n < capacity; i++) {
		const struct activated_socket *lent = &front->activation.sockets[i];
		if (lent->fd < 0)
			continue;
		fds[n] = lent->fd;
		names[n++] = lent->name;
	}
	LIST_EACH(link, &front->listeners) {
		const struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		if (listener->bound == NULL || listener->is_lent || n == capacity)
			continue;
		fds[n] = evhttp_bound_socket_get_fd(listener->bound);
		names[n++] = ACTIVATION_OWN_NAME;
	}
	return n;
}

static void format_address(const struct listener *listener, char *out, size_t capacity)
{
	const char *colon = strrchr(listener->address, ':');
	if (listener->port == 0 || colon == NULL)
		snprintf(out, capacity, "%s", listener->address);
	else
		snprintf(out, capacity, "%.*s:%u", (int)(colon - listener->address), listener->address, listener->port);
}

void listener_log(const struct listener *listener)
{
	struct log_line line;
	char address[160];
	if (!log_begin(&line, LOG_INFO, "listening"))
		return;
	format_address(listener, address, sizeof(address));
	log_string(&line, "role", role_words[listener->role]);
	log_string(&line, "address", address);
	log_string(&line, "upstream", listener->upstream);
	log_end(&line);
}
