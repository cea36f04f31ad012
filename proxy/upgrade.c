#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/activation.h"

#define READY_VARIABLE "EVENKEEL_READY_FD"
#define MAX_NAMES_BYTES (64 * 1024)

struct upgrade {
	struct loop *loop;
	char **argv;
	upgrade_fn on_end;
	void *owner;
	char program[PATH_MAX]; /* "": unknown */
	int ready_fd;           /* to the older process; -1: there is none */
	pid_t child;            /* 0: none is being started */
	int pipe_fd;            /* the child's word is read from here */
	struct event readable;
	struct timer patience;
};

/* ---- the older process ---- */

static void close_pipe(struct upgrade *upgrade)
{
	event_del(&upgrade->readable);
	close(upgrade->pipe_fd);
	upgrade->pipe_fd = -1;
	timer_set(&upgrade->patience, MONO_NEVER);
}

static void end_child(struct upgrade *upgrade)
{
	pid_t child = upgrade->child;
	upgrade->child = 0;
	close_pipe(upgrade);
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static void fail(struct upgrade *upgrade, const char *why)
{
	end_child(upgrade);
	log_message(LOG_ERROR, "upgrade", "the new process %s; this one goes on", why);
	upgrade->on_end(upgrade->owner, -1);
}

static void on_patience_over(void *owner)
{
	fail(owner, "was not ready in 30 s and was ended");
}

static void on_word(evutil_socket_t fd, short what, void *owner)
{
	(void)what;
	struct upgrade *upgrade = owner;
	char word;
	ssize_t n = read(fd, &word, 1);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != 1) {
		fail(upgrade, "ended before it was ready (its own log says why)");
		return;
	}
	pid_t heir = upgrade->child;
	upgrade->child = 0;
	close_pipe(upgrade);
	upgrade->on_end(upgrade->owner, heir);
}

/* ---- between fork and exec ---- */

struct legacy {
	int fds[ACTIVATION_MAX_SOCKETS + 1]; /* the last one is the pipe's */
	const char *names[ACTIVATION_MAX_SOCKETS];
	size_t n;                            /* sockets */
	char joined[MAX_NAMES_BYTES];
};

/* To 3, 4, 5...: first out of one another's way. */
static bool place_descriptors(struct legacy *legacy)
{
	int n = (int)legacy->n + 1;
	for (int i = 0; i < n; i++) {
		legacy->fds[i] = fcntl(legacy->fds[i], F_DUPFD_CLOEXEC, ACTIVATION_FIRST_FD + n);
		if (legacy->fds[i] < 0)
			return false;
	}
	for (int i = 0; i < n; i++)
		if (dup2(legacy->fds[i], ACTIVATION_FIRST_FD + i) < 0)
			return false;
	return true;
}

static void set_number(const char *variable, long value)
{
	char text[24];
	snprintf(text, sizeof(text), "%ld", value);
	setenv(variable, text, 1);
}

static void join_names(struct legacy *legacy)
{
	size_t length = 0;
	for (size_t i = 0; i < legacy->n && length < sizeof(legacy->joined); i++)
		length += (size_t)snprintf(legacy->joined + length, sizeof(legacy->joined) - length, "%s%s", i > 0 ? ":" : "",
					   legacy->names[i]);
}

static _Noreturn void become_heir(const struct upgrade *upgrade, struct legacy *legacy, const struct notify *notify)
{
	notify_export(notify);
	set_number("LISTEN_PID", getpid());
	set_number("LISTEN_FDS", (long)legacy->n);
	setenv("LISTEN_FDNAMES", legacy->joined, 1);
	set_number(READY_VARIABLE, ACTIVATION_FIRST_FD + (long)legacy->n);
	if (place_descriptors(legacy))
		execv(upgrade->program, upgrade->argv);
	_exit(127); /* the older process sees the pipe's end */
}

static pid_t fork_heir(const struct upgrade *upgrade, const struct front *front, const struct notify *notify, int ready_fd)
{
	struct legacy *legacy = xcalloc(1, sizeof(*legacy));
	legacy->n = front_sockets(front, legacy->fds, legacy->names, ACTIVATION_MAX_SOCKETS);
	legacy->fds[legacy->n] = ready_fd;
	join_names(legacy);
	pid_t child = fork();
	if (child == 0)
		become_heir(upgrade, legacy, notify);
	free(legacy);
	return child;
}

static bool refuse(const char *why)
{
	log_message(LOG_ERROR, "upgrade", "no new process is started: %s", why);
	return false;
}

bool upgrade_start(struct upgrade *upgrade, const struct front *front, const struct notify *notify)
{
	int ends[2];
	if (getpid() == 1)
		return refuse("this is process 1 of a container, which would end with it: start a new container");
	if (upgrade->child != 0)
		return refuse("one is on its way already");
	if (upgrade->program[0] == '\0' || access(upgrade->program, X_OK) != 0)
		return refuse("the program is no longer where it was");
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return refuse(strerror(errno));
	log_flush();
	pid_t child = fork_heir(upgrade, front, notify, ends[1]);
	int number = errno;
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return refuse(strerror(number));
	}
	upgrade->child = child;
	upgrade->pipe_fd = ends[0];
	event_assign(&upgrade->readable, upgrade->loop->base, ends[0], EV_READ | EV_PERSIST, on_word, upgrade);
	event_add(&upgrade->readable, NULL);
	timer_set(&upgrade->patience, mono_add_ms(clock_now(), UPGRADE_PATIENCE_MS));
	log_message(LOG_INFO, "upgrade", "%s is started as process %ld", upgrade->program, (long)child);
	return true;
}

/* ---- the new process ---- */

/* What an older process left in the environment for us. */
static int take_ready_fd(void)
{
	const char *text = getenv(READY_VARIABLE);
	char *end;
	long fd = text && *text ? strtol(text, &end, 10) : -1;
	bool is_good = fd >= ACTIVATION_FIRST_FD && fd <= ACTIVATION_FIRST_FD + ACTIVATION_MAX_SOCKETS && *end == '\0';
	unsetenv(READY_VARIABLE);
	if (!is_good || fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		return -1;
	return (int)fd;
}

void upgrade_tell_ready(struct upgrade *upgrade)
{
	if (upgrade->ready_fd < 0)
		return;
	if (write(upgrade->ready_fd, "1", 1) != 1)
		log_message(LOG_WARN, "upgrade", "the older process can't be told to let go: %s", strerror(errno));
	close(upgrade->ready_fd);
	upgrade->ready_fd = -1;
}

/* ---- both ---- */

struct upgrade *upgrade_new(struct loop *loop, char **argv, upgrade_fn on_end, void *owner)
{
	struct upgrade *upgrade = xcalloc(1, sizeof(*upgrade));
	upgrade->loop = loop;
	upgrade->argv = argv;
	upgrade->on_end = on_end;
	upgrade->owner = owner;
	upgrade->pipe_fd = -1;
	upgrade->ready_fd = take_ready_fd();
	timer_init(&upgrade->patience, loop, on_patience_over, upgrade);
	ssize_t length = readlink("/proc/self/exe", upgrade->program, sizeof(upgrade->program) - 1);
	upgrade->program[length > 0 ? length : 0] = '\0';
	return upgrade;
}

void upgrade_free(struct upgrade **upgrade)
{
	struct upgrade *gone = *upgrade;
	if (gone == NULL)
		return;
	*upgrade = NULL;
	if (gone->child != 0)
		end_child(gone);
	timer_clear(&gone->patience);
	if (gone->ready_fd >= 0)
		close(gone->ready_fd);
	free(gone);
}
