"""What the checks of deploy/tidy.py and deploy/thread_safety.py must read again: files changed since all passed, and what includes them."""

import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
BASE = ROOT / "deploy/tidy_base"
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@functools.cache
def headers_of(path):
    """The headers of this repository that `path` includes itself."""
    found = (ROOT / name.decode() for name in INCLUDE.findall(path.read_bytes()))
    return frozenset(header for header in found if header.is_file())


@functools.cache
def closure_of(unit):
    """The files of this repository that `unit` is compiled from, itself included."""
    seen, waiting = {unit}, [unit]
    while waiting:
        for header in headers_of(waiting.pop()) - seen:
            seen.add(header)
            waiting.append(header)
    return frozenset(seen)


def git(*args):
    return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)


def changed_files(*rules):
    """Paths that differ from the commit of deploy/tidy_base, uncommitted ones included. None when all must be checked: one of `rules` differs too."""
    base = BASE.read_text().strip()
    if git("merge-base", "--is-ancestor", base, "HEAD").returncode != 0:
        print(f"-- changed: commit {base[:10]} is not in the history, so every file is checked")
        return None
    names = git("diff", "--name-only", base).stdout.split() + git("ls-files", "--others", "--exclude-standard").stdout.split()
    return None if set(rules) & set(names) else {ROOT / name for name in names}
