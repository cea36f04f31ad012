/* Hosts, addresses and address ranges as a policy file writes them, to the one form that the rest compares. */
#ifndef EVENKEEL_CONFIG_HOSTS_H
#define EVENKEEL_CONFIG_HOSTS_H

#include "arena.h"
#include "policy.h"

/* Each returns NULL or false with the reason in *why (in the arena or static). */

/* match.hosts: lower case, no trailing dot; "*", "*.suffix", a name, an IPv4 literal, or "[IPv6]" (given back bare). */
const char *host_parse_pattern(struct arena *arena, const char *text, const char **why);

/* One name or IP literal; no wildcard. */
const char *host_parse_name(struct arena *arena, const char *text, const char **why);

/* "IP:PORT", "[IPv6]:PORT", "unix:/path". */
bool listen_parse(struct arena *arena, const char *text, struct listen_address *address, const char **why);

/* dns.servers: "IP", "IP:PORT", "[IPv6]", "[IPv6]:PORT", also a bare IPv6 address. */
const char *server_parse(struct arena *arena, const char *text, const char **why);

bool cidr_parse(struct arena *arena, const char *text, struct cidr *cidr, const char **why);
void cidr_format(const struct cidr *cidr, char out[static 64]);

/* 127.0.0.0/8, ::1, or a unix socket. */
bool listen_is_local(const struct listen_address *address);

/* Would the kernel refuse to bind both? The same unix path, or the same port on the same or on every address. */
bool listen_clashes(const struct listen_address *a, const struct listen_address *b);

#endif
