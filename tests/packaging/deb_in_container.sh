#!/bin/bash
# Runs inside a throw-away Debian container, as root: installs the package, uses it, upgrades it, purges it.
#   deb_in_container.sh PACKAGE.deb NEWER.deb
set -euo pipefail
package=$1 newer=$2
export DEBIAN_FRONTEND=noninteractive

fail() {
	echo "$*" >&2
	exit 1
}

apt-get -qq update
# The smallest of what may create the system user.
apt-get -qq install -y --no-install-recommends systemd-standalone-sysusers libc-ares2 libevent-core-2.1-7 libevent-extra-2.1-7 \
	libssl3 libyaml-0-2 >/dev/null
files() {
	find /etc /usr /lib /var/lib/evenkeel /run/evenkeel -xdev \( -path '*/evenkeel*' -o -name '*evenkeel*' \) 2>/dev/null | sort || true
}
[ -z "$(files)" ] || fail "there were files before: $(files)"

apt-get -qq install -y --no-install-recommends "$package" >/dev/null
[ "$(evenkeel --version)" = "evenkeel 0.1.0" ] || fail "version"
evenkeel check /etc/evenkeel/policies.yaml >/dev/null || fail "the policies that come with it are not good"
[ "$(dpkg-query -W -f '${Conffiles}' evenkeel | awk '{print $1}')" = /etc/evenkeel/policies.yaml ] || fail "conffiles"
getent passwd evenkeel >/dev/null || fail "no system user"
for file in /lib/systemd/system/evenkeel.service /lib/systemd/system/evenkeel.socket \
	/usr/share/bash-completion/completions/evenkeel /usr/share/zsh/site-functions/_evenkeel \
	/usr/share/fish/vendor_completions.d/evenkeel.fish; do
	[ -f "$file" ] || fail "no $file"
done
[ -L /etc/systemd/system/multi-user.target.wants/evenkeel.service ] || fail "the service isn't enabled"
[ ! -e /etc/systemd/system/sockets.target.wants/evenkeel.socket ] || fail "the socket is enabled without being asked for"
# A slim image's dpkg may be told to leave manuals and examples out.
dpkg -L evenkeel | grep -q '/man8/evenkeel.8.gz$' || fail "no manual"
dpkg -L evenkeel | grep -q '/man5/evenkeel-policies.5.gz$' || fail "no manual of the policies"
dpkg -L evenkeel | grep -q '/examples/policies.example.yaml$' || fail "no example"

# As the unit starts it, but for the ports: the host's network is in here too, and something may use the built-in ones.
admin=127.0.0.1:29128
setpriv --reuid=evenkeel --regid=evenkeel --clear-groups \
	evenkeel run -c /etc/evenkeel/policies.yaml --listen 127.0.0.1:0 --admin "$admin" 2>/tmp/log &
pid=$!
for _ in $(seq 50); do
	evenkeel health --ready --admin "$admin" 2>/dev/null && break
	sleep 0.1
done
evenkeel health --ready --admin "$admin" && kill -0 "$pid" || fail "doesn't run: $(cat /tmp/log)"
kill "$pid"
wait "$pid" || fail "stopped with code $?"

# An upgrade under systemd (a stand-in that notes its arguments): the running process is asked to hand over, not restarted.
mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$*" >>/tmp/systemctl\n' >/usr/bin/systemctl
chmod +x /usr/bin/systemctl
echo '# changed here' >>/etc/evenkeel/policies.yaml
echo 'x-secret: mine' >/etc/evenkeel/more.yaml
dpkg -i "$newer" >/dev/null
grep -q -- '^kill --kill-whom=main --signal=USR2 evenkeel.service$' /tmp/systemctl || fail "an upgrade tells nobody: $(cat /tmp/systemctl)"
! grep -qE '^(re)?(stop|start|restart).*evenkeel.service' /tmp/systemctl || fail "an upgrade restarts: $(cat /tmp/systemctl)"
grep -q '^# changed here$' /etc/evenkeel/policies.yaml || fail "an upgrade overwrote the policies"

apt-get -qq remove -y evenkeel >/dev/null
[ -f /etc/evenkeel/policies.yaml ] || fail "removing (not purging) took the policies away"
[ ! -e /usr/bin/evenkeel ] || fail "the program is still there"
rm -f /usr/bin/systemctl
dpkg --purge evenkeel >/dev/null
# What the administrator put there stays theirs.
[ "$(files)" = "$(printf '/etc/evenkeel\n/etc/evenkeel/more.yaml')" ] || fail "left behind: $(files)"
! dpkg-query -W evenkeel 2>/dev/null || fail "dpkg still knows it"
rm -r /etc/evenkeel

apt-get -qq install -y --no-install-recommends "$package" >/dev/null
dpkg --purge evenkeel >/dev/null
[ -z "$(files)" ] || fail "left behind: $(files)"
