#include "dns_channel.h"

#include <ares.h>
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/check.h"
#include "../base/clock.h"
#include "../base/log.h"

/* A lost packet is asked for again within dns.timeout: at 0, 1/4 and 3/4 of it (c-ares doubles the wait each time). */
#define N_TRIES 3
#define TRIES_SHARE 4
#define MIN_TRY_MS 20
#define DEFAULT_TRY_MS 2000 /* with dns.timeout off */

struct dns_channel {
	struct loop *loop;
	ares_channel ares;
	struct timer timer;
	struct list watches; /* of struct watch */
	struct ares_options settings; /* search list and ndots, as c-ares read them */
	bool has_settings;
	uint64_t signature;
};

struct watch { /* one socket of c-ares */
	struct list link;
	struct dns_channel *channel;
	struct event event;
	int fd;
};

struct dns_question {
	struct dns_question **slot; /* NULL: dropped */
	dns_answer_fn done;
	void *owner;
	int family;
};

static void arm_timer(struct dns_channel *channel)
{
	struct timeval left;
	if (ares_timeout(channel->ares, NULL, &left) == NULL) {
		timer_set(&channel->timer, MONO_NEVER);
		return;
	}
	int64_t left_us = (int64_t)left.tv_sec * 1000000 + left.tv_usec;
	timer_set(&channel->timer, (struct mono){ clock_now().us + left_us });
}

static void on_time(void *owner)
{
	struct dns_channel *channel = owner;
	ares_process_fd(channel->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm_timer(channel);
}

static void on_socket(evutil_socket_t fd, short what, void *context)
{
	struct dns_channel *channel = ((struct watch *)context)->channel; /* the watch may go during the next call */
	ares_process_fd(channel->ares, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	arm_timer(channel);
}

static struct watch *watch_of(struct dns_channel *channel, int fd)
{
	LIST_EACH(link, &channel->watches) {
		struct watch *watch = LIST_ENTRY_OF(link, struct watch, link);
		if (watch->fd == fd)
			return watch;
	}
	return NULL;
}

static void on_socket_state(void *context, ares_socket_t fd, int is_readable, int is_writable)
{
	struct dns_channel *channel = context;
	struct watch *watch = watch_of(channel, fd);
	if (watch != NULL)
		event_del(&watch->event);
	if (!is_readable && !is_writable) {
		if (watch != NULL)
			list_remove(&watch->link);
		free(watch);
		return;
	}
	if (watch == NULL) {
		watch = xcalloc(1, sizeof(*watch));
		watch->channel = channel;
		watch->fd = fd;
		list_init(&watch->link);
		list_append(&channel->watches, &watch->link);
	}
	short what = (short)((is_readable ? EV_READ : 0) | (is_writable ? EV_WRITE : 0) | EV_PERSIST);
	event_assign(&watch->event, channel->loop->base, fd, what, on_socket, watch);
	event_add(&watch->event, NULL);
}

static bool port_parse(const char *text, int *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || value == 0 || value > 65535)
		return false;
	*port = (int)value;
	return true;
}

/* "10.0.0.2", "127.0.0.1:5353", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:53" */
static bool server_parse(const char *text, struct ares_addr_port_node *server)
{
	char host[64];
	int port = 53;
	const char *colon = strrchr(text, ':');
	const char *bracket = strchr(text, ']');
	const char *end = text + strlen(text);
	if (*text == '[') {
		if (bracket == NULL || (bracket[1] != '\0' && (bracket[1] != ':' || !port_parse(bracket + 2, &port))))
			return false;
		text++;
		end = bracket;
	} else if (colon != NULL && strchr(text, ':') == colon) {
		if (!port_parse(colon + 1, &port))
			return false;
		end = colon;
	}
	if ((size_t)(end - text) >= sizeof(host))
		return false;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	server->udp_port = server->tcp_port = port;
	server->family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
	return inet_pton(server->family, host, &server->addr) == 1;
}

static void set_servers(struct dns_channel *channel, const struct string_list *servers)
{
	if (servers->n == 0)
		return;
	struct ares_addr_port_node *nodes = xcalloc(servers->n, sizeof(*nodes));
	size_t n = 0;
	for (size_t i = 0; i < servers->n; i++) {
		if (!server_parse(servers->items[i], &nodes[n])) {
			log_message(LOG_ERROR, "dns", "not a DNS server's address, left out: %s", servers->items[i]);
			continue;
		}
		if (n > 0)
			nodes[n - 1].next = &nodes[n];
		n++;
	}
	if (n > 0)
		CHECK(ares_set_servers_ports(channel->ares, nodes) == ARES_SUCCESS);
	free(nodes);
}

static void sign(uint64_t *signature, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*signature = (*signature ^ ((const unsigned char *)bytes)[i]) * 1099511628211u; /* FNV-1a */
}

static void make_signature(struct dns_channel *channel)
{
	channel->signature = 14695981039346656037u;
	struct ares_addr_port_node *servers = NULL;
	if (ares_get_servers_ports(channel->ares, &servers) == ARES_SUCCESS) {
		for (struct ares_addr_port_node *server = servers; server != NULL; server = server->next) {
			sign(&channel->signature, &server->family, sizeof(server->family));
			sign(&channel->signature, &server->udp_port, sizeof(server->udp_port));
			sign(&channel->signature, &server->addr, server->family == AF_INET ? 4 : 16);
		}
		ares_free_data(servers);
	}
	if (!channel->has_settings)
		return;
	sign(&channel->signature, &channel->settings.ndots, sizeof(channel->settings.ndots));
	for (int i = 0; i < channel->settings.ndomains; i++)
		sign(&channel->signature, channel->settings.domains[i], strlen(channel->settings.domains[i]) + 1);
}

struct dns_channel *dns_channel_new(struct loop *loop, const struct dns_rule *rule)
{
	struct dns_channel *channel = xcalloc(1, sizeof(*channel));
	channel->loop = loop;
	list_init(&channel->watches);
	timer_init(&channel->timer, loop, on_time, channel);
	int64_t try_ms = rule->timeout_ms > 0 ? rule->timeout_ms / TRIES_SHARE : DEFAULT_TRY_MS;
	struct ares_options options = {
		.timeout = (int)(try_ms < MIN_TRY_MS ? MIN_TRY_MS : try_ms > 60000 ? 60000 : try_ms),
		.tries = N_TRIES,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = channel,
	};
	CHECK(ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS);
	int given = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
	int status = ares_init_options(&channel->ares, &options, given);
	CHECK(status == ARES_SUCCESS);
	set_servers(channel, &rule->servers);
	int saved;
	channel->has_settings = ares_save_options(channel->ares, &channel->settings, &saved) == ARES_SUCCESS;
	make_signature(channel);
	return channel;
}

void dns_channel_free(struct dns_channel **channel)
{
	struct dns_channel *gone = *channel;
	if (gone == NULL)
		return;
	*channel = NULL;
	timer_clear(&gone->timer);
	if (gone->has_settings)
		ares_destroy_options(&gone->settings);
	ares_destroy(gone->ares); /* closes its sockets, so that no watch is left, and ends open questions */
	CHECK(list_is_empty(&gone->watches));
	ares_library_cleanup();
	free(gone);
}

uint64_t dns_channel_signature(const struct dns_channel *channel)
{
	return channel->signature;
}

static enum dns_answer_status status_of_reply(int ares_status, int n)
{
	if (ares_status == ARES_SUCCESS && n > 0)
		return DNS_ANSWER_ADDRESSES;
	return ares_status == ARES_SUCCESS || ares_status == ARES_ENODATA ? DNS_ANSWER_NO_DATA : DNS_ANSWER_FAILED;
}

/* The next free item of the answer, which is good for as long as its shortest TTL. */
static struct address *add_item(struct dns_answer *answer, int ttl_s)
{
	int64_t ttl_ms = ttl_s > 0 ? ttl_s * (int64_t)1000 : 0;
	if (answer->n == 0 || ttl_ms < answer->ttl_ms)
		answer->ttl_ms = ttl_ms;
	return &answer->items[answer->n++];
}

static void read_v4(struct dns_answer *answer, const unsigned char *bytes, int length)
{
	struct ares_addrttl found[RESOLVE_MAX_ADDRESSES];
	int n = RESOLVE_MAX_ADDRESSES;
	int status = ares_parse_a_reply(bytes, length, NULL, found, &n);
	if (status != ARES_SUCCESS)
		n = 0;
	answer->status = status_of_reply(status, n);
	for (int i = 0; i < n; i++) {
		struct address *item = add_item(answer, found[i].ttl);
		item->socket.v4.sin_family = AF_INET;
		item->socket.v4.sin_addr = found[i].ipaddr;
	}
}

static void read_v6(struct dns_answer *answer, const unsigned char *bytes, int length)
{
	struct ares_addr6ttl found[RESOLVE_MAX_ADDRESSES];
	int n = RESOLVE_MAX_ADDRESSES;
	int status = ares_parse_aaaa_reply(bytes, length, NULL, found, &n);
	if (status != ARES_SUCCESS)
		n = 0;
	answer->status = status_of_reply(status, n);
	for (int i = 0; i < n; i++) {
		struct address *item = add_item(answer, found[i].ttl);
		item->socket.v6.sin6_family = AF_INET6;
		memcpy(&item->socket.v6.sin6_addr, &found[i].ip6addr, sizeof(struct in6_addr));
	}
}

static enum dns_answer_status status_of_failure(int status)
{
	switch (status) {
	case ARES_ENODATA:
		return DNS_ANSWER_NO_DATA;
	case ARES_ENOTFOUND:
	case ARES_EBADNAME: /* a label over 63 bytes or the like: no such name can be */
		return DNS_ANSWER_NO_NAME;
	case ARES_ETIMEOUT:
		return DNS_ANSWER_TIMEOUT;
	default:
		return DNS_ANSWER_FAILED;
	}
}

static void on_answer(void *context, int status, int n_timeouts, unsigned char *bytes, int length)
{
	(void)n_timeouts;
	struct dns_question *question = context;
	if (question->slot != NULL && status != ARES_EDESTRUCTION) {
		struct dns_answer answer;
		memset(&answer, 0, sizeof(answer));
		if (status != ARES_SUCCESS)
			answer.status = status_of_failure(status);
		else if (question->family == AF_INET)
			read_v4(&answer, bytes, length);
		else
			read_v6(&answer, bytes, length);
		*question->slot = NULL;
		question->done(question->owner, &answer);
	} else if (question->slot != NULL) {
		*question->slot = NULL;
	}
	free(question);
}

void dns_channel_ask(struct dns_channel *channel, const char *name, int family, struct dns_question **question,
		     dns_answer_fn done, void *owner)
{
	struct dns_question *asked = xcalloc(1, sizeof(*asked));
	asked->slot = question;
	asked->done = done;
	asked->owner = owner;
	asked->family = family;
	*question = asked;
	ares_query(channel->ares, name, ns_c_in, family == AF_INET ? ns_t_a : ns_t_aaaa, on_answer, asked);
	arm_timer(channel);
}

void dns_question_drop(struct dns_question **question)
{
	if (*question == NULL)
		return;
	(*question)->slot = NULL; /* c-ares can't take one question back; on_answer frees it */
	*question = NULL;
}

bool dns_channel_candidate(const struct dns_channel *channel, const char *host, size_t i, char *out, size_t capacity)
{
	size_t length = strlen(host);
	const struct ares_options *settings = &channel->settings;
	size_t n_domains = channel->has_settings && settings->ndomains > 0 ? (size_t)settings->ndomains : 0;
	int ndots = channel->has_settings && settings->ndots >= 0 ? settings->ndots : 1;
	if (length > 0 && host[length - 1] == '.')
		n_domains = 0;
	int n_dots = 0;
	for (size_t at = 0; at < length; at++)
		n_dots += host[at] == '.';
	size_t own_place = n_dots >= ndots ? 0 : n_domains; /* as it is: first, or after all domains */
	if (i > n_domains)
		return false;
	if (i == own_place) {
		if (snprintf(out, capacity, "%s", host) >= (int)capacity)
			out[0] = '\0';
		return true;
	}
	const char *domain = settings->domains[own_place == 0 ? i - 1 : i];
	domain += domain[0] == '.';
	if (domain[0] == '\0' || snprintf(out, capacity, "%s.%s", host, domain) >= (int)capacity)
		out[0] = '\0';
	return true;
}
