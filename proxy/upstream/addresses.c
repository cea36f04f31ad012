/* Where the origin's name leads: asked anew once its TTL is over, pooled connections or not. */
#include "registry.h"

/* At most so often, whatever the TTL: the connections of the pool are only judged by it. */
#define REFRESH_INTERVAL_MS 1000

static void judge(struct list *connections, const struct address_list *addresses)
{
	LIST_EACH_SAFE(link, after, connections) {
		struct conn *conn = LIST_ENTRY_OF(link, struct conn, link);
		if (address_list_has(addresses, &conn->address))
			continue;
		conn->is_gone = true;
		if (conn->state == CONN_IDLE)
			conn_close(conn, false);
	}
}

/* Takes over the reference. */
static void apply(struct origin *origin, struct address_list *addresses)
{
	address_list_unref(&origin->addresses);
	origin->addresses = addresses;
	judge(&origin->idle, addresses);
	judge(&origin->leased, addresses);
}

/* Whatever the failure, what is connected stays: the name server may be ill while the origin is well. */
static void refresh_done(void *owner, enum resolve_status status, struct address_list *addresses)
{
	struct origin *origin = owner;
	origin->refresh = NULL;
	if (status == RESOLVE_OK && addresses)
		apply(origin, address_list_ref(addresses));
}

static void look_up(struct origin *origin, struct mono now)
{
	if (origin->refresh)
		return;
	origin->refresh_after = mono_add_ms(now, REFRESH_INTERVAL_MS);
	struct resolve_answer answer = resolver_lookup(origin->registry->resolver, origin->host, refresh_done, origin);
	if (answer.is_pending)
		origin->refresh = answer.query;
	else if (answer.addresses)
		apply(origin, answer.addresses);
}

static bool is_known(const struct origin *origin, struct mono now)
{
	return origin->addresses && !mono_reached(origin->addresses->expires, now);
}

void addresses_refresh(struct origin *origin, struct mono now)
{
	if (!is_known(origin, now) && mono_reached(origin->refresh_after, now) && !origin->is_retired)
		look_up(origin, now);
}

/* Usually a hit in the resolver's cache, which the dial has just filled. */
void addresses_learn(struct conn *conn, struct mono now)
{
	struct origin *origin = conn->origin;
	if (is_known(origin, now) && address_list_has(origin->addresses, &conn->address))
		return;
	if ((!origin->addresses || mono_reached(origin->refresh_after, now)) && !origin->is_retired)
		look_up(origin, now);
}

void addresses_forget(struct origin *origin)
{
	resolve_cancel(&origin->refresh);
	address_list_unref(&origin->addresses);
}
