/* What a reload has changed, for the log and for POST /reload. */
#ifndef EVENKEEL_RELOAD_REPORT_H
#define EVENKEEL_RELOAD_REPORT_H

#include "../config/diff.h"
#include "base/buffer.h"

/* So many changes get a log line of their own; the others are only counted there, and GET /config shows what is in force. */
#define REPORT_MAX_LINES 50

/* Adds "changed tls": the files that an upstream's `tls` names are others by content. Not when their names have changed, too. */
void report_add_new_files(struct change_list *changes, const char *upstream);
/* Event `reload`: a line with result "change" for each change, then one with result "ok" that sums them up. */
void report_log(const struct change_list *changes, const char *path);
/* {"result":"ok","message":...,"upstreams":{"added":[],...},"changes":[...]} */
void report_json(const struct change_list *changes, struct buffer *json);

#endif
