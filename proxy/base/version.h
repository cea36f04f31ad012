/* The version, which the Makefile gives (VERSION); compiled without it, a name that can't be taken for a release. */
#ifndef EVENKEEL_BASE_VERSION_H
#define EVENKEEL_BASE_VERSION_H

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "0.0.0-dev"
#endif

#endif
