"""Checks chat_format.py on templates written here from the public descriptions of eight families, and on templates that
must be rejected. With transformers installed, its rendering of the same conversations must equal ours.

    python recipes/chat_format_test.py [TEMPLATE.jinja]..

With files: reduces these instead, and prints of each the seconds of CPU, the hash, the conversations that transformers renders
equally (94, and as many with thinking on and off where the template has a switch), and what was found.
"""

import datetime
import hashlib
import pathlib
import random
import sys
import time

import chat_format

CHATML = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{%- endif %}"""
CHATML_DEFAULT = """{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% endif -%}""" + CHATML
LLAMA3 = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}"""
GEMMA = """{{ bos_token }}{%- if messages[0].role == 'system' -%}
    {%- set first = messages[0].content + '\n\n' -%}{%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}{%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('roles must alternate') }}{%- endif -%}
    {{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' + (first if loop.first else '') }}
    {{- message.content | trim }}{{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"""
MISTRAL = """{%- if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set loop_messages = messages[1:] %}
{%- else %}{% set loop_messages = messages %}{% endif %}
{{- bos_token }}
{%- for message in loop_messages %}
{%- if message['role'] == 'user' %}
{%- if loop.last and system is defined %}{{- '[INST] ' + system + '\n\n' + message['content'] + '[/INST]' }}
{%- else %}{{- '[INST] ' + message['content'] + '[/INST]' }}{% endif %}
{%- elif message['role'] == 'assistant' %}{{- ' ' + message['content'] + eos_token }}
{%- endif %}{%- endfor %}"""
NO_SYSTEM = """{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}""" + LLAMA3
# The system message inside the user's turn, and only the turn stripped.
LLAMA2 = """{%- if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}
{%- else %}{% set rest = messages %}{% set system = false %}{% endif %}
{%- for message in rest %}
{%- if loop.first and system != false %}{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}
{%- else %}{% set content = message['content'] %}{% endif %}
{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- endfor %}"""
PHI = """{% for message in messages %}
{%- if message['role'] != 'system' or message['content'] %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endif %}
{%- endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"""
SYSTEM_TRIMMED = """{% for m in messages %}{{ m.role + ': ' + (m.content | trim if m.role == 'system' else m.content) + '|' }}{% endfor %}"""
LEFT_OUT = """{% for m in messages %}{% if m.role == 'user' %}{{ 'U: ' + m.content + '|A: ' }}{% endif %}{% endfor %}"""
DATED = """{{ 'Today is ' + strftime_now('%d %b %Y') + '.\n' }}""" + CHATML
# Constructs of thinking families: a switch in the generation prompt, in the system text, and by a string of the message.
QWEN3 = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
    {%- if m.role == 'assistant' and '</think>' in m.content %}{{- m.content.split('</think>')[-1] }}{% endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"""
OPENED = """{{- bos_token }}{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' + ('<think>' if thinking else '</think>') }}{% endif %}"""
SMOLLM3 = """{%- if enable_thinking is not defined %}{% set enable_thinking = true %}{% endif %}
{%- set mode = '/think' if enable_thinking else '/no_think' %}
{%- set said = messages[0].content if messages[0].role == 'system' else '' %}
{%- if '/no_think' in said %}{% set mode = '/no_think' %}{% elif '/think' in said %}{% set mode = '/think' %}{% endif %}
{%- set said = said.replace('/no_think', '').replace('/think', '').rstrip() %}
{{- '<|im_start|>system\nToday: ' + strftime_now('%d %B %Y') + '\nMode: ' + mode + '\n\n' }}
{%- if said %}{{- said + '\n\n' }}{% else %}{{- 'Be helpful' + (' and think' if mode == '/think' else '') + '.\n\n' }}{% endif %}
{{- '<|im_end|>\n' }}
{%- for m in messages if m.role == 'user' %}{{- '<|im_start|>user\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' + ('' if mode == '/think' else '<think>\n\n</think>\n') }}{% endif %}"""
GPT_OSS = """{%- if messages[0].role == 'system' %}{% set developer = messages[0].content %}{% set rest = messages[1:] %}
{%- else %}{% set developer = '' %}{% set rest = messages %}{% endif %}
{{- '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '\nReasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}
{%- if developer %}{{- '<|start|>developer<|message|># Instructions\n\n' + developer + '\n\n<|end|>' }}{% endif %}
{%- for m in rest %}{%- if m.role == 'assistant' %}
    {{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|><|start|>assistant<|channel|>final<|message|>' + m.content }}
{%- else %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"""
GEMMA4 = """{%- macro plain(text) %}{{- text.split('<|channel>thought')[0] + text.split('<channel|>')[-1] }}{% endmacro %}
{{- bos_token }}{%- set rest = messages %}
{%- if enable_thinking or messages[0].role == 'system' %}{{- '<|turn>system\n' }}
    {%- if enable_thinking %}{{- '<|think|>\n' }}{% endif %}
    {%- if messages[0].role == 'system' %}{{- messages[0].content | trim }}{% set rest = messages[1:] %}{% endif %}
    {{- '<turn|>\n' }}
{%- endif %}
{%- for m in rest %}{{- '<|turn>' + m.role + '\n' + (plain(m.content) if m.role == 'model' else m.content | trim) + '<turn|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|turn>model\n' }}{% if not enable_thinking | default(false) %}{{- '<|channel>thought\n<channel|>' }}{% endif %}{% endif %}"""
DAY = datetime.datetime(2026, 11, 21)
# template: marks, variable, without_system with thinking on and off, the strings that a system message must not hold
THINKS = {
    QWEN3: (["<think>", "</think>"], "enable_thinking",
            ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
            ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"), None),
    OPENED: (["<think>", "</think>"], "thinking", ("<s><|user|>", "<|assistant|><think>"), ("<s><|user|>", "<|assistant|></think>"), None),
    SMOLLM3: (["<think>", "</think>"], "enable_thinking",
              ("<|im_start|>system\nToday: 21 November 2026\nMode: /think\n\nBe helpful and think.\n\n<|im_end|>\n<|im_start|>user\n",
               "<|im_end|>\n<|im_start|>assistant\n"),
              ("<|im_start|>system\nToday: 21 November 2026\nMode: /no_think\n\nBe helpful.\n\n<|im_end|>\n<|im_start|>user\n",
               "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n"), ["/no_think", "/think"]),
    GPT_OSS: (["<|channel|>analysis<|message|>", "<|channel|>final<|message|>"], None, None, None, None),
    GEMMA4: (["<|channel>thought", "<channel|>"], "enable_thinking",
             ("<s><|turn>system\n<|think|>\n<turn|>\n<|turn>user\n", "<turn|>\n<|turn>model\n"),
             ("<s><|turn>user\n", "<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"), None),
}  # fmt: skip
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

# template: the texts before, between (with a system message), and after
REDUCED = {
    CHATML: (("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
             ("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")),
    CHATML_DEFAULT: (("<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
                     ("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n")),
    LLAMA3: (("<s><|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"),
             ("<s><|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n",
              "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")),
    GEMMA: (("<s><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n"),
            ("<s><start_of_turn>user\n", "\n\n", "<end_of_turn>\n<start_of_turn>model\n")),
    MISTRAL: (("<s>[INST] ", "[/INST]"), ("<s>[INST] ", "\n\n", "[/INST]")),
    NO_SYSTEM: (("<s><|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"), None),
    LLAMA2: (("<s>[INST] ", " [/INST]"), ("<s>[INST] <<SYS>>\n", "\n<</SYS>>\n\n", " [/INST]")),
    PHI: (("<|user|>\n", "<|end|>\n<|assistant|>\n"), ("<|system|>\n", "<|end|>\n<|user|>\n", "<|end|>\n<|assistant|>\n")),
    SYSTEM_TRIMMED: (("user: ", "|"), ("system: ", "|user: ", "|")),
    LEFT_OUT: (("U: ", "|A: "), None),
}  # fmt: skip
# Templates that modify messages: without, and with a system message.
CHANGES = {
    LLAMA3: ({"trim_user": "both"}, {"trim_user": "both", "trim_system": "both"}),
    GEMMA: ({"trim_user": "both"}, {"trim_user": "both"}),
    NO_SYSTEM: ({"trim_user": "both"}, {}),
    LLAMA2: ({"trim_user": "both"}, {"trim_user": "end"}),
    PHI: ({}, {"omits_empty_system": True}),
    SYSTEM_TRIMMED: ({}, {"trim_system": "both"}),
}
NOTES = {
    LLAMA2: ["a message of nothing but white space, with a system message, comes out"],
    LEFT_OUT: ["no system message: the template leaves it out"],
    NO_SYSTEM: ["no system message: the template refuses"],
}
REFUSED = {
    "{{ messages[-1].content | upper }}": "writes a message 0 times",
    "{{ messages[-1].content }} {{ messages[-1].content }}": "writes a message 2 times",
    "{{ messages[-1].content | replace('<', '&lt;') }}": "does more than put texts around messages",
    "{{ messages[-1].content[:2000] }}": "does more than put texts around messages",
    "{{ messages[-1].content | length }}: {{ messages[-1].content }}": "does more than put texts around messages",
    "{% for m in messages | reverse %}{{ m.content }}{% endfor %}": "after the user's",
    DATED: "--date",
    "{{ messages[-1].content.strip('\\n') }}": "it changes \"",
    "{{ messages[-1].content | trim(' \\n\\t') }}": "white space at the start of the user's message in a way of its own",
    "{{ messages[-1].content + ' ' if messages[-1].content.endswith('\\n') else messages[-1].content }}": "changes \"",
    "{{ messages[-1].content.split() | join(' ') }}": "it changes \"Is 3",
    "{% if messages | length > 1 %}{{ 'S' }}{% endif %}{{ messages[-1].content }}": "writes a message 0 times",
    "{{ messages[-1].content }}{{ '!' if messages[-1].content.endswith('/no_think') }}": 'it switches on "/no_think" in one',
    "{% for m in messages %}{{ m.role + (': ' if '/think' in messages[0].content else '. ') + m.content + '|' }}{% endfor %}": 'it switches on "/think" in one',
    "{% for m in messages %}{{ m.role + ': ' + (m.content | trim | replace('/nothink', '')) + '|' }}{% endfor %}": 'it switches on "/nothink" in one',
    "{% for m in messages %}{{ m.content + ('!' if m.role == 'system' and '/x' in m.content | lower else '|') }}{% endfor %}": 'it switches on "/x" in one',
    "{{ raise_exception('never') }}": "refuses this conversation: never",
    "{% if %}": "refuses this conversation",
}


def main():
    compared = turned = 0
    for template, (plain, with_system) in REDUCED.items():
        result, notes = chat_format.reduce(template, TOKENS)
        changes = CHANGES.get(template, ({}, {}))
        assert result["without_system"] == dict(zip(("prefix", "suffix"), plain)) | changes[0], result
        want = with_system and dict(zip(("prefix", "between", "suffix"), with_system)) | changes[1]
        assert result["with_system"] == want, result
        expected = NOTES.get(template, [])
        turned += "turns" in result
        notes = [note for note in notes if not note.startswith("no turns")]
        assert len(notes) == len(expected) and all(map(str.startswith, notes, expected)), notes
        compared += check_transformers(template, result)
    for template, reason in REFUSED.items():
        try:
            chat_format.reduce(template, TOKENS)
        except chat_format.Refused as refusal:
            assert reason in str(refusal), refusal
        else:
            raise AssertionError(f"not refused: {template}")
    result, _ = chat_format.reduce(DATED, TOKENS, datetime.datetime(2026, 11, 21))
    assert result["without_system"]["prefix"].startswith("Today is 21 Nov 2026."), result
    for template, expected in THINKS.items():
        compared += check_thinking(template, *expected)
    check_turns()
    assert turned == 7, turned
    count = len(REDUCED) + len(THINKS)
    print(f"{count} templates reduced, {len(REFUSED)} refused, {compared} conversations as transformers writes them")


# Of templates in which a reply is as a user message, trimmed, searched for a string; written otherwise in the last turn alone;
# left out.
TURNS = {
    "{% for m in messages %}{{ m.role + ': ' + m.content + '|' }}{% endfor %}{{ 'assistant: ' }}": ({"to_assistant": "|assistant: ", "to_user": "|user: "}, ""),
    "{% for m in messages %}{{ m.role + ': ' + (m.content | trim if m.role == 'assistant' else m.content) + '|' }}{% endfor %}{{ 'assistant: ' }}": (
        {"to_assistant": "|assistant: ", "to_user": "|user: ", "trim_assistant": "both"}, ""),
    "{% for m in messages %}{{ m.role + ': ' + (m.content.split('</t>')[-1] if m.role == 'assistant' else m.content) + '|' }}{% endfor %}{{ 'assistant: ' }}": (
        {"to_assistant": "|assistant: ", "to_user": "|user: ", "refuses_in_assistant": ["</t>"]}, ""),
    "{% for m in messages %}{{ m.role + (': ' if loop.last else '; ') + m.content + '|' }}{% endfor %}{{ 'assistant: ' }}": (None, "other texts around a conversation"),
    "{% for m in messages %}{{ m.role + ': ' + (m.content | upper if m.role == 'assistant' else m.content) + '|' }}{% endfor %}{{ 'assistant: ' }}": (None, "0 times"),
    "{% for m in messages %}{% if m.role != 'assistant' %}{{ m.role + ': ' + m.content + '|' }}{% endif %}{% endfor %}{{ 'assistant: ' }}": (None, "0 times"),
}  # fmt: skip


def check_turns():
    for template, (turns, why_none) in TURNS.items():
        result, notes = chat_format.reduce(template, TOKENS)
        assert result.get("turns") == turns, result
        if turns is None:
            assert any(why_none in note for note in notes), notes
            continue
        said = ["Who?", " She.\n", "When?"]
        written = chat_format.Template(template, None).render_messages(TOKENS, chat_format.conversation(said, "Be brief."))
        assert written == chat_format.wrap_turns(result, said, "Be brief."), written


def check_thinking(template, marks, variable, on, off, refuses):
    result, notes = chat_format.reduce(template, TOKENS, DAY)
    assert result["thinking"] == dict(zip(("begin", "end"), marks)), result
    switch = result.get("thinking_switch")
    assert (switch and switch["variable"]) == variable, result
    for name, texts in (("on", on), ("off", off)):
        if switch:
            found = switch[name]["without_system"]
            assert (found["prefix"], found["suffix"]) == texts, found
    assert result["with_system"].get("refuses_in_system") == refuses, result
    assert any("is refused" in note for note in notes) == bool(refuses), notes
    for constant in refuses or []:
        try:
            chat_format.wrap(result, "word", f"a {constant} b")
        except chat_format.Refused as refusal:
            assert constant in str(refusal)
        else:
            raise AssertionError(constant)
    # Without the variable, the texts are those of before.
    plain, _ = chat_format.reduce_texts(chat_format.Template(template, DAY), TOKENS)
    assert plain == {key: result[key] for key in plain}
    return check_renderings(template, result)


def check_renderings(template, result):
    """94 conversations without the variable, and with thinking on and off."""
    compared = check_transformers(template, result, users=94)
    if switch := result.get("thinking_switch"):
        for name, value in (("on", True), ("off", False)):
            compared += check_transformers(template, switch[name], users=94, variables={switch["variable"]: value})
    return compared


def check_transformers(template, result, users=61, variables={}):
    try:
        import transformers.utils.chat_template_utils as theirs
    except ImportError:
        return 0

    class Today(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return DAY

    theirs.datetime = Today  # of its strftime_now
    draw = random.Random(7)
    users = ["Who <b>wrote</b> it?"] + chat_format.random_messages(users - 1, draw)
    systems = [None, None, "Answer\nbriefly.", ""] + chat_format.random_messages(20, draw)
    if result["with_system"] is None:  # it raises, upon which upstream leaves the system message out
        systems = [None]
    for i, user in enumerate(users):
        system = systems[i % len(systems)]
        messages = chat_format.messages(user, system)
        rendered, _ = theirs.render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=True, **TOKENS, **variables
        )
        ours = chat_format.wrap(result, user, system)
        assert rendered == [ours], (rendered, ours)
    return len(users)


def reduce_files(files):
    for file in map(pathlib.Path, files):
        template = file.read_text()
        begin = time.process_time()
        try:
            result, notes = chat_format.reduce(template, TOKENS, DAY)
        except chat_format.Refused as refusal:
            print(f"{file.name}: {time.process_time() - begin:.2f} s, refused: {refusal}")
            continue
        seconds = time.process_time() - begin
        marks = result.get("thinking", {"begin": "no marks", "end": ""})
        found = [f"{marks['begin']} {marks['end']}".strip(), result.get("thinking_switch", {}).get("variable", "no switch"), *notes]
        compared = check_renderings(template, result)
        print(f"{file.name}: {seconds:.2f} s, {hashlib.sha256(template.encode()).hexdigest()[:12]}, {compared} equal; {'; '.join(found)}")


if __name__ == "__main__":
    reduce_files(sys.argv[1:]) if sys.argv[1:] else main()
