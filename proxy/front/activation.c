#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/check.h"
#include "../base/log.h"
#include "bind.h"

/* The value of a variable that must be a plain number of at most max; -1: it isn't there or is something else. */
static long number_in(const char *variable, long max)
{
	const char *text = getenv(variable);
	if (text == NULL || *text < '0' || *text > '9')
		return -1;
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	return *end == '\0' && errno == 0 && value <= max ? value : -1;
}

static long n_meant_for_us(void)
{
	if (getenv("LISTEN_FDS") == NULL || number_in("LISTEN_PID", INT_MAX) != (long)getpid())
		return 0;
	long n = number_in("LISTEN_FDS", ACTIVATION_MAX_SOCKETS);
	if (n < 0)
		log_message(LOG_WARN, "activation", "LISTEN_FDS is not a number of at most %d: no socket is taken over",
			    ACTIVATION_MAX_SOCKETS);
	return n;
}

static bool is_listening_stream(int fd)
{
	int type = 0, is_listening = 0;
	socklen_t length = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM)
		return false;
	length = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) == 0 && is_listening;
}

static void prepare(int fd)
{
	int one = 1, flags = fcntl(fd, F_GETFL);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* fails for unix sockets, which don't need it */
}

/* Cuts the next name off *names ("a:b:c"). */
static char *next_name(const char **names)
{
	size_t length = strcspn(*names, ":");
	char *name = length > 0 ? xstrndup(*names, length) : xstrdup("unknown");
	*names += length;
	if (**names == ':')
		++*names;
	return name;
}

static void take_one(struct activation *activation, int fd, char *name)
{
	if (!is_listening_stream(fd)) {
		log_message(LOG_WARN, "activation", "descriptor %d (%s) is no listening stream socket: not taken over", fd, name);
		/* Never a descriptor of ours: those were opened where the kernel found a free number. */
		if (fcntl(fd, F_GETFD) >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			close(fd);
		free(name);
		return;
	}
	prepare(fd);
	activation->sockets[activation->n++] = (struct activated_socket){
		.fd = fd,
		.is_lent = strcmp(name, ACTIVATION_OWN_NAME) != 0,
		.name = name,
	};
}

void activation_take(struct activation *activation)
{
	*activation = (struct activation){ NULL, 0 };
	long n = n_meant_for_us();
	if (n > 0) {
		const char *names = getenv("LISTEN_FDNAMES");
		if (names == NULL)
			names = "";
		activation->sockets = xcalloc((size_t)n, sizeof(*activation->sockets));
		for (int i = 0; i < (int)n; i++)
			take_one(activation, ACTIVATION_FIRST_FD + i, next_name(&names));
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}

int activation_find(struct activation *activation, const struct listen_address *address, bool *is_lent)
{
	for (size_t i = 0; i < activation->n; i++) {
		struct activated_socket *socket = &activation->sockets[i];
		if (socket->fd < 0 || !bind_is_at(socket->fd, address))
			continue;
		int fd = socket->is_lent ? fcntl(socket->fd, F_DUPFD_CLOEXEC, 0) : socket->fd;
		if (fd < 0)
			return -1; /* no descriptors: binding anew will say so */
		if (!socket->is_lent)
			socket->fd = -1;
		socket->is_used = true;
		*is_lent = socket->is_lent;
		return fd;
	}
	return -1;
}

void activation_settle(struct activation *activation)
{
	for (size_t i = 0; i < activation->n; i++) {
		struct activated_socket *socket = &activation->sockets[i];
		if (socket->fd < 0 || socket->is_used)
			continue;
		if (!socket->is_lent) {
			close(socket->fd);
			socket->fd = -1;
			continue;
		}
		char at[BIND_ADDRESS_BYTES];
		bind_format(socket->fd, at, sizeof(at));
		log_message(LOG_WARN, "activation",
			    "the socket %s (%s) that the service manager opened is no listen address of the policies: "
			    "clients that connect to it get no answer",
			    at, socket->name);
	}
}

void activation_clear(struct activation *activation)
{
	for (size_t i = 0; i < activation->n; i++) {
		if (activation->sockets[i].fd >= 0)
			close(activation->sockets[i].fd);
		free(activation->sockets[i].name);
	}
	free(activation->sockets);
	*activation = (struct activation){ NULL, 0 };
}
