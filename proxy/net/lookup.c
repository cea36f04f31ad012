#include "lookup.h"

#include <stdlib.h>

#include "../base/check.h"
#include "../base/clock.h"

/*
 * RFC 8305 3: with A in hand, AAAA gets so much longer. The other way round A is waited for until the deadline, since a
 * lost A answer must not make an IPv4 host look like one that is reached by IPv6 only.
 */
#define RESOLUTION_DELAY_MS 50
/* What is known of one family only is asked for again soon. */
#define PARTIAL_TTL_MS 5000
/* With max_ttl off. */
#define LONGEST_TTL_MS (24 * 3600 * 1000LL)

enum { V4, V6 };

static void on_answer(struct lookup *lookup, int family, const struct dns_answer *answer)
{
	lookup->answers[family] = *answer;
	lookup->is_answered[family] = true;
	loop_defer(lookup->loop, &lookup->judge);
}

static void on_v4(void *owner, const struct dns_answer *answer)
{
	on_answer(owner, V4, answer);
}

static void on_v6(void *owner, const struct dns_answer *answer)
{
	on_answer(owner, V6, answer);
}

static void on_deadline(void *owner)
{
	struct lookup *lookup = owner;
	lookup->is_due = true;
	loop_defer(lookup->loop, &lookup->judge);
}

static void on_patience_over(void *owner)
{
	struct lookup *lookup = owner;
	lookup->is_patience_over = true;
	loop_defer(lookup->loop, &lookup->judge);
}

/* Asks for the candidate whose turn it is; false when there is none left. */
static bool ask_candidate(struct lookup *lookup)
{
	char name[LOOKUP_MAX_NAME];
	do {
		if (!dns_channel_candidate(lookup->channel, lookup->name, lookup->candidate, name, sizeof(name)))
			return false;
		if (name[0] == '\0')
			lookup->candidate++;
	} while (name[0] == '\0');
	lookup->is_answered[V4] = lookup->is_answered[V6] = false;
	lookup->is_patience_over = false;
	timer_set(&lookup->patience, MONO_NEVER);
	dns_channel_ask(lookup->channel, name, AF_INET6, &lookup->questions[V6], on_v6, lookup);
	dns_channel_ask(lookup->channel, name, AF_INET, &lookup->questions[V4], on_v4, lookup);
	if (lookup->is_due) /* too late for this candidate; if its answer isn't there at once, that is the verdict */
		loop_defer(lookup->loop, &lookup->judge);
	return true;
}

void lookup_detach(struct lookup *lookup)
{
	dns_question_drop(&lookup->questions[V4]);
	dns_question_drop(&lookup->questions[V6]);
}

static void finish(struct lookup *lookup, enum resolve_status status, struct address_list *addresses)
{
	lookup_detach(lookup);
	timer_set(&lookup->deadline, MONO_NEVER);
	timer_set(&lookup->patience, MONO_NEVER);
	lookup->done(lookup->owner, lookup, status, addresses); /* frees it */
}

static bool has_addresses(const struct lookup *lookup, int family)
{
	return lookup->is_answered[family] && lookup->answers[family].status == DNS_ANSWER_ADDRESSES;
}

static bool has_failed(const struct lookup *lookup, int family)
{
	return lookup->is_answered[family] && lookup->answers[family].status == DNS_ANSWER_FAILED;
}

static bool has_timed_out(const struct lookup *lookup, int family)
{
	return lookup->is_answered[family] && lookup->answers[family].status == DNS_ANSWER_TIMEOUT;
}

/* Does what is not known of the family count as "nothing there", by an answer that says so? */
static bool is_known(const struct lookup *lookup, int family)
{
	return lookup->is_answered[family] && !has_failed(lookup, family) && !has_timed_out(lookup, family);
}

static void succeed(struct lookup *lookup)
{
	struct address all[RESOLVE_MAX_ADDRESSES];
	size_t n = 0, n_v4 = 0;
	int64_t ttl_ms = lookup->max_ttl_ms < 0 ? LONGEST_TTL_MS : lookup->max_ttl_ms;
	if (has_addresses(lookup, V4))
		n_v4 = lookup->answers[V4].n;
	/* Neither family crowds the other out. */
	size_t room_v6 = n_v4 < RESOLVE_MAX_ADDRESSES / 2 ? RESOLVE_MAX_ADDRESSES - n_v4 : RESOLVE_MAX_ADDRESSES / 2;
	for (int family = V6; family >= V4; family--) {
		const struct dns_answer *answer = &lookup->answers[family];
		if (!has_addresses(lookup, family))
			continue;
		size_t room = family == V6 ? room_v6 : RESOLVE_MAX_ADDRESSES;
		for (size_t i = 0; i < answer->n && i < room && n < RESOLVE_MAX_ADDRESSES; i++)
			all[n++] = answer->items[i];
		ttl_ms = answer->ttl_ms < ttl_ms ? answer->ttl_ms : ttl_ms;
	}
	if ((!is_known(lookup, V4) || !is_known(lookup, V6)) && ttl_ms > PARTIAL_TTL_MS)
		ttl_ms = PARTIAL_TTL_MS;
	struct address_list *list = address_list_new(all, n, mono_add_ms(clock_now(), ttl_ms));
	finish(lookup, RESOLVE_OK, list);
	address_list_unref(&list);
}

/* This candidate has no address: the next one, or the end. A time-out ends it, as there is no time for more. */
static void step_on(struct lookup *lookup)
{
	if (has_failed(lookup, V4) || has_failed(lookup, V6))
		lookup->has_failed = true;
	bool is_silent = has_timed_out(lookup, V4) || has_timed_out(lookup, V6);
	lookup_detach(lookup);
	if (is_silent && !lookup->has_failed) {
		finish(lookup, RESOLVE_TIMEOUT, NULL);
		return;
	}
	lookup->candidate++;
	if (is_silent || !ask_candidate(lookup))
		finish(lookup, lookup->has_failed ? RESOLVE_FAILED : RESOLVE_NO_NAME, NULL);
}

static void judge(struct deferred *item)
{
	struct lookup *lookup = LIST_ENTRY_OF(item, struct lookup, judge);
	bool is_v4_done = lookup->is_answered[V4], is_v6_done = lookup->is_answered[V6];
	if (has_addresses(lookup, V4) && (is_v6_done || lookup->is_patience_over || lookup->is_due)) {
		succeed(lookup);
	} else if (has_addresses(lookup, V4)) {
		if (mono_is_never(lookup->patience.due))
			timer_set(&lookup->patience, mono_add_ms(clock_now(), RESOLUTION_DELAY_MS));
	} else if (has_addresses(lookup, V6) && (is_v4_done || lookup->is_due)) {
		succeed(lookup);
	} else if (is_v4_done && is_v6_done) {
		step_on(lookup);
	} else if (is_v4_done && lookup->answers[V4].status == DNS_ANSWER_NO_NAME && !has_addresses(lookup, V6)) {
		/* NXDOMAIN is about the name, not the type (RFC 8020). Not so the other way: there are servers that say
		 * it of AAAA only (RFC 4074 4.2). */
		step_on(lookup);
	} else if (lookup->is_due) {
		bool is_failed = lookup->has_failed || has_failed(lookup, V4) || has_failed(lookup, V6);
		finish(lookup, is_failed ? RESOLVE_FAILED : RESOLVE_TIMEOUT, NULL);
	}
}

struct lookup *lookup_start(struct loop *loop, struct dns_channel *channel, const char *name,
			    const struct dns_rule *rule, lookup_done_fn done, void *owner)
{
	struct lookup *lookup = xcalloc(1, sizeof(*lookup));
	list_init(&lookup->link);
	list_init(&lookup->waiters);
	lookup->name = xstrdup(name);
	lookup->loop = loop;
	lookup->max_ttl_ms = rule->max_ttl_ms;
	lookup->done = done;
	lookup->owner = owner;
	timer_init(&lookup->deadline, loop, on_deadline, lookup);
	timer_init(&lookup->patience, loop, on_patience_over, lookup);
	deferred_init(&lookup->judge, judge);
	timer_set(&lookup->deadline, mono_add_ms(clock_now(), rule->timeout_ms));
	lookup_restart(lookup, channel);
	return lookup;
}

void lookup_restart(struct lookup *lookup, struct dns_channel *channel)
{
	lookup_detach(lookup);
	lookup->channel = channel;
	lookup->candidate = 0;
	lookup->has_failed = false;
	if (!ask_candidate(lookup)) { /* nothing that could be a name */
		struct dns_answer none = { .status = DNS_ANSWER_NO_NAME };
		on_answer(lookup, V4, &none);
		on_answer(lookup, V6, &none);
	}
}

void lookup_free(struct lookup **lookup)
{
	struct lookup *gone = *lookup;
	if (gone == NULL)
		return;
	*lookup = NULL;
	CHECK(list_is_empty(&gone->waiters));
	lookup_detach(gone);
	list_remove(&gone->link);
	deferred_cancel(&gone->judge);
	timer_clear(&gone->deadline);
	timer_clear(&gone->patience);
	free(gone->name);
	free(gone);
}
