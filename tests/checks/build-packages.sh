#!/bin/sh
# Is everything there that the build needs? Says which package to install when not. Arguments: pkg-config modules.
set -u

missing=''
need() { # need PACKAGE: remember it once
	case " $missing " in *" $1 "*) ;; *) missing="$missing $1" ;; esac
}

package_of() {
	case $1 in
	libevent*) echo libevent-dev ;;
	libcares) echo libc-ares-dev ;;
	openssl) echo libssl-dev ;;
	yaml-0.1) echo libyaml-dev ;;
	*) echo "$1" ;;
	esac
}

command -v "${CC:-gcc}" >/dev/null 2>&1 || need "${CC:-gcc}"
if command -v pkg-config >/dev/null 2>&1; then
	for module in "$@"; do
		pkg-config --exists "$module" || need "$(package_of "$module")"
	done
else
	need pkg-config
fi
[ -f "${LLHTTP_SOURCES:?}/llhttp.c" ] && [ -f "${LLHTTP_INCLUDE:?}/llhttp.h" ] || need node-llhttp

[ -z "$missing" ] && exit 0
echo "evenkeel: packages are missing: run \`make deps\`, or: apt-get install$missing" >&2
exit 1
