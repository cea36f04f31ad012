/* GET /upstreams: every origin as it is now. */
#include "../base/clock.h"
#include "../base/json.h"
#include "../upstream/pool.h"
#include "admin.h"

#define MAX_SHOWN 1000 /* more would keep the loop busy for too long at once */

struct listing {
	const struct config *config;
	struct buffer *out;
	struct mono now;
	struct slice wanted;  /* ?upstream=: only its origins; data NULL: all */
	bool is_of_busy_ones; /* which half is being listed */
	size_t n_shown, n_left_out;
};

const struct upstream_def *admin_find_upstream(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_upstreams; i++)
		if (strcmp(config->upstreams[i].name, name) == 0)
			return &config->upstreams[i];
	return strcmp(config->unmatched.name, name) == 0 ? &config->unmatched : NULL;
}

void admin_write_quantiles(struct buffer *out, const struct quantiles *quantiles)
{
	static const struct {
		const char *name;
		double share;
	} rows[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p99.9", 0.999 } };
	json_member_integer(out, "n", quantiles ? (int64_t)quantiles->n : 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (quantiles)
			json_member_ms(out, rows[i].name, quantiles_at_us(quantiles, rows[i].share));
		else
			json_member_string(out, rows[i].name, NULL);
	}
	if (quantiles)
		json_member_ms(out, "max", quantiles->max_us);
	else
		json_member_string(out, "max", NULL);
}

static void write_pool(struct buffer *out, const struct origin *origin)
{
	const struct pool_limits *limits = &origin->limits;
	json_open(out, "pool", '{');
	json_member_integer(out, "active", (int64_t)origin->n_leased);
	json_member_integer(out, "idle", (int64_t)origin->n_idle);
	json_member_integer(out, "connecting", (int64_t)origin->n_connecting);
	json_member_limit(out, "max_connections", limits->max_connections);
	json_member_limit(out, "max_idle", limits->max_idle);
	json_close(out, '}');
	json_member_integer(out, "waiting", (int64_t)pool_n_waiting(origin));
	json_member_limit(out, "max_pending", limits->max_pending);
	json_member_integer(out, "in_flight", (int64_t)origin->n_seats);
	json_member_limit(out, "max_in_flight", limits->max_in_flight);
}

const char *admin_breaker_word(const struct origin *origin)
{
	static const char *const words[] = {
		[BREAKER_CLOSED] = "closed", [BREAKER_HALF_OPEN] = "half_open", [BREAKER_OPEN] = "open",
	};
	return words[origin->breaker.state];
}

static void write_guards(struct listing *listing, const struct origin *origin, const struct policy *policy)
{
	struct buffer *out = listing->out;
	struct budget budget = origin->budget; /* a copy: looking at it moves its clock */
	bool has_breaker = policy && policy->breaker.is_on, has_budget = policy && policy->retry.budget.is_on;
	json_open(out, "breaker", '{');
	json_member_bool(out, "is_on", has_breaker);
	json_member_string(out, "state", admin_breaker_word(origin));
	json_member_integer(out, "failures_in_a_row", origin->breaker.consecutive);
	json_member_integer(out, "retry_after_ms", has_breaker ? breaker_retry_after_ms(&origin->breaker, &policy->breaker,
										       listing->now) : 0);
	json_close(out, '}');
	json_open(out, "budget", '{');
	json_member_bool(out, "is_on", has_budget);
	if (has_budget)
		json_member_number(out, "left", budget_left(&budget, &policy->retry.budget, listing->now));
	else
		json_member_string(out, "left", NULL);
	json_close(out, '}');
	json_member_integer(out, "quiet_ms", mono_is_set(origin->quiet_until)
					     ? mono_left_ms(listing->now, origin->quiet_until) : 0);
}

static void write_addresses(struct buffer *out, const struct origin *origin)
{
	json_open(out, "addresses", '[');
	for (size_t i = 0; origin->addresses && i < origin->addresses->n; i++) {
		char text[64];
		size_t length = address_format(&origin->addresses->items[i], text, sizeof(text));
		json_item_slice(out, (struct slice){ text, length });
	}
	json_close(out, ']');
}

static void write_origin(struct listing *listing, const struct origin *origin)
{
	struct buffer *out = listing->out;
	const struct upstream_def *upstream = origin->is_retired ? NULL
						: admin_find_upstream(listing->config, origin->upstream_name);
	json_open(out, NULL, '{');
	json_member_string(out, "upstream", origin->upstream_name);
	json_member_string(out, "scheme", origin->is_tls ? "https" : "http");
	json_member_string(out, "host", origin->host);
	json_member_integer(out, "port", origin->port);
	json_member_bool(out, "retired", origin->is_retired);
	write_pool(out, origin);
	write_guards(listing, origin, upstream ? &upstream->policy : NULL);
	write_addresses(out, origin);
	json_open(out, "latency_ms", '{');
	for (enum latency_phase phase = 0; phase < N_LATENCY_PHASES; phase++) {
		json_open(out, latency_phase_words[phase], '{');
		admin_write_quantiles(out, origin->latency.phases[phase]);
		json_close(out, '}');
	}
	json_close(out, '}');
	json_close(out, '}');
}

static void visit(void *owner, const struct origin *origin)
{
	struct listing *listing = owner;
	bool is_busy = origin->n_users > 0 || origin_n_connections(origin) > 0;
	if (is_busy != listing->is_of_busy_ones)
		return;
	if (listing->wanted.data && !slice_equals(listing->wanted, slice_of(origin->upstream_name)))
		return;
	if (listing->n_shown == MAX_SHOWN) {
		listing->n_left_out++;
		return;
	}
	listing->n_shown++;
	write_origin(listing, origin);
}

void admin_answer_upstreams(struct front *front, const struct request *request, struct admin_answer *answer)
{
	struct buffer wanted = { 0 };
	enum query_result found = admin_query(request, "upstream", &wanted);
	if (found == QUERY_BAD) {
		admin_refuse(answer, 400, SLICE("The query can't be read: ?upstream=NAME, percent-encoded.\n"));
		buffer_clear(&wanted);
		return;
	}
	struct listing listing = { .config = front_config(front), .out = &answer->body, .now = clock_now() };
	if (found == QUERY_FOUND)
		listing.wanted = buffer_slice(&wanted);
	answer->content_type = "application/json";
	json_open(&answer->body, NULL, '{');
	json_member_integer(&answer->body, "connections", (int64_t)registry_n_connections(front->room->registry));
	json_member_limit(&answer->body, "max_connections", listing.config->global.limits.upstream_connections);
	json_open(&answer->body, "origins", '[');
	listing.is_of_busy_ones = true;
	registry_each(front->room->registry, visit, &listing);
	listing.is_of_busy_ones = false;
	registry_each(front->room->registry, visit, &listing);
	json_close(&answer->body, ']');
	json_member_integer(&answer->body, "left_out", (int64_t)listing.n_left_out);
	json_close(&answer->body, '}');
	buffer_append(&answer->body, "\n", 1);
	buffer_clear(&wanted);
}
