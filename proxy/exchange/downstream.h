/*
 * The client as the exchange sees it: an interface that front/client implements. Calls go down into exchange.h; what
 * comes up for the client goes through these.
 *
 * One request's life: front/client makes the request, calls exchange_start; the exchange answers through ops; after
 * on_done it never touches the downstream again, and the downstream never calls the exchange again.
 * No op may call back into the exchange synchronously (report flushed / writable / gone from the loop).
 */
#ifndef EVENKEEL_EXCHANGE_DOWNSTREAM_H
#define EVENKEEL_EXCHANGE_DOWNSTREAM_H

#include "../http/h1_write.h"
#include "../upstream/pool.h"

struct downstream;

#define DOWNSTREAM_CANT_SPLICE (-4)

/* An answer of Evenkeel's own (RFC 9457 body, RFC 9209 Proxy-Status): exchange/reply.h makes it. */
struct own_reply {
	int status;
	struct slice fields;       /* complete field lines, each ended by CRLF: Content-Type, Proxy-Status, Retry-After, Evenkeel-... */
	struct slice body;
	bool must_close;           /* Connection: close, then the connection is closed (lingering) */
};

struct downstream_ops {
	/* 100 Continue of our own or the origin's. At most once. */
	void (*send_continue)(struct downstream *downstream);
	/* Another 1xx (103 ...); dropped for HTTP/1.0 clients. */
	void (*send_interim)(struct downstream *downstream, const struct response *response);
	/*
	 * The origin's final head. The downstream chooses the framing that its client understands: Content-Length
	 * as it came, else chunked (1.1) or close (1.0). Fields of rewrite that concern framing are the
	 * downstream's to fill.
	 */
	void (*send_head)(struct downstream *downstream, const struct response *response,
			  const struct response_rewrite *rewrite);
	/* A piece of body; always taken (copied or sent). Returns false when enough is pending: pause,
	 * on_writable will come. */
	bool (*send_body)(struct downstream *downstream, struct slice data);
	/*
	 * Instead of send_body, for a body that goes out as it comes: the next bytes straight from the origin's
	 * socket, at most max, at least one. As stream_read; or DOWNSTREAM_CANT_SPLICE: read and send_body, this
	 * time. *is_full: pause, as above.
	 */
	ssize_t (*splice_body)(struct downstream *downstream, struct stream *from, uint64_t max, bool *is_full);
	/* The response is complete; trailers may be NULL. exchange_client_flushed follows when the last byte is out. */
	void (*send_end)(struct downstream *downstream, const struct head *trailers);
	/* A reply of our own, whole; also counts as complete (flushed follows). HEAD: the downstream leaves the
	 * body out. */
	void (*send_own)(struct downstream *downstream, const struct own_reply *reply);
	/* The response can't be completed: the connection is closed (RST) so that no client takes it for complete. */
	void (*abort)(struct downstream *downstream);
	/* Write out what the calls above gathered; the exchange calls it once at the end of each event. */
	void (*flush)(struct downstream *downstream);
	/* Request body: stop / go on delivering exchange_request_body. It starts paused: the exchange resumes it. */
	void (*pause_body)(struct downstream *downstream);
	void (*resume_body)(struct downstream *downstream);
	/*
	 * CONNECT was connected, or the origin said 101 (response; NULL for CONNECT). The downstream moves the
	 * lease (pool_move) before it returns, sends the 200 or 101 with rewrite, and runs the tunnel from then on.
	 * early: bytes the origin sent behind its head. exchange_finish happens right after; origin, upstream and
	 * policy are the tunnel's to reference (config_ref, origin_ref).
	 */
	void (*become_tunnel)(struct downstream *downstream, struct lease *lease, const struct response *response,
			      const struct response_rewrite *rewrite, struct slice early);
	/* The exchange has let go. must_close: the connection may not serve another request (request body not
	 * read to its end, abort, drain). Comes last, exactly once. */
	void (*on_done)(struct downstream *downstream, bool must_close);
};

struct downstream {
	const struct downstream_ops *ops;
};

#endif
