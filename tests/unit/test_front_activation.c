/* Listening sockets that were there before the process: which are taken, and for which address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/front/activation.h"
#include "proxy/front/bind.h"

static char error[256];

static struct listen_address v4_at(const char *host, uint16_t port)
{
	return (struct listen_address){ .text = host, .host = host, .port = port };
}

/* Listens on any port of the loopback, blocking and inheritable as a service manager's are. */
static uint16_t listen_at_fd(int fd)
{
	struct listen_address any = v4_at("127.0.0.1", 0);
	int made = bind_listening(&any, false, error, sizeof(error));
	assert_true(made >= 0);
	assert_int_equal(dup2(made, fd), fd);
	if (made != fd)
		close(made);
	fcntl(fd, F_SETFD, 0);
	fcntl(fd, F_SETFL, 0);
	return bind_real_port(fd);
}

static void set_environment(const char *n, const char *names, long pid)
{
	char text[24];
	snprintf(text, sizeof(text), "%ld", pid);
	setenv("LISTEN_PID", text, 1);
	setenv("LISTEN_FDS", n, 1);
	if (names)
		setenv("LISTEN_FDNAMES", names, 1);
}

static void assert_environment_is_clean(void)
{
	assert_null(getenv("LISTEN_PID"));
	assert_null(getenv("LISTEN_FDS"));
	assert_null(getenv("LISTEN_FDNAMES"));
}

static void test_lent_and_own(void **state)
{
	(void)state;
	struct activation activation;
	uint16_t first = listen_at_fd(3), second = listen_at_fd(4);
	set_environment("2", "web:" ACTIVATION_OWN_NAME, getpid());
	activation_take(&activation);
	assert_environment_is_clean();
	assert_int_equal(activation.n, 2);
	assert_string_equal(activation.sockets[0].name, "web");
	assert_true(fcntl(3, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(3, F_GETFL) & O_NONBLOCK);

	bool is_lent = false;
	struct listen_address address = v4_at("127.0.0.1", first);
	int one = activation_find(&activation, &address, &is_lent), two = activation_find(&activation, &address, &is_lent);
	assert_true(is_lent && one > 4 && two > 4 && one != two); /* duplicates: it may be asked for again */
	close(one);
	close(two);
	address = v4_at("127.0.0.1", second);
	assert_int_equal(activation_find(&activation, &address, &is_lent), 4); /* for good */
	assert_false(is_lent);
	assert_int_equal(activation_find(&activation, &address, &is_lent), -1);
	activation_clear(&activation);
	assert_int_equal(fcntl(3, F_GETFD), -1);
	assert_int_not_equal(fcntl(4, F_GETFD), -1); /* the finder's */
	close(4);
}

static void test_settle_closes_own_and_keeps_lent(void **state)
{
	(void)state;
	struct activation activation;
	listen_at_fd(3);
	listen_at_fd(4);
	set_environment("2", ACTIVATION_OWN_NAME ":x", getpid());
	activation_take(&activation);
	activation_settle(&activation);
	assert_int_equal(fcntl(3, F_GETFD), -1);
	assert_int_not_equal(fcntl(4, F_GETFD), -1);
	activation_clear(&activation);
	assert_int_equal(fcntl(4, F_GETFD), -1);
}

static void test_fewer_names_than_sockets(void **state)
{
	(void)state;
	struct activation activation;
	listen_at_fd(3);
	listen_at_fd(4);
	listen_at_fd(5);
	set_environment("3", ":b", getpid());
	activation_take(&activation);
	assert_int_equal(activation.n, 3);
	assert_string_equal(activation.sockets[0].name, "unknown");
	assert_string_equal(activation.sockets[1].name, "b");
	assert_string_equal(activation.sockets[2].name, "unknown");
	activation_clear(&activation);
}

static void test_what_is_not_for_us(void **state)
{
	(void)state;
	static const char *const wrong[] = { "", "0", "-1", " 1", "1 ", "1x", "1025", "99999999999999999999" };
	struct activation activation;
	listen_at_fd(3);
	set_environment("1", "a", getpid() + 1);
	activation_take(&activation);
	assert_int_equal(activation.n, 0);
	assert_environment_is_clean();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		set_environment(wrong[i], "a", getpid());
		activation_take(&activation);
		assert_int_equal(activation.n, 0);
		assert_environment_is_clean();
	}
	assert_int_not_equal(fcntl(3, F_GETFD), -1);
	close(3);
}

static void test_what_does_not_listen_is_closed(void **state)
{
	(void)state;
	struct activation activation;
	int datagram = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(dup2(stream, 13), 13);
	assert_int_equal(dup2(datagram, 14), 14);
	close(stream);
	close(datagram);
	dup2(13, 3);
	dup2(14, 4);
	close(13);
	close(14);
	set_environment("3", NULL, getpid()); /* and 5 isn't even open */
	activation_take(&activation);
	assert_int_equal(activation.n, 0);
	assert_int_equal(fcntl(3, F_GETFD), -1);
	assert_int_equal(fcntl(4, F_GETFD), -1);
	activation_clear(&activation);
}

static void test_is_at(void **state)
{
	(void)state;
	uint16_t port = listen_at_fd(3);
	struct listen_address same = v4_at("127.0.0.1", port), other_port = v4_at("127.0.0.1", (uint16_t)(port + 1)),
			      other_host = v4_at("127.0.0.2", port), any = v4_at("0.0.0.0", port), none = v4_at("127.0.0.1", 0),
			      v6 = v4_at("::1", port), local = { .text = "unix:/x", .unix_path = "/x" };
	assert_true(bind_is_at(3, &same));
	assert_false(bind_is_at(3, &other_port));
	assert_false(bind_is_at(3, &other_host));
	assert_false(bind_is_at(3, &any));
	assert_false(bind_is_at(3, &none));
	assert_false(bind_is_at(3, &v6));
	assert_false(bind_is_at(3, &local));
	assert_false(bind_is_at(-1, &same));
	close(3);
}

static void test_is_at_both_families(void **state)
{
	(void)state;
	for (int is_only = 0; is_only < 2; is_only++) {
		int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
		if (fd < 0)
			skip(); /* a host without IPv6 */
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &is_only, sizeof(is_only)), 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
		assert_int_equal(listen(fd, 1), 0);
		uint16_t port = bind_real_port(fd);
		struct listen_address v4 = v4_at("0.0.0.0", port), v6 = v4_at("::", port), loopback = v4_at("127.0.0.1", port);
		assert_true(bind_is_at(fd, &v6));
		assert_int_equal(bind_is_at(fd, &v4), !is_only);
		assert_false(bind_is_at(fd, &loopback));
		char text[BIND_ADDRESS_BYTES], wanted[BIND_ADDRESS_BYTES];
		bind_format(fd, text, sizeof(text));
		snprintf(wanted, sizeof(wanted), "[::]:%u", port);
		assert_string_equal(text, wanted);
		close(fd);
	}
}

static void test_is_at_a_file(void **state)
{
	(void)state;
	char path[64], text[BIND_ADDRESS_BYTES], wanted[BIND_ADDRESS_BYTES];
	snprintf(path, sizeof(path), "/tmp/evenkeel-activation-%d.sock", getpid());
	struct listen_address here = { .text = path, .unix_path = path }, there = { .text = "unix:/x", .unix_path = "/x" };
	int fd = bind_listening(&here, false, error, sizeof(error));
	assert_true(fd >= 0);
	assert_true(bind_is_at(fd, &here));
	assert_false(bind_is_at(fd, &there));
	bind_format(fd, text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "unix:%s", path);
	assert_string_equal(text, wanted);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lent_and_own),
		cmocka_unit_test(test_settle_closes_own_and_keeps_lent),
		cmocka_unit_test(test_fewer_names_than_sockets),
		cmocka_unit_test(test_what_is_not_for_us),
		cmocka_unit_test(test_what_does_not_listen_is_closed),
		cmocka_unit_test(test_is_at),
		cmocka_unit_test(test_is_at_both_families),
		cmocka_unit_test(test_is_at_a_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
