#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/check.h"
#include "tls.h"

/* One TLS record; pieces of a writev are joined up to this, so that a head and its body don't cost two records. */
#define MAX_RECORD_BYTES 16384
#define MAX_PIECES 1024 /* IOV_MAX: sendmsg refuses more; the rest is the next write's */

static void arm_read(struct stream *stream)
{
	event_add(&stream->read_event, NULL);
}

static void arm_write(struct stream *stream)
{
	if (stream->is_writing)
		return;
	stream->is_writing = true;
	event_add(&stream->write_event, NULL);
}

/* Bytes that are already inside the TLS layer make no descriptor readable. EV_TIMEOUT marks such a call from within. */
static void read_again_soon(struct stream *stream)
{
	event_active(&stream->read_event, EV_TIMEOUT, 0);
}

static void on_readable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	struct stream *stream = context;
	if (stream->is_write_blocked) {
		/* A write waited for this; it goes first, and reading gets its turn by level-triggering. */
		stream->is_write_blocked = false;
		if (!stream->is_reading)
			event_del(&stream->read_event);
		if (stream->is_write_wanted) {
			stream->is_write_wanted = false;
			stream->ops->on_writable(stream->owner);
			return;
		}
	}
	if (!stream->is_reading)
		return;
	if (!(what & EV_READ) && !(stream->tls != NULL && tls_has_pending(stream->tls)))
		return;
	stream->ops->on_readable(stream->owner); /* the stream may be closed and gone after this */
}

static void finish_shutdown(struct stream *stream)
{
	if (stream->tls != NULL && !tls_shutdown(stream->tls)) {
		stream->is_notify_pending = true;
		arm_write(stream);
		return;
	}
	stream->is_notify_pending = false;
	shutdown(stream->fd, SHUT_WR);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	struct stream *stream = context;
	stream->is_writing = false;
	if (stream->is_notify_pending)
		finish_shutdown(stream);
	if (stream->is_read_blocked) {
		stream->is_read_blocked = false;
		if (stream->is_reading)
			event_active(&stream->read_event, EV_READ, 0);
	}
	if (!stream->is_write_wanted)
		return;
	stream->is_write_wanted = false;
	stream->ops->on_writable(stream->owner); /* the stream may be closed and gone after this */
}

static void set_no_delay(int fd)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int one = 1;
	if (getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void stream_open(struct stream *stream, struct loop *loop, int fd, struct tls_connection *tls,
		 const struct stream_ops *ops, void *owner)
{
	memset(stream, 0, sizeof(*stream));
	stream->fd = fd;
	stream->loop = loop;
	stream->tls = tls;
	stream->ops = ops;
	stream->owner = owner;
	set_no_delay(fd);
	event_assign(&stream->read_event, loop->base, fd, EV_READ | EV_PERSIST, on_readable, stream);
	event_assign(&stream->write_event, loop->base, fd, EV_WRITE, on_writable, stream);
	stream_resume_reading(stream);
}

void stream_set_owner(struct stream *stream, const struct stream_ops *ops, void *owner)
{
	stream->ops = ops;
	stream->owner = owner;
}

static ssize_t read_tls(struct stream *stream, void *bytes, size_t capacity)
{
	ssize_t n = tls_read(stream->tls, bytes, capacity, &stream->last_errno);
	if (n > 0 && stream->is_reading && tls_has_pending(stream->tls))
		read_again_soon(stream);
	if (n == STREAM_AGAIN && tls_read_wants_write(stream->tls)) {
		stream->is_read_blocked = true;
		arm_write(stream);
	}
	return n;
}

ssize_t stream_read(struct stream *stream, void *bytes, size_t capacity)
{
	CHECK(stream->fd >= 0 && capacity > 0);
	if (stream->tls != NULL)
		return read_tls(stream, bytes, capacity);
	ssize_t n;
	do {
		n = recv(stream->fd, bytes, capacity, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n; /* 0: FIN, STREAM_EOF */
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return STREAM_AGAIN;
	stream->last_errno = errno;
	return STREAM_ERROR;
}

static ssize_t write_tls(struct stream *stream, const void *bytes, size_t length)
{
	ssize_t n = tls_write(stream->tls, bytes, length, &stream->last_errno);
	if (n == STREAM_AGAIN && tls_write_wants_read(stream->tls)) {
		stream->is_write_blocked = true;
		if (!stream->is_reading)
			arm_read(stream);
	}
	return n;
}

static ssize_t write_plain(struct stream *stream, const struct iovec *pieces, int n_pieces)
{
	struct msghdr message = { .msg_iov = (struct iovec *)pieces };
	message.msg_iovlen = (size_t)(n_pieces < MAX_PIECES ? n_pieces : MAX_PIECES);
	ssize_t n;
	do {
		n = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return STREAM_AGAIN;
	stream->last_errno = errno;
	return STREAM_ERROR;
}

ssize_t stream_write(struct stream *stream, const void *bytes, size_t length)
{
	struct iovec piece = { .iov_base = (void *)bytes, .iov_len = length };
	return stream_writev(stream, &piece, 1);
}

static ssize_t writev_tls(struct stream *stream, const struct iovec *pieces, int n_pieces)
{
	int first = 0;
	while (first < n_pieces && pieces[first].iov_len == 0)
		first++;
	if (first == n_pieces)
		return 0;
	if (first == n_pieces - 1 || pieces[first].iov_len >= MAX_RECORD_BYTES)
		return write_tls(stream, pieces[first].iov_base, pieces[first].iov_len);
	char record[MAX_RECORD_BYTES];
	size_t length = 0;
	for (int i = first; i < n_pieces && length < sizeof(record); i++) {
		size_t room = sizeof(record) - length;
		size_t part = pieces[i].iov_len < room ? pieces[i].iov_len : room;
		if (part > 0)
			memcpy(record + length, pieces[i].iov_base, part);
		length += part;
	}
	return write_tls(stream, record, length);
}

ssize_t stream_writev(struct stream *stream, const struct iovec *pieces, int n_pieces)
{
	CHECK(stream->fd >= 0);
	if (stream->is_shut) {
		stream->last_errno = EPIPE;
		return STREAM_ERROR;
	}
	return stream->tls != NULL ? writev_tls(stream, pieces, n_pieces) : write_plain(stream, pieces, n_pieces);
}

void stream_pause_reading(struct stream *stream)
{
	if (stream->fd < 0 || !stream->is_reading)
		return;
	stream->is_reading = false;
	if (!stream->is_write_blocked)
		event_del(&stream->read_event);
}

void stream_resume_reading(struct stream *stream)
{
	if (stream->fd < 0 || stream->is_reading)
		return;
	stream->is_reading = true;
	arm_read(stream);
	if (stream->tls != NULL && tls_has_pending(stream->tls))
		read_again_soon(stream);
}

void stream_want_write(struct stream *stream)
{
	if (stream->fd < 0)
		return;
	stream->is_write_wanted = true;
	if (!stream->is_write_blocked)
		arm_write(stream);
}

void stream_shutdown(struct stream *stream)
{
	if (stream->fd < 0 || stream->is_shut)
		return;
	stream->is_shut = true;
	finish_shutdown(stream);
}

void stream_close(struct stream *stream, bool is_reset)
{
	if (stream->fd < 0)
		return;
	event_del(&stream->read_event);
	event_del(&stream->write_event);
	stream->is_reading = stream->is_writing = stream->is_write_wanted = false;
	stream->is_read_blocked = stream->is_write_blocked = stream->is_notify_pending = false;
	if (is_reset) {
		struct linger at_once = { .l_onoff = 1, .l_linger = 0 };
		setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	} else if (stream->tls != NULL) {
		(void)tls_shutdown(stream->tls); /* a full socket: the peer sees a cut, as it should */
	}
	tls_connection_free(&stream->tls);
	close(stream->fd);
	stream->fd = -1;
}

bool stream_is_readable_now(struct stream *stream)
{
	if (stream->fd < 0)
		return true;
	if (stream->tls != NULL) {
		bool is_readable = tls_is_readable_now(stream->tls);
		if (is_readable && stream->is_reading)
			read_again_soon(stream); /* looking took it out of the socket */
		return is_readable;
	}
	char byte;
	ssize_t n;
	do {
		n = recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

bool stream_is_peer_gone(struct stream *stream)
{
	if (stream->fd < 0)
		return true;
	struct pollfd asked = { .fd = stream->fd, .events = POLLRDHUP };
	return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}
