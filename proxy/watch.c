#include "watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_ATTRIB)

struct watched_file {
	char *path;
	bool is_there;
	struct stat seen;
};

struct watch {
	struct loop *loop;
	watch_fn on_change;
	void *owner;
	int fd; /* inotify's; -1: none */
	struct event event;
	struct timer settle_timer;
	struct watched_file files[WATCH_MAX_FILES];
	size_t n_files;
};

static void look(struct watched_file *file)
{
	file->is_there = stat(file->path, &file->seen) == 0;
}

static bool is_changed(const struct watched_file *file)
{
	struct stat now;
	bool is_there = stat(file->path, &now) == 0;
	if (!is_there || !file->is_there)
		return is_there != file->is_there;
	return now.st_dev != file->seen.st_dev || now.st_ino != file->seen.st_ino || now.st_size != file->seen.st_size ||
	       now.st_mtim.tv_sec != file->seen.st_mtim.tv_sec || now.st_mtim.tv_nsec != file->seen.st_mtim.tv_nsec;
}

static void on_settled(void *owner)
{
	struct watch *watch = owner;
	bool has_changed = false;
	for (size_t i = 0; i < watch->n_files; i++) {
		/* A file that is missing may be in the middle of a swap: its return will wake us again. */
		if (is_changed(&watch->files[i]) && access(watch->files[i].path, F_OK) == 0)
			has_changed = true;
	}
	for (size_t i = 0; i < watch->n_files; i++)
		look(&watch->files[i]);
	if (has_changed)
		watch->on_change(watch->owner);
}

static void on_event(evutil_socket_t fd, short what, void *owner)
{
	(void)what;
	struct watch *watch = owner;
	char events[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)] __attribute__((aligned(8)));
	while (read(fd, events, sizeof(events)) > 0)
		;
	timer_set(&watch->settle_timer, mono_add_ms(clock_now(), WATCH_SETTLE_MS));
}

struct watch *watch_new(struct loop *loop, watch_fn on_change, void *owner)
{
	struct watch *watch = xcalloc(1, sizeof(*watch));
	watch->loop = loop;
	watch->on_change = on_change;
	watch->owner = owner;
	watch->fd = -1;
	timer_init(&watch->settle_timer, loop, on_settled, watch);
	return watch;
}

static void forget(struct watch *watch)
{
	if (watch->fd >= 0) {
		event_del(&watch->event);
		close(watch->fd);
		watch->fd = -1;
	}
	timer_set(&watch->settle_timer, MONO_NEVER);
	for (size_t i = 0; i < watch->n_files; i++)
		free(watch->files[i].path);
	watch->n_files = 0;
}

void watch_free(struct watch **watch)
{
	if (!*watch)
		return;
	forget(*watch);
	timer_clear(&(*watch)->settle_timer);
	free(*watch);
	*watch = NULL;
}

static void watch_directory_of(struct watch *watch, const char *path)
{
	char directory[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 1;
	if (length >= sizeof(directory))
		return;
	snprintf(directory, sizeof(directory), "%.*s", (int)(length ? length : 1), slash ? path : ".");
	/* The same directory twice is one watch: the kernel sees to that. */
	if (inotify_add_watch(watch->fd, directory, EVENTS | IN_ONLYDIR) < 0)
		log_message(LOG_WARN, "watch", "%s can't be watched: %s; send SIGHUP after a change", directory, strerror(errno));
}

static void add_file(struct watch *watch, const char *path)
{
	if (!path || watch->n_files == WATCH_MAX_FILES)
		return;
	for (size_t i = 0; i < watch->n_files; i++)
		if (strcmp(watch->files[i].path, path) == 0)
			return;
	struct watched_file *file = &watch->files[watch->n_files++];
	file->path = xstrdup(path);
	watch_directory_of(watch, path);
	/* A link into another directory: what it points to may be replaced there. */
	char *real = realpath(path, NULL);
	if (real)
		watch_directory_of(watch, real);
	free(real);
	look(file);
}

void watch_set(struct watch *watch, const char *path, const struct config *config)
{
	forget(watch);
	if (!config)
		return;
	watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (watch->fd < 0) {
		log_message(LOG_WARN, "watch", "inotify is not to be had: %s; send SIGHUP after a change", strerror(errno));
		return;
	}
	add_file(watch, path);
	for (size_t i = 0; i < config->n_upstreams; i++) {
		const struct tls_rule *tls = &config->upstreams[i].tls;
		add_file(watch, tls->ca_file);
		add_file(watch, tls->client_cert);
		add_file(watch, tls->client_key);
	}
	event_assign(&watch->event, watch->loop->base, watch->fd, EV_READ | EV_PERSIST, on_event, watch);
	event_add(&watch->event, NULL);
}
