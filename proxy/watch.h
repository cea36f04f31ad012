/*
 * `watch: on`: reload when the policy file, or a certificate that it names, changes.
 *
 * The whole way to each file is watched, directory by directory and link by link, not the file alone: an editor's rename and
 * Kubernetes' swap of the `..data` link both put another file in its place, and a watch on the old one would never hear of it.
 * What counts in the end is whether the file behind the path is another one (device, inode, size, time), so a flurry of events
 * is one reload and a touched neighbour is none. Where events don't come (network file systems, limits of inotify), a look
 * every WATCH_LOOK_MS stands in for them.
 */
#ifndef EVENKEEL_WATCH_H
#define EVENKEEL_WATCH_H

#include "../config/load.h"
#include "net/loop.h"

#define WATCH_SETTLE_MS 100      /* quiet for so long after the last event: then look */
#define WATCH_MAX_SETTLE_MS 1000 /* but no later than this after the first one */
#define WATCH_LOOK_MS 5000
#define WATCH_MAX_FILES 256      /* more are not looked at, which is logged */
#define WATCH_MAX_STEPS 4096     /* places on the ways to them that are watched */

struct watch;
typedef void (*watch_fn)(void *owner);

struct watch *watch_new(struct loop *loop, watch_fn on_change, void *owner);
/* Notes how the files are now. To be called before they are read, so that what is written meanwhile is seen as a change. */
void watch_look(struct watch *watch);
/* Which files: path and what config names (CA files, certificates, keys), instead of the ones before. When the kernel refuses
 * (limits of inotify), that is logged and what can be watched is watched. config NULL: watch nothing. */
void watch_set(struct watch *watch, const char *path, const struct config *config);
void watch_free(struct watch **watch);

#endif
