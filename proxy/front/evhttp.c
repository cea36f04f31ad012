/*
 * The wire's dealings with evhttp. evhttp accepts, keeps a connection object, makes a request object for each head
 * that we hand it and dispatches it. It never sees a client's bytes: the head it gets is of our own making, without
 * framing, so that what it believes about messages, proxies and closing has no say. It never reads or writes the
 * socket either: its bufferevent has no descriptor any more.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>

#include "../base/check.h"
#include "wire.h"

/*
 * Until the wire takes the descriptor, evhttp's bufferevent must not read from it. A bufferevent whose input is at
 * its high watermark doesn't even watch its descriptor, so it comes with one byte in it: the beginning of a request
 * line without an end, which evhttp waits with.
 */
#define STOPPER_BYTES 1

static void stop_reading(struct bufferevent *bev)
{
	CHECK(evbuffer_prepend(bufferevent_get_input(bev), "G", STOPPER_BYTES) == 0);
	bufferevent_setwatermark(bev, EV_READ, 0, STOPPER_BYTES);
}

/* evhttp frees the connection although we didn't ask for it (its evhttp is freed): everything of ours ends with it. */
static void on_evhttp_close(struct evhttp_connection *connection, void *context)
{
	(void)connection;
	struct wire *wire = context;
	wire->connection = NULL;
	wire->evhttp_request = NULL;
	wire_lose(wire);
}

bool wire_take_descriptor(struct wire *wire)
{
	bufferevent_event_cb event_cb = NULL;
	bufferevent_getcb(wire->bev, NULL, NULL, &event_cb, NULL);
	int fd = (int)bufferevent_getfd(wire->bev);
	if (event_cb == NULL || fd < 0)
		return false; /* evhttp had no memory for it; the descriptor goes with the bufferevent */
	struct evbuffer *input = bufferevent_get_input(wire->bev);
	CHECK(evbuffer_get_length(input) == STOPPER_BYTES);
	bufferevent_disable(wire->bev, EV_READ | EV_WRITE);
	bufferevent_setfd(wire->bev, -1);
	evbuffer_drain(input, STOPPER_BYTES);
	bufferevent_setwatermark(wire->bev, EV_READ, 0, 0);
	static const struct stream_ops ops = { .on_readable = wire_on_readable, .on_writable = wire_on_writable };
	stream_open(&wire->stream, wire->front->loop, fd, NULL, &ops, wire);
	return true;
}

void wire_hand_over(struct wire *wire, struct slice head)
{
	/* Only the end of a bufferevent's input is frozen. */
	CHECK(evbuffer_prepend(bufferevent_get_input(wire->bev), head.data, head.length) == 0);
	wire->listener->dispatching = wire;
	bufferevent_trigger(wire->bev, EV_READ, 0);
	wire->listener->dispatching = NULL;
	CHECK(wire->evhttp_request != NULL);
}

struct wire *wire_of_dispatch(struct listener *listener, struct evhttp_request *request)
{
	struct wire *wire = listener->dispatching;
	CHECK(wire != NULL && wire->evhttp_request == NULL);
	wire->evhttp_request = request;
	if (wire->connection == NULL) {
		wire->connection = evhttp_request_get_connection(request);
		evhttp_connection_set_closecb(wire->connection, on_evhttp_close, wire);
		wire_name_client(wire, evhttp_connection_get_addr(wire->connection));
	}
	return wire;
}

/* With nothing to write evhttp frees the request at once and makes ready for the next. */
void wire_end_evhttp_request(struct wire *wire)
{
	struct evhttp_request *request = wire->evhttp_request;
	wire->evhttp_request = NULL;
	if (request != NULL)
		evhttp_send_reply_end(request);
}

/*
 * evhttp remembers the descriptor's number and shuts it down when it frees a connection: nothing may have been opened
 * since it was closed, or evhttp would meet a stranger.
 */
void wire_release_evhttp(struct wire *wire)
{
	struct evhttp_connection *connection = wire->connection;
	struct bufferevent *bev = wire->bev;
	wire->connection = NULL;
	wire->evhttp_request = NULL;
	wire->bev = NULL;
	if (bev == NULL)
		return;
	if (connection != NULL) {
		evhttp_connection_set_closecb(connection, NULL, NULL);
		evhttp_connection_free(connection);
	} else if (wire->n_requests == 0) {
		/* It has shown us no request yet, so this is the way to make it drop the connection; harmless
		 * when it has. */
		bufferevent_trigger_event(bev, BEV_EVENT_EOF | BEV_EVENT_READING, 0);
	}
	bufferevent_decref(bev);
}

struct bufferevent *wire_accept(struct listener *listener)
{
	/* CLOSE_ON_FREE: whoever has the descriptor closes it, and evhttp doesn't. */
	struct bufferevent *bev = bufferevent_socket_new(listener->front->loop->base, -1, BEV_OPT_CLOSE_ON_FREE);
	CHECK(bev != NULL);
	bufferevent_incref(bev);
	stop_reading(bev);
	struct wire *wire = xcalloc(1, sizeof(*wire));
	wire->front = listener->front;
	wire->listener = listener;
	wire->bev = bev;
	wire_init(wire);
	return bev;
}
