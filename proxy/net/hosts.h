/* The hosts file: names that are known without asking a server (hosts(5)). Private to this room. */
#ifndef EVENKEEL_NET_HOSTS_H
#define EVENKEEL_NET_HOSTS_H

#include "resolve.h"

/*
 * All addresses that the file at path gives to name (ASCII case ignored), in the file's order; returns how many, at
 * most max. 0 as well when the file can't be read. Reads the file each time: it is small, and whoever changes it
 * expects that.
 */
size_t hosts_find(const char *path, const char *name, struct address *out, size_t max);

#endif
