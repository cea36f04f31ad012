#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

struct notify {
	int fd; /* -1: nobody to tell */
	struct sockaddr_un to;
	socklen_t to_length;
	char *path;
	char *watchdog_usec; /* as it came; NULL: none */
	int64_t beat_ms; /* half of the watchdog's time; 0: none */
	struct timer beat_timer;
};

static void tell(struct notify *notify, const char *text)
{
	if (notify->fd < 0)
		return;
	ssize_t n = sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&notify->to,
			   notify->to_length);
	if (n < 0)
		log_message(LOG_WARN, "notify", "the service manager can't be told: %s", strerror(errno));
}

static void on_beat(void *owner)
{
	struct notify *notify = owner;
	tell(notify, "WATCHDOG=1\n");
	timer_set(&notify->beat_timer, mono_add_ms(clock_now(), notify->beat_ms));
}

static void read_watchdog(struct notify *notify)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	if (!usec || (pid && strtoll(pid, NULL, 10) != getpid()))
		return;
	notify->watchdog_usec = xstrdup(usec);
	int64_t whole_ms = strtoll(usec, NULL, 10) / 1000;
	notify->beat_ms = whole_ms > 1 ? whole_ms / 2 : 0;
}

struct notify *notify_new(struct loop *loop)
{
	struct notify *notify = xcalloc(1, sizeof(*notify));
	notify->fd = -1;
	timer_init(&notify->beat_timer, loop, on_beat, notify);
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;
	if (length > 1 && (path[0] == '/' || path[0] == '@') && length < sizeof(notify->to.sun_path)) {
		notify->to.sun_family = AF_UNIX;
		memcpy(notify->to.sun_path, path, length);
		if (path[0] == '@')
			notify->to.sun_path[0] = '\0'; /* abstract */
		notify->to_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
		notify->path = xstrdup(path);
		notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		read_watchdog(notify);
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return notify;
}

void notify_free(struct notify **notify)
{
	if (!*notify)
		return;
	timer_clear(&(*notify)->beat_timer);
	if ((*notify)->fd >= 0)
		close((*notify)->fd);
	free((*notify)->path);
	free((*notify)->watchdog_usec);
	free(*notify);
	*notify = NULL;
}

void notify_ready(struct notify *notify)
{
	tell(notify, "READY=1\nSTATUS=Taking requests\n");
	if (notify->fd >= 0 && notify->beat_ms > 0)
		timer_set(&notify->beat_timer, mono_add_ms(clock_now(), notify->beat_ms));
}

void notify_reloading(struct notify *notify)
{
	char text[96];
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)clock_now().us);
	tell(notify, text);
}

void notify_stopping(struct notify *notify)
{
	tell(notify, "STOPPING=1\nSTATUS=Draining\n");
}

void notify_export(const struct notify *notify)
{
	if (notify->fd < 0)
		return;
	setenv("NOTIFY_SOCKET", notify->path, 1);
	if (notify->watchdog_usec)
		setenv("WATCHDOG_USEC", notify->watchdog_usec, 1);
}

void notify_hand_over(struct notify *notify, pid_t heir)
{
	char text[48];
	snprintf(text, sizeof(text), "MAINPID=%ld\n", (long)heir);
	tell(notify, text);
	timer_set(&notify->beat_timer, MONO_NEVER);
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}
