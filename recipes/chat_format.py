"""Reduces a model's chat template to fixed texts: writes chat_format.json into the model's directory.

The template (chat_template.jinja, or `chat_template` of tokenizer_config.json) is rendered as transformers renders it, on
messages whose contents are sentinels, with and without a system message and with the generation prompt. The texts are those
around the sentinels; other contents must then be rendered between the same texts. A template that does anything else with
its messages is rejected, except for three options of chat_format.json: white space around a message is stripped
("trim_user", "trim_system"), an empty system message is omitted ("omits_empty_system"), and a system message that holds
a string on which the template switches is refused ("refuses_in_system").

The texts between user messages and replies of a conversation are written where the template puts fixed texts there ("turns"),
with strings in replies on which it switches ("refuses_in_assistant").

The pair of marks of a thinking block is written where the template names both ("thinking"). Where a variable of the
template switches thinking, the texts with it on and off are written too ("thinking_switch").

    python recipes/chat_format.py DIRECTORY [--template=NAME] [--date=YYYY-MM-DD] [--set=KEY=JSON]..

--template   one of several named templates; `default` otherwise
--date       fixed date for templates that insert the current date; required for those
--set        a variable for the template, for example --set=enable_thinking=false
"""

import datetime
import hashlib
import json
import random
import sys

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.sandbox

from flags import Path, parse

# Longer strings of a template are texts that it writes; more of them than are tried would take long.
CONSTANT_MAX, CONSTANTS_MAX = 60, 200
USER, SYSTEM = "uQ7sentinelQ7u", "sQ7sentinelQ7s"
ASSISTANT, LATER_USER = "aQ7sentinelQ7a", "lQ7sentinelQ7l"
# User messages: markup and template syntax, quotes, lines, other scripts, long and short.
PROBES = ["a", "Is 3 < 4 & 5 > 2?\n\n'Yes', \"no\"\t{{ x }} {% if y %}", "日本語 \u00e9 \U0001f9ea", "word " * 3000 + "end", "</think> [INST] <|im_end|>"]
# All characters stripped by str.strip().
WHITE = "".join(c for c in map(chr, range(0x10000)) if c.isspace())
BLANK = ["", " ", "\n \u3000"]
# The marks around a thinking block, and the variables that switch it in templates.
THINKING = [
    ("<think>", "</think>"), ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"), ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"), ("<seed:think>", "</seed:think>"), ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"),
]  # fmt: skip
SWITCHES = ["enable_thinking", "thinking"]
SIDE_DRAWN = 20  # messages drawn for each side of a switch, whose texts are checked as those without it
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


class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Remembers its verdicts on attributes, which depend on the type alone: a third of the time of a long template."""

    def __init__(self, **options):
        super().__init__(**options)
        self.safe = {}

    def is_safe_attribute(self, obj, attr, value):
        key = (type(obj), attr)
        if key not in self.safe:
            self.safe[key] = super().is_safe_attribute(obj, attr, value)
        return self.safe[key]


def environment_for(day):
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = day.strftime
    return environment


class Template:
    """A chat template, compiled once for each date."""

    def __init__(self, text, day):
        self.text, self.day, self.compiled = text, day, {}
        try:
            parsed = environment_for(self.default_day()).parse(text)
        except jinja2.exceptions.TemplateError as error:
            raise Refused(f"the template refuses this conversation: {error}") from None
        # The strings that it compares or searches its messages for, such as "/no_think".
        values = [node.value for node in parsed.find_all(jinja2.nodes.Const)]
        self.constants = sorted({v.strip() for v in values if isinstance(v, str) and 0 < len(v.strip()) <= CONSTANT_MAX})
        self.variables = jinja2.meta.find_undeclared_variables(parsed)

    def default_day(self):
        return self.day or datetime.datetime(2001, 2, 3)

    def render(self, variables, user, system, on=None):
        return self.render_messages(variables, messages(user, system), on)

    def render_messages(self, variables, said, on=None):
        on = on or self.default_day()
        try:
            if on not in self.compiled:
                self.compiled[on] = environment_for(on).from_string(self.text)
            return self.compiled[on].render(messages=said, add_generation_prompt=True, **variables)
        except jinja2.exceptions.TemplateError as error:
            raise Refused(f"the template refuses this conversation: {error}") from None


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
        for constant in texts.get("refuses_in_system", []):
            if constant in system:
                raise Refused(f"the template switches on {json.dumps(constant)} in a system message")
        said = strip(system, "system")
        if said or not texts.get("omits_empty_system"):
            return texts["prefix"] + said + texts["between"] + strip(user, "user") + texts["suffix"]
        texts = result["without_system"]
    return texts["prefix"] + strip(user, "user") + texts["suffix"]


def conversation(said, system=None):
    """Messages of user and assistant in turn."""
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    return ([] if system is None else [{"role": "system", "content": system}]) + turns


def wrap_turns(result, said, system=None):
    """Wraps a conversation as varifocal does with a chat_format.json that has turns."""
    turns = result["turns"]
    for text in said[1::2]:
        for constant in turns.get("refuses_in_assistant", []):
            if constant in text:
                raise Refused(f"the template switches on {json.dumps(constant)} in a reply")
    before, after = wrap(result, USER, system).split(USER)
    texts = result["with_system"] if system is not None and result["with_system"] else result["without_system"]
    trims = [STRIP.get(texts.get("trim_user"), str), STRIP.get(turns.get("trim_assistant"), str)]
    between = [turns["to_user"], turns["to_assistant"]]
    pieces = [("" if i == 0 else between[i % 2]) + trims[i % 2](text) for i, text in enumerate(said)]
    return before + "".join(pieces) + after


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


def reduce_texts(template, variables, drawn_count=200):
    """The objects without_system and with_system, and notes for the user. `drawn_count` messages are random ones."""
    notes = []

    def render(user, system, on=None):
        return template.render(variables, user, system, on)

    def texts_of(system):
        sentinels = (USER,) if system is None else (SYSTEM, USER)
        text = render(USER, system)
        if template.day is None and text != render(USER, system, datetime.datetime(2013, 12, 11)):
            raise Refused("the template writes the current date into the prompt; fix it with --date=YYYY-MM-DD")
        if system is not None and text.find(SYSTEM) > text.find(USER):
            raise Refused("the template writes the system message after the user's; before it is what can be reduced")
        return parts(text, *sentinels)

    is_same = lambda user, system: render(user, system) == wrap(result, user, system)

    def check(users, systems):
        for user in users:
            for system in systems:
                if not is_same(user, system):
                    changed = json.dumps(user)[:60] + ("" if system is None else f" after {json.dumps(system)[:60]}")
                    raise Refused(f"the template does more than put texts around messages: it changes {changed}")

    def note_blank(users, systems):
        if not all(is_same(u, s) for u in users for s in systems):
            with_it = "" if systems == [None] else ", with a system message,"
            notes.append(f"a message of nothing but white space{with_it} comes out otherwise than the template writes it")

    def check_constants(system):
        """A template may switch on what a message holds: its own constants, alone, at either end and inside."""
        switched = []
        for constant in template.constants[:CONSTANTS_MAX]:
            said = [constant, f"{constant} word", f"word {constant}", f"word {constant} word"]
            other = constant.swapcase()
            cased = [] if other == constant else [other, f"word {other} word"]
            refusal = Refused(f"the template does more than put texts around messages: it switches on {json.dumps(constant)} in one")
            if not all(is_same(s, system) for s in said + cased):
                raise refusal
            if system is None:
                continue
            if not all(is_same("word", s) for s in cased):
                raise refusal
            if not all(is_same("word", s) for s in said):
                switched.append(constant)
        return [c for c in switched if not any(o != c and o in c for o in switched)]

    drawn = random_messages(drawn_count)
    result = {"without_system": dict(zip(("prefix", "suffix"), texts_of(None))), "with_system": None}
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
            switched = check_constants("word")
            check(PROBES, [p for p in PROBES if not any(c in p for c in switched)])
            result["with_system"] |= trims(render, SYSTEM)
            for user, system in zip(drawn, reversed(drawn)):
                check([user], [system])
            if render(USER, "") == render(USER, None) != wrap(result, USER, ""):
                result["with_system"]["omits_empty_system"] = True
            note_blank([USER] + BLANK, [SYSTEM] + BLANK)
            if switched:
                result["with_system"]["refuses_in_system"] = switched
                notes.append(f"a system message with {' or '.join(map(json.dumps, switched))} is refused: the template switches on it")
    return result, notes


def reduce_turns(template, variables, result, drawn_count=40):
    """The object turns, of a template whose texts around single messages are `result`."""
    render = lambda said, system=None: template.render_messages(variables, conversation(said, system))
    prefix, to_assistant, to_user, suffix = parts(render([USER, ASSISTANT, LATER_USER]), USER, ASSISTANT, LATER_USER)
    if (prefix, suffix) != (result["without_system"]["prefix"], result["without_system"]["suffix"]):
        raise Refused("the template writes other texts around a conversation than around a single message")
    turns = {"to_assistant": to_assistant, "to_user": to_user}
    result = result | {"turns": turns}
    ends = [e for e, said in {"start": WHITE + ASSISTANT, "end": ASSISTANT + WHITE}.items() if render([USER, said, LATER_USER]) == render([USER, ASSISTANT, LATER_USER])]
    if ends:
        turns["trim_assistant"] = "both" if len(ends) == 2 else ends[0]
    systems = [None] if result["with_system"] is None else [None, "word"]
    is_same = lambda said: all(render(said, s) == wrap_turns(result, said, s) for s in systems)
    switched = []
    for constant in template.constants[:CONSTANTS_MAX]:
        if not all(is_same(["word", text, "word"]) for text in [constant, f"{constant} word", f"word {constant}", f"word {constant} word"]):
            switched.append(constant)
    switched = [c for c in switched if not any(o != c and o in c for o in switched)]
    if switched:
        turns["refuses_in_assistant"] = switched
    plain = [p for p in PROBES + random_messages(drawn_count) if not any(c in p for c in switched) and p.strip()]
    for first, reply, second in zip(plain, plain[1:] + plain[:1], reversed(plain)):
        for said in ([first, reply, second], [first, reply, second, "word", first]):
            if not is_same(said):
                raise Refused(f"the template does more than put texts around turns: it changes {json.dumps(said)[:100]}")
    return turns


def reduce(template, variables, day=None):
    """The content of chat_format.json, and notes for the user."""
    parsed = Template(template, day)
    texts, notes = reduce_texts(parsed, variables)
    result = {"template_sha256": hashlib.sha256(template.encode()).hexdigest()} | texts
    try:
        result["turns"] = reduce_turns(parsed, variables, texts)
    except Refused as refusal:
        notes.append(f"no turns: {refusal}")
    for begin, end in THINKING:
        if begin in template and end in template:
            result["thinking"] = {"begin": begin, "end": end}
            break
    for name in SWITCHES:
        if name not in parsed.variables:
            continue
        try:
            on, off = (reduce_texts(parsed, variables | {name: value}, SIDE_DRAWN)[0] for value in (True, False))
        except Refused as refusal:
            notes.append(f"no thinking switch {name}: {refusal}")
            continue
        if on != off:
            try:
                for value, side in ((True, on), (False, off)):
                    if "turns" in result and reduce_turns(parsed, variables | {name: value}, side, SIDE_DRAWN) != result["turns"]:
                        raise Refused(f"its texts between turns change with {name}")
            except Refused as refusal:
                notes.append(f"no turns: {refusal}")
                del result["turns"]
            result["thinking_switch"] = {"variable": name, "on": on, "off": off}
            break
    return result, notes


def main():
    options = parse(__doc__, {"directory": Path}, template="default", date=dict(type=datetime.datetime.fromisoformat), set=dict(action="append", default=[]))
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
