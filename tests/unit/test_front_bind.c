/* Listening sockets: their options, whose fault it is when they can't be had, and socket files that are left over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/front/bind.h"

static char error[256];

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);
	assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
	return value;
}

static void test_options(void **state)
{
	(void)state;
	struct listen_address v4 = { .text = "127.0.0.1:0", .host = "127.0.0.1" };
	int fd = bind_listening(&v4, false, error, sizeof(error));
	assert_true(fd >= 0);
	assert_int_equal(option(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option(fd, SOL_SOCKET, SO_REUSEPORT), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_not_equal(bind_real_port(fd), 0);
	close(fd);
}

static void test_both_families_on_one_port(void **state)
{
	(void)state;
	struct listen_address v6 = { .text = "[::]:0", .host = "::" };
	int first = bind_listening(&v6, false, error, sizeof(error));
	if (first < 0)
		skip(); /* a host without IPv6 */
	assert_int_equal(option(first, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	struct listen_address v4 = { .text = "0.0.0.0", .host = "0.0.0.0", .port = bind_real_port(first) };
	int second = bind_listening(&v4, false, error, sizeof(error));
	assert_true(second >= 0);
	close(first);
	close(second);
}

static void test_in_use(void **state)
{
	(void)state;
	struct listen_address at = { .text = "127.0.0.1:0", .host = "127.0.0.1" };
	int first = bind_listening(&at, false, error, sizeof(error));
	assert_true(first >= 0);
	struct listen_address all = { .text = "0.0.0.0:N", .host = "0.0.0.0", .port = bind_real_port(first) };
	assert_int_equal(bind_listening(&all, false, error, sizeof(error)), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_non_null(strstr(error, "listen 0.0.0.0:N: Address already in use"));
	/* For the moment of a change of address both may be there; before and after it not. */
	bind_share_port(first, true);
	int second = bind_listening(&all, true, error, sizeof(error));
	assert_true(second >= 0);
	bind_share_port(first, false);
	bind_share_port(second, false);
	assert_int_equal(bind_listening(&all, false, error, sizeof(error)), -1);
	close(first);
	close(second);
}

static void test_no_such_address(void **state)
{
	(void)state;
	struct listen_address at = { .text = "192.0.2.1:0", .host = "192.0.2.1" };
	assert_int_equal(bind_listening(&at, false, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "no interface of this host has that address"));
}

static void test_socket_files(void **state)
{
	(void)state;
	char folder[] = "/tmp/evenkeel-bind-XXXXXX", path[64];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	struct listen_address at = { .text = "unix:s", .unix_path = path };
	int first = bind_listening(&at, false, error, sizeof(error));
	assert_true(first >= 0);
	assert_int_equal(bind_real_port(first), 0);
	/* Somebody listens there. */
	assert_int_equal(bind_listening(&at, false, error, sizeof(error)), -1);
	assert_int_equal(errno, EADDRINUSE);
	/* Nobody does any more. */
	close(first);
	int second = bind_listening(&at, false, error, sizeof(error));
	assert_true(second >= 0);
	close(second);
	/* What isn't a socket is never removed. */
	unlink(path);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(bind_listening(&at, false, error, sizeof(error)), -1);
	struct stat status;
	assert_int_equal(lstat(path, &status), 0);
	assert_true(S_ISREG(status.st_mode));
	unlink(path);
	rmdir(folder);
}

static void test_too_long_a_path(void **state)
{
	(void)state;
	char path[200];
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	struct listen_address at = { .text = "unix:long", .unix_path = path };
	assert_int_equal(bind_listening(&at, false, error, sizeof(error)), -1);
	assert_string_equal(error, "listen unix:long: File name too long");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_both_families_on_one_port),
		cmocka_unit_test(test_in_use),
		cmocka_unit_test(test_no_such_address),
		cmocka_unit_test(test_socket_files),
		cmocka_unit_test(test_too_long_a_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
