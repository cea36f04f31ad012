/* The inside of an attempt, shared by its three files only. */
#ifndef EVENKEEL_EXCHANGE_ATTEMPT_PRIVATE_H
#define EVENKEEL_EXCHANGE_ATTEMPT_PRIVATE_H

#include "attempt.h"

/* attempt.c */
void attempt_enter(struct attempt *attempt, enum attempt_state state, struct mono now);
/* The one way out with a word; nothing when it has ended. The lease is given back before the owner hears of it.
 * detail: valid during the call. */
void attempt_end(struct attempt *attempt, enum outcome outcome, const char *detail, bool is_reusable);

/* attempt_send.c */
void attempt_pump(struct attempt *attempt); /* sends what is there and the socket takes; tells nobody */
void attempt_on_writable(void *attempt);    /* the lease's */

/* attempt_read.c */
void attempt_on_readable(void *attempt);    /* the lease's */

#endif
