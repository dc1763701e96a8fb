"""The reference divides the logits by t: it equals a model whose W_q was divided, and leaves no hook behind."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from response import check

SHAPE: Any = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}


def test_temperature_is_a_factor_of_queries() -> None:
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 40  # weights of a new model are small: attention would be even at any t
    ids = torch.randint(40, (24,))
    one, half = check.log_likelihoods(model, ids, [1.0, 0.5], scored=8)
    assert check.log_likelihoods(model, ids, [1.0], scored=8) == [one] and abs(one - half) > 1e-4
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 2
    assert check.log_likelihoods(model, ids, [1.0], scored=8) == [pytest.approx(half, abs=1e-6)]


def test_norm_of_queries_is_refused() -> None:
    with pytest.raises(ValueError, match="norm"):
        check.log_likelihoods(Qwen3ForCausalLM(Qwen3Config(**SHAPE)), torch.arange(4), [0.5], scored=2)
