"""curl's tests: which of them speak HTTP only, and runs of them with any library.

usage: conformance/curl/suite.py TREE LIBRARY LOGS [--shards N] TEST...

TREE is what `build` makes, LIBRARY the directory of the libcurl.so.4 under test ("" for TREE's
own). Prints ok, FAILED or skipped for each test; LOGS gets the output of each failed test.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

SERVERS = {"none", "file", "http", "http-ipv6", "http-unix", "http-proxy", "https", "https-proxy",
           "https-mtls", "http/2", "socks4", "socks5", "socks5unix"}
# Features of a build that is no release, and the other protocols.
OTHER_FEATURES = {"debug", "unittest", "TrackMemory", "dict", "ftp", "ftps", "gopher", "gophers",
                  "imap", "ldap", "mqtt", "pop3", "rtmp", "rtsp", "scp", "sftp", "smb", "smtp",
                  "telnet", "tftp"}
TEST_SECONDS = 30
RUN_SECONDS = 1500


def section(text, name):
    """The lines of the first element `name` of a test file."""
    found = re.search(rf"<{name}[^>]*>(.*?)</{name}>", text, re.DOTALL)
    return [line.strip() for line in found[1].splitlines() if line.strip()] if found else []


def http_tests(tree):
    """The numbers of the tool's tests and of the libtests that speak HTTP only."""
    tool, libtests = set(), set()
    disabled = set(re.findall(r"^\d+$", (tree / "tests/data/DISABLED").read_text(), re.MULTILINE))
    for path in (tree / "tests/data").glob("test[0-9]*"):
        text, number = path.read_text(encoding="latin-1"), path.name[4:]
        servers = {line.split()[0] for line in section(text, "server")}
        program = section(text, "tool")
        no_client = re.search(r"<command[^>]*perl", text) and not program
        if not servers or servers - SERVERS or number in disabled or no_client:
            continue
        if OTHER_FEATURES & set(section(text, "features") + section(text, "keywords")):
            continue
        (libtests if program else tool).add(int(number))
    return tool, libtests


def farm(tree, place):
    """A copy of the tree made of links, so that a run has its own log and process files."""
    for part in tree.iterdir():
        if part.name != "tests":
            (place / part.name).symlink_to(part)
    tests = place / "tests"
    tests.mkdir()
    for part in (tree / "tests").iterdir():
        if part.name not in ("log", "server"):
            (tests / part.name).symlink_to(part)
    (tests / "server").mkdir()
    for part in (tree / "tests/server").iterdir():
        (tests / "server" / part.name).symlink_to(part)
    return tests


def check_library(tree, library, preload=None, check=None):
    """Ends the run unless the tool and a libtest load the library of that directory, and the tool
    what is to be preloaded: the dynamic linker only warns if it is missing."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "LD_TRACE_LOADED_OBJECTS": "1"}
    preload = check.sanitizer if check and check.sanitizer else preload
    for program in ("src/.libs/curl", "tests/libtest/.libs/lib500"):
        loads = subprocess.run([tree / program], env=environment, capture_output=True, text=True)
        if f"libcurl.so.4 => {library}/libcurl.so.4 " not in loads.stdout:
            sys.exit(f"{program} does not load {library}/libcurl.so.4:\n{loads.stdout}")
    if preload:
        environment["LD_PRELOAD"] = str(preload)
        loads = subprocess.run([tree / "src/.libs/curl"], env=environment, capture_output=True,
                               text=True)
        if str(preload) not in loads.stdout:
            sys.exit(f"the tool does not load {preload}:\n{loads.stdout}{loads.stderr}")


class MemoryCheck:
    """A check of each program for memory errors, with a report file for each process.

    With `sanitizer`, the runtime of the library's own AddressSanitizer; otherwise by valgrind.
    """

    def __init__(self, reports, sanitizer=None):
        self.reports, self.sanitizer = reports, sanitizer
        self.slowness = 3 if sanitizer else 8

    def environment(self):
        variables = {"CURL_TESTS_REPORTS": str(self.reports)}
        if self.sanitizer:
            variables["CURL_TESTS_SANITIZER"] = str(self.sanitizer)
        return variables


class Shard(threading.Thread):
    """One run of runtests.pl over a part of the tests."""

    def __init__(self, tree, library, logs, tests, seed, preload, check):
        super().__init__()
        self.tree, self.library, self.logs, self.preload = tree, library, logs, preload
        self.check = check
        self.tests, self.seed = tests, seed
        self.passed, self.failed, self.skipped = set(), {}, {}

    def run(self):
        with tempfile.TemporaryDirectory(prefix="curl-tests-") as place:
            self.runtests(farm(self.tree, pathlib.Path(place)))

    def runtests(self, tests):
        """Runs the tests in the farm, and reads the output as it comes."""
        slowness = self.check.slowness if self.check else 1
        environment = {**os.environ, "CURL_TESTS_LIBRARY": str(self.library), "srcdir": ".",
                       "CURL_TESTS_SECONDS": str(TEST_SECONDS * slowness), "LC_ALL": "C",
                       "LOCPATH": str(self.tree / "locale")}
        if self.check:
            environment |= self.check.environment()
        if self.preload:
            environment["CURL_TESTS_PRELOAD"] = str(self.preload)
        command = ["perl", "-I.", "runtests.pl", "-n", "-a", "-p", f"--seed={self.seed}"]
        command += ["-vc", "../src/verify", *map(str, self.tests)]
        run = subprocess.Popen(command, cwd=tests, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                               text=True, encoding="latin-1", start_new_session=True)
        limit = threading.Timer(RUN_SECONDS * slowness, os.killpg, (run.pid, signal.SIGKILL))
        limit.start()
        self.read(run.stdout)
        run.wait()
        limit.cancel()
        try:
            os.killpg(run.pid, signal.SIGKILL)  # servers that are left
        except ProcessLookupError:
            pass

    def read(self, output):
        """Sorts the output by test."""
        test, lines = None, []
        for line in output:
            start = re.match(r"test (\d+)(?:\.\.\.| SKIPPED: (.*))", line)
            if start or line.startswith("TESTDONE"):
                self.judge(test, lines)
                test, lines = None, []
            if start and start[2]:
                self.skipped[int(start[1])] = start[2]
            elif start:
                test = int(start[1])
            lines.append(line)
        self.judge(test, lines)

    def judge(self, test, lines):
        """Notes the result of one test; the log of a failure is kept."""
        if test is None:
            return
        if any(re.search(r" OK \(\d+ ", line) for line in lines):
            self.passed.add(test)
            return
        reasons = [line.strip() for line in lines
                   if re.search(r"FAILED|returned \d+, when expecting|core dumped", line)]
        self.failed[test] = " ".join(reasons[:2]) or "no result"
        (self.logs / f"{test}.log").write_text("".join(lines), encoding="latin-1")


def run(tree, library, logs, tests, shards, events=False, check=None):
    """Runs the tests; returns what passed, and what failed and was skipped with the reason.

    With `events`, the tool performs its transfers over the event interface. `check` is the
    [`MemoryCheck`] of the programs.
    """
    tree = tree.resolve()
    library = pathlib.Path(library).resolve() if library else tree / "lib/.libs"
    preload = tree / "events.so" if events else None
    check_library(tree, library, preload, check)
    for place in filter(None, (logs, check and check.reports)):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    tests = sorted(tests)
    parts = [Shard(tree, library, logs, tests[i::shards], os.getpid() * 8 + i, preload, check)
             for i in range(shards) if tests[i::shards]]
    for part in parts:
        part.start()
    passed, failed, skipped = set(), {}, {}
    for part in parts:
        part.join()
        passed |= part.passed
        failed |= part.failed
        skipped |= part.skipped
    for test in set(tests) - passed - set(failed) - set(skipped):
        skipped[test] = "not run"
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description="Runs curl's tests with a library.")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("library")
    parser.add_argument("logs", type=pathlib.Path)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--events", action="store_true", help="use the event interface")
    parser.add_argument("tests", type=int, nargs="+")
    options = parser.parse_args()
    passed, failed, skipped = run(options.tree, options.library, options.logs, options.tests,
                                  options.shards, options.events)
    for test in sorted(options.tests):
        if test in passed:
            print(f"{test} ok")
        elif test in failed:
            print(f"{test} FAILED ({failed[test]}) {options.logs}/{test}.log")
        else:
            print(f"{test} skipped ({skipped[test]})")
    print(f"{len(passed)} ok, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
