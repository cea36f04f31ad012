#include "upstream_room.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../proxy/base/clock.h"

static int n_turns;

/* --- the loop ------------------------------------------------------------------------------------------------ */

static void stop_due(void *owner)
{
	struct room *room = owner;
	loop_stop(room->loop);
}

void room_open(struct room *room, const char *dns_server)
{
	const struct dns_rule rule = {
		.timeout_ms = 1000, .max_ttl_ms = 60000, .negative_ttl_ms = 1000,
		.servers = { .items = &dns_server, .n = dns_server ? 1 : 0 },
	};
	n_turns = 0;
	room->loop = loop_new();
	room->resolver = resolver_new(room->loop, &rule);
	room->registry = registry_new(room->loop, room->resolver);
	timer_init(&room->stop_timer, room->loop, stop_due, room);
}

void room_close(struct room *room)
{
	registry_free(&room->registry);
	assert_null(room->registry);
	resolver_free(&room->resolver);
	timer_clear(&room->stop_timer);
	loop_free(&room->loop);
}

void room_run(struct room *room, int64_t run_ms)
{
	timer_set(&room->stop_timer, mono_add_ms(clock_now(), run_ms));
	loop_run(room->loop);
}

bool room_run_until(struct room *room, const int *value, int goal)
{
	for (int i = 0; i < 1500 && *value != goal; i++)
		room_run(room, 2);
	return *value == goal;
}

bool room_run_until_n(struct room *room, const size_t *value, size_t goal)
{
	for (int i = 0; i < 1500 && *value != goal; i++)
		room_run(room, 2);
	return *value == goal;
}

/* --- servers ------------------------------------------------------------------------------------------------- */

static void server_connection_close(struct server_connection *connection)
{
	event_del(&connection->read_event);
	close(connection->fd);
	connection->fd = -1;
	connection->server->n_open--;
}

static void server_on_readable(evutil_socket_t fd, short what, void *context)
{
	char bytes[4096];
	(void)what;
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	server_connection_close(context);
}

static void server_on_accept(evutil_socket_t fd, short what, void *context)
{
	struct server *server = context;
	(void)what;
	int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (accepted < 0)
		return;
	assert_true(server->n_accepted < SERVER_MAX_CONNECTIONS);
	struct server_connection *connection = &server->connections[server->n_accepted++];
	connection->server = server;
	connection->fd = accepted;
	server->n_open++;
	event_assign(&connection->read_event, event_get_base(&server->accept_event), accepted, EV_READ | EV_PERSIST,
		     server_on_readable, connection);
	event_add(&connection->read_event, NULL);
}

static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

void server_open(struct server *server, struct room *room)
{
	memset(server, 0, sizeof(*server));
	server->fd = listen_somewhere(&server->port);
	event_assign(&server->accept_event, room->loop->base, server->fd, EV_READ | EV_PERSIST, server_on_accept, server);
	event_add(&server->accept_event, NULL);
}

void server_close(struct server *server)
{
	event_del(&server->accept_event);
	close(server->fd);
	for (size_t i = 0; i < server->n_accepted; i++)
		if (server->connections[i].fd >= 0)
			server_connection_close(&server->connections[i]);
}

uint16_t refused_port(void)
{
	uint16_t port;
	close(listen_somewhere(&port));
	return port;
}

/* --- origins ------------------------------------------------------------------------------------------------- */

struct upstream_def upstream_named(const char *name, const char *const *hosts, size_t n_hosts)
{
	return (struct upstream_def){
		.name = name,
		.hosts = { hosts, n_hosts },
		.policy = {
			.timeouts = { .connect_ms = 1000, .tls_handshake_ms = 2000 },
			.pool = { .max_connections = 64, .max_in_flight = 64, .max_pending = 256, .idle_timeout_ms = 30000,
				  .max_idle = 16, .max_lifetime_ms = 600000, .max_requests = LIMIT_OFF },
		},
	};
}

struct origin *origin_at(struct room *room, const struct upstream_def *upstream, const char *host, uint16_t port)
{
	char error[256] = "";
	enum outcome refused;
	struct origin *origin = registry_get(room->registry, upstream, false, host, port, &refused, error, sizeof(error));
	assert_string_equal(error, "");
	assert_non_null(origin);
	return origin;
}

/* --- wishes -------------------------------------------------------------------------------------------------- */

static void wish_on_progress(void *owner)
{
	struct wish *wish = owner;
	wish->n_progress++;
	if (wish->cancels_on_progress)
		pool_cancel(&wish->lease);
}

static void wish_on_ready(void *owner)
{
	struct wish *wish = owner;
	wish->n_ready++;
	wish->turn = ++n_turns;
	assert_int_equal(wish->lease.state, LEASE_HELD);
	if (wish->cancels_on_ready)
		pool_cancel(&wish->lease);
}

static void wish_on_failed(void *owner, enum outcome outcome, const char *detail)
{
	struct wish *wish = owner;
	assert_int_equal(wish->lease.state, LEASE_NONE);
	wish->n_failed++;
	wish->outcome = outcome;
	snprintf(wish->detail, sizeof(wish->detail), "%s", detail);
}

static void wish_on_readable(void *owner)
{
	struct wish *wish = owner;
	wish->n_readable++;
	stream_pause_reading(lease_stream(&wish->lease));
}

static void wish_on_writable(void *owner)
{
	(void)owner;
}

const struct lease_ops wish_ops = {
	wish_on_progress, wish_on_ready, wish_on_failed, wish_on_readable, wish_on_writable,
};

static const struct timeouts timeouts = { .connect_ms = 1000, .tls_handshake_ms = 2000 };

void wish_init(struct wish *wish, struct origin *origin)
{
	static const struct egress_rule egress = { .n_deny = 0 };
	memset(wish, 0, sizeof(*wish));
	lease_init(&wish->lease);
	wish->order = (struct lease_order){
		.origin = origin, .timeouts = &timeouts, .egress = &egress, .is_repeatable = true,
	};
}

enum lease_state wish_acquire(struct wish *wish)
{
	return pool_acquire(&wish->lease, &wish->order, &wish_ops, wish);
}

void wish_hold(struct wish *wish, struct room *room)
{
	int n = wish->n_ready;
	if (wish_acquire(wish) != LEASE_HELD)
		assert_true(room_run_until(room, &wish->n_ready, n + 1));
	assert_int_equal(wish->lease.state, LEASE_HELD);
}

void assert_all_given_back(const struct room *room, const struct origin *origin)
{
	assert_int_equal(origin->n_idle, 0);
	assert_int_equal(origin->n_leased, 0);
	assert_int_equal(origin->n_connecting, 0);
	assert_int_equal(origin->n_waiting, 0);
	assert_int_equal(origin->n_seats, 0);
	assert_int_equal(origin->metrics->connections_active, 0);
	assert_int_equal(origin->metrics->connections_idle, 0);
	assert_int_equal(origin->metrics->connections_connecting, 0);
	assert_int_equal(origin->metrics->pending, 0);
	assert_int_equal(origin->metrics->in_flight, 0);
	assert_int_equal(registry_n_connections(room->registry), 0);
	assert_int_equal(process_metrics.upstream_connections, 0);
	assert_true(list_is_empty(&origin->idle) && list_is_empty(&origin->leased));
	assert_true(list_is_empty(&origin->connecting) && list_is_empty(&origin->waiters));
	assert_false(list_is_linked(&origin->starved_link));
}
