#include "health.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../config/hosts.h"
#include "base/clock.h"

#define PATIENCE_MS 2000
#define STATUS_LINE_BYTES 12 /* "HTTP/1.1 200" */

struct question {
	int fd;
	struct mono end;
	const char *address; /* as the user wrote it */
	const char *path;
	char *error;
	size_t error_capacity;
};

static bool fail(const struct question *question, const char *what)
{
	snprintf(question->error, question->error_capacity, "%s of %s: %s", question->path, question->address, what);
	return false;
}

static bool wait_for(const struct question *question, short events)
{
	for (;;) {
		int64_t left_ms = mono_left_ms(clock_now(), question->end);
		struct pollfd ready = {question->fd, events, 0};
		int n = left_ms > 0 ? poll(&ready, 1, (int)left_ms) : 0;
		if (n > 0)
			return true;
		if (n == 0)
			return fail(question, "no answer within 2 s");
		if (errno != EINTR)
			return fail(question, strerror(errno));
	}
}

union socket_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
};

/* The length, or 0 when the address can't be connected to. */
static socklen_t make_address(const struct listen_address *from, union socket_address *to)
{
	memset(to, 0, sizeof(*to));
	if (from->unix_path) {
		to->local.sun_family = AF_UNIX;
		snprintf(to->local.sun_path, sizeof(to->local.sun_path), "%s", from->unix_path);
		return strlen(from->unix_path) < sizeof(to->local.sun_path) ? sizeof(to->local) : 0;
	}
	if (inet_pton(AF_INET, from->host, &to->v4.sin_addr) == 1) {
		to->v4.sin_family = AF_INET;
		to->v4.sin_port = htons(from->port);
		if (to->v4.sin_addr.s_addr == htonl(INADDR_ANY))
			to->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(to->v4);
	}
	if (inet_pton(AF_INET6, from->host, &to->v6.sin6_addr) != 1)
		return 0;
	to->v6.sin6_family = AF_INET6;
	to->v6.sin6_port = htons(from->port);
	if (IN6_IS_ADDR_UNSPECIFIED(&to->v6.sin6_addr))
		to->v6.sin6_addr = in6addr_loopback;
	return sizeof(to->v6);
}

static bool open_connection(struct question *question, const struct listen_address *admin)
{
	union socket_address address;
	socklen_t length = make_address(admin, &address);
	int fault = 0;
	socklen_t fault_length = sizeof(fault);

	if (length == 0)
		return fail(question, "no address to connect to");
	question->fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (question->fd < 0)
		return fail(question, strerror(errno));
	if (connect(question->fd, &address.any, length) == 0)
		return true;
	if (errno != EINPROGRESS)
		return fail(question, strerror(errno));
	if (!wait_for(question, POLLOUT))
		return false;
	if (getsockopt(question->fd, SOL_SOCKET, SO_ERROR, &fault, &fault_length) != 0)
		fault = errno;
	return fault == 0 || fail(question, strerror(fault));
}

/* A fresh connection's send buffer takes these few bytes at once. */
static bool send_request(const struct question *question)
{
	char request[256];
	int length = snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", question->path);
	ssize_t sent = send(question->fd, request, (size_t)length, MSG_NOSIGNAL);

	return sent == length || fail(question, sent < 0 ? strerror(errno) : "can't send");
}

/* Nothing behind the status matters. */
static bool read_status(const struct question *question)
{
	char line[STATUS_LINE_BYTES + 1];
	size_t n = 0;

	while (n < STATUS_LINE_BYTES) {
		if (!wait_for(question, POLLIN))
			return false;
		ssize_t got = recv(question->fd, line + n, STATUS_LINE_BYTES - n, 0);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return fail(question, strerror(errno));
		if (got == 0)
			return fail(question, "the connection was closed without an answer");
		n += (size_t)got;
	}
	line[n] = '\0';
	if (strncmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || strspn(line + 9, "0123456789") != 3)
		return fail(question, "the answer is not HTTP");
	return strcmp(line + 9, "200") == 0 ||
	       fail(question, strcmp(line + 9, "503") == 0 ? "not ready, status 503" : line);
}

static bool ask(struct question *question, const struct listen_address *admin)
{
	question->fd = -1;
	bool is_healthy = open_connection(question, admin) && send_request(question) && read_status(question);
	if (question->fd >= 0)
		close(question->fd);
	return is_healthy;
}

bool health_ask(
	const struct global_rule *global, const char *admin, bool asks_ready, char *error, size_t error_capacity)
{
	struct arena arena = {NULL};
	struct listen_address address = global->admin;
	const char *why = NULL;
	bool is_on = admin ? strcmp(admin, "off") != 0 : global->admin_is_on, is_healthy = false;

	if (!is_on) {
		snprintf(error, error_capacity, "the admin port is off, so there is nobody to ask");
	} else if (admin && !listen_parse(&arena, admin, &address, &why)) {
		snprintf(error, error_capacity, "--admin %s: %s", admin, why);
	} else if (!address.unix_path && address.port == 0) {
		snprintf(error, error_capacity, "the admin port is 0, any free one: say with --admin which it is");
	} else {
		struct question question = {
			.end = mono_add_ms(clock_now(), PATIENCE_MS),
			.address = address.text,
			.path = asks_ready ? "/readyz" : "/livez",
			.error = error,
			.error_capacity = error_capacity,
		};
		is_healthy = ask(&question, &address);
	}
	arena_clear(&arena);
	return is_healthy;
}
