#!/usr/bin/env python3
"""Do the documents agree with the program? A key or an option that is in one of them is in all.

Keys: the key table (as `evenkeel schema` and `evenkeel explain` tell it), config/man/evenkeel-policies.5,
policies.example.yaml, the README. Options and commands: `evenkeel --help`, config/man/evenkeel.8, the completions, the
README. Environment variables: the sources, config/man/evenkeel.8.

    tests/checks/docs.py [--build DIR] [--write]      --write: renews the lists of keys in evenkeel-policies.5 and README
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAN_5, MAN_8 = "config/man/evenkeel-policies.5", "config/man/evenkeel.8"
COMPLETIONS = {"config/completions/evenkeel.bash": "bash", "config/completions/_evenkeel": "zsh",
               "config/completions/evenkeel.fish": "fish"}
EXAMPLE, README = "policies.example.yaml", "README.md"
BEGIN = '.\\" The keys: made from `evenkeel schema` by tests/checks/docs.py --write. Begin.\n'
END = '.\\" End of the keys.\n'
README_BEGIN = "<!-- keys: made from `evenkeel schema` by tests/checks/docs.py --write -->\n"
README_END = "<!-- end of keys -->\n"


class Documents:
    def __init__(self, program):
        self.program = program
        self.faults = []
        self.n_checked = 0

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=True, timeout=20).stdout

    def fault(self, file, text):
        self.faults.append(f"{file}: {text}")

    def same(self, file, what, have, want, where):
        """Both sets hold the same; what is missing on either side is a fault."""
        self.n_checked += len(want)
        for item in sorted(want - have):
            self.fault(file, f"{what} {item} is missing; {where} has it")
        for item in sorted(have - want):
            self.fault(file, f"{what} {item} is not in {where}")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as stream:
        return stream.read()


# --- keys


def properties(schema, node):
    """The keys of a map in the schema and what each holds; None when it is no map with keys of its own."""
    if "$ref" in node:
        return properties(schema, schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
    if "properties" in node:
        return {name: below for name, below in node["properties"].items() if name != "<<"}
    for choice in node.get("anyOf", []):
        found = properties(schema, choice) if isinstance(choice, dict) else None
        if found:
            return found
    return None


def describe(schema, node):
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node.get("description", "")


def walk(schema, node, prefix=""):
    """(path, description, is a section) of all keys below, in the table's order; sections first."""
    for name, below in properties(schema, node).items():
        has_keys = properties(schema, below) is not None
        yield prefix + name, describe(schema, below), has_keys
        if has_keys:
            yield from walk(schema, below, f"{prefix}{name}.")


def keys_by_place(schema):
    """{"top": [...], "policy": [...], "upstream": [...], "route": [...]}: each key once, where it belongs."""
    policy = list(walk(schema, {"$ref": "#/$defs/policy"}))
    names = {path for path, _, _ in policy}
    top = [row for row in walk(schema, {"properties": {name: below for name, below in schema["properties"].items()
                                                       if name not in ("defaults", "upstreams")}})]
    places = {"top": top, "policy": policy}
    for place in ("upstream", "route"):
        places[place] = [row for row in walk(schema, {"$ref": f"#/$defs/{place}"}) if row[0] not in names]
    places["upstream"] = [row for row in places["upstream"] if not row[0].startswith("routes.")]
    return places


def roff(text):
    """A line for each sentence, none of which is taken for a request."""
    text = text.replace("\\", "\\e").replace('"', "\\(dq")
    lines = re.sub(r"\. (?=[A-Z])", ".\n", text).split("\n")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


HEADINGS = {
    "top": ("Top level", "Beside these there are\n.Cm defaults ,\na policy (see below), and\n.Cm upstreams ,\na list."),
    "policy": ("Policy", "These keys may stand in\n.Cm defaults ,\nin an upstream, and in a route (there without those of\n.Cm pool ) ."),
    "upstream": ("An item of upstreams", "Beside the policy's keys:"),
    "route": ("An item of routes", "Beside the policy's keys:"),
}


def key_sections(places):
    """The generated part of evenkeel-policies.5."""
    out = []
    for place, (title, text) in HEADINGS.items():
        out.append(f".Ss {title}\n{text}\n.Bl -tag -width Ds\n")
        for path, description, _ in places[place]:
            out.append(f".It Cm {path}\n{roff(description)}.\n")
        out.append(".El\n")
    return "".join(out)


def check_man_5(documents, places, write):
    text = read(MAN_5)
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        documents.fault(MAN_5, "the lines that enclose the keys are missing")
        return
    before, rest = text.split(BEGIN)
    have, after = rest.split(END)
    want = key_sections(places)
    documents.n_checked += sum(map(len, places.values()))
    if have == want:
        return
    if not write:
        documents.fault(MAN_5, "its keys are not those of `evenkeel schema`: run tests/checks/docs.py --write")
        return
    with open(os.path.join(ROOT, MAN_5), "w", encoding="utf-8") as stream:
        stream.write(before + BEGIN + want + END + after)


def paths_of(node, prefix=""):
    """The keys of a map, sections too; header fields below `set` are the user's."""
    for name, below in node.items():
        if name == "<<" or (not prefix and name.startswith("x-")):
            continue
        yield f"{prefix}{name}"
        if isinstance(below, dict) and name != "set":
            yield from paths_of(below, f"{prefix}{name}.")


class PlainLoader(yaml.SafeLoader):
    """on and off stay words: `retry.on` is a key."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}


def check_example(documents, places):
    text = read(EXAMPLE)
    policy = yaml.load(text, PlainLoader)
    defaults = set(paths_of(policy.get("defaults", {})))
    for found in re.finditer(r"^ *# ([a-z_]+: \{.*\})", text, re.M):  # what is off is shown as a comment
        defaults |= set(paths_of(yaml.load(found[1], PlainLoader)))
    table = {place: {path for path, _, _ in rows} for place, rows in places.items()}
    top = {path for path in paths_of({name: below for name, below in policy.items() if name not in ("defaults", "upstreams")})}
    upstreams, routes = set(), set()
    for upstream in policy["upstreams"]:
        upstreams |= {path for path in paths_of(upstream) if path not in table["policy"]}
        for route in upstream.get("routes", []):
            routes |= {path for path in paths_of(route) if path not in table["policy"]}
    for place, have in (("top", top), ("policy", defaults), ("upstream", upstreams), ("route", routes)):
        documents.same(EXAMPLE, f"{place} key", have, table[place], "`evenkeel schema`")
    documents.run("check", os.path.join(ROOT, EXAMPLE))


def check_explain(documents, places):
    """Every policy key that holds a value is explained, but for those below a switch that is off."""
    values = json.loads(documents.run("explain", "--json", "GET", "http://example.test/"))["values"]
    have = {row["key"] for row in values if row["group"] == "policy"}
    off = {row["key"] for row in values if row["value"] == "off"}
    schema = json.loads(documents.run("schema"))
    switches = {path for path, _, is_section in places["policy"] if is_section and path in have}
    want = {path for path, _, is_section in places["policy"] if not is_section or path in switches}
    want = {path for path in want if not any(path.startswith(switch + ".") for switch in switches & off)}
    assert schema and len(want) > 30
    documents.same("evenkeel explain", "key", have, want, "`evenkeel schema`")


# --- options


def options_of_help(text):
    """{long: short or None} and the commands."""
    options = {found[2]: found[1] for found in re.finditer(r"^ +(?:-(\w), |    )--([a-z-]+)", text, re.M)}
    commands = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)[1]
    return options, set(re.findall(r"^  ([a-z]+) ", commands, re.M))


def check_man_8(documents, options, commands):
    text = read(MAN_8)
    have = set(re.findall(r"\bFl Fl ([a-z-]+)", text))
    documents.same(MAN_8, "option", have, set(options), "`evenkeel --help`")
    for long, short in options.items():
        if short and not re.search(rf"^\.It Fl {short} .*Fl Fl {long}\b", text, re.M):
            documents.fault(MAN_8, f"option -{short} is not beside --{long}")
        if not re.search(rf"^\.It .*Fl Fl {long}\b", text, re.M):
            documents.fault(MAN_8, f"option --{long} has no paragraph")
    documents.same(MAN_8, "command", set(re.findall(r"^\.It Cm ([a-z]+)$", text, re.M)), commands, "`evenkeel --help`")


def check_completions(documents, options, commands):
    for file, shell in COMPLETIONS.items():
        text = read(file)
        pattern = r"(?m)^complete .* -l ([a-z-]+)" if shell == "fish" else r"(?<![\w-])--([a-z][a-z-]*)"
        documents.same(file, "option", set(re.findall(pattern, text)), set(options), "`evenkeel --help`")
        words = set(re.findall(r"\b(?:" + "|".join(sorted(commands)) + r")\b", re.sub(r"'[^']*\[[^']*'", "", text)))
        documents.same(file, "command", words, commands, "`evenkeel --help`")
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", os.path.join(ROOT, file)], capture_output=True, text=True, check=False)
            if done.returncode != 0 or done.stderr:
                documents.fault(file, f"{shell} can't read it: {done.stderr.strip()}")
    check_bash(documents, commands)


def check_bash(documents, commands):
    """Runs the completion: what does it offer?"""
    file = "config/completions/evenkeel.bash"
    script = r'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _evenkeel; printf "%s\n" "${COMPREPLY[@]}"'

    def offers(*words):
        return set(subprocess.run(["bash", "-c", script, "bash", os.path.join(ROOT, file), "evenkeel", *words],
                                  capture_output=True, text=True, check=True).stdout.split())

    if not commands <= offers(""):
        documents.fault(file, f"offers {sorted(offers(''))} at the beginning, not all commands")
    for words, wanted in ((("health", "--r"), {"--ready"}), (("init", "--"), {"--from-env", "--help"}),
                          (("--log-level", "w"), {"warn"}), (("-c", "x", "explain", "--f"), {"--format"}), (("sch",), {"schema"})):
        if offers(*words) != wanted:
            documents.fault(file, f"offers {sorted(offers(*words))} for {' '.join(words)}, not {sorted(wanted)}")


def check_environment(documents):
    text = read(MAN_8)
    for top in ("proxy", "config"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if not name.endswith(".c"):
                    continue
                for variable in re.findall(r'getenv\("([A-Z_]+)"\)', read(path)):
                    documents.n_checked += 1
                    if not re.search(rf"\bEv {variable}\b", text):
                        documents.fault(MAN_8, f"the variable {variable}, which {path} reads, is not told of")


# --- man pages and README


def check_mandoc(documents):
    if not shutil.which("mandoc"):
        return
    for page in (MAN_5, MAN_8):
        done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", os.path.join(ROOT, page)], capture_output=True, text=True,
                              check=False)
        for line in (done.stdout + done.stderr).splitlines():
            documents.fault(page, line)


def key_tables(places):
    """The generated part of the README."""
    out = []
    for place, title in (("top", "top level"), ("policy", "policy"), ("upstream", "item of `upstreams`"), ("route", "item of `routes`")):
        out.append(f"\n| {title} | built in | |\n| --- | --- | --- |\n")
        for path, description, is_section in places[place]:
            text, _, built_in = description.partition(". Built-in: ")
            if is_section and not built_in:
                continue
            text = text.replace("|", "\\|")
            out.append(f"| `{path}` | {f'`{built_in}`' if built_in else ''} | {text} |\n")
    return "".join(out) + "\n"


def check_readme_keys(documents, text, places, write):
    if text.count(README_BEGIN) != 1 or text.count(README_END) != 1:
        documents.fault(README, "the lines that enclose the keys are missing")
        return
    before, rest = text.split(README_BEGIN)
    have, after = rest.split(README_END)
    want = key_tables(places)
    documents.n_checked += sum(map(len, places.values()))
    if have == want:
        return
    if not write:
        documents.fault(README, "its keys are not those of `evenkeel schema`: run tests/checks/docs.py --write")
        return
    with open(os.path.join(ROOT, README), "w", encoding="utf-8") as stream:
        stream.write(before + README_BEGIN + want + README_END + after)


def check_readme(documents, places, options, commands, write):
    if not os.path.exists(os.path.join(ROOT, README)):
        return
    text = read(README)
    check_readme_keys(documents, text, places, write)
    known = {path for rows in places.values() for path, _, _ in rows}
    sections = {path for rows in places.values() for path, _, is_section in rows if is_section}
    for path in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?:: [^`]*)?`", text):
        documents.n_checked += 1
        if path not in known and path.rsplit(".", 1)[0] in sections:
            documents.fault(README, f"key {path} is not in `evenkeel schema`")
    for line in re.findall(r"^.*\bevenkeel\b.*--.*$", text, re.M):
        for option in re.findall(r"\bevenkeel(?: [^`|#&;]*?)? --([a-z-]+)", line):
            documents.n_checked += 1
            if option not in options:
                documents.fault(README, f"option --{option} is not in `evenkeel --help`")
    for command in commands:
        if not re.search(rf"\bevenkeel {command}\b", text) and command != "run":
            documents.fault(README, f"command {command} is not told of")
    for block in re.findall(r"^```ya?ml\n(.*?)^```", text, re.M | re.S):
        check_readme_block(documents, block)


def check_readme_block(documents, block):
    """A policy file, or a part of one, in the README must be good."""
    if not re.match(r"(#.*\n|\s*\n)*(listen|admin|defaults|upstreams|limits|egress|client|drain|dns|log)\b", block):
        return
    documents.n_checked += 1
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(block)
        file.flush()
        done = subprocess.run([documents.program, "check", file.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            documents.fault(README, "a policy in it is faulty:\n" + done.stdout.replace(file.name, "block"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    documents = Documents(os.path.join(arguments.build, "evenkeel"))
    places = keys_by_place(json.loads(documents.run("schema")))
    options, commands = options_of_help(documents.run("--help"))
    assert len(options) > 5 and len(commands) > 3
    check_man_5(documents, places, arguments.write)
    check_example(documents, places)
    check_explain(documents, places)
    check_man_8(documents, options, commands)
    check_completions(documents, options, commands)
    check_environment(documents)
    check_mandoc(documents)
    check_readme(documents, places, options, commands, arguments.write)
    for fault in documents.faults:
        print(fault)
    print(f"docs: {documents.n_checked} things compared, {len(documents.faults)} disagreements")
    return 1 if documents.faults else 0


if __name__ == "__main__":
    sys.exit(main())
