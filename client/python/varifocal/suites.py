"""Suites and variants as people write them, as messages. The daemon parses variants and checks all values."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Hashable
from typing import Any

import yaml
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from varifocal.v1 import config_pb2


_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TRUTH = {"true": True, "false": False}


class _Plain(str):
    """A scalar without quotes: only those may be numbers and booleans."""


class _Loader(yaml.BaseLoader):
    """Scalars stay the text that was written, as parameters are; a duplicate key is an error."""

    def construct_scalar(self, node: Any) -> str:
        text = str(super().construct_scalar(node))
        return text if node.style else _Plain(text)

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
    if not (digits.isascii() and digits.isdecimal()) or int(digits) < 1:
        raise ValueError(f"\"{value}\" is not a context length; it must be a whole number, or one with K for 1,024 tokens")
    return int(digits) * unit


def _message(content: Any, kind: Descriptor) -> dict[str, Any]:
    """The content of a mapping with the types of the schema, for json_format, which has other grammars of numbers."""
    if not isinstance(content, dict):
        raise ValueError(f"{kind.name} must be a mapping")
    for key in content:
        if key not in kind.fields_by_name:
            raise ValueError(f"unknown key \"{key}\"")
    return {str(key): _field(value, kind.fields_by_name[key]) for key, value in content.items()}


def _field(value: Any, field: FieldDescriptor) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        if not isinstance(value, dict):
            raise ValueError(f"\"{field.name}\" must be a mapping")
        if kind.fields_by_name["key"].cpp_type == field.CPPTYPE_STRING:  # parameters, whose values their tasks read
            return {str(name): json.dumps(item) if isinstance(item, list) else str(item) for name, item in value.items()}
        return {_length(key): _value(item, kind.fields_by_name["value"]) for key, item in value.items()}
    # Recent protobuf has no labels any more, older versions have nothing else; 3 is repeated.
    if not getattr(field, "is_repeated", getattr(field, "label", None) == 3):
        return _value(value, field)
    if not isinstance(value, list):
        raise ValueError(f"\"{field.name}\" must be a list")
    return [_length(item) if field.name == "lengths" else _value(item, field) for item in value]


def _length(value: Any) -> int:
    if not isinstance(value, _Plain):
        raise ValueError(f"\"{value}\" is not a context length: a number has no quotes")
    return context_length(value)


def _value(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _message({"filter": value} if field.message_type.name == "FilterConfig" and isinstance(value, str) else value,
                        field.message_type)
    if not isinstance(value, str):
        raise ValueError(f"\"{field.name}\" must be one value")
    is_plain = isinstance(value, _Plain)
    if field.cpp_type == field.CPPTYPE_STRING:
        if is_plain and (_NUMBER.fullmatch(value) or value in _TRUTH):
            raise ValueError(f"\"{field.name}\" must be text, not {value} (put quotes around it if it is meant as text)")
        return str(value)
    if field.cpp_type == field.CPPTYPE_BOOL:
        if not is_plain or value not in _TRUTH:
            raise ValueError(f"\"{field.name}\" must be true or false, not \"{value}\"")
        return _TRUTH[value]
    digits = value[1:] if value.startswith("-") else value
    if not is_plain or not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"\"{field.name}\" must be a whole number, not \"{value}\"")
    return int(value)


def parse_suite(text: str, origin: str) -> config_pb2.SuiteConfig:
    """The suite of a YAML text; `origin` names it in errors. ValueError for what is not of the schema."""
    try:
        content = _message(yaml.load(text, Loader=_Loader), config_pb2.SuiteConfig.DESCRIPTOR)
        return json_format.ParseDict(content, config_pb2.SuiteConfig())
    except (TypeError, ValueError, yaml.YAMLError, json_format.ParseError) as error:
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
