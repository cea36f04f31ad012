#include "bind.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

union any_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un local;
};

static int fail(int fd, const struct listen_address *address, const char *mend, char *error, size_t error_capacity)
{
	int number = errno;
	snprintf(error, error_capacity, "listen %s: %s%s", address->text, strerror(number), mend);
	if (fd >= 0)
		close(fd);
	errno = number;
	return -1;
}

static const char *mend_for(int number)
{
	switch (number) {
	case EADDRINUSE:
		return " (another process listens there: stop it, or choose another address by listen or admin in the "
		       "policy file, --listen or --admin)";
	case EACCES:
		return " (ports below 1024 need CAP_NET_BIND_SERVICE; a unix socket needs a writable folder)";
	case EADDRNOTAVAIL:
		return " (no interface of this host has that address)";
	case ENOENT:
		return " (the folder of the socket does not exist)";
	default:
		return "";
	}
}

/* Returns the length of *into, or 0 when the address has no such form. */
static socklen_t to_socket_address(const struct listen_address *address, union any_address *into)
{
	memset(into, 0, sizeof(*into));
	if (address->unix_path) {
		size_t length = strlen(address->unix_path);
		if (length >= sizeof(into->local.sun_path))
			return 0;
		into->local.sun_family = AF_UNIX;
		memcpy(into->local.sun_path, address->unix_path, length + 1);
		return sizeof(into->local);
	}
	if (inet_pton(AF_INET, address->host, &into->v4.sin_addr) == 1) {
		into->v4.sin_family = AF_INET;
		into->v4.sin_port = htons(address->port);
		return sizeof(into->v4);
	}
	if (inet_pton(AF_INET6, address->host, &into->v6.sin6_addr) == 1) {
		into->v6.sin6_family = AF_INET6;
		into->v6.sin6_port = htons(address->port);
		return sizeof(into->v6);
	}
	return 0;
}

/* A socket file that is left over from a process that is gone: nobody answers there. */
static bool remove_stale(const union any_address *at, socklen_t length)
{
	struct stat status;
	if (lstat(at->local.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode))
		return false;
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (probe < 0)
		return false;
	bool is_stale = connect(probe, &at->any, length) != 0 && errno == ECONNREFUSED;
	close(probe);
	return is_stale && unlink(at->local.sun_path) == 0;
}

static bool bind_replacing_stale(int fd, const union any_address *at, socklen_t length)
{
	if (bind(fd, &at->any, length) == 0)
		return true;
	int number = errno;
	if (number == EADDRINUSE && at->any.sa_family == AF_UNIX && remove_stale(at, length))
		return bind(fd, &at->any, length) == 0;
	errno = number;
	return false;
}

static void set_options(int fd, sa_family_t family)
{
	int one = 1;
	if (family == AF_UNIX)
		return;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
}

void bind_share_port(int fd, bool is_on)
{
	int value = is_on;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &value, sizeof(value));
}

int bind_listening(const struct listen_address *address, bool shares_port, char *error, size_t error_capacity)
{
	union any_address at;
	socklen_t length = to_socket_address(address, &at);
	if (length == 0) {
		errno = address->unix_path ? ENAMETOOLONG : EINVAL;
		return fail(-1, address, "", error, error_capacity);
	}
	int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(fd, address, "", error, error_capacity);
	set_options(fd, at.any.sa_family);
	if (shares_port)
		bind_share_port(fd, true);
	if (!bind_replacing_stale(fd, &at, length) || listen(fd, SOMAXCONN) != 0)
		return fail(fd, address, mend_for(errno), error, error_capacity);
	return fd;
}

uint16_t bind_real_port(int fd)
{
	union any_address at;
	socklen_t length = sizeof(at);
	if (getsockname(fd, &at.any, &length) != 0)
		return 0;
	if (at.any.sa_family == AF_INET)
		return ntohs(at.v4.sin_port);
	return at.any.sa_family == AF_INET6 ? ntohs(at.v6.sin6_port) : 0;
}

static bool takes_both_families(int fd)
{
	int is_only = 1;
	socklen_t length = sizeof(is_only);
	return getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_only, &length) == 0 && !is_only;
}

static bool is_same_address(int fd, const union any_address *bound, const union any_address *wanted)
{
	if (bound->any.sa_family == AF_INET6 && wanted->any.sa_family == AF_INET)
		return wanted->v4.sin_addr.s_addr == htonl(INADDR_ANY) && bound->v6.sin6_port == wanted->v4.sin_port &&
		       IN6_IS_ADDR_UNSPECIFIED(&bound->v6.sin6_addr) && takes_both_families(fd);
	if (bound->any.sa_family != wanted->any.sa_family)
		return false;
	if (bound->any.sa_family == AF_INET)
		return bound->v4.sin_port == wanted->v4.sin_port && bound->v4.sin_addr.s_addr == wanted->v4.sin_addr.s_addr;
	if (bound->any.sa_family == AF_INET6)
		return bound->v6.sin6_port == wanted->v6.sin6_port &&
		       IN6_ARE_ADDR_EQUAL(&bound->v6.sin6_addr, &wanted->v6.sin6_addr);
	return bound->any.sa_family == AF_UNIX && bound->local.sun_path[0] == '/' &&
	       strcmp(bound->local.sun_path, wanted->local.sun_path) == 0;
}

bool bind_is_at(int fd, const struct listen_address *address)
{
	union any_address bound, wanted;
	socklen_t length = sizeof(bound);
	memset(&bound, 0, sizeof(bound));
	return to_socket_address(address, &wanted) != 0 && getsockname(fd, &bound.any, &length) == 0 &&
	       is_same_address(fd, &bound, &wanted);
}

void bind_format(int fd, char *out, size_t capacity)
{
	union any_address at;
	socklen_t length = sizeof(at);
	char host[INET6_ADDRSTRLEN] = "";
	memset(&at, 0, sizeof(at));
	if (getsockname(fd, &at.any, &length) != 0) {
		snprintf(out, capacity, "?");
	} else if (at.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &at.v4.sin_addr, host, sizeof(host));
		snprintf(out, capacity, "%s:%u", host, ntohs(at.v4.sin_port));
	} else if (at.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &at.v6.sin6_addr, host, sizeof(host));
		snprintf(out, capacity, "[%s]:%u", host, ntohs(at.v6.sin6_port));
	} else {
		snprintf(out, capacity, "unix:%.*s", (int)sizeof(at.local.sun_path), at.local.sun_path);
	}
}
