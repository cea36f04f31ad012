#!/usr/bin/env python3
"""Sums pytest's reports: prints "PASSED FAILED SKIPPED". Arguments: how many reports there must be, the reports."""
import sys
import xml.etree.ElementTree as tree

passed = failed = skipped = 0
for path in sys.argv[2:]:
    try:
        for case in tree.parse(path).getroot().iter("testcase"):
            # A test may fail and then fail to tear down too: it counts once.
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    except (OSError, tree.ParseError):
        failed += 1
failed += max(0, int(sys.argv[1]) - len(sys.argv[2:]))
print(passed, failed, skipped)
