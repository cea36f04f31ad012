/*
 * The composition root: owns the loop, the config of the hour and every room, and knows the process's own states.
 *
 *   STARTING -> RUNNING -> LEAVING (drain.delay: still taking) -> DRAINING (no longer taking) -> STOPPED
 */
#ifndef EVENKEEL_PROXY_H
#define EVENKEEL_PROXY_H

#include "../config/arena.h"
#include "../config/load.h"
#include "front/front.h"
#include "notify.h"
#include "upgrade.h"
#include "watch.h"

enum proxy_state { PROXY_STARTING, PROXY_RUNNING, PROXY_LEAVING, PROXY_DRAINING, PROXY_STOPPED };

#define PROXY_MAX_LISTEN 64

/* What the command line says; stays in force over every reload. */
struct proxy_options {
	char **argv;             /* all of it, for a process that takes over */
	const char *config_path; /* NULL: built-in defaults */
	const char *listen[PROXY_MAX_LISTEN];
	size_t n_listen;         /* 0: the policy file's */
	const char *admin;       /* NULL: the policy file's; "off" */
	bool has_log_level;
	enum log_level log_level;
};

struct proxy {
	enum proxy_state state;
	const struct proxy_options *options;
	struct arena arena;              /* addresses from the command line */
	struct listen_list listen;       /* of the command line; n 0: none */
	struct listen_address admin;
	bool has_admin, admin_is_on;
	struct config *config;           /* one reference; swapped by a reload */
	uint64_t *tls_identities;        /* owns; one for each upstream of config: tells when only the content of its files changed */
	struct loop *loop;
	struct resolver *resolver;
	struct registry *registry;
	struct exchange_room room;
	struct front *front;
	struct watch *watch;
	struct notify *notify;
	struct upgrade *upgrade;
	struct timer drain_timer;
	struct deferred reload_soon;     /* several SIGHUPs of one turn are one reload */
	struct event signals[5];
	size_t n_signals;
	bool is_handed_over;             /* draining, since another process has taken over */
};

/* Exit codes of the command line (README: "Exit codes"). */
enum { EXIT_STOPPED = 0, EXIT_NOT_STARTED = 1, EXIT_USAGE = 2, EXIT_CUT = 3 };

/* Runs until it is told to stop; returns the exit code. What prevents the start goes to stderr, one line each. */
int proxy_run(const struct proxy_options *options);

/* drain.c */
void proxy_drain(struct proxy *proxy);     /* SIGTERM, SIGINT, POST /drain; again: stop at once */
void proxy_hand_over(struct proxy *proxy); /* another process listens: finish what is in flight, then stop */
void proxy_drain_due(void *proxy);         /* the timer's */
void proxy_stop_if_idle(struct proxy *proxy);

/* reload.c */
bool proxy_take_options(struct proxy *proxy, char *error, size_t error_capacity); /* parses the addresses of the command line */
void proxy_apply_options(const struct proxy *proxy, struct config *config);
/* SIGHUP, POST /reload: reads, judges, swaps. What came of it goes to the log and, when json isn't NULL, there as an
 * object. True: the new policies are in force. */
bool proxy_reload(struct proxy *proxy, struct buffer *json);
void proxy_watch(struct proxy *proxy); /* watches the files of the config in force, or none when `watch` is off */
/* Can every upstream's certificates and keys be read, and do they belong together? The identity of each one's TLS, in the order
 * of config->upstreams (the caller frees it), or NULL: faults, those of its config_load, tell which can't. */
uint64_t *proxy_check_tls(const struct config *config, struct fault_list *faults);
void proxy_log_warnings(const struct fault_list *faults);

#endif
