/*
 * `watch: on`: reload when the policy file, or a certificate that it names, changes.
 *
 * Directories are watched, not files: an editor's rename and Kubernetes' swap of the `..data` link both replace the file, and a
 * watch on the old one would never hear of it. What counts in the end is whether the file behind the path is another one
 * (device, inode, size, time), so a flurry of events is one reload and a touched neighbour is none.
 */
#ifndef EVENKEEL_WATCH_H
#define EVENKEEL_WATCH_H

#include "../config/load.h"
#include "net/loop.h"

#define WATCH_SETTLE_MS 100 /* quiet for so long after the last event: then look */
#define WATCH_MAX_FILES 256

struct watch;
typedef void (*watch_fn)(void *owner);

struct watch *watch_new(struct loop *loop, watch_fn on_change, void *owner);
/* Which files: path and what config names (CA files, certificates, keys). Forgets the ones before. When the kernel refuses
 * (limits of inotify), that is logged and what can be watched is watched. config NULL: watch nothing. */
void watch_set(struct watch *watch, const char *path, const struct config *config);
void watch_free(struct watch **watch);

#endif
