/* Rules across keys: what each key allows by itself, but not together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "private.h"

static struct place place_of(struct spot spot, unsigned related_line)
{
	return (struct place){spot.line, spot.column, related_line == spot.line ? 0 : related_line};
}

static struct spot upstream_spot(const struct config *config, const struct upstream_def *upstream, const char *path)
{
	const struct origins *origins = origins_find(config, upstream);
	const struct key *key = key_find(path, KEY_UPSTREAM);
	struct spot spot = key ? origins->spots[key_index(key)] : origins->self;

	return spot.line ? spot : origins->self;
}

/* ---- names ---- */

static int compare_names(const void *left, const void *right)
{
	const struct upstream_def *a = *(const struct upstream_def *const *)left;
	const struct upstream_def *b = *(const struct upstream_def *const *)right;
	int order = strcmp(a->name, b->name);

	return order ? order : (a->index < b->index ? -1 : a->index > b->index);
}

static void report_same_name(const struct config *config, struct fault_list *faults,
	const struct upstream_def *upstream, const struct upstream_def *first)
{
	struct spot spot = upstream_spot(config, upstream, "name"), before = upstream_spot(config, first, "name");

	fault_add(faults, FAULT_ERROR, place_of(spot, before.line), "the name %s is taken by the upstream on line %u",
		fault_quote(upstream->name), before.line);
}

static void check_names(const struct config *config, struct fault_list *faults)
{
	struct arena scratch = {NULL};
	const struct upstream_def **sorted = arena_alloc(&scratch, config->n_upstreams * sizeof(*sorted));

	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];

		sorted[i] = upstream;
		if (!strcmp(upstream->name, "default") || !strcmp(upstream->name, "-"))
			fault_add(faults, FAULT_ERROR, place_of(upstream_spot(config, upstream, "name"), 0),
				"the name %s is taken by the proxy itself", fault_quote(upstream->name));
	}
	qsort(sorted, config->n_upstreams, sizeof(*sorted), compare_names);
	for (size_t i = 1, first = 0; i < config->n_upstreams; i++) {
		if (strcmp(sorted[i]->name, sorted[first]->name) == 0)
			report_same_name(config, faults, sorted[i], sorted[first]);
		else
			first = i;
	}
	arena_clear(&scratch);
}

/* ---- hosts ---- */

static void report_tie(const struct config *config, struct fault_list *faults, const struct host_entry *first,
	const struct host_entry *second, uint16_t port)
{
	struct spot spot = upstream_spot(config, second->upstream, "match.hosts");
	struct spot before = upstream_spot(config, first->upstream, "match.hosts");
	bool is_v6 = memchr(first->text, ':', first->length) != NULL;
	char host[300], at_port[32] = "";

	snprintf(host, sizeof(host), "%s%.*s%s",
		is_v6                       ? "["
		: first->kind == HOST_EXACT ? ""
					    : "*",
		(int)first->length, first->text, is_v6 ? "]" : "");
	if (port)
		snprintf(at_port, sizeof(at_port), " at port %u", port);
	if (first->upstream == second->upstream)
		fault_add(faults, FAULT_ERROR, place_of(spot, 0), "match.hosts: %s is listed twice", fault_quote(host));
	else
		fault_add(faults, FAULT_ERROR, place_of(spot, before.line),
			"match.hosts: %s%s belongs to upstream %s already (line %u): the two tie", fault_quote(host),
			at_port, fault_quote(first->upstream->name), before.line);
}

static bool is_same_host(const struct host_entry *a, const struct host_entry *b)
{
	return a->kind == b->kind && a->length == b->length && (a->length == 0 || !memcmp(a->text, b->text, a->length));
}

/* Who of the entries of one host has a port; [0]: who names none. */
struct port_owners {
	const struct host_entry *of[65536];
};

/*
 * Two entries for one host tie when both name no port, or name one port both. Takes the ports for entry; returns who
 * had one of them before, NULL: nobody.
 */
static const struct host_entry *take_ports(struct port_owners *owners, const struct host_entry *entry, uint16_t *port)
{
	const struct upstream_def *upstream = entry->upstream;
	const struct host_entry *before = NULL;
	size_t n = upstream->n_ports ? upstream->n_ports : 1;

	*port = 0;
	for (size_t i = 0; i < n; i++) {
		uint16_t wanted = upstream->n_ports ? upstream->ports[i] : 0;
		const struct host_entry *owner = owners->of[wanted];

		if (!owner) {
			owners->of[wanted] = entry;
		} else if (owner != entry && !before) {
			before = owner;
			*port = wanted;
		}
	}
	return before;
}

static void release_ports(struct port_owners *owners, const struct host_entry *entry)
{
	owners->of[0] = NULL;
	for (size_t i = 0; i < entry->upstream->n_ports; i++)
		owners->of[entry->upstream->ports[i]] = NULL;
}

/* Entries of one host are neighbours in the sorted index, in file order. */
static void check_ties(const struct config *config, struct fault_list *faults)
{
	const struct host_entry *hosts = config->private->hosts;
	size_t n = config->private->n_hosts;
	struct arena scratch = {NULL};
	struct port_owners *owners = arena_alloc(&scratch, sizeof(*owners));

	for (size_t first = 0, end; first < n; first = end) {
		for (end = first; end < n && is_same_host(&hosts[first], &hosts[end]); end++) {
			uint16_t port = 0;
			const struct host_entry *before = end > first && hosts[end - 1].upstream == hosts[end].upstream
								  ? &hosts[end - 1]
								  : take_ports(owners, &hosts[end], &port);

			if (before)
				report_tie(config, faults, before, &hosts[end], port);
		}
		for (size_t i = first; i < end; i++)
			release_ports(owners, &hosts[i]);
	}
	arena_clear(&scratch);
}

static void check_emptiness(const struct config *config, struct fault_list *faults)
{
	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *upstream = &config->upstreams[i];
		const struct spot *spots = origins_find(config, upstream)->spots;
		const struct key *hosts = key_find("match.hosts", KEY_UPSTREAM),
				 *ports = key_find("match.ports", KEY_UPSTREAM);

		if (spots[key_index(hosts)].line && upstream->hosts.n == 0)
			fault_add(faults, FAULT_ERROR, place_of(spots[key_index(hosts)], 0),
				"match.hosts is empty: this upstream can never match");
		if (spots[key_index(ports)].line && upstream->n_ports == 0)
			fault_add(faults, FAULT_ERROR, place_of(spots[key_index(ports)], 0),
				"match.ports is empty: leave it out to match any port");
	}
}

/* ---- addresses ---- */

struct listener {
	const struct listen_address *address;
	struct spot spot;
	const char *what;
};

static void check_clash(struct fault_list *faults, const struct listener *listeners, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		unsigned line = listeners[j].address->line;

		if (!listen_clashes(listeners[j].address, listeners[i].address))
			continue;
		if (line)
			fault_add(faults, FAULT_ERROR, place_of(listeners[i].spot, line),
				"%s: %s is taken by %s on line %u", listeners[i].what,
				fault_quote(listeners[i].address->text), listeners[j].what, line);
		else
			fault_add(faults, FAULT_ERROR, place_of(listeners[i].spot, 0),
				"%s: %s is taken by %s (built-in %s)", listeners[i].what,
				fault_quote(listeners[i].address->text), listeners[j].what, listeners[j].address->text);
		return;
	}
}

static size_t count_listeners(const struct config *config)
{
	size_t n = config->global.listen.n + 1;

	for (size_t i = 0; i < config->n_upstreams; i++)
		n += config->upstreams[i].listen.n;
	return n;
}

static size_t add_listeners(
	struct listener *out, size_t n, const struct listen_list *list, struct spot spot, const char *what)
{
	for (size_t i = 0; i < list->n; i++)
		out[n++] = (struct listener){&list->items[i], spot, what};
	return n;
}

#define MAX_LISTENERS 1024 /* each is a descriptor, and they are compared pair by pair */

static void check_listeners(const struct config *config, struct fault_list *faults)
{
	const struct global_rule *global = &config->global;
	struct arena scratch = {NULL};
	struct listener *all = arena_alloc(&scratch, count_listeners(config) * sizeof(*all));
	const struct listen_list admin = {&global->admin, global->admin_is_on ? 1 : 0};
	struct spot admin_spot = origins_spot(config, global, "admin"),
		    listen_spot = origins_spot(config, global, "listen");
	size_t n = add_listeners(all, 0, &global->listen, listen_spot, "listen");

	/* what is built-in is not to blame: the fault is at what the file says */
	if (admin_spot.line || !global->admin_is_on)
		n = add_listeners(all, n, &admin, admin_spot, "admin");
	else {
		memmove(all + 1, all, n * sizeof(*all));
		add_listeners(all, 0, &admin, admin_spot, "admin");
		n++;
	}
	for (size_t i = 0; i < config->n_upstreams; i++)
		n = add_listeners(all, n, &config->upstreams[i].listen,
			upstream_spot(config, &config->upstreams[i], "listen"), "listen");
	if (n > MAX_LISTENERS)
		fault_add(faults, FAULT_ERROR, place_of(all[MAX_LISTENERS].spot, 0), "more than %d listen addresses",
			MAX_LISTENERS);
	for (size_t i = 1; i < n && n <= MAX_LISTENERS; i++)
		check_clash(faults, all, i);
	arena_clear(&scratch);
}

static void check_reach(const struct config *config, struct fault_list *faults)
{
	const struct global_rule *global = &config->global;

	for (size_t i = 0; i < global->listen.n; i++)
		if (!listen_is_local(&global->listen.items[i]))
			fault_add(faults, FAULT_WARNING, place_of(origins_spot(config, global, "listen"), 0),
				"listen: whoever reaches %s can use this proxy", global->listen.items[i].text);
	if (global->listen.n == 0)
		fault_add(
			faults, FAULT_ERROR, place_of(origins_spot(config, global, "listen"), 0), "listen: no address");
	if (global->admin_is_on && !listen_is_local(&global->admin))
		fault_add(faults, FAULT_WARNING, place_of(origins_spot(config, global, "admin"), 0),
			"admin: whoever reaches %s can reload and drain this proxy", global->admin.text);
	if (global->unmatched_deny && config->n_upstreams == 0)
		fault_add(faults, FAULT_WARNING, place_of(origins_spot(config, global, "unmatched"), 0),
			"unmatched: deny without any upstream refuses every request");
}

/* ---- one upstream ---- */

static size_t count_exact_hosts(const struct upstream_def *upstream)
{
	size_t n = 0;

	for (size_t i = 0; i < upstream->hosts.n; i++)
		n += upstream->hosts.items[i][0] != '*';
	return n;
}

static void check_local_port(
	const struct config *config, struct fault_list *faults, const struct upstream_def *upstream)
{
	struct spot spot = upstream_spot(config, upstream, "listen");
	size_t n_exact = count_exact_hosts(upstream);

	if (upstream->listen.n == 0 || upstream->hosts.n == 0)
		return;
	if (n_exact == 0)
		fault_add(faults, FAULT_ERROR, place_of(spot, 0),
			"listen: a local port leads to one host, but match.hosts names none without a *");
	for (size_t i = 0; i < upstream->listen.n; i++)
		if (!listen_is_local(&upstream->listen.items[i]))
			fault_add(faults, FAULT_WARNING, place_of(spot, 0),
				"listen: whoever reaches %s can use upstream %s", upstream->listen.items[i].text,
				fault_quote(upstream->name));
}

static void check_tls(const struct config *config, struct fault_list *faults, const struct upstream_def *upstream)
{
	const struct tls_rule *tls = &upstream->tls;

	if (!tls->client_cert != !tls->client_key)
		fault_add(faults, FAULT_ERROR,
			place_of(upstream_spot(
					 config, upstream, tls->client_cert ? "tls.client_cert" : "tls.client_key"),
				0),
			"tls: client_cert and client_key go together; %s is missing",
			tls->client_cert ? "client_key" : "client_cert");
	if (!tls->verify)
		fault_add(faults, FAULT_WARNING, place_of(upstream_spot(config, upstream, "tls.verify"), 0),
			tls->pins.n ? "tls.verify: off: only the pins tell who answers for upstream %s"
				    : "tls.verify: off: anyone on the way can answer for upstream %s",
			fault_quote(upstream->name));
	if (tls->min_version < TLS_1_2)
		fault_add(faults, FAULT_WARNING, place_of(upstream_spot(config, upstream, "tls.min_version"), 0),
			"tls.min_version: TLS before 1.2 is broken (RFC 8996)");
	if (upstream->port && !tls->originate)
		fault_add(faults, FAULT_WARNING, place_of(upstream_spot(config, upstream, "port"), 0),
			"port: does nothing without tls.originate: on");
}

void validate_config(const struct config *config, struct fault_list *faults)
{
	check_names(config, faults);
	check_emptiness(config, faults);
	check_ties(config, faults);
	check_listeners(config, faults);
	check_reach(config, faults);
	for (size_t i = 0; i < config->n_upstreams; i++) {
		check_local_port(config, faults, &config->upstreams[i]);
		check_tls(config, faults, &config->upstreams[i]);
	}
	validate_limits(config, faults);
	validate_routes(config, faults);
}

void config_add_fault(const struct config *config, const struct upstream_def *upstream, const char *key_path,
	const char *message, struct fault_list *faults)
{
	struct spot spot = upstream_spot(config, upstream, key_path);

	if (spot.line == 0)
		spot = origins_find(config, upstream)->self;
	fault_add(faults, FAULT_ERROR, place_of(spot, 0), "%s", message);
	fault_list_sort(faults);
}
