"""Suites and variants as people write them, as messages. The daemon parses variants and checks all values."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Hashable
from typing import Any

import yaml
from google.protobuf import json_format

from varifocal.v1 import config_pb2


class _Loader(yaml.BaseLoader):
    """Scalars stay the text that was written, as parameters are; a duplicate key is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"line {node.start_mark.line + 1}: duplicate key \"{key}\"")
        return super().construct_mapping(node, deep)


def context_length(value: int | str) -> int:
    """A number of tokens: 2048, "2048" or "2K", as the program's --lengths reads it."""
    text = str(value)
    unit = 1024 if text[-1:] in ("k", "K") else 1
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or int(digits) < 1:
        raise ValueError(f"\"{value}\" is not a context length; it must be a whole number, or one with K for 1,024 tokens")
    return int(digits) * unit


def parse_suite(text: str, origin: str) -> config_pb2.SuiteConfig:
    """The suite of a YAML text; `origin` names it in errors. ValueError for what is not of the schema."""
    try:
        content = yaml.load(text, Loader=_Loader)
        if isinstance(content.get("lengths"), list):
            content["lengths"] = [context_length(length) for length in content["lengths"]]
        for part in [content, *content.get("tasks", [])]:
            if isinstance(part.get("samples_at"), dict):
                part["samples_at"] = {context_length(key): value for key, value in part["samples_at"].items()}
        truth = {"true": True, "false": False}
        if "force" in content.get("thinking", {}):
            content["thinking"]["force"] = truth[content["thinking"]["force"]]
        for task in content.get("tasks", []):
            if "chat" in task:
                task["chat"] = truth[task["chat"]]
            if isinstance(task.get("filters"), list):
                task["filters"] = [{"filter": step} if isinstance(step, str) else step for step in task["filters"]]
            for name, value in task.get("parameters", {}).items():
                if isinstance(value, list):
                    task["parameters"][name] = json.dumps(value)
        return json_format.ParseDict(content, config_pb2.SuiteConfig())
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError, json_format.ParseError) as error:
        raise ValueError(f"{origin} is no suite: {error}") from None


def read_suite(path: str | os.PathLike[str]) -> config_pb2.SuiteConfig:
    """The suite of a YAML file. Its paths are relative to the file's folder, which is part of the message."""
    file = pathlib.Path(path)
    suite = parse_suite(file.read_text(encoding="utf-8"), str(file))
    suite.folder = os.path.normpath(file.absolute().parent / suite.folder)
    return suite


def parse_variant(text: str) -> config_pb2.Variant:
    """"NAME", "NAME@t=0.7", "NAME@t=0.5,0.6" (one a layer), "NAME@t=0.8@log-n=4096". The daemon reads the settings."""
    return config_pb2.Variant(name=text.removeprefix("models/"))
