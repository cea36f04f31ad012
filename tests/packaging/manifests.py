#!/usr/bin/env python3
"""Checks rendered Kubernetes manifests offline, as strictly as it goes without a cluster.

    manifests.py check FILE...      faults, one a line; exit code 1 when there are any
    manifests.py mutants FILE       each of a list of wrong versions of FILE must be caught; --with COMMAND is asked as well
    manifests.py flatten FILE APP-IMAGE IMAGE    what `podman kube play` can play: native sidecars become ordinary containers,
                                    probes and ports go; on stdout
    manifests.py policies FILE      the ConfigMap's policies.yaml, on stdout

The fields that may occur are listed here, with what their values may be: a field that isn't listed is a fault, so a
misspelt one can't pass. That is narrower than Kubernetes and meant to be. What no schema says is checked as well: selectors
that select the pods, volumes and ConfigMaps that exist, ports that are named, the restricted security profile, a native
sidecar that is one, and times that fit into the grace period.
"""
import copy
import re
import subprocess
import sys
import tempfile

import yaml

NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
PORT_NAME = re.compile(r"^(?=.{1,15}$)[a-z0-9]+(-[a-z0-9]+)*$")
QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?(m|[kMGT]|Ki|Mi|Gi|Ti)?$")
DURATION = re.compile(r"^[0-9]+(ms|s|m|h)$")
ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


class Loader(yaml.SafeLoader):
    """Refuses a key that is given twice; strings like `on` stay what YAML 1.1 makes of them, as Kubernetes' parser does."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.YAMLError(f"line {key.start_mark.line + 1}: key {key.value!r} is there twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# --- what may be there: a dict of fields ("!" marks a required one), [item], a type, a regular expression, a set, or a function

def number(low, high):
    return lambda value: type(value) is int and low <= value <= high or f"is no integer from {low} to {high}"


def text(value):
    return type(value) is str or "is no string"


def boolean(value):
    return type(value) is bool or "is neither true nor false"


def mapping(of):
    def check(value):
        return isinstance(value, dict) and all(type(k) is str and type(v) is str and (of is text or of.match(v)) for k, v in value.items()) \
            or "is no map of such strings"
    return check


def port_reference(value):
    return number(1, 65535)(value) is True or (type(value) is str and bool(PORT_NAME.match(value))) or "is neither a port nor the name of one"


LABELS = mapping(text)
METADATA = {"name!": NAME, "namespace": NAME, "labels": LABELS, "annotations": LABELS}
SELECTOR = {"matchLabels!": LABELS}
PROBE = {
    "httpGet!": {"path!": re.compile(r"^/"), "port!": port_reference, "scheme": {"HTTP", "HTTPS"}},
    "periodSeconds": number(1, 3600), "timeoutSeconds": number(1, 3600), "failureThreshold": number(1, 1000),
    "successThreshold": number(1, 1), "initialDelaySeconds": number(0, 3600),
}
QUANTITIES = {"cpu": lambda v: type(v) in (int, float) or type(v) is str and bool(QUANTITY.match(v)) or "is no quantity", "memory": QUANTITY}
CONTAINER = {
    "name!": re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"), "image!": re.compile(r"^\S+$"),
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"}, "command": [text], "args": [text], "restartPolicy": {"Always"},
    "ports": [{"name": PORT_NAME, "containerPort!": number(1, 65535), "protocol": {"TCP", "UDP"}}],
    "env": [{"name!": ENV_NAME, "value": text}],
    "startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE,
    "securityContext!": {
        "runAsUser": number(1, 2**31 - 1), "runAsGroup": number(1, 2**31 - 1), "runAsNonRoot!": boolean,
        "allowPrivilegeEscalation!": boolean, "readOnlyRootFilesystem!": boolean, "capabilities!": {"drop!": [text]},
    },
    "resources!": {"requests!": QUANTITIES, "limits!": QUANTITIES},
    "volumeMounts": [{"name!": NAME, "mountPath!": re.compile(r"^/"), "readOnly": boolean}],
}
POD = {
    "metadata!": {"labels!": LABELS, "annotations": LABELS},
    "spec!": {
        "automountServiceAccountToken!": boolean, "terminationGracePeriodSeconds!": number(1, 3600),
        "securityContext!": {"runAsNonRoot": boolean, "seccompProfile!": {"type!": {"RuntimeDefault"}}},
        "initContainers": [CONTAINER], "containers!": [CONTAINER],
        "volumes": [{"name!": NAME, "configMap!": {"name!": NAME}}],
    },
}
KINDS = {
    ("apps/v1", "Deployment"): {"spec!": {"replicas": number(0, 10000), "selector!": SELECTOR, "template!": POD}},
    ("v1", "ConfigMap"): {"data!": mapping(text)},
    ("networking.k8s.io/v1", "NetworkPolicy"): {"spec!": {
        "podSelector!": SELECTOR, "policyTypes!": [{"Ingress", "Egress"}],
        "ingress": [{"from": [{"namespaceSelector": SELECTOR, "podSelector": SELECTOR}],
                     "ports": [{"port!": port_reference, "protocol": {"TCP", "UDP"}}]}]}},
    ("monitoring.coreos.com/v1", "PodMonitor"): {"spec!": {
        "selector!": SELECTOR,
        "podMetricsEndpoints!": [{"port!": PORT_NAME, "path": re.compile(r"^/"), "interval": DURATION, "scrapeTimeout": DURATION}]}},
}


def shape(value, rule, at, faults):
    """Appends what is wrong with value to faults."""
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            faults.append(f"{at}: is no map")
            return
        known = {key.rstrip("!"): below for key, below in rule.items()}
        for key in value:
            if key not in known:
                faults.append(f"{at}.{key}: no such field")
            else:
                shape(value[key], known[key], f"{at}.{key}", faults)
        faults.extend(f"{at}.{key[:-1]}: is missing" for key in rule if key.endswith("!") and key[:-1] not in value)
    elif isinstance(rule, list):
        if not isinstance(value, list) or not value:
            faults.append(f"{at}: is no list, or an empty one")
            return
        for i, item in enumerate(value):
            shape(item, rule[0], f"{at}[{i}]", faults)
    elif isinstance(rule, set):
        if value not in rule:
            faults.append(f"{at}: {value!r} is none of {sorted(rule)}")
    elif isinstance(rule, re.Pattern):
        if type(value) is not str or not rule.match(value):
            faults.append(f"{at}: {value!r} is not of the form {rule.pattern}")
    else:
        said = rule(value)
        if said is not True:
            faults.append(f"{at}: {value!r} {said}")


# --- what no schema says

def seconds(duration):
    found = re.match(r"^([0-9]+)s$", str(duration))
    return int(found[1]) if found else None


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector["matchLabels"].items())


def judge_container(container, at, volumes, faults):
    security = container["securityContext"]
    if not security["runAsNonRoot"] or not security["readOnlyRootFilesystem"] or security["allowPrivilegeEscalation"] or \
            security["capabilities"]["drop"] != ["ALL"] or "runAsUser" not in security:
        faults.append(f"{at}: does not meet the restricted profile")
    names = [port.get("name") for port in container.get("ports", [])]
    for probe in "startupProbe", "readinessProbe", "livenessProbe":
        port = container.get(probe, {}).get("httpGet", {}).get("port")
        if type(port) is str and port not in names:
            faults.append(f"{at}.{probe}: no port is named {port}")
        if container.get(probe, {}).get("timeoutSeconds", 1) > container.get(probe, {}).get("periodSeconds", 10):
            faults.append(f"{at}.{probe}: timeoutSeconds is over periodSeconds")
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            faults.append(f"{at}: no volume is named {mount['name']}")
    env = [one["name"] for one in container.get("env", [])]
    faults.extend(f"{at}: variable {name} is there twice" for name in set(env) if env.count(name) > 1)


def judge_app(container, at, policies, faults):
    env = {one["name"]: one.get("value") for one in container.get("env", [])}
    port = str(policies.get("listen", "")).rpartition(":")[2]
    for name in "HTTP_PROXY", "http_proxy":
        if env.get(name) != f"http://127.0.0.1:{port}":
            faults.append(f"{at}: {name} does not lead to the proxy's port {port}")
    wanted = {"localhost", "127.0.0.1", "::1", ".svc", ".cluster.local", "$(KUBERNETES_SERVICE_HOST)"}
    for name in "NO_PROXY", "no_proxy":
        missing = wanted - set(env.get(name, "").split(","))
        if missing:
            faults.append(f"{at}: {name} lacks {sorted(missing)}")


def judge_sidecar(container, at, is_native, policies, faults):
    for probe in "startupProbe", "readinessProbe", "livenessProbe":
        if probe not in container:
            faults.append(f"{at}: has no {probe}")
    path = {probe: container.get(probe, {}).get("httpGet", {}).get("path") for probe in ("readinessProbe", "livenessProbe")}
    if path != {"readinessProbe": "/readyz", "livenessProbe": "/livez"}:
        faults.append(f"{at}: probes ask for {path}")
    admin = int(str(policies.get("admin", ":0")).rpartition(":")[2])
    if admin not in [port["containerPort"] for port in container.get("ports", [])]:
        faults.append(f"{at}: the policies' admin port {admin} is no port of the container")
    if policies.get("watch") is not True:
        faults.append("policies: watch is not on")
    if not str(policies.get("listen", "")).startswith("127.0.0.1:"):
        faults.append("policies: the proxy listens beyond the pod")
    delay = seconds(policies.get("drain", {}).get("delay"))
    if is_native and delay != 0:
        faults.append("policies: a native sidecar stops after the application: drain.delay should be 0s")
    if not is_native and not delay:
        faults.append("policies: a classic sidecar is told to stop with the application: drain.delay is missing")


def judge_deployment(document, maps, faults):
    spec, pod = document["spec"], document["spec"]["template"]
    if not selects(spec["selector"], pod["metadata"]["labels"]):
        faults.append("Deployment: its selector doesn't select its own pods")
    if pod["spec"]["automountServiceAccountToken"]:
        faults.append("Deployment: the pod gets a token that it doesn't need")
    volumes = {volume["name"]: volume["configMap"]["name"] for volume in pod["spec"].get("volumes", [])}
    faults.extend(f"volume {name}: there is no ConfigMap {source}" for name, source in volumes.items() if source not in maps)
    inits, mains = pod["spec"].get("initContainers", []), pod["spec"]["containers"]
    names = [container["name"] for container in inits + mains]
    if len(set(names)) != len(names):
        faults.append("Deployment: two containers have one name")
    ports = [port.get("name") for container in inits + mains for port in container.get("ports", [])]
    if len(set(ports)) != len(ports):
        faults.append("Deployment: two ports have one name")
    for container in inits + mains:
        judge_container(container, container["name"], volumes, faults)
    for container in mains:
        if "restartPolicy" in container:
            faults.append(f"{container['name']}: restartPolicy is for initContainers")
    sidecars = [(container, container in inits) for container in inits + mains if container["name"] == "evenkeel"]
    if len(sidecars) != 1:
        faults.append("Deployment: has not one container named evenkeel")
        return
    sidecar, is_native = sidecars[0]
    if is_native and sidecar.get("restartPolicy") != "Always":
        faults.append("evenkeel: without restartPolicy Always the pod would wait for its end")
    if not is_native and mains[0] is not sidecar:
        faults.append("evenkeel: should be the first of the containers, which start in order")
    files = [path for mount in sidecar.get("volumeMounts", []) for path in [mount["mountPath"]] if path == "/etc/evenkeel"]
    if not files or sidecar.get("args") != ["run", "-c", "/etc/evenkeel/policies.yaml"]:
        faults.append("evenkeel: doesn't read its policies from the ConfigMap's folder")
    policies = yaml.safe_load(next((data["policies.yaml"] for data in maps.values() if "policies.yaml" in data), "{}"))
    judge_sidecar(sidecar, "evenkeel", is_native, policies, faults)
    for container in mains:
        if container is not sidecar:
            judge_app(container, container["name"], policies, faults)
    times = [seconds(policies.get("drain", {}).get(key)) for key in ("delay", "timeout")]
    if None in times or sum(times) + 5 > pod["spec"]["terminationGracePeriodSeconds"]:
        faults.append("Deployment: terminationGracePeriodSeconds leaves no room for drain.delay and drain.timeout")


def judge_ports(document, pods, faults):
    """NetworkPolicy and PodMonitor: they select the pods and name ports of theirs."""
    kind, spec = document["kind"], document["spec"]
    selector = spec.get("podSelector") or spec.get("selector")
    chosen = [pod for pod in pods if selects(selector, pod["metadata"]["labels"])]
    if not chosen:
        faults.append(f"{kind}: selects no pod")
    names = {port.get("name") for pod in chosen for key in ("initContainers", "containers")
             for container in pod["spec"].get(key, []) for port in container.get("ports", [])}
    used = [end["port"] for end in spec.get("podMetricsEndpoints", [])] + \
        [port["port"] for rule in spec.get("ingress", []) for port in rule.get("ports", [])]
    faults.extend(f"{kind}: no port is named {port}" for port in used if type(port) is str and port not in names)
    if kind == "NetworkPolicy" and any("from" not in rule for rule in spec.get("ingress", [])
                                       if any(port["port"] == "ek-admin" for port in rule["ports"])):
        faults.append("NetworkPolicy: the admin port is open to everybody")


def faults_of(source):
    try:
        documents = [document for document in yaml.load_all(source, Loader) if document is not None]
    except yaml.YAMLError as fault:
        return [f"not YAML: {fault}"]
    faults = []
    for document in documents:
        kind = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else None
        if kind not in KINDS:
            faults.append(f"{kind}: no such kind here")
            continue
        shape(document, {"apiVersion!": text, "kind!": text, "metadata!": METADATA, **KINDS[kind]}, kind[1], faults)
    if faults:
        return faults
    maps = {document["metadata"]["name"]: document["data"] for document in documents if document["kind"] == "ConfigMap"}
    deployments = [document for document in documents if document["kind"] == "Deployment"]
    if not deployments:
        faults.append("there is no Deployment")
    for document in documents:
        if document["kind"] == "Deployment":
            judge_deployment(document, maps, faults)
        elif document["kind"] != "ConfigMap":
            judge_ports(document, [deployment["spec"]["template"] for deployment in deployments], faults)
    return faults


# --- mutants

def mutants(source):
    """(what is wrong, the manifests with that fault)"""
    documents = [document for document in yaml.load_all(source, Loader) if document is not None]

    def changed(change):
        copies = copy.deepcopy(documents)
        by_kind = {document["kind"]: document for document in copies}
        pod = by_kind["Deployment"]["spec"]["template"]["spec"]
        containers = {container["name"]: container for container in pod.get("initContainers", []) + pod["containers"]}
        change(by_kind, pod, containers["evenkeel"], containers["app"])
        return yaml.safe_dump_all(copies, sort_keys=False)

    def policies(by_kind, before, after):
        data = by_kind["ConfigMap"]["data"]
        assert before in data["policies.yaml"], before
        data["policies.yaml"] = data["policies.yaml"].replace(before, after)

    def env(container, name, value):
        next(one for one in container["env"] if one["name"] == name)["value"] = value

    is_native = any("initContainers" in document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment")
    changes = {
        "unknown field": lambda d, p, e, a: e.update(restartpolicy="Always"),
        "misspelt probe": lambda d, p, e, a: e.update(livenesProbe=e.pop("livenessProbe")),
        "misspelt field of a probe": lambda d, p, e, a: e["readinessProbe"].update(failureTreshold=3),
        "wrong type": lambda d, p, e, a: d["Deployment"]["spec"].update(replicas="2"),
        "number for a string": lambda d, p, e, a: a["env"].append({"name": "X", "value": 1}),
        "no selector": lambda d, p, e, a: d["Deployment"]["spec"].pop("selector"),
        "selector of other pods": lambda d, p, e, a: d["Deployment"]["spec"]["selector"]["matchLabels"].update({"x": "y"}),
        "wrong kind": lambda d, p, e, a: d["Deployment"].update(kind="Deploymnt"),
        "wrong API version": lambda d, p, e, a: d["Deployment"].update(apiVersion="apps/v1beta1"),
        "restartPolicy: Sometimes": lambda d, p, e, a: e.update(restartPolicy="Sometimes"),
        "port out of range": lambda d, p, e, a: e["ports"][0].update(containerPort=99999),
        "no container name": lambda d, p, e, a: a.pop("name"),
        "two containers of one name": lambda d, p, e, a: a.update(name="evenkeel"),
        "probe of a port that isn't named": lambda d, p, e, a: e["startupProbe"]["httpGet"].update(port="admin"),
        "no startupProbe": lambda d, p, e, a: e.pop("startupProbe"),
        "liveness asks for readiness": lambda d, p, e, a: e["livenessProbe"]["httpGet"].update(path="/readyz"),
        "mount of no volume": lambda d, p, e, a: e["volumeMounts"][0].update(name="other"),
        "subPath": lambda d, p, e, a: e["volumeMounts"][0].update(subPath="policies.yaml"),
        "ConfigMap that isn't there": lambda d, p, e, a: p["volumes"][0]["configMap"].update(name="other"),
        "root": lambda d, p, e, a: e["securityContext"].update(runAsNonRoot=False),
        "user 0": lambda d, p, e, a: e["securityContext"].update(runAsUser=0),
        "capabilities": lambda d, p, e, a: e["securityContext"]["capabilities"].update(drop=["NET_RAW"]),
        "privilege escalation": lambda d, p, e, a: a["securityContext"].update(allowPrivilegeEscalation=True),
        "writable root": lambda d, p, e, a: e["securityContext"].update(readOnlyRootFilesystem=False),
        "no seccomp profile": lambda d, p, e, a: p["securityContext"].pop("seccompProfile"),
        "no memory limit": lambda d, p, e, a: e["resources"].pop("limits"),
        "bad quantity": lambda d, p, e, a: e["resources"]["limits"].update(memory="160MB"),
        "grace period too short": lambda d, p, e, a: p.update(terminationGracePeriodSeconds=10),
        "upper case only": lambda d, p, e, a: a["env"].remove(next(one for one in a["env"] if one["name"] == "http_proxy")),
        "another port": lambda d, p, e, a: env(a, "HTTP_PROXY", "http://127.0.0.1:3129"),
        "NO_PROXY without cluster names": lambda d, p, e, a: env(a, "NO_PROXY", "localhost,127.0.0.1,::1"),
        "NO_PROXY with stars": lambda d, p, e, a: env(a, "no_proxy", "localhost,127.0.0.1,::1,*.svc,*.cluster.local"),
        "watch off": lambda d, p, e, a: policies(d, "watch: on", "watch: off"),
        "listens to the world": lambda d, p, e, a: policies(d, "listen: 127.0.0.1", "listen: 0.0.0.0"),
        "another admin port": lambda d, p, e, a: policies(d, ":9128", ":9129"),
        "admin port open to all": lambda d, p, e, a: d["NetworkPolicy"]["spec"]["ingress"][1].pop("from"),
        "policy for other pods": lambda d, p, e, a: d["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].update({"x": "y"}),
    }
    if is_native:
        changes["native sidecar without restartPolicy"] = lambda d, p, e, a: e.pop("restartPolicy")
        changes["restartPolicy on the application"] = lambda d, p, e, a: a.update(restartPolicy="Always")
    else:
        changes["sidecar after the application"] = lambda d, p, e, a: p["containers"].reverse()
    if any(document["kind"] == "PodMonitor" for document in documents):
        changes["PodMonitor of no port"] = lambda d, p, e, a: d["PodMonitor"]["spec"]["podMetricsEndpoints"][0].update(port="metrics")
    for what, change in changes.items():
        yield what, changed(change)
    yield "duplicate key", source.replace("\n  replicas: 2\n", "\n  replicas: 2\n  replicas: 3\n", 1)
    yield "broken indentation", source.replace("\n  replicas:", "\n replicas:", 1)


def run_mutants(file, command):
    """command: a second checker whose verdict is told, but which isn't held to catch them all."""
    with open(file, encoding="utf-8") as stream:
        source = stream.read()
    n, survived, also = 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        for what, mutant in mutants(source):
            assert mutant != source, what
            n += 1
            if not faults_of(mutant):
                survived.append(what)
            with open(f"{folder}/{n}.yaml", "w", encoding="utf-8") as stream:
                stream.write(mutant)
        if command:
            said = subprocess.run([*command, *(f"{folder}/{i + 1}.yaml" for i in range(n))], capture_output=True, text=True).stdout
            also = sum(f"{folder}/{i + 1}.yaml: " in said for i in range(n))
    print(f"{n - len(survived)} of {n} mutants caught" + (f", {also} by the API's own types as well" if command else ""))
    for what in survived:
        print(f"  not caught: {what}")
    return 1 if survived or (command and also == 0) else 0


# --- for podman

def flatten(source, app_image, image):
    out = []
    for document in yaml.load_all(source, Loader):
        if document is None or document["kind"] not in ("Deployment", "ConfigMap"):
            continue
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 1
            spec = document["spec"]["template"]["spec"]
            spec["containers"] = [{k: v for k, v in container.items() if k != "restartPolicy"}
                                  for container in spec.pop("initContainers", [])] + spec["containers"]
            for container in spec["containers"]:
                for key in "startupProbe", "readinessProbe", "livenessProbe", "ports":
                    container.pop(key, None)
                container["imagePullPolicy"] = "Never"
                container["image"] = image if container["name"] == "evenkeel" else app_image
                if container["name"] != "evenkeel":
                    container["command"] = ["/bin/sleep", "600"]
        out.append(document)
    out.sort(key=lambda document: document["kind"])  # the ConfigMap first
    return yaml.safe_dump_all(out, sort_keys=False)


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "check":
        code = 0
        for file in arguments[1:]:
            with open(file, encoding="utf-8") as stream:
                faults = faults_of(stream.read())
            for fault in faults:
                print(f"{file}: {fault}")
                code = 1
        return code
    if len(arguments) >= 2 and arguments[0] == "mutants":
        return run_mutants(arguments[1], arguments[3:] if arguments[2:3] == ["--with"] else None)
    if len(arguments) == 4 and arguments[0] == "flatten":
        with open(arguments[1], encoding="utf-8") as stream:
            sys.stdout.write(flatten(stream.read(), *arguments[2:]))
        return 0
    if len(arguments) == 2 and arguments[0] == "policies":
        with open(arguments[1], encoding="utf-8") as stream:
            maps = [document for document in yaml.safe_load_all(stream) if document and document["kind"] == "ConfigMap"]
        sys.stdout.write(maps[0]["data"]["policies.yaml"])
        return 0
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
