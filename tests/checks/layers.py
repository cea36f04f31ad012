#!/usr/bin/env python3
"""Who may include what: the rooms of the source tree, lowest first, and what each may know.

A file may include its own room's headers and those of the rooms listed for it, nothing else of the project; and
beside the C library (and the kernel's headers) only the libraries listed. Rooms that are to be pure are also held to
that in their object files, when there are any: the functions of the C library that they may call are listed.

    tests/checks/layers.py [--build DIR]
"""
import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The value types of the policy file, which every room may read.
VALUES = ["config/policy.h"]

# Without I/O, allocation, clock or state: what a room that only computes may use of proxy/base. metrics.h is for its
# label names; that none of its functions is called is seen from the object files.
PURE_BASE = ["proxy/base/mono.h", "proxy/base/rng.h", "proxy/base/slice.h", "proxy/base/list.h", "proxy/base/check.h",
             "proxy/base/metrics.h"]

# room: (rooms or single headers that it may include, libraries)
ROOMS = {
    "config": ([], ["yaml"]),
    "proxy/base": (VALUES, []),
    "proxy/policy": (VALUES + ["config/load.h"] + PURE_BASE, []),
    "proxy/http": (VALUES + ["config/paths.h", "proxy/base"], ["llhttp"]),
    "proxy/explain": (["config", "proxy/base", "proxy/policy", "proxy/http/target.h"], []),
    "proxy/net": (VALUES + ["proxy/base"], ["libevent", "c-ares", "openssl"]),
    "proxy/upstream": (["config", "proxy/base", "proxy/policy", "proxy/http", "proxy/net"], []),
    "proxy/exchange": (["config", "proxy/base", "proxy/policy", "proxy/http", "proxy/net", "proxy/upstream"], []),
    "proxy/front": (["config", "proxy/base", "proxy/policy", "proxy/http", "proxy/net", "proxy/upstream",
                     "proxy/exchange", "proxy/explain"], ["libevent", "evhttp"]),
    "proxy": (["config", "proxy/base", "proxy/policy", "proxy/http", "proxy/net", "proxy/upstream", "proxy/exchange",
               "proxy/explain", "proxy/front"], ["libevent"]),
}

LIBRARIES = [
    ("evhttp", re.compile(r"^(event2/http.*|evhttp)\.h$")),
    ("libevent", re.compile(r"^(event2/.*|event|evdns|evutil|evrpc)\.h$")),
    ("c-ares", re.compile(r"^ares.*\.h$")),
    ("openssl", re.compile(r"^openssl/.*\.h$")),
    ("yaml", re.compile(r"^yaml\.h$")),
    ("llhttp", re.compile(r"^(llhttp/)?llhttp\.h$")),
]

# Headers of the C library and the kernel.
SYSTEM = re.compile(r"^(assert|ctype|errno|fcntl|float|getopt|inttypes|libgen|limits|locale|math|netdb|poll|pthread|pwd"
                    r"|sched|setjmp|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn"
                    r"|string|strings|syslog|time|unistd|malloc|dirent|glob|fnmatch|wchar|iconv|endian|grp"
                    r"|sys/[a-z_]+|netinet/[a-z_0-9]+|arpa/[a-z]+|net/if|linux/[a-z_]+|byteswap)\.h$")

# What the object files of a pure room may need from elsewhere: no allocation, clock, I/O, log.
PURE_ROOM = "proxy/policy"
PURE_CALLS = re.compile(r"^(mem(cpy|cmp|chr|set|move|rchr|mem)|bcmp|__mem(cpy|set|move)_chk|str(n?len|n?cmp|n?casecmp|r?chr|spn|cspn)"
                        r"|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|abort|__assert_fail|check_[a-z_]+|rng_[a-z_0-9]+|slice_[a-z_]+"
                        r"|pow|exp2?|log2?|l?l?round|floor|ceil|fmin|fmax|ldexp|__(asan|ubsan|sanitizer|tsan)_.*)$")

# Only this file reads a clock.
CLOCK_FILE = "proxy/base/clock.c"
CLOCK_CALL = re.compile(r"\b(clock_gettime|gettimeofday|time|timespec_get|clock|getrandom)\s*\(")
CLOCK_ALLOWED = {CLOCK_FILE, "proxy/base/rng.c"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.S)


def sources():
    for top in ("config", "proxy"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def may_include(room, path):
    target_room = os.path.dirname(path)
    return target_room == room or path in ROOMS[room][0] or target_room in ROOMS[room][0]


def check_include(file, room, quoted, name):
    """The fault of one include, or None."""
    if quoted:
        for base in (os.path.dirname(file), ""):
            path = os.path.normpath(os.path.join(base, name))
            if os.path.exists(os.path.join(ROOT, path)):
                break
        else:
            return f'"{name}" is no file of the project'
        if not may_include(room, path):
            return f"{room}/ may not know {path}"
        return None
    for library, pattern in LIBRARIES:
        if pattern.match(name):
            return None if library in ROOMS[room][1] else f"{room}/ may not use {library} (<{name}>)"
    return None if SYSTEM.match(name) else f"<{name}> is neither a system header nor one of a listed library"


def check_file(file):
    room = os.path.dirname(file)
    if room not in ROOMS:
        yield 1, f"{room}/ is no room: say in tests/checks/layers.py what it may include"
        return
    with open(os.path.join(ROOT, file), encoding="utf-8") as stream:
        text = stream.read()
    for number, line in enumerate(text.split("\n"), 1):
        found = INCLUDE.match(line)
        if found:
            fault = check_include(file, room, found[1] == '"', found[2])
            if fault:
                yield number, fault
    if room.startswith("proxy") and file not in CLOCK_ALLOWED:
        bare = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
        for found in CLOCK_CALL.finditer(bare):
            if not found[1] == "getrandom" or room == PURE_ROOM:
                yield bare.count("\n", 0, found.start()) + 1, f"{found[1]}(): only {CLOCK_FILE} reads a clock"


def check_objects(build):
    """Faults of the pure room's object files: functions called that do more than compute."""
    folder = os.path.join(build, PURE_ROOM)
    names = sorted(n for n in os.listdir(folder) if n.endswith(".o")) if os.path.isdir(folder) else []
    own, wanted = set(), {}
    for name in names:
        out = subprocess.run(["nm", "-P", os.path.join(folder, name)], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            symbol, kind = line.split()[:2]
            if kind == "U":
                wanted.setdefault(symbol, name)
            else:
                own.add(symbol)
    for symbol, name in sorted(wanted.items()):
        if symbol not in own and not PURE_CALLS.match(symbol):
            yield f"{PURE_ROOM}/{name[:-2]}.c: calls {symbol}(), but the room only computes"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    arguments = parser.parse_args()
    n_files, faults = 0, []
    for file in sources():
        n_files += 1
        faults += [f"{file}:{line}: {text}" for line, text in check_file(file)]
    faults += check_objects(arguments.build)
    for fault in faults:
        print(fault)
    print(f"layers: {n_files} files, {len(faults)} violations")
    return 1 if faults or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
