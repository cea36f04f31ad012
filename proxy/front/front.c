#include "front.h"

#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "tunnel.h"
#include "wire.h"

static void run_sweep(struct deferred *item)
{
	struct front *front = LIST_ENTRY_OF(item, struct front, sweep);
	listener_sweep(front);
	listener_update_accepting(front);
}

static void run_idle_check(struct deferred *item)
{
	struct front *front = LIST_ENTRY_OF(item, struct front, idle_check);
	if (front->is_stopping && !front->is_freeing && front->n_clients == 0 && front->room->n_exchanges == 0)
		front->hooks.on_idle(front->hooks.owner);
}

static void on_resume(void *owner)
{
	listener_update_accepting(owner);
}

struct front *front_new(struct loop *loop, struct exchange_room *room, const struct front_hooks *hooks)
{
	struct front *front = xcalloc(1, sizeof(*front));
	front->loop = loop;
	front->room = room;
	front->hooks = *hooks;
	activation_take(&front->activation);
	front->keeps_socket_files = front->activation.n > 0;
	list_init(&front->listeners);
	list_init(&front->wires);
	list_init(&front->warned_tunnels);
	timer_init(&front->resume_timer, loop, on_resume, front);
	deferred_init(&front->idle_check, run_idle_check);
	deferred_init(&front->sweep, run_sweep);
	return front;
}

void front_count_wire(struct front *front, struct listener *listener, int change)
{
	bool is_client = listener->role != LISTENER_ADMIN;
	size_t *count = is_client ? &front->n_clients : &front->n_admin;
	*count = change > 0 ? *count + 1 : *count - 1;
	listener->n_wires = change > 0 ? listener->n_wires + 1 : listener->n_wires - 1;
	if (is_client)
		process_metrics.client_connections += change;
	if (front->is_freeing)
		return;
	listener_update_accepting(front);
	if (listener->n_wires == 0 && listener->bound == NULL)
		loop_defer(front->loop, &front->sweep);
	if (front->is_stopping && front->n_clients == 0)
		loop_defer(front->loop, &front->idle_check);
}

/* ---- what is asked for, against what is open ---- */

struct wish {
	enum listener_role role;
	const struct listen_address *address;
	const char *upstream;
	struct listener *open;
	bool is_new; /* opened by this call */
};

/* One that no other wish has found yet: an address with port 0 may be wished for twice. */
static struct listener *find_open(const struct front *front, const struct wish *wish)
{
	LIST_EACH(link, &front->listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		bool is_same_upstream = listener->upstream && wish->upstream
						? strcmp(listener->upstream, wish->upstream) == 0
						: listener->upstream == wish->upstream;
		if (listener->bound && !listener->is_wanted && listener->role == wish->role && is_same_upstream &&
		    strcmp(listener->address, wish->address->text) == 0)
			return listener;
	}
	return NULL;
}

static size_t count_wishes(const struct front *front, const struct config *config)
{
	size_t n = config->global.admin_is_on ? 1 : 0;
	if (front->is_stopping)
		return n;
	n += config->global.listen.n;
	for (size_t i = 0; i < config->n_upstreams; i++)
		n += config->upstreams[i].listen.n;
	return n;
}

static void fill_wishes(const struct front *front, const struct config *config, struct wish *wishes)
{
	size_t n = 0;
	if (config->global.admin_is_on)
		wishes[n++] = (struct wish){ LISTENER_ADMIN, &config->global.admin, NULL, NULL, false };
	if (front->is_stopping)
		return;
	for (size_t i = 0; i < config->global.listen.n; i++)
		wishes[n++] = (struct wish){ LISTENER_PROXY, &config->global.listen.items[i], NULL, NULL, false };
	for (size_t i = 0; i < config->n_upstreams; i++)
		for (size_t j = 0; j < config->upstreams[i].listen.n; j++)
			wishes[n++] = (struct wish){ LISTENER_UPSTREAM, &config->upstreams[i].listen.items[j],
						     config->upstreams[i].name, NULL, false };
}

static void find_what_is_open(const struct front *front, struct wish *wishes, size_t n)
{
	LIST_EACH(link, &front->listeners)
		LIST_ENTRY_OF(link, struct listener, link)->is_wanted = false;
	for (size_t i = 0; i < n; i++) {
		wishes[i].open = find_open(front, &wishes[i]);
		if (wishes[i].open)
			wishes[i].open->is_wanted = true;
	}
}

static bool open_the_rest(struct front *front, struct wish *wishes, size_t n, char *error, size_t error_capacity)
{
	for (size_t i = 0; i < n; i++) {
		if (wishes[i].open)
			continue;
		wishes[i].open = listener_open(front, wishes[i].role, wishes[i].address, wishes[i].upstream, error,
					       error_capacity);
		if (wishes[i].open == NULL)
			return false;
		wishes[i].is_new = true;
	}
	return true;
}

static void close_with_idle_clients(struct listener *listener)
{
	listener_close(listener);
	LIST_EACH_SAFE(link, after, &listener->front->wires) {
		struct wire *wire = LIST_ENTRY_OF(link, struct wire, link);
		if (wire->listener == listener)
			wire_close_when_idle(wire);
	}
}

bool front_apply(struct front *front, const struct config *config, char *error, size_t error_capacity)
{
	size_t n = count_wishes(front, config);
	struct wish *wishes = xcalloc(n + 1, sizeof(*wishes));
	fill_wishes(front, config, wishes);
	find_what_is_open(front, wishes, n);
	bool is_done = open_the_rest(front, wishes, n, error, error_capacity);
	for (size_t i = 0; i < n; i++) {
		if (wishes[i].is_new && is_done)
			listener_log(wishes[i].open);
		else if (wishes[i].is_new)
			listener_close(wishes[i].open);
	}
	free(wishes);
	LIST_EACH(link, &front->listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		if (is_done && listener->bound && !listener->is_wanted)
			close_with_idle_clients(listener);
	}
	if (is_done) {
		activation_settle(&front->activation);
		front->keeps_socket_files = false;
	}
	/* The limits of the new config count from when it is in force, which is after this call. */
	loop_defer(front->loop, &front->sweep);
	return is_done;
}

/* ---- the end ---- */

void front_stop_taking(struct front *front)
{
	front->is_stopping = true;
	LIST_EACH(link, &front->listeners) {
		struct listener *listener = LIST_ENTRY_OF(link, struct listener, link);
		if (listener->role != LISTENER_ADMIN)
			close_with_idle_clients(listener);
	}
	loop_defer(front->loop, &front->idle_check);
}

void front_hand_over(struct front *front)
{
	front->is_handed_over = front->keeps_socket_files = true;
	front_stop_taking(front);
	LIST_EACH(link, &front->listeners)
		close_with_idle_clients(LIST_ENTRY_OF(link, struct listener, link));
	activation_clear(&front->activation);
}

static void cut_wire(struct wire *wire)
{
	struct front *front = wire->front;
	if (wire->state == WIRE_TUNNEL) {
		front->room->n_cut++;
		tunnel_cut(wire->tunnel);
		return;
	}
	wire_lose(wire);
}

void front_cut(struct front *front)
{
	LIST_EACH_SAFE(link, after, &front->wires) {
		struct wire *wire = LIST_ENTRY_OF(link, struct wire, link);
		if (wire->listener->role != LISTENER_ADMIN)
			cut_wire(wire);
	}
}

size_t front_n_clients(const struct front *front)
{
	return front->n_clients;
}

void front_free(struct front **front)
{
	struct front *gone = *front;
	if (gone == NULL)
		return;
	*front = NULL;
	gone->is_freeing = gone->is_stopping = true;
	LIST_EACH(link, &gone->listeners)
		listener_close(LIST_ENTRY_OF(link, struct listener, link));
	LIST_EACH_SAFE(link, after, &gone->wires)
		wire_lose(LIST_ENTRY_OF(link, struct wire, link));
	while (!list_is_empty(&gone->wires))
		wire_free(LIST_ENTRY_OF(gone->wires.next, struct wire, link));
	listener_sweep(gone);
	timer_clear(&gone->resume_timer);
	deferred_cancel(&gone->sweep);
	deferred_cancel(&gone->idle_check);
	tunnel_forget_warnings(gone);
	activation_clear(&gone->activation);
	free(gone);
}
