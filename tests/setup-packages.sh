#!/bin/sh
# Installs what is missing of Debian's packages. Groups: build test checks demo packaging bench (default: build test checks).
# A package that is there isn't touched, and with all of them there apt-get isn't even asked, so this works offline.
set -eu

build='gcc make pkg-config libc6-dev libevent-dev libc-ares-dev libssl-dev libyaml-dev node-llhttp'
test='libcmocka-dev python3 python3-pytest python3-aiohttp python3-requests python3-httpx python3-jsonschema
	python3-yaml python3-dnslib python3-websockets curl wget nginx-light openssl procps varnish'
checks='clang libclang-rt-14-dev valgrind shellcheck mandoc prometheus git'
demo='curl python3'
packaging='dpkg-dev debhelper fakeroot lintian systemd podman buildah runc catatonit netavark mmdebstrap file binutils curl strace
	qemu-user-static'

[ $# -gt 0 ] || set -- build test checks
wanted=''
for group in "$@"; do
	case $group in
	build) wanted="$wanted $build" ;;
	test) wanted="$wanted $test" ;;
	checks) wanted="$wanted $checks" ;;
	demo) wanted="$wanted $demo" ;;
	packaging) wanted="$wanted $packaging" ;;
	bench) wanted="$wanted wrk haproxy nginx-light python3" ;;
	*)
		echo "usage: $0 [build] [test] [checks] [demo] [packaging] [bench]" >&2
		exit 2
		;;
	esac
done

command -v dpkg-query >/dev/null 2>&1 || {
	echo "evenkeel: no dpkg here; install the equivalents of:" $wanted >&2
	exit 1
}

is_there() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=''
for package in $wanted; do
	# A node or a compiler that came another way will do.
	is_there "$package" || missing="$missing $package"
done
case " $* " in
*" test "*) command -v node >/dev/null 2>&1 || missing="$missing nodejs" ;;
esac
[ -n "$missing" ] || exit 0

as_root=''
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null && as_root='sudo -n'
	if [ -z "$as_root" ]; then
		echo "evenkeel: packages are missing and only root may install them. Please run:" >&2
		echo "  apt-get install$missing" >&2
		exit 1
	fi
fi

echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Daemons that come with a package (nginx, prometheus) are wanted as programs only: the policy file keeps them from
# being started, and is removed again.
policy=/usr/sbin/policy-rc.d
made_policy=no
if [ ! -e "$policy" ] && [ "$(id -u)" -eq 0 ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	made_policy=yes
	trap 'rm -f "$log" "$policy"' EXIT
fi
fail() {
	tail -n 30 "$log" >&2
	echo "evenkeel: apt-get could not install:$missing" >&2
	exit 1
}
$as_root apt-get -q update >"$log" 2>&1 </dev/null || fail
# shellcheck disable=SC2086 # a list of words, both
$as_root apt-get -q install -y --no-install-recommends $missing >"$log" 2>&1 </dev/null || fail
[ "$made_policy" = no ] || rm -f "$policy"
