"""Policy files: `check` against the fixtures, and the schema against `check`."""
import glob
import json
import os
import random

import jsonschema
import pytest
import yaml

from harness import run_evenkeel
from harness.proxy import ROOT

FOLDER = os.path.join("tests", "policies")
ENVIRONMENT = {"FIXTURE_HOST": "api.example.com", "FIXTURE_EMPTY": "", "FIXTURE_BAD_DURATION": "5 s"}


def fixtures(kind):
    return sorted(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, FOLDER, kind, "*.yaml")))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(run_evenkeel("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", fixtures("good") + fixtures("bad"))
def test_check_says_what_the_fixture_expects(path):
    done = run_evenkeel("check", path, env=ENVIRONMENT, cwd=ROOT)
    with open(os.path.join(ROOT, path[:-len(".yaml")] + ".expect"), encoding="utf-8") as stream:
        assert done.stdout == stream.read()
    assert done.returncode == (0 if os.sep + "good" + os.sep in path else 1)


def core(node):
    """As a YAML 1.2 reader has it: on and off are text, merge keys are not resolved."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: core(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [core(item) for item in node.value]
    if node.tag.endswith((":int", ":float")):
        return yaml.SafeLoader("").construct_object(node)
    return None if node.tag.endswith(":null") else node.value


def old(value):
    """As a YAML 1.1 reader has it: on and off are true and false; as keys they are put back, for JSON has no such keys."""
    if isinstance(value, dict):
        return {{True: "on", False: "off"}.get(key, key): old(item) for key, item in value.items()}
    return [old(item) for item in value] if isinstance(value, list) else value


def complaints(validator, text):
    found = []
    for document in (core(yaml.compose(text) or yaml.ScalarNode("tag:yaml.org,2002:null", "")), old(yaml.safe_load(text))):
        found += [f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(document)]
    return found


@pytest.mark.parametrize("path", fixtures("good"))
def test_schema_takes_what_check_takes(validator, path):
    with open(os.path.join(ROOT, path), "rb") as stream:
        assert complaints(validator, stream.read()) == []


# Wrong by form, so an editor should say so.
@pytest.mark.parametrize("name", ["unknown_keys", "durations", "sizes", "ratios", "counts", "booleans", "wrong_kinds",
                                  "wrong_kinds_below", "retry_on", "ports", "media_types", "dotted_keys", "pool_in_route",
                                  "routes_at_top", "override", "missing_values", "hosts", "listen", "names"])
def test_schema_refuses_what_is_wrong_by_form(validator, name):
    with open(os.path.join(ROOT, FOLDER, "bad", name + ".yaml"), "rb") as stream:
        text = stream.read()
    assert complaints(validator, text)


VALUES = ["off", "on", "5s", "1m30s", "0", "1", "3", "100", "20%", "0.5", "1.5", "64KiB", "10MB", "full", "any", "deny", "serve",
          "[]", "[GET, HEAD]", "[503, reset]", "[80, 443]", "[/a, \"/b/*\"]", "[a.example]", "{}", "~", "\"\"", "system", "auto",
          "127.0.0.1:80", "\"[::1]:80\"", "unix:/x", "[10.0.0.0/8]", "text", "\"on\"", "true", "false", "\"7\"", "1.2", "X-Key",
          "{ratio: 10%}", "{set: {X-A: 1}}", "\"${FIXTURE_HOST}\"", "[\"${FIXTURE_HOST}\"]", "trace", "text/plain", "[text/plain]"]


def keys_of(schema, path=()):
    """The paths of all keys below a schema that hold a value."""
    members = next((each["properties"] for each in [schema, *schema.get("anyOf", [])] if "properties" in each), None)
    if not members:
        yield path
    for name, member in (members or {}).items():
        if name != "<<" and "$ref" not in member:
            yield from keys_of(member, path + (name,))


def test_schema_takes_any_value_that_check_takes(validator, tmp_path):
    """Keys with all kinds of values: what check takes under a key, the schema must take there, too."""
    places = [key for name, each in validator.schema["properties"].items() if isinstance(each, dict)
              for key in keys_of(each, (name,)) if name != "upstreams"]
    places += [("defaults",) + key for name, each in validator.schema["$defs"].items()
               if name not in ("environment", "policy", "upstream", "route") for key in keys_of(each, (name,))]
    assert ("defaults", "retry", "backoff", "jitter") in places and ("limits", "header_bytes") in places
    chance = random.Random(7)
    taken = 0
    for value in VALUES:
        for place in chance.sample(places, 8):
            text = value
            for key in reversed(place):
                text = "{" + f'"{key}": {text}' + "}"
            file = tmp_path / "p.yaml"
            file.write_text(text + "\n")
            if run_evenkeel("check", file, env=ENVIRONMENT).returncode == 0:
                taken += 1
                assert complaints(validator, text) == [], text
    assert taken > 20
