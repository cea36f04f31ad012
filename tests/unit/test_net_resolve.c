/* Resolving against a scripted DNS server: both families, search list, failures, time-outs, caches, cancelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../proxy/base/clock.h"
#include "../../proxy/net/dns_channel.h"
#include "../../proxy/net/hosts.h"
#include "../../proxy/net/name_cache.h"
#include "net_room.h"

#define A 1
#define AAAA 28
#define GIVES(n, t, ttl, ...) .name = n, .type = t, .ttl_s = ttl, .addresses = { __VA_ARGS__ }
#define EMPTY(n, t) .name = n, .type = t, .ttl_s = 60
#define FAILS(n, t, code) .name = n, .type = t, .rcode = code

struct asked { /* one who waits */
	struct net_room *room;
	struct resolver *resolver;
	struct resolve_query *query;
	unsigned n_answers;
	enum resolve_status status;
	struct address_list *addresses;
	int64_t took_ms;
	struct mono start;
	struct asked *cancels;         /* in its callback */
	bool cancels_itself, frees_resolver;
	unsigned *to_stop;             /* counts down; the loop stops at 0 */
};

static struct net_room room;
static struct dns_stub stub;
static struct resolver *resolver;
static unsigned to_stop;

static void on_done(void *owner, enum resolve_status status, struct address_list *addresses)
{
	struct asked *asked = owner;
	asked->n_answers++;
	asked->status = status;
	asked->addresses = addresses != NULL ? address_list_ref(addresses) : NULL;
	asked->took_ms = mono_elapsed_ms(asked->start, clock_now());
	if (asked->cancels_itself)
		resolve_cancel(&asked->query);
	asked->query = NULL;
	if (asked->cancels != NULL)
		resolve_cancel(&asked->cancels->query);
	if (asked->frees_resolver)
		resolver_free(&resolver);
	if (to_stop > 0 && --to_stop == 0)
		loop_stop(room.loop);
}

static void ask(struct asked *asked, const char *name)
{
	memset(asked, 0, sizeof(*asked));
	asked->start = clock_now();
	struct resolve_answer answer = resolver_lookup(resolver, name, on_done, asked);
	asked->query = answer.query;
	if (!answer.is_pending) {
		asked->n_answers = 1;
		asked->status = answer.status;
		asked->addresses = answer.addresses;
	}
}

static void assert_pending(const struct asked *asked)
{
	assert_non_null(asked->query);
	assert_int_equal(asked->n_answers, 0);
}

/* "192.0.2.1 2001:db8::1"; forgets the addresses. */
static void assert_answer(struct asked *asked, enum resolve_status status, const char *addresses)
{
	char all[512] = "";
	assert_int_equal(asked->n_answers, 1);
	assert_int_equal(asked->status, status);
	for (size_t i = 0; asked->addresses != NULL && i < asked->addresses->n; i++) {
		if (i > 0)
			strcat(all, " ");
		address_format(&asked->addresses->items[i], all + strlen(all), sizeof(all) - strlen(all));
	}
	assert_string_equal(all, addresses);
	address_list_unref(&asked->addresses);
}

static void wait_for(unsigned n_answers)
{
	to_stop = n_answers;
	net_room_run(&room, 5000);
}

static void ask_and_wait(struct asked *asked, const char *name)
{
	ask(asked, name);
	assert_pending(asked);
	wait_for(1);
}

static void open_with(struct dns_record *records, size_t n, const struct dns_rule *change)
{
	dns_stub_open(&stub, &room, records, n);
	struct dns_rule rule = dns_stub_rule(&stub);
	if (change != NULL) {
		rule.timeout_ms = change->timeout_ms;
		rule.max_ttl_ms = change->max_ttl_ms;
		rule.negative_ttl_ms = change->negative_ttl_ms;
	}
	resolver = resolver_new(room.loop, &rule);
}

#define OPEN(records) open_with(records, sizeof(records) / sizeof(records[0]), NULL)
#define OPEN_WITH(records, ...) \
	open_with(records, sizeof(records) / sizeof(records[0]), &(struct dns_rule){ __VA_ARGS__ })

static int set_up(void **state)
{
	(void)state;
	setenv("LOCALDOMAIN", "a.test b.test", 1); /* as resolv.conf's search */
	setenv("RES_OPTIONS", "ndots:2", 1);
	net_room_open(&room);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	resolver_free(&resolver);
	dns_stub_close(&stub);
	net_room_close(&room);
	return 0;
}

static void both_families_are_asked_at_once_and_kept(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("api.x.test", A, 60, "192.0.2.1", "192.0.2.2"), .delay_ms = 40 },
		{ GIVES("api.x.test", AAAA, 60, "2001:db8::1"), .delay_ms = 40 },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "api.x.test");
	assert_true(asked.took_ms < 700);
	assert_answer(&asked, RESOLVE_OK, "2001:db8::1 192.0.2.1 192.0.2.2");
	assert_int_equal(stub.n_queries, 2);
}

static void unique_local_addresses_come_after_ipv4(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("api.x.test", A, 60, "192.0.2.1") },
		{ GIVES("api.x.test", AAAA, 60, "fd00::1", "2001:db8::1", "2002:c000:201::1") },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "api.x.test");
	assert_answer(&asked, RESOLVE_OK, "2001:db8::1 192.0.2.1 2002:c000:201::1 fd00::1");
}

static void no_such_name_is_final_and_remembered_for_a_while(void **state)
{
	(void)state;
	struct dns_record records[] = { { GIVES("other.x.test", A, 60, "192.0.2.1") } };
	struct asked asked, again;
	OPEN_WITH(records, .timeout_ms = 2000, .max_ttl_ms = 60000, .negative_ttl_ms = 60);
	ask_and_wait(&asked, "gone.x.test.");
	assert_answer(&asked, RESOLVE_NO_NAME, "");
	assert_true(asked.took_ms < 700);
	unsigned n_queries = stub.n_queries;
	ask(&again, "gone.x.test.");
	assert_answer(&again, RESOLVE_NO_NAME, "");
	assert_int_equal(stub.n_queries, n_queries);
	usleep(80000);
	ask_and_wait(&again, "gone.x.test.");
	assert_answer(&again, RESOLVE_NO_NAME, "");
	assert_true(stub.n_queries > n_queries);
}

static void a_name_without_addresses_is_no_name(void **state)
{
	(void)state;
	struct dns_record records[] = { { EMPTY("mail.x.test", A) }, { EMPTY("mail.x.test", AAAA) } };
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "mail.x.test.");
	assert_answer(&asked, RESOLVE_NO_NAME, "");
}

static void a_server_failure_is_a_failure_and_not_remembered(void **state)
{
	(void)state;
	struct dns_record records[] = { { FAILS("x.x.test", A, 2) }, { FAILS("x.x.test", AAAA, 2) } };
	struct asked asked, again;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test.");
	assert_answer(&asked, RESOLVE_FAILED, "");
	assert_true(asked.took_ms < 1000);
	ask(&again, "x.x.test.");
	assert_pending(&again);
	resolve_cancel(&again.query);
}

/* The case that is easily got wrong: the failure must not hide behind the other family's "no data". */
static void failure_of_one_family_and_no_data_of_the_other_is_a_failure(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ FAILS("x.x.test", A, 2), .delay_ms = 0 }, { EMPTY("x.x.test", AAAA), .delay_ms = 30 },
		{ FAILS("y.x.test", A, 2), .delay_ms = 30 }, { EMPTY("y.x.test", AAAA), .delay_ms = 0 },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test.");
	assert_answer(&asked, RESOLVE_FAILED, "");
	ask_and_wait(&asked, "y.x.test.");
	assert_answer(&asked, RESOLVE_FAILED, "");
}

static void failure_of_one_family_does_not_hide_the_other(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1") }, { FAILS("x.x.test", AAAA, 2) },
		{ FAILS("y.x.test", A, 5) }, { GIVES("y.x.test", AAAA, 60, "2001:db8::1") },
		{ GIVES("z.x.test", A, 60, "192.0.2.3"), .delay_ms = 30 }, { FAILS("z.x.test", AAAA, 3) },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test");
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
	ask_and_wait(&asked, "y.x.test");
	assert_answer(&asked, RESOLVE_OK, "2001:db8::1");
	ask_and_wait(&asked, "z.x.test"); /* servers that deny a name of which they have no AAAA */
	assert_answer(&asked, RESOLVE_OK, "192.0.2.3");
}

static void a_silent_family_is_not_waited_for_long(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1") }, { FAILS("x.x.test", AAAA, -1) },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test");
	assert_true(asked.took_ms >= 50 && asked.took_ms < 900);
	assert_true(asked.addresses->expires.us - clock_now().us < 6 * 1000000); /* half an answer is kept shortly */
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
}

static void silence_ends_at_the_time_limit(void **state)
{
	(void)state;
	struct dns_record records[] = { { FAILS("x.x.test", A, -1) }, { FAILS("x.x.test", AAAA, -1) } };
	struct asked asked;
	OPEN_WITH(records, .timeout_ms = 400, .max_ttl_ms = 60000, .negative_ttl_ms = 2000);
	ask_and_wait(&asked, "x.x.test");
	assert_true(asked.took_ms >= 400 && asked.took_ms < 1000);
	assert_answer(&asked, RESOLVE_TIMEOUT, "");
	assert_int_equal(records[0].n_asked, 3); /* at 0, 100 and 300 ms */
}

static void a_lost_packet_is_asked_for_again_in_time(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1"), .rcode = -2 }, { GIVES("x.x.test", AAAA, 60, "2001:db8::1"), .rcode = -2 },
	};
	struct asked asked;
	OPEN_WITH(records, .timeout_ms = 800, .max_ttl_ms = 60000, .negative_ttl_ms = 2000);
	ask_and_wait(&asked, "x.x.test");
	assert_true(asked.took_ms >= 190 && asked.took_ms < 590);
	assert_answer(&asked, RESOLVE_OK, "2001:db8::1 192.0.2.1");
}

static void no_server_listening_is_a_failure_within_the_limit(void **state)
{
	(void)state;
	struct asked asked;
	uint16_t port = 0;
	char server[32];
	const char *servers[] = { server };
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	OPEN(none);
	resolver_free(&resolver);
	int fd = net_closed_port(AF_INET, &port);
	snprintf(server, sizeof(server), "127.0.0.1:%u", port);
	struct dns_rule rule = { .timeout_ms = 2000, .max_ttl_ms = 60000, .negative_ttl_ms = 2000, .servers = { servers, 1 } };
	resolver = resolver_new(room.loop, &rule);
	ask_and_wait(&asked, "x.x.test");
	assert_true(asked.took_ms < 2200);
	/* "Port unreachable" or, as systems limit how often they say so, silence. */
	assert_true(asked.status == RESOLVE_FAILED || asked.status == RESOLVE_TIMEOUT);
	assert_int_equal(asked.n_answers, 1);
	close(fd);
}

static void the_ttl_is_the_least_of_all_and_capped(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 300, "192.0.2.1"), .alias = "y.x.test", .alias_ttl_s = 20 },
		{ GIVES("x.x.test", AAAA, 300, "2001:db8::1") },
		{ GIVES("long.x.test", A, 300, "192.0.2.2") }, { EMPTY("long.x.test", AAAA) },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test");
	int64_t left_ms = mono_left_ms(clock_now(), asked.addresses->expires);
	assert_true(left_ms > 19000 && left_ms <= 20000);
	assert_answer(&asked, RESOLVE_OK, "2001:db8::1 192.0.2.1");
	ask_and_wait(&asked, "long.x.test");
	left_ms = mono_left_ms(clock_now(), asked.addresses->expires);
	assert_true(left_ms > 59000 && left_ms <= 60000);
	assert_answer(&asked, RESOLVE_OK, "192.0.2.2");
}

static void an_answer_is_used_for_its_ttl_and_no_longer(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 1, "192.0.2.1") }, { EMPTY("x.x.test", AAAA) },
	};
	struct asked asked, again;
	OPEN(records);
	ask_and_wait(&asked, "x.x.test");
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
	ask(&again, "X.x.Test");
	assert_answer(&again, RESOLVE_OK, "192.0.2.1");
	assert_int_equal(stub.n_queries, 2);
	records[0].addresses[0] = "192.0.2.9";
	usleep(1050000);
	ask_and_wait(&again, "x.x.test");
	assert_answer(&again, RESOLVE_OK, "192.0.2.9");
}

static void a_ttl_of_zero_serves_those_who_wait_only(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 0, "192.0.2.1") }, { EMPTY("x.x.test", AAAA) },
	};
	struct asked asked, other;
	OPEN(records);
	ask(&asked, "x.x.test");
	ask(&other, "x.x.test");
	assert_pending(&other);
	wait_for(2);
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
	assert_answer(&other, RESOLVE_OK, "192.0.2.1");
	assert_int_equal(stub.n_queries, 2); /* one lookup for both */
	ask(&asked, "x.x.test");
	assert_pending(&asked);
	resolve_cancel(&asked.query);
}

static void the_search_list_is_tried_by_ndots(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("payments.b.test", A, 60, "192.0.2.1") }, { EMPTY("payments.b.test", AAAA) },
		{ GIVES("far.away.test", A, 60, "192.0.2.2") }, { EMPTY("far.away.test", AAAA) },
		{ GIVES("dotted.test", A, 60, "192.0.2.3") }, { EMPTY("dotted.test", AAAA) },
		{ GIVES("dotted.test.a.test", A, 60, "192.0.2.4") }, { EMPTY("dotted.test.a.test", AAAA) },
	};
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "payments");
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
	unsigned before = stub.n_queries;
	ask_and_wait(&asked, "far.away.test"); /* two dots: as it is first */
	assert_answer(&asked, RESOLVE_OK, "192.0.2.2");
	assert_int_equal(stub.n_queries - before, 2);
	ask_and_wait(&asked, "dotted.test"); /* one dot: the list first */
	assert_answer(&asked, RESOLVE_OK, "192.0.2.4");
	ask_and_wait(&asked, "dotted.test."); /* a dot at the end: the list isn't used */
	assert_answer(&asked, RESOLVE_OK, "192.0.2.3");
	before = stub.n_queries;
	ask_and_wait(&asked, "nowhere");
	assert_answer(&asked, RESOLVE_NO_NAME, "");
	assert_in_range(stub.n_queries - before, 3, 6);
}

static void a_failure_on_the_search_list_is_not_forgotten(void **state)
{
	(void)state;
	struct dns_record records[] = { { FAILS("payments.a.test", A, 2) }, { FAILS("payments.a.test", AAAA, 2) } };
	struct asked asked;
	OPEN(records);
	ask_and_wait(&asked, "payments");
	assert_answer(&asked, RESOLVE_FAILED, ""); /* not "no such name", which would be final */
}

static void the_search_list_does_not_stretch_the_time_limit(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ FAILS("slow.a.test", A, 3), .delay_ms = 150 }, { FAILS("slow.a.test", AAAA, 3), .delay_ms = 150 },
		{ FAILS("slow.b.test", A, 3), .delay_ms = 150 }, { FAILS("slow.b.test", AAAA, 3), .delay_ms = 150 },
	};
	struct asked asked;
	OPEN_WITH(records, .timeout_ms = 200, .max_ttl_ms = 60000, .negative_ttl_ms = 2000);
	ask_and_wait(&asked, "slow");
	assert_true(asked.took_ms >= 200 && asked.took_ms < 700);
	assert_answer(&asked, RESOLVE_TIMEOUT, "");
}

static void cancelling_is_silent_and_the_others_are_answered(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1"), .delay_ms = 20 }, { EMPTY("x.x.test", AAAA) },
	};
	struct asked asked[4];
	OPEN(records);
	for (int i = 0; i < 4; i++)
		ask(&asked[i], "x.x.test");
	resolve_cancel(&asked[0].query);
	resolve_cancel(&asked[0].query);
	asked[1].cancels = &asked[2];
	asked[1].cancels_itself = true;
	wait_for(2);
	assert_int_equal(asked[0].n_answers, 0);
	assert_int_equal(asked[2].n_answers, 0);
	assert_answer(&asked[1], RESOLVE_OK, "192.0.2.1");
	assert_answer(&asked[3], RESOLVE_OK, "192.0.2.1");
}

static void when_all_have_cancelled_the_answer_still_gets_cached(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1") }, { EMPTY("x.x.test", AAAA) },
	};
	struct asked asked;
	OPEN(records);
	ask(&asked, "x.x.test");
	resolve_cancel(&asked.query);
	net_room_turn(&room, 60);
	assert_int_equal(asked.n_answers, 0);
	ask(&asked, "x.x.test");
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
}

static void the_resolver_may_be_freed_in_an_answer(void **state)
{
	(void)state;
	struct dns_record records[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1") }, { EMPTY("x.x.test", AAAA) },
	};
	struct asked asked[3], slow;
	OPEN(records);
	for (int i = 0; i < 3; i++)
		ask(&asked[i], "x.x.test");
	ask(&slow, "slow.x.test.");
	asked[0].frees_resolver = true;
	to_stop = 99;
	net_room_turn(&room, 100);
	assert_null(resolver);
	assert_answer(&asked[0], RESOLVE_OK, "192.0.2.1");
	assert_int_equal(asked[1].n_answers + asked[2].n_answers, 0);
}

static void new_servers_are_asked_for_what_is_under_way(void **state)
{
	(void)state;
	struct dns_record old[] = {
		{ FAILS("x.x.test", A, -1) }, { FAILS("x.x.test", AAAA, -1) },
		{ GIVES("kept.x.test", A, 60, "192.0.2.7") }, { EMPTY("kept.x.test", AAAA) },
	};
	struct dns_record new[] = {
		{ GIVES("x.x.test", A, 60, "192.0.2.1") }, { EMPTY("x.x.test", AAAA) },
	};
	struct dns_stub second;
	struct asked asked, kept;
	OPEN(old);
	ask_and_wait(&kept, "kept.x.test");
	assert_answer(&kept, RESOLVE_OK, "192.0.2.7");
	struct dns_rule rule = dns_stub_rule(&stub);
	rule.max_ttl_ms = 30000;
	resolver_configure(resolver, &rule);
	ask(&kept, "kept.x.test"); /* the same servers: the cache stays */
	assert_answer(&kept, RESOLVE_OK, "192.0.2.7");
	ask(&asked, "x.x.test");
	net_room_turn(&room, 30);
	assert_int_equal(asked.n_answers, 0);
	dns_stub_open(&second, &room, new, 2);
	rule = dns_stub_rule(&second);
	resolver_configure(resolver, &rule);
	wait_for(1);
	assert_answer(&asked, RESOLVE_OK, "192.0.2.1");
	ask(&kept, "kept.x.test"); /* other servers: it doesn't */
	assert_pending(&kept);
	resolve_cancel(&kept.query);
	net_room_turn(&room, 30);
	dns_stub_close(&second);
}

static void literals_and_localhost_need_no_server(void **state)
{
	(void)state;
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	static const struct {
		const char *host;
		const char *addresses;
	} rows[] = {
		{ "192.0.2.1", "192.0.2.1" }, { "2001:db8::1", "2001:db8::1" }, { "::ffff:192.0.2.1", "::ffff:192.0.2.1" },
		{ "localhost", "::1 127.0.0.1" }, { "LocalHost.", "::1 127.0.0.1" }, { "a.b.localhost", "::1 127.0.0.1" },
	};
	struct asked asked;
	OPEN(none);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ask(&asked, rows[i].host);
		assert_true(mono_is_never(asked.addresses->expires));
		assert_answer(&asked, RESOLVE_OK, rows[i].addresses);
	}
	assert_int_equal(stub.n_queries, 0);
}

static void odd_spellings_of_addresses_are_no_names_and_never_asked_for(void **state)
{
	(void)state;
	static const char *const hosts[] = {
		"2130706433", "0x7f000001", "0x7F.1", "127.1", "0177.0.0.1", "127.0.0.1.", "127.0.0.01", "1.2.3.4.5", "256.1.1.1",
		"0", "0x", "", ".", "a..b", ".a", "fe80::1%lo", "[::1]", "a b", "a/b", "\xc3\xa9.test", "x.onion", "a\\.b",
	};
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	struct asked asked;
	char too_long[400];
	OPEN(none);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		ask(&asked, hosts[i]);
		assert_answer(&asked, RESOLVE_NO_NAME, "");
	}
	memset(too_long, 'a', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	ask(&asked, too_long);
	assert_answer(&asked, RESOLVE_NO_NAME, "");
	too_long[100] = '\0'; /* a label of 100: c-ares refuses it */
	ask_and_wait(&asked, too_long);
	assert_answer(&asked, RESOLVE_NO_NAME, "");
	assert_int_equal(stub.n_queries, 0);
	assert_pending((ask(&asked, "0xcafe.test"), &asked)); /* but this is a name */
	resolve_cancel(&asked.query);
}

static void more_addresses_than_fit_keep_both_families(void **state)
{
	(void)state;
	struct address items[40];
	for (int i = 0; i < 40; i++) {
		char text[32];
		snprintf(text, sizeof(text), i % 2 ? "192.0.2.%d" : "2001:db8::%d", i);
		assert_true(address_parse(text, &items[i]));
	}
	items[2] = items[0]; /* a double */
	struct address_list *list = address_list_new(items, 40, MONO_NEVER);
	assert_int_equal(list->n, RESOLVE_MAX_ADDRESSES - 1);
	assert_true(address_list_has(list, &items[0]));
	assert_true(address_list_has(list, &items[31]));
	assert_false(address_list_has(list, &items[32]));
	address_list_unref(&list);
	assert_null(list);
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	OPEN(none);
}

static void hosts_files_are_read_as_they_are_written(void **state)
{
	(void)state;
	char path[] = "/tmp/evenkeel-hosts-XXXXXX";
	static const char text[] = "# comment\n127.0.0.1 localhost\n  10.0.0.1\tdb DB-Main db.local. # db.comment\r\n"
				   "10.0.0.2 db\nfd00::1 db\n10.0.0.300 db\nnonsense\n10.0.0.4\n10.0.0.5 last";
	struct address found[8];
	char out[64];
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	int fd = mkstemp(path);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	assert_int_equal(hosts_find(path, "db", found, 8), 3);
	address_format(&found[2], out, sizeof(out));
	assert_string_equal(out, "fd00::1");
	assert_int_equal(hosts_find(path, "db", found, 2), 2);
	assert_int_equal(hosts_find(path, "db-main", found, 8), 1);
	assert_int_equal(hosts_find(path, "db.local", found, 8), 1);
	assert_int_equal(hosts_find(path, "db.", found, 8), 3);
	assert_int_equal(hosts_find(path, "last", found, 8), 1);
	assert_int_equal(hosts_find(path, "db.comment", found, 8), 0);
	assert_int_equal(hosts_find(path, "d", found, 8), 0);
	unlink(path);
	assert_int_equal(hosts_find(path, "db", found, 8), 0);
	OPEN(none);
}

static void the_cache_is_bounded_and_forgets_the_least_used(void **state)
{
	(void)state;
	struct name_cache *cache = name_cache_new(&room.loop->rng);
	struct address_list *addresses;
	struct mono now = clock_now(), later = mono_add_ms(now, 1000);
	struct dns_record none[1] = { { FAILS("x", A, -1) } };
	char name[32];
	for (int i = 0; i < NAME_CACHE_MAX_NAMES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		name_cache_put(cache, name, NULL, later);
	}
	assert_true(name_cache_get(cache, "n0", now, &addresses)); /* used: n1 is the oldest now */
	assert_null(addresses);
	name_cache_put(cache, "one more", NULL, later);
	assert_int_equal(name_cache_n(cache), NAME_CACHE_MAX_NAMES);
	assert_true(name_cache_get(cache, "n0", now, &addresses));
	assert_false(name_cache_get(cache, "n1", now, &addresses));
	assert_false(name_cache_get(cache, "n2", later, &addresses)); /* over */
	assert_int_equal(name_cache_n(cache), NAME_CACHE_MAX_NAMES - 1);
	name_cache_free(&cache);
	OPEN(none);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(both_families_are_asked_at_once_and_kept),
		T(unique_local_addresses_come_after_ipv4),
		T(no_such_name_is_final_and_remembered_for_a_while),
		T(a_name_without_addresses_is_no_name),
		T(a_server_failure_is_a_failure_and_not_remembered),
		T(failure_of_one_family_and_no_data_of_the_other_is_a_failure),
		T(failure_of_one_family_does_not_hide_the_other),
		T(a_silent_family_is_not_waited_for_long),
		T(silence_ends_at_the_time_limit),
		T(a_lost_packet_is_asked_for_again_in_time),
		T(no_server_listening_is_a_failure_within_the_limit),
		T(the_ttl_is_the_least_of_all_and_capped),
		T(an_answer_is_used_for_its_ttl_and_no_longer),
		T(a_ttl_of_zero_serves_those_who_wait_only),
		T(the_search_list_is_tried_by_ndots),
		T(a_failure_on_the_search_list_is_not_forgotten),
		T(the_search_list_does_not_stretch_the_time_limit),
		T(cancelling_is_silent_and_the_others_are_answered),
		T(when_all_have_cancelled_the_answer_still_gets_cached),
		T(the_resolver_may_be_freed_in_an_answer),
		T(new_servers_are_asked_for_what_is_under_way),
		T(literals_and_localhost_need_no_server),
		T(odd_spellings_of_addresses_are_no_names_and_never_asked_for),
		T(more_addresses_than_fit_keep_both_families),
		T(hosts_files_are_read_as_they_are_written),
		T(the_cache_is_bounded_and_forgets_the_least_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
