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

/* In a directory on the way: something else is there by that name. */
#define STEP_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_MASK_ADD)
/* In the file's own directory: that, and its content. */
#define LAST_EVENTS (STEP_EVENTS | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM)
/* On the file itself: a write through another name of it (a hard link, a bind mount). */
#define FILE_EVENTS (IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_MASK_ADD)
/* What the kernel tells of a watch as a whole. */
#define WHOLE_EVENTS (IN_Q_OVERFLOW | IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)

#define MAX_LINKS 40 /* as the kernel has it, for one path */

struct watched_file {
	char *path;
	bool is_there;
	struct stat seen;
};

/* A name in a watched directory by which one of the files is reached. */
struct step {
	int descriptor; /* inotify's */
	char *name;     /* NULL: the file itself is watched */
};

struct watch {
	struct loop *loop;
	watch_fn on_change;
	void *owner;
	int fd; /* inotify's; -1: none */
	struct event event;
	struct timer settle_timer;
	struct mono first_event; /* of those that haven't been looked into; MONO_ZERO: there is none */
	struct timer look_timer;
	struct watched_file files[WATCH_MAX_FILES];
	size_t n_files;
	struct step *steps;
	size_t n_steps, capacity;
	bool has_complained; /* of what can't be watched: once for each set of files */
};

/* ---- have they changed? ---- */

static bool is_same(const struct watched_file *a, const struct watched_file *b)
{
	if (!a->is_there || !b->is_there)
		return a->is_there == b->is_there;
	return a->seen.st_dev == b->seen.st_dev && a->seen.st_ino == b->seen.st_ino && a->seen.st_size == b->seen.st_size &&
	       a->seen.st_mtim.tv_sec == b->seen.st_mtim.tv_sec && a->seen.st_mtim.tv_nsec == b->seen.st_mtim.tv_nsec;
}

static void look(struct watched_file *file)
{
	file->is_there = stat(file->path, &file->seen) == 0;
}

void watch_look(struct watch *watch)
{
	for (size_t i = 0; i < watch->n_files; i++)
		look(&watch->files[i]);
}

static bool is_any_changed(const struct watch *watch)
{
	for (size_t i = 0; i < watch->n_files; i++) {
		struct watched_file now = watch->files[i];
		look(&now);
		/* One that is missing may be in the middle of a swap; its return is a change. */
		if (now.is_there && !is_same(&now, &watch->files[i]))
			return true;
	}
	return false;
}

static void settle_soon(struct watch *watch)
{
	struct mono now = clock_now();
	if (!mono_is_set(watch->first_event))
		watch->first_event = now;
	/* A neighbour that is written to all the time must not put the look off for ever. */
	timer_set(&watch->settle_timer, mono_min(mono_add_ms(now, WATCH_SETTLE_MS),
						 mono_add_ms(watch->first_event, WATCH_MAX_SETTLE_MS)));
}

/* ---- the ways to them ---- */

static void complain(struct watch *watch, const char *what, const char *why)
{
	if (!watch->has_complained)
		log_message(LOG_WARN, "watch", "%s can't be watched: %s; its changes are seen within %d s", what, why,
			    WATCH_LOOK_MS / 1000);
	watch->has_complained = true;
}

static void add_step(struct watch *watch, const char *place, const char *name, uint32_t events)
{
	if (watch->fd < 0)
		return;
	if (watch->n_steps == WATCH_MAX_STEPS) {
		complain(watch, place, "there are too many files to watch");
		return;
	}
	int descriptor = inotify_add_watch(watch->fd, place, events);
	if (descriptor < 0) {
		/* Not there (yet), or not to be listed, as directories further up often are. */
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			complain(watch, place, strerror(errno));
		return;
	}
	if (watch->n_steps == watch->capacity) {
		watch->capacity = watch->capacity ? watch->capacity * 2 : 16;
		watch->steps = xrealloc(watch->steps, watch->capacity * sizeof(*watch->steps));
	}
	watch->steps[watch->n_steps++] = (struct step){ descriptor, name ? xstrdup(name) : NULL };
}

/* Cuts the first name off the rest of a path; false: there is none. */
static bool take_name(char *rest, char name[NAME_MAX + 1])
{
	size_t skip = strspn(rest, "/");
	size_t n = strcspn(rest + skip, "/");
	if (n == 0 || n > NAME_MAX)
		return false;
	memcpy(name, rest + skip, n);
	name[n] = '\0';
	memmove(rest, rest + skip + n, strlen(rest + skip + n) + 1);
	return true;
}

static bool has_more_names(const char *rest)
{
	return rest[strspn(rest, "/")] != '\0';
}

/* The names that are still to be walked, put behind what a link points to. False: too long. */
static bool follow(char rest[PATH_MAX], const char *target)
{
	char joined[2 * PATH_MAX];
	int n = snprintf(joined, sizeof(joined), "%s/%s", target, rest);
	if (n >= PATH_MAX)
		return false;
	memcpy(rest, joined, (size_t)n + 1);
	return true;
}

static void watch_way(struct watch *watch, const char *path)
{
	char rest[PATH_MAX], here[PATH_MAX] = ".", there[PATH_MAX + NAME_MAX + 2], target[PATH_MAX], name[NAME_MAX + 1];
	int n_links = 0;
	if (strlen(path) >= sizeof(rest))
		return;
	memcpy(rest, path, strlen(path) + 1);
	if (path[0] == '/')
		memcpy(here, "/", 2);
	while (take_name(rest, name)) {
		bool is_link = false;
		if (snprintf(there, sizeof(there), "%s%s%s", here, here[strlen(here) - 1] == '/' ? "" : "/", name) >= PATH_MAX)
			return;
		if (strcmp(name, "..") != 0 && strcmp(name, ".") != 0) {
			ssize_t n = readlink(there, target, sizeof(target) - 1);
			is_link = n > 0;
			add_step(watch, here, name, is_link || has_more_names(rest) ? STEP_EVENTS : LAST_EVENTS);
			if (is_link)
				target[n] = '\0';
		}
		if (!is_link) {
			memcpy(here, there, strlen(there) + 1);
			continue;
		}
		if (++n_links > MAX_LINKS || !follow(rest, target))
			return;
		if (target[0] == '/')
			memcpy(here, "/", 2);
	}
	add_step(watch, here, NULL, FILE_EVENTS);
}

static void forget_steps(struct watch *watch)
{
	if (watch->fd >= 0) {
		event_del(&watch->event);
		close(watch->fd);
		watch->fd = -1;
	}
	for (size_t i = 0; i < watch->n_steps; i++)
		free(watch->steps[i].name);
	watch->n_steps = 0;
}

static bool concerns_us(const struct watch *watch, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < watch->n_steps; i++) {
		const struct step *step = &watch->steps[i];
		if (step->descriptor == event->wd &&
		    ((event->mask & WHOLE_EVENTS) || !step->name || (event->len > 0 && strcmp(step->name, event->name) == 0)))
			return true;
	}
	return false;
}

static void on_event(evutil_socket_t fd, short what, void *owner)
{
	(void)what;
	struct watch *watch = owner;
	char events[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)] __attribute__((aligned(8)));
	bool is_ours = false;
	ssize_t n = read(fd, events, sizeof(events)); /* what is left wakes us again */
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (const void *)(events + at);
		is_ours = is_ours || concerns_us(watch, event);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	if (is_ours)
		settle_soon(watch);
}

/* Anew from where the links lead now. Afterwards whatever changed unwatched is looked into. */
static void watch_ways(struct watch *watch)
{
	forget_steps(watch);
	watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (watch->fd < 0) {
		complain(watch, "the policy file", strerror(errno));
	} else {
		event_assign(&watch->event, watch->loop->base, watch->fd, EV_READ | EV_PERSIST, on_event, watch);
		event_add(&watch->event, NULL);
	}
	for (size_t i = 0; i < watch->n_files; i++)
		watch_way(watch, watch->files[i].path);
	if (is_any_changed(watch))
		settle_soon(watch);
}

/* ---- when to look ---- */

static void look_into_it(struct watch *watch)
{
	bool has_changed = is_any_changed(watch);
	watch->first_event = MONO_ZERO;
	timer_set(&watch->settle_timer, MONO_NEVER);
	watch_look(watch);
	watch_ways(watch); /* a directory may be another one even where the file isn't */
	if (has_changed)
		watch->on_change(watch->owner);
}

static void on_settled(void *owner)
{
	look_into_it(owner);
}

static void on_look(void *owner)
{
	struct watch *watch = owner;
	timer_set(&watch->look_timer, mono_add_ms(clock_now(), WATCH_LOOK_MS));
	if (is_any_changed(watch))
		look_into_it(watch);
}

/* ---- which files ---- */

static bool is_known(const struct watched_file *files, size_t n, const char *path, const struct watched_file **known)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(files[i].path, path) != 0)
			continue;
		*known = &files[i];
		return true;
	}
	return false;
}

static void add_file(struct watch *watch, const char *path, const struct watched_file *before, size_t n_before)
{
	const struct watched_file *known;
	if (!path || is_known(watch->files, watch->n_files, path, &known))
		return;
	if (watch->n_files == WATCH_MAX_FILES) {
		if (!watch->has_complained)
			log_message(LOG_WARN, "watch", "%s is not watched: there are more than %d files; send SIGHUP after a change",
				    path, WATCH_MAX_FILES);
		watch->has_complained = true;
		return;
	}
	struct watched_file *file = &watch->files[watch->n_files++];
	if (is_known(before, n_before, path, &known))
		*file = *known; /* as it was before it was read */
	file->path = xstrdup(path);
	if (!is_known(before, n_before, path, &known))
		look(file);
}

static void forget_files(struct watched_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(files[i].path);
}

static void set_files(struct watch *watch, const char *path, const struct config *config)
{
	size_t n_before = watch->n_files;
	struct watched_file *before = xcalloc(n_before + 1, sizeof(*before));
	memcpy(before, watch->files, n_before * sizeof(*before));
	watch->n_files = 0;
	if (config)
		add_file(watch, path, before, n_before);
	for (size_t i = 0; config && i < config->n_upstreams; i++) {
		const struct tls_rule *tls = &config->upstreams[i].tls;
		add_file(watch, tls->ca_file, before, n_before);
		add_file(watch, tls->client_cert, before, n_before);
		add_file(watch, tls->client_key, before, n_before);
	}
	forget_files(before, n_before);
	free(before);
}

void watch_set(struct watch *watch, const char *path, const struct config *config)
{
	watch->has_complained = false;
	watch->first_event = MONO_ZERO;
	timer_set(&watch->settle_timer, MONO_NEVER);
	set_files(watch, path, config);
	if (config) {
		watch_ways(watch);
		timer_set(&watch->look_timer, mono_add_ms(clock_now(), WATCH_LOOK_MS));
	} else {
		forget_steps(watch);
		timer_set(&watch->look_timer, MONO_NEVER);
	}
}

struct watch *watch_new(struct loop *loop, watch_fn on_change, void *owner)
{
	struct watch *watch = xcalloc(1, sizeof(*watch));
	watch->loop = loop;
	watch->on_change = on_change;
	watch->owner = owner;
	watch->fd = -1;
	watch->first_event = MONO_ZERO;
	timer_init(&watch->settle_timer, loop, on_settled, watch);
	timer_init(&watch->look_timer, loop, on_look, watch);
	return watch;
}

void watch_free(struct watch **watch)
{
	struct watch *gone = *watch;
	if (!gone)
		return;
	*watch = NULL;
	forget_steps(gone);
	forget_files(gone->files, gone->n_files);
	timer_clear(&gone->settle_timer);
	timer_clear(&gone->look_timer);
	free(gone->steps);
	free(gone);
}
