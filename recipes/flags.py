"""Options of a script as one call.

    options = parse(__doc__, {"directory": Path}, out=Path, rows=200, quick=False, dtype=("f32", "bf16"))

The dictionary has what is positional, and its types. A flag is named with what it is where it is not given: a number, a text or a path,
of whose type it then is; False, of a switch; a tuple of the words that it may be, the first where not given. A flag of a type has to be
given. A dictionary in place of either has argparse's own settings.
"""

import argparse
import pathlib
from typing import Any, Mapping

Path = pathlib.Path
Named = Mapping[str, Any]
MAYBE_PATH = {"type": Path}  # None where it is not given
NOTHING: Named = {}
Commands = dict[str, tuple[Named, Named]]  # by name: what is positional, and the flags


def settings(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, tuple):
        return {"choices": value, "default": value[0]}
    if callable(value):
        return {"type": value, "required": True}
    return {"action": "store_true"} if value is False else {"type": type(value), "default": value}


def add(parser: argparse.ArgumentParser, positional: Named, flags: Named) -> argparse.ArgumentParser:
    for name, value in positional.items():
        parser.add_argument(name, **(value if isinstance(value, dict) else {"type": value}))
    for name, value in flags.items():
        parser.add_argument("--" + name.replace("_", "-"), **settings(value))
    return parser


def parser_of(text: str | None, positional: Named = NOTHING, prog: str | None = None, **flags: Any) -> argparse.ArgumentParser:
    """`text` is shown as help."""
    return add(argparse.ArgumentParser(prog, description=text, formatter_class=argparse.RawDescriptionHelpFormatter), positional, flags)


def parse(text: str | None, positional: Named = NOTHING, prog: str | None = None, **flags: Any) -> argparse.Namespace:
    return parser_of(text, positional, prog, **flags).parse_args()


def commands(text: str | None, table: Commands, prog: str | None = None, **flags: Any) -> argparse.ArgumentParser:
    """Of a program of several commands, `command` in what is parsed; `flags` come before it."""
    parser = parser_of(text, NOTHING, prog, **flags)
    added = parser.add_subparsers(dest="command", required=True)
    for name, (positional, own) in table.items():
        add(added.add_parser(name), positional, own)
    return parser
