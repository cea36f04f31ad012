/* The inside of an exchange, shared by the files of this room only. */
#ifndef EVENKEEL_EXCHANGE_MACHINE_H
#define EVENKEEL_EXCHANGE_MACHINE_H

#include "../policy/deadline.h"
#include "../policy/retry.h"
#include "access.h"
#include "attempt.h"
#include "exchange.h"

#define EXCHANGE_MAX_HEDGES 10 /* hedge.max goes no higher */
#define CONTINUE_WAIT_MS 500 /* how long an origin may keep a client that waits for 100 Continue waiting */

enum exchange_state {
	EXCHANGE_ADMITTED,
	EXCHANGE_TRYING,    /* an attempt is under way, nothing has gone to the client */
	EXCHANGE_BACKOFF,   /* between two attempts, or waiting for its place in the rate */
	EXCHANGE_RELAYING,  /* committed: bytes have gone to the client */
	EXCHANGE_DONE
};

struct exchange {
	struct list link; /* room->exchanges */
	struct exchange_room *room;
	struct downstream *downstream; /* NULL once on_done was called */
	struct exchange_order order;
	struct config *config;         /* own reference */
	struct origin *origin;         /* own reference; NULL: none could be had */
	const struct policy *policy;
	enum exchange_state state;
	struct attempt *attempt;       /* the current one; also kept after its end while its response is held */
	struct attempt *hedges[EXCHANGE_MAX_HEDGES]; /* beside it; the first head decides which one becomes `attempt` */
	size_t n_hedges;
	int64_t n_hedges_sent;         /* beside the present attempt, ended ones included */
	bool is_hedging_over, is_main_a_hedge;
	struct request_body body;
	struct timer timer;
	struct deferred deferred_start_failure, deferred_free;
	enum outcome start_outcome;
	char start_detail[256];

	/* retries */
	int64_t n_attempts;            /* begun, a replaced stale one not counted */
	int64_t n_inherited_attempts;  /* made by proxies before this one */
	bool has_idempotency_key, is_repeatable;
	struct timeouts timeouts;      /* the policy's; when they are only observed, those already seen are off */
	bool has_replaced_stale, wants_fresh;
	bool is_breaker_admitted;      /* a report or a forget is owed */
	bool is_rate_taken, is_rate_wait;
	int64_t previous_delay_ms;
	struct mono backoff_began, backoff_until;
	enum verdict verdict;

	/* the client's side */
	bool is_body_paused;
	bool is_continue_awaited;      /* the client waits for 100 before it sends its body */
	bool is_continue_sent;
	struct mono continue_at;
	bool is_holding;               /* the response is kept back until it is complete */
	struct buffer held;
	bool is_stream;                /* content type in stream_types */
	bool is_response_complete;     /* send_end or send_own was called: only flushing is left */
	bool must_close;

	/* for the log */
	int status;                    /* sent to the client, 0: none yet */
	const char *error;             /* RFC 9209 type */
	bool is_cancelled, is_aborted, is_recorded;
	int64_t queue_us, connect_us, first_byte_us, backoff_us;
	uint64_t response_bytes;
	bool is_reused;
};

static inline bool exchange_is_observing(const struct exchange *exchange)
{
	return exchange->policy->mode == MODE_OBSERVE;
}

/* timing.c */
void exchange_rearm(struct exchange *exchange);
void exchange_on_due(void *exchange);

/* trying.c */
void trying_start(struct exchange *exchange); /* the next attempt, or the wait for its place in the rate */
/* No attempt can be made: judged as a failure, from the loop's safe point. detail: copied; NULL: none. */
void trying_refuse(struct exchange *exchange, enum outcome outcome, const char *detail);
void trying_tell_refusal(struct deferred *item); /* what that safe point calls */
/* A back-off or a wait for the rate is over, early or not: its time goes to the log's. */
void trying_account_sleep(struct exchange *exchange, struct mono now);
struct mono trying_hedge_at(const struct exchange *exchange); /* MONO_NEVER: no hedge to come */
void trying_hedge(struct exchange *exchange, struct mono now); /* sends one if it is due */
void trying_take_winner(struct exchange *exchange, struct attempt *winner); /* it has a head */
void trying_hedge_failed(struct exchange *exchange, struct attempt *hedge, enum outcome outcome);
/* The attempt failed: a hedge that is still under way takes its place. False: there is none, judge. */
bool trying_promote_hedge(struct exchange *exchange, enum outcome outcome);
void trying_drop_hedges(struct exchange *exchange);

/* exchange.c */
void exchange_enter(struct exchange *exchange, enum exchange_state state);
void exchange_steer_body(struct exchange *exchange); /* tells the client to stop or go on sending its body */
void exchange_send_continue(struct exchange *exchange);
void exchange_finish(struct exchange *exchange);

/* judge.c */
/* The attempt has a response: at its head when nothing is held back, and at its end. True: it is the answer, the
 * caller passes it on. False: another attempt takes its place (the state is BACKOFF, or TRYING anew). */
bool judge_response(struct exchange *exchange);
/* The attempt failed, or none could be made: another one, or the exchange ends with an error of our own or an abort.
 * detail: the failing room's own words, valid during the call; NULL: none. */
void judge_failure(struct exchange *exchange, enum outcome outcome, const char *detail);
/* Is this response worth keeping back: would a retry be allowed, as far as is known before its body is in? */
bool judge_could_retry(const struct exchange *exchange);

/* relay.c */
extern const struct attempt_ops exchange_attempt_ops;
void relay_drop_held(struct exchange *exchange);

/* measure.c */
void measure_attempt(struct exchange *exchange, const struct attempt *attempt, enum outcome outcome);
void measure_exchange(struct exchange *exchange);

/* sentence.c: the `detail` of an error of our own. detail: the failing room's own words, or NULL or empty. */
#define SENTENCE_BYTES 640
void sentence_compose(const struct exchange *exchange, enum outcome outcome, const char *detail,
		      char out[static SENTENCE_BYTES]);

/* conclude.c */
void conclude_with_error(struct exchange *exchange, enum outcome outcome, const char *detail);
void conclude_abort(struct exchange *exchange, enum outcome outcome);
void conclude_cancelled(struct exchange *exchange);
void conclude_record(struct exchange *exchange);
/* Metrics, durations and breaker report of one attempt, whatever it is told later on; attempt NULL: of the limit that
 * struck before there was one. */
void conclude_attempt(struct exchange *exchange, struct attempt *attempt, enum outcome outcome, int status);
void conclude_breaker_change(struct exchange *exchange, enum breaker_state before); /* gauge and log, if it changed */
/* Cancels the attempt and concludes it so, unless it has ended or there is none. */
void conclude_give_up(struct exchange *exchange, struct attempt *attempt);

#endif
