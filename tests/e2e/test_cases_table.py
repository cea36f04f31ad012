"""The table of hard cases in tests/README.md names a test for each, and none that isn't there."""
import glob
import os
import re

from harness.proxy import ROOT

TESTS = os.path.join(ROOT, "tests")
LAST = {"A": 13, "B": 17, "C": 15, "D": 15, "E": 5, "F": 7, "G": 11, "H": 7, "I": 9, "J": 5, "K": 7, "L": 9}


def rows():
    with open(os.path.join(TESTS, "README.md"), encoding="utf-8") as stream:
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in stream if re.match(r"\| [A-L]\d+ \|", line)]


def test_each_case_has_its_row():
    wanted = [f"{letter}{n}" for letter, last in LAST.items() for n in range(1, last + 1, 2)]
    assert [row[0] for row in rows()] == wanted and len(wanted) == 66


def test_each_named_test_is_there():
    functions = {}
    for path in glob.glob(os.path.join(TESTS, "e2e", "test_*.py")):
        with open(path, encoding="utf-8") as stream:
            functions[os.path.basename(path)] = set(re.findall(r"^def (test_\w+)", stream.read(), re.M))
    for case, what, tests in rows():
        assert what and tests, case
        file = None
        for name in re.findall(r"`([^`]+)`", tests):
            if name.startswith("vtc/"):
                assert os.path.exists(os.path.join(TESTS, name + ".vtc")), (case, name)
                continue
            if ".py" in name:
                file, _, name = name.partition("::")
                assert file in functions, (case, file)
            if name:
                pattern = re.escape(name).replace(r"\*", r"\w*") + "$"
                assert any(re.match(pattern, function) for function in functions[file]), (case, file, name)
