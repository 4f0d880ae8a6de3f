#!/usr/bin/env python3
"""Says how many tests passed, failed and were skipped, and why: summary.py TESTS.xml [AGAIN.xml], as `ctest
--output-junit` writes it. AGAIN.xml has those entries that failed and ran again.

An entry of ctest may hold many tests of GoogleTest, whose own words count.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

RAN = re.compile(r"^\[ +(OK|SKIPPED|FAILED) +\] (\S+?),?(?: where .*)? \(\d+ ms\)$")
MISSING_DATA = re.compile(r"^needs (\S+); set MILLRACE_DATA", re.MULTILINE)
UNPROVED = re.compile(r"^\[  FAILED  \] (\S+) ((?:passes|claims|fails when) .*)$")


def tests_of(entry):
    """(name, result, why) of every test of a ctest entry."""
    name, status = entry.get("name"), entry.get("status")
    output = entry.findtext("system-out") or ""
    found, since = [], []
    for line in output.splitlines():
        ran, unproved = RAN.match(line), UNPROVED.match(line)
        if ran:
            found.append((ran[2], ran[1], "\n".join(since)))
            since = []
        elif unproved:
            found = [test for test in found if test[0] != unproved[1]] + [(unproved[1], "FAILED", unproved[2])]
        else:
            since.append(line)
    if status == "fail" and all(result != "FAILED" for _, result, _ in found):
        failure = entry.find("failure")
        found.append((name, "FAILED", failure.get("message", "") if failure is not None else ""))
    elif not found:
        found.append((name, "OK" if status == "run" else "SKIPPED", output))
    return found


def read(file):
    return [test for entry in ElementTree.parse(file).getroot().iter("testcase") for test in tests_of(entry)]


def main():
    tests = read(sys.argv[1])
    failed = [(name, why) for name, result, why in tests if result == "FAILED"]
    late = []
    if len(sys.argv) > 2:
        entries = ElementTree.parse(sys.argv[2]).getroot().iter("testcase")
        passed_again = {entry.get("name") for entry in entries if entry.get("status") == "run"}
        passed_again |= {name for name, result, _ in read(sys.argv[2]) if result == "OK"}
        late = [name for name, _ in failed if name in passed_again]
        failed = [(name, why) for name, why in failed if name not in passed_again]
    skipped = [(name, why) for name, result, why in tests if result == "SKIPPED"]
    without_data = [name for name, why in skipped if MISSING_DATA.search(why)]
    for name, _ in failed:
        print(f"failed: {name}")
    for name in late:
        print(f"passed only when it ran again, by itself: {name}")
    for name, why in skipped:
        lines = [line.strip() for line in why.splitlines() if line.strip() and not line.startswith(("[", "../"))]
        reasons = [line for line in lines if line != "Skipped"]
        print(f"skipped: {name}" + (f": {reasons[-1]}" if reasons else ""))
    print(f"{len(tests) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    if without_data:
        print(f"{len(without_data)} of them were skipped for want of data: set MILLRACE_DATA")


if __name__ == "__main__":
    main()
