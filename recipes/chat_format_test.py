"""Checks chat_format.py on templates written here from the public descriptions of four families, and on templates that
must be refused. With transformers installed, its rendering of the same conversations must be what the texts say.

    python recipes/chat_format_test.py
"""

import datetime

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
DATED = """{{ 'Today is ' + strftime_now('%d %b %Y') + '.\n' }}""" + CHATML
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

# template: what stands before, between (with a system message), and after
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
}  # fmt: skip
REFUSED = {
    "{{ messages[-1].content | upper }}": "writes a message 0 times",
    "{{ messages[-1].content }} {{ messages[-1].content }}": "writes a message 2 times",
    "{{ messages[-1].content | replace('<', '&lt;') }}": "does more than put texts around messages",
    "{{ messages[-1].content[:2000] }}": "does more than put texts around messages",
    "{{ messages[-1].content | length }}: {{ messages[-1].content }}": "does more than put texts around messages",
    "{% for m in messages | reverse %}{{ m.content }}{% endfor %}": "after the user's",
    DATED: "--date",
    "{{ raise_exception('never') }}": "refuses this conversation: never",
    "{% if %}": "refuses this conversation",
}


def main():
    for template, (plain, with_system) in REDUCED.items():
        result, _ = chat_format.reduce(template, TOKENS)
        assert tuple(result["without_system"].values()) == plain, result
        assert (result["with_system"] and tuple(result["with_system"].values())) == with_system, result
        check_transformers(template, result)
    for template, reason in REFUSED.items():
        try:
            chat_format.reduce(template, TOKENS)
        except chat_format.Refused as refusal:
            assert reason in str(refusal), refusal
        else:
            raise AssertionError(f"not refused: {template}")
    result, _ = chat_format.reduce(DATED, TOKENS, datetime.datetime(2026, 11, 21))
    assert result["without_system"]["prefix"].startswith("Today is 21 Nov 2026."), result
    print(f"{len(REDUCED)} templates reduced, {len(REFUSED)} refused")


def check_transformers(template, result):
    try:
        from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError:
        return
    for system in (None, "Answer\nbriefly."):
        if system is not None and result["with_system"] is None:
            continue
        messages = chat_format.messages("Who <b>wrote</b> it?", system)
        theirs, _ = render_jinja_template([messages], chat_template=template, add_generation_prompt=True, **TOKENS)
        texts = result["without_system" if system is None else "with_system"]
        ours = texts["prefix"] + (system + texts["between"] if system else "") + messages[-1]["content"] + texts["suffix"]
        assert theirs == [ours], (theirs, ours)


if __name__ == "__main__":
    main()
