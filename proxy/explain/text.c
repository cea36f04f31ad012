/* The explanation for people. */
#include <stdio.h>

#include "../../config/units.h"
#include "explanation.h"

#define VALUE_COLUMNS 64 /* of "  key: value", before where it came from */
#define BAR_COLUMNS 50
#define MAX_FIRST_STEPS 10 /* a policy of 100 attempts isn't drawn whole */

static void put_others(struct buffer *out, const struct explanation *explanation)
{
	const struct config *config = explanation->config;

	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct upstream_def *other = &config->upstreams[i];
		if (other == explanation->match.upstream)
			continue;
		buffer_printf(out, "  not %s: ", other->name);
		put_other_upstream_reason(out, explanation, other);
		buffer_printf(out, "  ");
		put_place(out, config, other->line);
		buffer_printf(out, "\n");
	}
}

static void put_upstream(struct buffer *out, const struct explanation *explanation)
{
	const struct upstream_def *upstream = explanation->match.upstream;

	buffer_printf(out, "upstream: %s\n  ", upstream ? upstream->name : "none");
	put_upstream_reason(out, explanation);
	buffer_printf(out, "  ");
	put_upstream_place(out, explanation);
	buffer_printf(out, "\n");
	put_others(out, explanation);
}

static void put_route(struct buffer *out, const struct explanation *explanation)
{
	const struct match *match = &explanation->match;

	buffer_printf(out, "route: %s\n  ", match->route ? match->route->text : "none");
	put_route_reason(out, explanation);
	if (match->route) {
		buffer_printf(out, "  ");
		put_place(out, explanation->config, match->route->line);
	}
	buffer_printf(out, "\n");
	for (size_t i = 0; has_route_choice(explanation) && i < match->upstream->n_routes; i++) {
		const struct route *other = &match->upstream->routes[i];
		if (other == match->route)
			continue;
		buffer_printf(out, "  not %s: ", other->text);
		put_other_route_reason(out, explanation, other);
		buffer_printf(out, "  ");
		put_place(out, explanation->config, other->line);
		buffer_printf(out, "\n");
	}
}

struct value_table {
	struct buffer *out;
	const struct explanation *explanation;
	const char *group;
};

static void put_value(void *owner, const struct shown_value *value)
{
	struct value_table *table = owner;
	size_t width;

	if (!table->group || strcmp(table->group, value->group) != 0) {
		const struct match *match = &table->explanation->match;
		table->group = value->group;
		if (strcmp(value->group, "route") == 0)
			buffer_printf(table->out, "\nroute %s:\n", match->route->text);
		else if (strcmp(value->group, "upstream") == 0)
			buffer_printf(table->out, "\nupstream %s:\n", match->upstream->name);
		else
			buffer_printf(table->out, "\n%s:\n", value->group);
	}
	width = 4 + strlen(value->key->path) + strlen(value->text);
	buffer_printf(table->out, "  %s: %s%*s  ", value->key->path, value->text,
		width < VALUE_COLUMNS ? (int)(VALUE_COLUMNS - width) : 0, "");
	put_place(table->out, table->explanation->config, value->line);
	buffer_printf(table->out, "\n");
}

/* ---- the timeline ---- */

/* "33.3s", "1m33.3s": computed times, of which the policy file's exact form would be hard to read. */
static const char *duration(int64_t ms, char text[static UNITS_TEXT_BYTES])
{
	long long seconds = ms / 1000, rest = ms % 1000;
	char fraction[8] = "";

	if (ms < 0)
		return "no end";
	if (ms < 1000)
		return units_format_duration(ms, text);
	snprintf(fraction, sizeof(fraction), ".%03lld", rest);
	for (size_t end = 3; end > 0 && fraction[end] == '0'; end--)
		fraction[end] = '\0';
	if (rest == 0)
		fraction[0] = '\0';
	if (seconds < 60)
		snprintf(text, UNITS_TEXT_BYTES, "%lld%ss", seconds, fraction);
	else if (seconds < 3600)
		snprintf(text, UNITS_TEXT_BYTES, "%lldm%lld%ss", seconds / 60, seconds % 60, fraction);
	else
		snprintf(text, UNITS_TEXT_BYTES, "%lldh%lldm%lld%ss", seconds / 3600, seconds / 60 % 60, seconds % 60,
			fraction);
	return text;
}

/* What the whole width stands for: up to the last end, or some way past the last thing that has a time. */
static int64_t horizon_ms(const struct timeline *timeline)
{
	const struct timeline_step *last = &timeline->steps[timeline->n_steps - 1];
	int64_t ms = last->end_ms;

	if (ms < 0)
		ms = 2 * (last->slot_ms > 0 ? last->slot_ms : last->start_ms);
	return ms > 0 ? ms : 1;
}

static size_t column(int64_t ms, int64_t horizon)
{
	if (ms < 0 || ms >= horizon)
		return BAR_COLUMNS;
	return (size_t)((double)ms * BAR_COLUMNS / (double)horizon);
}

static void fill(char bar[static BAR_COLUMNS + 1], size_t from, size_t to, char mark)
{
	if (from >= BAR_COLUMNS)
		from = BAR_COLUMNS - 1;
	if (to <= from)
		to = from + 1; /* what takes no time on this scale is still seen */
	memset(bar + from, mark, to - from);
}

static void start_bar(char bar[static BAR_COLUMNS + 1])
{
	memset(bar, ' ', BAR_COLUMNS);
	bar[BAR_COLUMNS] = '\0';
}

static const char *const cut_words[] = {
	[TIMELINE_ATTEMPT] = "cut by timeouts.attempt",
	[TIMELINE_TOTAL] = "cut by timeouts.total",
	[TIMELINE_NOTHING] = "no limit ends it",
};

static void put_attempt(struct buffer *out, const struct timeline_step *step, size_t n, int64_t horizon)
{
	char bar[BAR_COLUMNS + 1], start[UNITS_TEXT_BYTES], end[UNITS_TEXT_BYTES];

	start_bar(bar);
	fill(bar, column(step->start_ms, horizon), column(step->end_ms, horizon), '=');
	if (step->slot_ms != step->start_ms)
		fill(bar, column(step->start_ms, horizon), column(step->slot_ms, horizon), '.');
	if (step->end_ms < 0)
		bar[BAR_COLUMNS - 1] = '>';
	buffer_printf(out, "  attempt %-3zu |%s|  %s to %s, %s\n", n, bar, duration(step->start_ms, start),
		duration(step->end_ms, end), cut_words[step->cut]);
}

/* "0s to 100ms", or "1s" when nothing is left to chance. */
static void put_range(struct buffer *out, const struct timeline_step *step)
{
	char text[UNITS_TEXT_BYTES];

	if (step->backoff_min_ms != step->backoff_max_ms)
		buffer_printf(out, "%s to ", duration(step->backoff_min_ms, text));
	buffer_printf(out, "%s", duration(step->backoff_max_ms, text));
}

static void put_backoff(struct buffer *out, const struct timeline_step *step, int64_t horizon)
{
	char bar[BAR_COLUMNS + 1];

	start_bar(bar);
	fill(bar, column(step->start_ms - step->backoff_max_ms, horizon), column(step->start_ms, horizon), '~');
	buffer_printf(out, "  back-off    |%s|  ", bar);
	put_range(out, step);
	buffer_printf(out, "\n");
}

static void put_step(struct buffer *out, const struct timeline *timeline, size_t i)
{
	const struct timeline_step *step = &timeline->steps[i];
	int64_t horizon = horizon_ms(timeline);

	if (step->cut == TIMELINE_NOT_BEGUN) {
		buffer_printf(out, "  attempt %-3zu not begun after the longest back-off (", i + 1);
		put_range(out, step);
		buffer_printf(out, "): timeouts.total would be over first\n");
		return;
	}
	if (i > 0)
		put_backoff(out, step, horizon);
	put_attempt(out, step, i + 1, horizon);
}

static void put_drawing(struct buffer *out, const struct timeline *timeline)
{
	char text[UNITS_TEXT_BYTES];
	const struct timeline_step *last = &timeline->steps[timeline->n_steps - 1];

	buffer_printf(out, "              0s%*s\n", BAR_COLUMNS, duration(last->end_ms, text));
	for (size_t i = 0; i < timeline->n_steps; i++) {
		if (i == MAX_FIRST_STEPS && timeline->n_steps > MAX_FIRST_STEPS + 1) {
			buffer_printf(out, "  ... %zu more\n", timeline->n_steps - MAX_FIRST_STEPS - 1);
			i = timeline->n_steps - 1;
		}
		put_step(out, timeline, i);
	}
}

static void put_unbounded_by(struct buffer *out, const struct timeline *timeline)
{
	buffer_printf(out, "%s is %s", timeline->unbounded_by,
		strcmp(timeline->unbounded_by, "mode") == 0 ? "observe" : "off");
}

/* The sum that the longest wait would be, were there no total. */
static void put_sum(struct buffer *out, const struct explanation *explanation)
{
	const struct timeline *timeline = &explanation->timeline;
	char sum[UNITS_TEXT_BYTES], wait[UNITS_TEXT_BYTES], attempt[UNITS_TEXT_BYTES], backoffs[UNITS_TEXT_BYTES];
	long long n = timeline->max_attempts;

	if (timeline->plain_ms < 0) {
		buffer_printf(out, "unbounded, for ");
		put_unbounded_by(out, timeline);
		buffer_printf(out, "\n");
		return;
	}
	duration(timeline->plain_ms, sum);
	duration(timeline->slot_wait_ms, wait);
	duration(explanation->match.policy->timeouts.attempt_ms, attempt);
	if (n == 1)
		buffer_printf(out, "%s = %s for a slot + %s attempt", sum, wait, attempt);
	else
		buffer_printf(out, "%s = %lld x (%s for a slot + %s attempt) + %s of back-off", sum, n, wait, attempt,
			duration(timeline->backoffs_ms, backoffs));
	if (timeline->asked_ms < 0) {
		buffer_printf(out, "; unbounded when the origin asks for it by Retry-After, for ");
		put_unbounded_by(out, timeline);
	} else if (timeline->asked_ms > timeline->plain_ms) {
		buffer_printf(
			out, "; %s when the origin asks for it by Retry-After", duration(timeline->asked_ms, sum));
	}
	buffer_printf(out, "\n");
}

static void put_longest(struct buffer *out, const struct explanation *explanation)
{
	const struct timeline *timeline = &explanation->timeline;
	char text[UNITS_TEXT_BYTES];

	buffer_printf(out, "longest wait: ");
	if (timeline->is_by_total)
		buffer_printf(out, "%s, by timeouts.total\n  without it: ", duration(timeline->longest_ms, text));
	put_sum(out, explanation);
	if (timeline->client_timeout_ms >= 0)
		buffer_printf(out,
			"application's own timeout: %s or more; a shorter one makes it leave before the answer\n",
			duration(timeline->client_timeout_ms, text));
	else
		buffer_printf(out, "application's own timeout: none is long enough for certain; %s\n",
			explanation->match.policy->mode == MODE_OBSERVE ? "mode: enforce bounds the wait"
									: "set timeouts.total");
}

static void put_timeline(struct buffer *out, const struct explanation *explanation)
{
	long long n = explanation->timeline.max_attempts;

	buffer_printf(out,
		"\ntimeline%s, the worst case of %lld attempt%s (. waits for a slot, = attempt, ~ back-off at its "
		"longest):\n",
		explanation->kind == EXPLAINED_OPAQUE_TUNNEL ? " until the tunnel is established" : "", n,
		n == 1 ? "" : "s");
	put_drawing(out, &explanation->timeline);
	put_longest(out, explanation);
}

static void put_effects(struct buffer *out, const struct explanation *explanation)
{
	struct effect effects[MAX_EFFECTS];
	size_t n = explanation_effects(explanation, effects);
	char text[UNITS_TEXT_BYTES];

	buffer_printf(out, "\nlimits:\n");
	for (size_t i = 0; i < n; i++) {
		const struct effect *effect = &effects[i];
		buffer_printf(out, "  %-25s %-6s %s: ", effect->name,
			effect->ms < 0 ? "off" : units_format_duration(effect->ms, text), effect->span);
		if (effect->ms < 0)
			buffer_printf(out, "no limit\n");
		else if (effect->is_only_counted)
			buffer_printf(out, "only counted\n");
		else if (effect->overtaken_by)
			buffer_printf(out, "%s comes first\n", effect->overtaken_by);
		else if (effect->ends_tunnel)
			buffer_printf(out, "closes it\n");
		else
			buffer_printf(out, "%s%d %s\n", effect->is_retried ? "retried, in the end " : "",
				outcome_facts[effect->outcome].status, outcome_facts[effect->outcome].proxy_error);
	}
}

static void put_note(void *owner, const struct buffer *note)
{
	buffer_printf(owner, "note: %.*s\n", SLICE_ARGS(buffer_slice(note)));
}

void explanation_print_text(const struct explanation *explanation, struct buffer *out)
{
	struct value_table table = {out, explanation, NULL};

	buffer_printf(out, "%.*s ", SLICE_ARGS(explanation->method));
	put_url(out, explanation);
	buffer_printf(out, "\n\n");
	put_upstream(out, explanation);
	if (explanation->match.upstream && explanation->kind != EXPLAINED_PORT_DENIED)
		put_route(out, explanation);
	if (explanation_has_policy(explanation)) {
		buffer_printf(out, "connects to: ");
		put_destination(out, explanation);
		buffer_printf(out, "\n");
	} else {
		buffer_printf(out, "answer: 403 http_request_denied\n");
	}
	explanation_notes(explanation, put_note, out);
	explanation_values(explanation, put_value, &table);
	if (explanation_has_policy(explanation)) {
		put_effects(out, explanation);
		put_timeline(out, explanation);
	}
}
