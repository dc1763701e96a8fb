"""Tiny random models of several families."""

import json
import pathlib
from typing import Any, Callable

import pytest
import torch

torch.set_num_threads(1)
COMMON = dict(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=512, bos_token_id=0, eos_token_id=1)  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": dict(COMMON, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": dict(COMMON, num_key_value_heads=2, head_dim=8),
    "gpt_neox": dict(COMMON),
    "gpt2": dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=512, bos_token_id=0, eos_token_id=1),
}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], pathlib.Path]:
    """By family: a directory with config.json, random weights wide enough that attention matters, and a tokenizer."""
    made: dict[str, pathlib.Path] = {}

    def make(family: str) -> pathlib.Path:
        if family not in made:
            from tokenizers import Tokenizer, models, pre_tokenizers
            from transformers import AutoConfig, AutoModelForCausalLM

            directory = tmp_path_factory.mktemp(family)
            torch.manual_seed(5)
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **FAMILIES[family]))
            with torch.no_grad():
                for name, p in model.named_parameters():
                    if p.ndim == 2:
                        p.normal_(0, 0.3)
            model.save_pretrained(directory)
            config = json.loads((directory / "config.json").read_text())
            (directory / "config.json").write_text(json.dumps(config | {"trained_context_length": 128}))
            tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(60)}, unk_token="w2"))
            tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
            tokenizer.save(str(directory / "tokenizer.json"))
            made[family] = directory
        return made[family]

    return make
