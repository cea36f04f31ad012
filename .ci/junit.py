#!/usr/bin/env python3
"""Sums pytest's reports: prints "PASSED FAILED SKIPPED". Arguments: how many reports there must be, the reports; a report
named *.again.xml holds second runs, which replace the first. With --failed: prints how many tests failed."""
import sys
import xml.etree.ElementTree as tree


def outcome(case):
    # A test may fail and then fail to tear down too: it counts once.
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def main(arguments):
    only_failed = arguments[0] == "--failed"
    wanted = 0 if only_failed else int(arguments[0])
    paths = sorted(arguments[1:], key=lambda path: path.endswith(".again.xml"))
    outcomes, n_missing, n_found = {}, 0, 0
    for path in paths:
        try:
            seen = {}
            for case in tree.parse(path).getroot().iter("testcase"):
                key = (case.get("classname"), case.get("name"))
                if seen.get(key) != "failed":
                    seen[key] = outcome(case)
            outcomes.update(seen)
            n_found += not path.endswith(".again.xml")
        except (OSError, tree.ParseError):
            n_missing += 1
    n_missing += max(0, wanted - n_found - n_missing)
    n = {word: sum(1 for value in outcomes.values() if value == word) for word in ("passed", "failed", "skipped")}
    if only_failed:
        print(n["failed"] + n_missing)
    else:
        print(n["passed"], n["failed"] + n_missing, n["skipped"])


main(sys.argv[1:])
