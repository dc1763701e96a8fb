#!/usr/bin/env python3
"""Locks as clang-14 checks them (-Wthread-safety), over the sources that use base/mutex.h.

    deploy/thread_safety.py               every function has the locks that its annotations ask for, in what changed since the commit of deploy/tidy_base
    deploy/thread_safety.py --all         the same in every file
    deploy/thread_safety.py --mutations   the same must be refused without locks (every guarded member) and with lock orders reversed

A source is read where it, or a header that it includes itself, includes base/mutex.h: through its unity build's file, with the flags of
build/release/compile_commands.json (deploy/test.sh). The mutations put a changed copy of base/mutex.h first on the include path. In one
a MutexLock acquires nothing and VF_REQUIRES is empty, so that every access to a member that is VF_GUARDED_BY a mutex is a violation.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from changed_units import ROOT, changed_files, closure_of, headers_of

BUILD = ROOT / "build/release"
MUTEX = ROOT / "base/mutex.h"
WARNINGS = ["-Wno-everything", "-Wthread-safety", "-Wthread-safety-beta"]
CUDA_INCLUDE = re.compile(r"^\s*#\s*include\s+<cu\w+\.h>", re.MULTILINE)
HAS_CUDA = any(pathlib.Path(folder, "cublasLt.h").exists() for folder in ("/usr/include", "/usr/local/include"))


@functools.cache
def uses_mutex(source):
    return MUTEX in headers_of(source) or any(MUTEX in headers_of(header) for header in headers_of(source))


def listed(*patterns):
    ran = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in ran.stdout.split()]


def units_with(wanted):
    """(file, clang's arguments) for every source that is `wanted`; of several units with it the first."""
    units, seen = [], set()
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        unit = pathlib.Path(command["file"])
        is_unity = "Unity" in unit.parts
        if not is_unity and unit.is_relative_to(BUILD):
            continue  # generated
        sources = {source for source in (headers_of(unit) if is_unity else {unit}) if wanted(source)} - seen
        if sources:
            seen |= sources
            words = shlex.split(command["command"])
            units.append((unit, [word for word in words[1:words.index("-o")] if not word.startswith(("-W", "-O"))]))
    # The release build has no CUDA backend.
    for source in listed("kernels/cuda/*.cc"):
        includes_cuda = any(CUDA_INCLUDE.search(path.read_text()) for path in headers_of(source) | {source})
        if source not in seen and wanted(source) and (HAS_CUDA or not includes_cuda):
            units.append((source, [f"-I{ROOT}", "-std=c++20"]))
    return units


def diagnostics(units, includes=(), warnings=()):
    """What clang prints for all units, and whether it accepts each."""
    def read(unit):
        path, flags = unit
        ran = subprocess.run(["clang++-14", "-fsyntax-only", "-fno-caret-diagnostics", *includes, *flags, *WARNINGS, *warnings, path],
                             cwd=ROOT, capture_output=True, text=True)
        return ran.stderr.replace(f"{ROOT}/", ""), ran.returncode == 0
    units = sorted(units, key=lambda unit: -len(headers_of(unit[0])))  # the largest first, so that none is left for the end
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(read, units))
    return "".join(text for text, _ in outputs), all(is_accepted for _, is_accepted in outputs)


def uses_of(macro, paths):
    """(path, line, name of the member) of every declaration with `macro`."""
    found = set()
    for path in paths:
        text = re.sub(r"//.*", "", path.read_text())
        for use in re.finditer(rf"\b(\w+)\s+(?:VF_\w+\([^()]*\)\s+)*{macro}\(", text):
            found.add((str(path.relative_to(ROOT)), text.count("\n", 0, use.start()) + 1, use[1]))
    return found


def with_mutex(folder, text):
    """The argument that puts `text` in place of base/mutex.h."""
    copy = pathlib.Path(folder) / "base/mutex.h"
    copy.parent.mkdir()
    copy.write_text(text)
    return f"-I{folder}"


def changed(text, pattern, new):
    text, count = re.subn(pattern, new, text, flags=re.DOTALL)
    if count != 1:
        sys.exit(f"error: base/mutex.h has {count} places that match {pattern}; 1 is expected")
    return text


def check(all_units=False):
    units = units_with(uses_mutex)
    total = len(units)
    changed = None if all_units else changed_files("deploy/thread_safety.py", "deploy/changed_units.py")
    if changed is not None:
        units = [(unit, flags) for unit, flags in units if closure_of(unit) & changed]
    output, is_accepted = diagnostics(units, warnings=["-Werror"])
    print(output, end="")
    print(f"-- thread-safety: {len(units)} of {total} units changed, {output.count(' error: ')} errors")
    return is_accepted


def unlocked_is_refused():
    text = changed(MUTEX.read_text(), r"#define VF_REQUIRES\(\.\.\.\) [^\n]*", "#define VF_REQUIRES(...)")
    lock = re.search(r"class VF_THREAD_ATTRIBUTE\(scoped_lockable\) MutexLock \{.*?\n\};", text, re.DOTALL)[0]
    text = text.replace(lock, re.sub(r"VF_THREAD_ATTRIBUTE\((?:[^()]|\([^()]*\))*\)", "", lock))
    units = units_with(uses_mutex)
    with tempfile.TemporaryDirectory() as folder:
        output, _ = diagnostics(units, [with_mutex(folder, text)], ["-Wthread-safety-verbose"])
    if errors := re.findall(r".*\berror: .*", output):
        sys.exit("\n".join(errors))
    declared = {(path, int(line)) for path, line in re.findall(r"(\S+?):(\d+):\d+: note: guarded_by declared here", output)}
    # clang adds that note to a plain access alone, so the others count by name in the files that see the declaration.
    named = set(re.findall(r"(\S+?):\d+:\d+: warning: (?:passing variable|passing the value that|reading the value pointed to by|"
                           r"writing the value pointed to by) '(\w+)'", output))
    sources = {source for unit, _ in units for source in headers_of(unit) | {unit}}
    headers = {header for source in sources for header in headers_of(source)}
    guarded = uses_of("VF_(?:PT_)?GUARDED_BY", (sources | headers) - {MUTEX})
    kept = [f"{path}:{line}: no access to {name} is refused when locks acquire nothing" for path, line, name in sorted(guarded)
            if (path, line) not in declared
            and not any(name == other and ROOT / path in headers_of(ROOT / file) | {ROOT / file} for file, other in named)]
    print("".join(f"{line}\n" for line in kept) + f"-- thread-safety-mutations: {len(guarded) - len(kept)} of {len(guarded)} guarded "
          f"members are refused without a lock, at {len(re.findall('requires holding', output))} places")
    return not kept


def reversed_order_is_refused():
    text = changed(MUTEX.read_text(), r"acquired_before", "acquired_after")
    orders = uses_of("VF_ACQUIRED_BEFORE", set(listed("*.h", "*.cc")) - {MUTEX})
    files = {ROOT / path for path, _, _ in orders}
    with tempfile.TemporaryDirectory() as folder:
        output, _ = diagnostics(units_with(lambda source: files & ({source} | headers_of(source))), [with_mutex(folder, text)])
    places = len(re.findall("must be acquired before", output))
    print(f"-- thread-safety-mutations: {len(orders)} lock orders in {len(files)} files; reversed, {places} places are refused")
    return bool(orders) and places >= len(files)


if __name__ == "__main__":
    begin = time.monotonic()
    is_good = unlocked_is_refused() & reversed_order_is_refused() if sys.argv[1:] == ["--mutations"] else check("--all" in sys.argv)
    print(f"   {time.monotonic() - begin:.0f} s")
    sys.exit(not is_good)
