#!/bin/sh
# Builds the Debian package from the last commit: build.sh BUILD-FOLDER VERSION. Made in a folder of its own, so the
# work tree isn't touched; the same commit and the same packages give the same bytes.
set -eu
build=$1 version=$2
# A BUILD that the calling make was given is none of the package's business: it would clean that folder.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
cd "$(dirname "$0")/../.."
work=$build/deb

for tool in dpkg-buildpackage dh; do
	command -v "$tool" >/dev/null || {
		echo "evenkeel: $tool is missing: apt-get install dpkg-dev debhelper fakeroot" >&2
		exit 1
	}
done
named=$(dpkg-parsechangelog -l docker/debian/changelog -S Version)
[ "$named" = "$version" ] || {
	echo "evenkeel: docker/debian/changelog is about $named, the Makefile about $version" >&2
	exit 1
}

rm -rf "$work"
mkdir -p "$work"
git archive --format=tar --prefix="evenkeel-$version/" HEAD | tar -x -C "$work"
cd "$work/evenkeel-$version"
cp -r docker/debian debian
cp docker/systemd/evenkeel.service docker/systemd/evenkeel.socket debian/
rm debian/build.sh
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-nocheck parallel=$(nproc)}" dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary \
	>../build.log 2>&1 || {
	tail -n 40 ../build.log >&2
	exit 1
}
rm -rf "../evenkeel-$version"
cd ..
ls -1 "$PWD"/evenkeel_*.deb
