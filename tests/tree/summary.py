#!/usr/bin/env python3
"""What tests/summary.py says of tests that passed, failed, were skipped, or passed only when they ran again. usage:
summary.py ROOT"""
import pathlib
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

root = pathlib.Path(sys.argv[1])
mistakes = []


def entry(name, status, output="", inside=""):
    """One entry of ctest, as `ctest --output-junit` writes it."""
    return (f'<testcase name="{name}" classname="{name}" time="0.1" status="{status}">{inside}'
            f"<properties/><system-out>{escape(output)}</system-out></testcase>")


def expect(what, expected, entries, again=None):
    """Compares what is said of these entries, and of those that ran again."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, part in enumerate(filter(None, (entries, again))):
            files.append(pathlib.Path(folder) / f"{number}.xml")
            files[-1].write_text('<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="Linux">'
                                 + "".join(part) + "</testsuite>\n")
        said = subprocess.run([sys.executable, root / "tests" / "summary.py", *files], capture_output=True, text=True)
    if said.returncode != 0 or said.stdout.splitlines() != expected:
        mistakes.append(f"{what}: it says\n{said.stdout}{said.stderr}and should say\n" + "\n".join(expected))


FAILURE = '<failure message="Failed"/>'
PASSED = """Note: Google Test filter = A.*
[==========] Running 2 tests from 1 test suite.
[ RUN      ] A.First
[       OK ] A.First (3 ms)
[ RUN      ] A.Second
[       OK ] A.Second (1004 ms)
[==========] 2 tests from 1 test suite ran. (1007 ms total)
[  PASSED  ] 2 tests.
"""
expect("entries that pass", ["3 passed, 0 failed, 0 skipped"],
       [entry("p.A", "run", PASSED), entry("script", "run", "all is well\n")])

SKIPPED = """[ RUN      ] A.WantsData
../tests/a_test.cpp:7: Skipped
needs captures/http; set MILLRACE_DATA to a folder that has it
[  SKIPPED ] A.WantsData (0 ms)
[ RUN      ] A.WantsRoot
../tests/a_test.cpp:9: Skipped
needs root and the 'ip' program
[  SKIPPED ] A.WantsRoot (0 ms)
[ RUN      ] A.Works
[       OK ] A.Works (0 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.WantsData
[  SKIPPED ] A.WantsRoot
"""
expect("entries that skip",
       ["skipped: A.WantsData: needs captures/http; set MILLRACE_DATA to a folder that has it",
        "skipped: A.WantsRoot: needs root and the 'ip' program", "skipped: live: needs root",
        "1 passed, 0 failed, 3 skipped", "1 of them were skipped for want of data: set MILLRACE_DATA"],
       [entry("p.A", "run", SKIPPED),
        entry("live", "notrun", "needs root\n", '<skipped message="SKIP_RETURN_CODE=77"/>')])

FAILED = """[ RUN      ] All/A.Fails/sim
../tests/a_test.cpp:7: Failure
Expected equality of these values:
[  FAILED  ] All/A.Fails/sim, where GetParam() = "sim" (12 ms)
[ RUN      ] All/A.Works/sim
[       OK ] All/A.Works/sim (1 ms)
[  PASSED  ] 1 test.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] All/A.Fails/sim, where GetParam() = "sim"

 1 FAILED TEST
"""
CRASHED = "[ RUN      ] B.First\n[       OK ] B.First (0 ms)\n[ RUN      ] B.Crashes\n"
UNPROVED = """[ RUN      ] C.Works
[       OK ] C.Works (1 ms)
[  PASSED  ] 1 test.
[  FAILED  ] C.Works passes though the kernels of its devices failed: it must call expect_work()
[  PROOF   ] 0 tests fail when kernels fail, 1 are not as they should be
"""
ALL = [entry("p.All/A", "fail", FAILED, FAILURE), entry("p.B", "fail", CRASHED, FAILURE),
       entry("p.C", "fail", UNPROVED, FAILURE), entry("script", "fail", "no\n", FAILURE)]
expect("entries that fail",
       ["failed: All/A.Fails/sim", "failed: p.B", "failed: C.Works", "failed: script", "2 passed, 4 failed, 0 skipped"],
       ALL)

REPEATED = FAILED.replace('FAILED  ] All/A.Fails/sim, where GetParam() = "sim" (', "     OK ] All/A.Fails/sim (")
expect("entries that run again",
       ["failed: C.Works", "failed: script", "passed only when it ran again, by itself: All/A.Fails/sim",
        "passed only when it ran again, by itself: p.B", "4 passed, 2 failed, 0 skipped"],
       ALL, [entry("p.All/A", "run", REPEATED), entry("p.B", "run", CRASHED + "[       OK ] B.Crashes (0 ms)\n"),
             entry("p.C", "fail", UNPROVED, FAILURE), entry("script", "fail", "no\n", FAILURE)])

print("\n".join(mistakes) or "the summary says what it should")
sys.exit(bool(mistakes))
