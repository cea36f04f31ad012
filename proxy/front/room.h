/* The inside of the front room, shared by its files only. */
#ifndef EVENKEEL_FRONT_ROOM_H
#define EVENKEEL_FRONT_ROOM_H

#include "../base/list.h"
#include "activation.h"
#include "front.h"

#define FRONT_MAX_ADMIN_CLIENTS 128 /* connections of the admin port; more wait in its accept queue */
#define FRONT_ACCEPT_PAUSE_MS 100   /* after EMFILE and the like */

struct evhttp;
struct evhttp_bound_socket;
struct wire;

enum listener_role { LISTENER_PROXY, LISTENER_UPSTREAM, LISTENER_ADMIN, N_LISTENER_ROLES };

/*
 * One listening socket with the struct evhttp that accepts on it. It outlives its socket while connections that it
 * accepted are open: their evhttp objects belong to its evhttp.
 */
struct listener {
	struct list link;             /* front->listeners */
	struct list open_link;        /* listener.c's list of those that listen */
	struct front *front;
	enum listener_role role;
	char *address;                /* as written in the policy file */
	char *upstream;               /* LISTENER_UPSTREAM: the entry's name; else NULL */
	char *unix_path;              /* removed with the socket; NULL: TCP, or a file that isn't ours */
	uint16_t port;                /* real one; 0: unix */
	struct evhttp *http;          /* owns */
	struct evhttp_bound_socket *bound; /* NULL: no longer listening */
	struct admin_binding *bindings; /* owns; LISTENER_ADMIN: evhttp's callbacks point to them */
	struct wire *dispatching;     /* whose head is being handed to evhttp at this moment */
	size_t n_wires;
	bool is_lent;                 /* its socket: see struct activated_socket */
	bool is_wanted;               /* mark of front_apply's sweep */
	bool is_paused;
};

struct front {
	struct loop *loop;
	struct exchange_room *room;
	struct front_hooks hooks;     /* by value */
	struct activation activation; /* sockets that were there before us */
	struct list listeners;        /* open ones, and closed ones whose connections still live */
	struct list wires;            /* every accepted connection */
	size_t n_clients;             /* of the roles PROXY and UPSTREAM */
	size_t n_admin;
	size_t n_tunnels;
	bool is_stopping;
	bool is_handed_over;          /* is_stopping, since another process listens on the same sockets */
	bool keeps_socket_files;      /* an older or younger process of ours listens there as well */
	bool is_freeing;
	struct timer resume_timer;    /* accepting was paused for want of descriptors until then */
	struct deferred idle_check, sweep;
	struct list warned_tunnels;   /* hosts for which `opaque_tunnel` was logged */
	size_t n_warned_tunnels;
};

static inline const struct config *front_config(const struct front *front)
{
	return front->hooks.current_config(front->hooks.owner);
}

/* listener.c */
struct listener *listener_open(struct front *front, enum listener_role role, const struct listen_address *address,
			       const char *upstream, char *error, size_t error_capacity);
void listener_close(struct listener *listener); /* stops listening; connections live on */
void listener_update_accepting(struct front *front); /* pauses or resumes by the connection limits */
void listener_sweep(struct front *front);       /* frees those that are closed and have no connection any more */
void listener_log(const struct listener *listener);

/* One connection more or less, counted from accept to close. */
void front_count_wire(struct front *front, struct listener *listener, int change);

#endif
