#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../proxy/base/clock.h"
#include "net_room.h"

static void on_limit(void *owner)
{
	struct net_room *room = owner;
	room->is_over_limit = true;
	loop_stop(room->loop);
}

void net_room_open(struct net_room *room)
{
	room->loop = loop_new();
	room->is_over_limit = false;
	timer_init(&room->limit, room->loop, on_limit, room);
}

void net_room_close(struct net_room *room)
{
	timer_clear(&room->limit);
	loop_free(&room->loop);
}

void net_room_turn(struct net_room *room, int64_t for_ms)
{
	room->is_over_limit = false;
	timer_set(&room->limit, mono_add_ms(clock_now(), for_ms));
	loop_run(room->loop);
	timer_set(&room->limit, MONO_NEVER);
}

void net_room_run(struct net_room *room, int64_t max_ms)
{
	net_room_turn(room, max_ms);
	assert_false(room->is_over_limit);
}

static socklen_t loopback_of(struct address *address, int family, uint16_t port)
{
	assert_true(address_parse(family == AF_INET ? "127.0.0.1" : "::1", address));
	if (family == AF_INET)
		address->socket.v4.sin_port = htons(port);
	else
		address->socket.v6.sin6_port = htons(port);
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static int bound_socket(int family, int type, uint16_t *port)
{
	struct address address;
	socklen_t length = loopback_of(&address, family, *port);
	int one = 1;
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, &address.socket.any, length), 0);
	assert_int_equal(getsockname(fd, &address.socket.any, &length), 0);
	*port = ntohs(family == AF_INET ? address.socket.v4.sin_port : address.socket.v6.sin6_port);
	return fd;
}

int net_listen(int family, uint16_t *port)
{
	int fd = bound_socket(family, SOCK_STREAM, port);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

int net_closed_port(int family, uint16_t *port)
{
	return bound_socket(family, SOCK_STREAM, port);
}

void net_pair(int fds[2])
{
	uint16_t port = 0;
	struct address address;
	int listener = net_listen(AF_INET, &port);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t length = loopback_of(&address, AF_INET, port);
	assert_int_equal(connect(fds[0], &address.socket.any, length), 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	close(listener);
}

/* --- DNS ------------------------------------------------------------------------------------------------------- */

struct message {
	unsigned char bytes[512];
	size_t n;
};

struct delayed {
	struct list link;
	struct dns_stub *stub;
	struct timer timer;
	struct message message;
	struct sockaddr_in to;
};

static void put16(struct message *message, unsigned value)
{
	message->bytes[message->n++] = (unsigned char)(value >> 8);
	message->bytes[message->n++] = (unsigned char)value;
}

static void put_head(struct message *message, unsigned name_at, unsigned type, uint32_t ttl_s)
{
	put16(message, 0xc000 | name_at);
	put16(message, type);
	put16(message, 1);
	put16(message, ttl_s >> 16);
	put16(message, ttl_s & 0xffff);
}

static size_t put_name(struct message *message, const char *name)
{
	size_t start = message->n;
	while (*name != '\0') {
		size_t length = strcspn(name, ".");
		message->bytes[message->n++] = (unsigned char)length;
		memcpy(message->bytes + message->n, name, length);
		message->n += length;
		name += length + (name[length] == '.');
	}
	message->bytes[message->n++] = 0;
	return message->n - start;
}

/* The question's name as text; returns where the question ends. */
static size_t get_question(const struct message *query, char *name, size_t capacity, unsigned *type)
{
	size_t at = 12, n = 0;
	while (query->bytes[at] != 0) {
		size_t length = query->bytes[at++];
		assert_true(n + length + 2 < capacity && at + length < query->n);
		memcpy(name + n, query->bytes + at, length);
		n += length;
		name[n++] = '.';
		at += length;
	}
	name[n > 0 ? n - 1 : 0] = '\0';
	*type = (unsigned)query->bytes[at + 1] << 8 | query->bytes[at + 2];
	return at + 5;
}

static void put_answers(struct message *message, const struct dns_record *record)
{
	unsigned name_at = 12, n = 0;
	if (record->alias != NULL) {
		put_head(message, name_at, 5, record->alias_ttl_s);
		size_t length_at = message->n;
		message->n += 2;
		name_at = (unsigned)message->n;
		size_t length = put_name(message, record->alias);
		message->bytes[length_at] = 0;
		message->bytes[length_at + 1] = (unsigned char)length;
		n++;
	}
	for (size_t i = 0; i < 4 && record->addresses[i] != NULL; i++, n++) {
		put_head(message, name_at, record->type, record->ttl_s);
		size_t length = record->type == 1 ? 4 : 16;
		put16(message, (unsigned)length);
		assert_int_equal(inet_pton(record->type == 1 ? AF_INET : AF_INET6, record->addresses[i],
					   message->bytes + message->n), 1);
		message->n += length;
	}
	message->bytes[7] = (unsigned char)n;
}

static void on_delay_over(void *owner)
{
	struct delayed *delayed = owner;
	sendto(delayed->stub->fd, delayed->message.bytes, delayed->message.n, 0, (struct sockaddr *)&delayed->to,
	       sizeof(delayed->to));
	list_remove(&delayed->link);
	free(delayed);
}

static void send_later(struct dns_stub *stub, const struct message *message, const struct sockaddr_in *to, int64_t ms)
{
	struct delayed *delayed = calloc(1, sizeof(*delayed));
	assert_non_null(delayed);
	delayed->stub = stub;
	delayed->message = *message;
	delayed->to = *to;
	list_init(&delayed->link);
	list_append(&stub->delayed, &delayed->link);
	timer_init(&delayed->timer, stub->room->loop, on_delay_over, delayed);
	timer_set(&delayed->timer, mono_add_ms(clock_now(), ms));
}

static struct dns_record *record_of(struct dns_stub *stub, const char *name, unsigned type)
{
	for (size_t i = 0; i < stub->n_records; i++) {
		if (stub->records[i].type == type && strcasecmp(stub->records[i].name, name) == 0)
			return &stub->records[i];
	}
	return NULL;
}

static void on_query(evutil_socket_t fd, short what, void *context)
{
	(void)what;
	struct dns_stub *stub = context;
	struct message message;
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	ssize_t n = recvfrom(fd, message.bytes, sizeof(message.bytes), MSG_DONTWAIT, (struct sockaddr *)&from, &length);
	if (n < 12)
		return;
	char name[256];
	unsigned type;
	message.n = (size_t)n;
	message.n = get_question(&message, name, sizeof(name), &type);
	stub->n_queries++;
	struct dns_record *record = record_of(stub, name, type);
	int rcode = record != NULL ? record->rcode : 3;
	if (record != NULL && (++record->n_asked, rcode == -1 || (rcode == -2 && record->n_asked == 1)))
		return;
	message.bytes[2] |= 0x80;
	message.bytes[3] = (unsigned char)(0x80 | (rcode > 0 ? rcode : 0));
	memset(message.bytes + 6, 0, 6);
	if (record != NULL && rcode <= 0)
		put_answers(&message, record);
	send_later(stub, &message, &from, record != NULL ? record->delay_ms : 0);
}

void dns_stub_open(struct dns_stub *stub, struct net_room *room, struct dns_record *records, size_t n_records)
{
	memset(stub, 0, sizeof(*stub));
	stub->room = room;
	stub->records = records;
	stub->n_records = n_records;
	list_init(&stub->delayed);
	stub->fd = bound_socket(AF_INET, SOCK_DGRAM, &stub->port);
	snprintf(stub->server, sizeof(stub->server), "127.0.0.1:%u", stub->port);
	stub->servers[0] = stub->server;
	event_assign(&stub->event, room->loop->base, stub->fd, EV_READ | EV_PERSIST, on_query, stub);
	event_add(&stub->event, NULL);
}

void dns_stub_close(struct dns_stub *stub)
{
	event_del(&stub->event);
	close(stub->fd);
	while (!list_is_empty(&stub->delayed)) {
		struct delayed *delayed = LIST_ENTRY_OF(stub->delayed.next, struct delayed, link);
		timer_clear(&delayed->timer);
		list_remove(&delayed->link);
		free(delayed);
	}
}

struct dns_rule dns_stub_rule(const struct dns_stub *stub)
{
	return (struct dns_rule){ .timeout_ms = 2000, .max_ttl_ms = 60000, .negative_ttl_ms = 2000,
				  .servers = { .items = stub->servers, .n = 1 } };
}
