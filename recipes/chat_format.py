"""Reduces a model's chat template to fixed texts: writes chat_format.json into the model's directory.

The template (chat_template.jinja, or `chat_template` of tokenizer_config.json) is rendered as transformers renders it, on
messages whose contents are sentinels, with and without a system message and with the generation prompt. The texts are those
around the sentinels; other contents must then be rendered between the same texts. A template that does anything else with
its messages is rejected, except for two options of chat_format.json: white space around a message is stripped
("trim_user", "trim_system"), and an empty system message is omitted ("omits_empty_system").

    python recipes/chat_format.py DIRECTORY [--template=NAME] [--date=YYYY-MM-DD] [--set=KEY=JSON]..

--template   one of several named templates; `default` otherwise
--date       fixed date for templates that insert the current date; required for those
--set        a variable for the template, for example --set=enable_thinking=false
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import random
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

# Longer strings of a template are texts that it writes; more of them than are tried would take long.
CONSTANT_MAX, CONSTANTS_MAX = 60, 200
USER, SYSTEM = "uQ7sentinelQ7u", "sQ7sentinelQ7s"
# User messages: markup and template syntax, quotes, lines, other scripts, long and short.
PROBES = ["a", "Is 3 < 4 & 5 > 2?\n\n'Yes', \"no\"\t{{ x }} {% if y %}", "日本語 \u00e9 \U0001f9ea", "word " * 3000 + "end", "</think> [INST] <|im_end|>"]
# All characters stripped by str.strip().
WHITE = "".join(c for c in map(chr, range(0x10000)) if c.isspace())
BLANK = ["", " ", "\n \u3000"]
STRIP = {"both": str.strip, "start": str.lstrip, "end": str.rstrip}


class Refused(Exception):
    """The reason, in one sentence."""


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks assistant output for training; renders its content."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("inside"), [], [], body).set_lineno(line)

    def inside(self, caller):
        return caller()


def compiled(template, day):
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = day.strftime
    return environment.from_string(template), string_constants(environment, template)


def string_constants(environment, template):
    """The strings that a template compares or searches its messages for, such as "/no_think"."""
    constants = set()
    for node in environment.parse(template).find_all(jinja2.nodes.Const):
        if isinstance(node.value, str) and 0 < len(node.value.strip()) <= CONSTANT_MAX:
            constants.add(node.value.strip())
    return sorted(constants)


def read_template(directory, name):
    """The template, and the special tokens it may name."""
    config = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        if (directory / file).exists():
            config |= json.loads((directory / file).read_text())
    if (directory / "chat_template.jinja").exists():
        templates = {"default": (directory / "chat_template.jinja").read_text()}
    elif (directory / "chat_template.json").exists():
        templates = {"default": json.loads((directory / "chat_template.json").read_text())["chat_template"]}
    else:
        found = config.get("chat_template")
        templates = {t["name"]: t["template"] for t in found} if isinstance(found, list) else {"default": found}
    if templates.get(name) is None:
        have = ", ".join(sorted(k for k, v in templates.items() if v)) or "none"
        raise Refused(f"{directory} has no chat template named {name}; it has: {have}")
    tokens = {k: v["content"] if isinstance(v, dict) else v for k, v in config.items() if k.endswith("_token") and v}
    return templates[name], {k: v for k, v in tokens.items() if isinstance(v, str)}


def messages(user, system):
    return ([{"role": "system", "content": system}] if system is not None else []) + [{"role": "user", "content": user}]


def parts(text, *sentinels):
    """The texts before, between and after the sentinels."""
    out = []
    for sentinel in sentinels:
        if text.count(sentinel) != 1:
            raise Refused(f"the template writes a message {text.count(sentinel)} times; once is what can be reduced")
        before, text = text.split(sentinel)
        out.append(before)
    return out + [text]


def wrap(result, user, system=None):
    """Wraps messages as varifocal does with a chat_format.json."""
    texts = result["without_system"]
    strip = lambda text, role: STRIP.get(texts.get(f"trim_{role}"), str)(text)
    if system is not None and result["with_system"]:
        texts = result["with_system"]
        said = strip(system, "system")
        if said or not texts.get("omits_empty_system"):
            return texts["prefix"] + said + texts["between"] + strip(user, "user") + texts["suffix"]
        texts = result["without_system"]
    return texts["prefix"] + strip(user, "user") + texts["suffix"]


def random_messages(count, draw=random.Random(20261122)):
    """Words and white space of all kinds, also at the ends."""
    pieces = ["word", "Wort", "\u8a9e", "{{ x }}", "<|x|>", "7"]
    white = lambda: "".join(draw.choice(WHITE + " \n" * 10) for _ in range(draw.randrange(4)))
    return [white() + "".join(draw.choice(pieces) + white() for _ in range(draw.randrange(1, 6))) for _ in range(count)]


def trims(render, system):
    """The {"trim_user", "trim_system"} keys: which ends of each message are stripped of white space."""
    found = {}
    for role, sentinel in [("user", USER)] + ([] if system is None else [("system", SYSTEM)]):
        ends = []
        for end, said in {"start": WHITE + sentinel, "end": sentinel + WHITE}.items():
            text = render(*((said, system) if role == "user" else (USER, said)))
            if text == render(USER, system):
                ends.append(end)
            elif text != render(USER, system).replace(sentinel, said):
                raise Refused(f"the template changes white space at the {end} of the {role}'s message in a way of its own")
        if ends:
            found[f"trim_{role}"] = "both" if len(ends) == 2 else ends[0]
    return found


def reduce(template, variables, day=None):
    """The content of chat_format.json, and notes for the user."""
    notes = []
    templates = {}  # by date

    def compiled_for(on):
        if on not in templates:
            templates[on] = compiled(template, on)
        return templates[on]

    def render(user, system, on=None):
        try:
            on = on or day or datetime.datetime(2001, 2, 3)
            return compiled_for(on)[0].render(messages=messages(user, system), add_generation_prompt=True, **variables)
        except jinja2.exceptions.TemplateError as error:
            raise Refused(f"the template refuses this conversation: {error}") from None

    def texts_of(system):
        sentinels = (USER,) if system is None else (SYSTEM, USER)
        text = render(USER, system)
        if day is None and text != render(USER, system, datetime.datetime(2013, 12, 11)):
            raise Refused("the template writes the current date into the prompt; fix it with --date=YYYY-MM-DD")
        if system is not None and text.find(SYSTEM) > text.find(USER):
            raise Refused("the template writes the system message after the user's; before it is what can be reduced")
        return parts(text, *sentinels)

    def check(users, systems):
        for user in users:
            for system in systems:
                if render(user, system) != wrap(result, user, system):
                    changed = json.dumps(user)[:60] + ("" if system is None else f" after {json.dumps(system)[:60]}")
                    raise Refused(f"the template does more than put texts around messages: it changes {changed}")

    def note_blank(users, systems):
        if any(render(u, s) != wrap(result, u, s) for u in users for s in systems):
            with_it = "" if systems == [None] else ", with a system message,"
            notes.append(f"a message of nothing but white space{with_it} comes out otherwise than the template writes it")

    def check_constants(system):
        """A template may switch on what a message holds: its own constants, alone, at either end and inside."""
        for constant in compiled_for(day or datetime.datetime(2001, 2, 3))[1][:CONSTANTS_MAX]:
            said = [constant, f"{constant} word", f"word {constant}", f"word {constant} word"]
            for user, before in [(s, system) for s in said] + ([] if system is None else [("word", s) for s in said]):
                if render(user, before) != wrap(result, user, before):
                    raise Refused(f"the template does more than put texts around messages: it switches on {json.dumps(constant)} in one")

    drawn = random_messages(200)
    result = {
        "template_sha256": hashlib.sha256(template.encode()).hexdigest(),
        "without_system": dict(zip(("prefix", "suffix"), texts_of(None))),
        "with_system": None,
    }
    check_constants(None)
    check(PROBES, [None])
    result["without_system"] |= trims(render, None)
    check(drawn, [None])
    note_blank(BLANK, [None])
    try:
        text = render(USER, SYSTEM)
    except Refused as refusal:
        notes.append(f"no system message: {refusal}")
    else:
        if text == render(USER, None):
            notes.append("no system message: the template leaves it out")
        else:
            result["with_system"] = dict(zip(("prefix", "between", "suffix"), texts_of(SYSTEM)))
            check_constants("word")
            check(PROBES, PROBES)
            result["with_system"] |= trims(render, SYSTEM)
            for user, system in zip(drawn, reversed(drawn)):
                check([user], [system])
            if render(USER, "") == render(USER, None) != wrap(result, USER, ""):
                result["with_system"]["omits_empty_system"] = True
            note_blank([USER] + BLANK, [SYSTEM] + BLANK)
    return result, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--template", default="default")
    parser.add_argument("--date", type=datetime.datetime.fromisoformat)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    try:
        variables = {}
        for item in options.set:
            key, _, value = item.partition("=")
            try:
                variables[key] = json.loads(value)
            except json.JSONDecodeError:
                raise Refused(f'--set={item} is not KEY=JSON; a text is written KEY="text"') from None
        template, tokens = read_template(options.directory, options.template)
        result, notes = reduce(template, tokens | variables, options.date)
    except Refused as refusal:
        sys.exit(f"error: {refusal}")
    path = options.directory / "chat_format.json"
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
