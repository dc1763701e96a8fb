"""Checks chat_format.py on templates written here from the public descriptions of four families, and on templates that
must be rejected. With transformers installed, its rendering of the same conversations must equal ours.

    python recipes/chat_format_test.py
"""

import datetime
import random

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
    "{{ raise_exception('never') }}": "refuses this conversation: never",
    "{% if %}": "refuses this conversation",
}


def main():
    compared = 0
    for template, (plain, with_system) in REDUCED.items():
        result, notes = chat_format.reduce(template, TOKENS)
        changes = CHANGES.get(template, ({}, {}))
        assert result["without_system"] == dict(zip(("prefix", "suffix"), plain)) | changes[0], result
        want = with_system and dict(zip(("prefix", "between", "suffix"), with_system)) | changes[1]
        assert result["with_system"] == want, result
        expected = NOTES.get(template, [])
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
    print(f"{len(REDUCED)} templates reduced, {len(REFUSED)} refused, {compared} conversations as transformers writes them")


def check_transformers(template, result):
    try:
        from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError:
        return 0
    draw = random.Random(7)
    users = ["Who <b>wrote</b> it?"] + chat_format.random_messages(60, draw)
    systems = [None, None, "Answer\nbriefly.", ""] + chat_format.random_messages(20, draw)
    if template == NO_SYSTEM:  # it raises, upon which upstream leaves the system message out
        systems = [None]
    for i, user in enumerate(users):
        system = systems[i % len(systems)]
        messages = chat_format.messages(user, system)
        theirs, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=True, **TOKENS)
        ours = chat_format.wrap(result, user, system)
        assert theirs == [ours], (theirs, ours)
    return len(users)


if __name__ == "__main__":
    main()
