"""The README's tables of metrics and log events hold what there is, no more and no less."""
import os
import re

from harness import reply
from harness.proxy import ROOT, LABEL, METRIC


def table(heading):
    """The rows of the README's table that begins with this heading, as pairs of cells."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as stream:
        text = stream.read()
    rows = text.split(f"\n| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    assert len(rows) > 5
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_metrics_and_their_labels(proxy, origin):
    p = proxy()
    assert p.get(origin(reply(200)).url()).status == 200
    text = p.ask("/metrics").text
    there = {name: set() for name in re.findall(r"^# TYPE (\S+) ", text, re.M)}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = METRIC.match(line)
        name = next(name for name in (found[1], re.sub(r"_(bucket|sum|count)$", "", found[1])) if name in there)
        there[name] |= {label for label, _ in LABEL.findall(found[2] or "")} - {"upstream", "le"}
    told = {}
    for names, _ in table("metric"):
        for name, labels in re.findall(r"`([a-z_]+)(?:\{([a-z_,]+)\})?`", names):
            told[name] = set(labels.split(",")) if labels else set()
    assert told == there


def found_in_sources(pattern):
    found = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "proxy")):
        for name in names:
            if name.endswith((".c", ".def")):
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    found |= set(re.findall(pattern, stream.read()))
    return found


def test_errors_and_their_statuses():
    there = found_in_sources(r'\b([45]\d\d), "([a-z_]+)"') | found_in_sources(r'\.status = (\d+), \.error = "([a-z_]+)"')
    told = {(status, error) for statuses, errors, _ in table("status")
            for status in statuses.split(", ") for error in re.findall(r"`([a-z_]+)`", errors)}
    assert there <= told
    assert {error for _, error in told} == {error for _, error in there}


def test_log_events():
    there = found_in_sources(r'\blog_(?:begin|message)\([^"();]*"([a-z_]+)"')
    there |= {"log_dropped", "policy_warning"}  # named where no call of log_begin shows it
    told = [event for events, _ in table("event") for event in re.findall(r"`([a-z_]+)`", events)]
    assert len(told) == len(set(told)), "an event is told of twice"
    assert set(told) == there
