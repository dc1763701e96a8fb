"""Text that is newer than the models: the sources of an installed transformers whose copyright line says 2026.

    python recipes/response/make_text.py OUT        # needs transformers 5.23.0; checks the digest

Generated files (modeling_*.py that repeat a modular_*.py) are left out, and so is the licence at the top of each. Files
are in the order of the digests of their paths, so that models of one family are not adjacent.
"""

import hashlib
import importlib.util
import pathlib
import sys

DIGEST = "088bed3840abbd0dcd8a3fd59c11321be2015a9f69f19618115850c1d2fb26ef"
YEAR = "Copyright 2026"
GENERATED = "automatically generated"


def body(text: str) -> str:
    """Without the leading comment lines (licence) and blank lines."""
    lines = text.splitlines()
    while lines and (lines[0].startswith("#") or not lines[0].strip()):
        lines.pop(0)
    return "\n".join(lines).rstrip() + "\n"


def collect(root: pathlib.Path) -> str:
    names = sorted((p.relative_to(root).as_posix() for p in root.rglob("*.py")), key=lambda n: hashlib.sha256(n.encode()).hexdigest())
    parts = []
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        head = text[:2000]
        if YEAR in head and GENERATED not in head:
            parts.append(f"# {name}\n\n{body(text)}")
    return "\n\n".join(parts)


def main() -> None:
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        sys.exit("transformers is not installed; see recipes/requirements.txt")
    text = collect(pathlib.Path(spec.origin).parent).encode()
    digest = hashlib.sha256(text).hexdigest()
    if digest != DIGEST:
        sys.exit(f"the text has {len(text)} bytes and SHA-256 {digest}, not {DIGEST}: another version of transformers")
    pathlib.Path(sys.argv[1]).write_bytes(text)
    print(f"{len(text)} bytes")


if __name__ == "__main__":
    main()
