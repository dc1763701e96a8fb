"""The tiny checkpoints: one or more per architecture row, both generations of config keys, every RoPE scaling.

Weights are random but not ordinary: query and key products are wide enough that attention is far from uniform and
position matters; gates are shifted to where tanh and erf GELU part; norm weights are far from one; biases are far from
zero. Otherwise errors of a forward pass could be undetected.
"""

VOCAB = 120
PROMPT = 300  # crosses pages of 128 tokens and windows of 64
NEW_TOKENS = 32
SMALL = dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
LONG_FACTORS = [1.0, 1.3, 2.1, 3.7, 5.2, 8.9, 13.0, 20.0]
SHORT_FACTORS = [1.0, 1.05, 1.1, 1.2, 1.2, 1.4, 1.5, 1.7]


def case(kind, name, keys, stored="bfloat16", runs=(PROMPT,), **options):
    """`stored` is the type of the file's tensors, or that of matrices and that of vectors."""
    return dict(kind=kind, name=name, keys=keys, stored=stored, runs=runs, **options)


def rms(**keys):
    return SMALL | dict(hidden_act="silu", rms_norm_eps=1e-5, max_position_embeddings=2048, tie_word_embeddings=False) | keys


def scaled(kind, **keys):
    """Older keys: rope_scaling and rope_theta."""
    return dict(rope_theta=10000.0, rope_scaling={"type": kind} | keys)


def newer(kind, theta=10000.0, **keys):
    return dict(rope_parameters={"rope_type": kind, "rope_theta": theta} | keys)


GEMMA = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1, head_dim=24,
    hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, max_position_embeddings=2048, sliding_window=64,
    attention_bias=False, attn_logit_softcapping=None, final_logit_softcapping=None,
)  # fmt: skip
GPT2 = dict(
    n_embd=32, n_layer=2, n_head=4, n_positions=384, n_ctx=384, n_inner=None, activation_function="gelu_new",
    layer_norm_epsilon=1e-5, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, reorder_and_upcast_attn=False,
    resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, summary_type="cls_index", summary_use_proj=True, summary_activation=None,
    summary_proj_to_labels=True, summary_first_dropout=0.1, tie_word_embeddings=True,
)  # fmt: skip
NEOX = dict(
    hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, hidden_act="gelu",
    layer_norm_eps=1e-5, max_position_embeddings=2048, attention_bias=True, tie_word_embeddings=False,
)  # fmt: skip

CASES = [
    case("llama", "llama-biases", rms(attention_bias=True, mlp_bias=True, head_dim=24, rope_theta=10000.0)),
    case("llama", "llama-linear", rms(**scaled("linear", factor=4.0)), stored="float16"),
    case("llama", "llama-dynamic", rms(**scaled("dynamic", factor=4.0), max_position_embeddings=128), runs=(90, PROMPT)),
    case("llama", "llama-yarn", rms(**newer("yarn", factor=8.0, original_max_position_embeddings=64))),
    case(
        "llama", "llama-yarn-attention-factor",
        rms(**scaled("yarn", factor=4.0, original_max_position_embeddings=128, attention_factor=1.5, beta_fast=8.0, beta_slow=2.0), head_dim=32),
    ),
    case(
        "llama", "llama-yarn-mscale",
        rms(**newer("yarn", factor=8.0, original_max_position_embeddings=64, mscale=0.707, mscale_all_dim=0.4, truncate=False), head_dim=32),
    ),
    case(
        "llama", "llama-longrope",
        rms(
            **newer("longrope", factor=4.0, attention_factor=1.3, original_max_position_embeddings=160,
                    short_factor=SHORT_FACTORS[:4], long_factor=LONG_FACTORS[:4])
        ), runs=(100, PROMPT),
    ),
    case("mistral", "mistral-window", rms(sliding_window=64, rope_theta=10000.0)),
    case("mistral", "mistral-full", rms(sliding_window=None, head_dim=24, **newer("default", 1000000.0)), stored="float16"),
    case(
        "qwen2", "qwen2-older",
        rms(tie_word_embeddings=True, rope_theta=1000000.0, use_sliding_window=False, sliding_window=64, max_window_layers=1),
        stored="float32",
    ),
    case(
        "qwen2", "qwen2-window",
        rms(num_hidden_layers=3, rope_theta=10000.0, use_sliding_window=True, sliding_window=64, max_window_layers=1,
            rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}),
    ),
    case("qwen3", "qwen3-wide-heads", rms(num_attention_heads=2, num_key_value_heads=1, head_dim=128, rope_theta=1000000.0,
         attention_bias=False, tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, max_window_layers=2)),
    case(
        "qwen3", "qwen3-layer-types",
        rms(num_hidden_layers=3, head_dim=16, attention_bias=True, use_sliding_window=True, sliding_window=64, max_window_layers=2,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"], **newer("default", 1000000.0)),
    ),
    case(
        "gemma3_text", "gemma3-older",
        GEMMA | dict(query_pre_attn_scalar=40, rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=3,
                     rope_scaling={"rope_type": "linear", "factor": 8.0}),
    ),
    case(
        "gemma3_text", "gemma3-newer",
        GEMMA | dict(num_attention_heads=2, head_dim=32, query_pre_attn_scalar=32, _sliding_window_pattern=6, tie_word_embeddings=True,
                     layer_types=["sliding_attention", "full_attention"] * 2,
                     rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                                      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        stored=("bfloat16", "float32"),
    ),
    case("olmo2", "olmo2", rms(rms_norm_eps=1e-6, rope_theta=500000.0, attention_bias=False), stored=("bfloat16", "float32")),
    case("olmo2", "olmo2-llama3", rms(num_key_value_heads=4, attention_bias=False, tie_word_embeddings=True,
         **newer("llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    case("gpt2", "gpt2", GPT2),
    case("gpt2", "gpt2-bare-names", GPT2 | dict(n_inner=80, n_head=2, scale_attn_by_inverse_layer_idx=True), stored="float32"),
    case("gpt_neox", "gpt-neox-parallel", NEOX | dict(rotary_pct=0.25, rotary_emb_base=10000, use_parallel_residual=True, hidden_size=64)),
    case("gpt_neox", "gpt-neox-sequential", NEOX | dict(use_parallel_residual=False, num_key_value_heads=None,
         **newer("default", 10000.0, partial_rotary_factor=0.5)), stored="float16", drop=["num_key_value_heads"]),
    case("phi3", "phi3-older", rms(num_key_value_heads=4, intermediate_size=48, rope_theta=10000.0, max_position_embeddings=2048,
         original_max_position_embeddings=160, sliding_window=2047, pad_token_id=1,
         rope_scaling={"type": "longrope", "short_factor": SHORT_FACTORS[:4], "long_factor": LONG_FACTORS[:4]}), runs=(100, PROMPT)),
    case("phi3", "phi3-newer", rms(num_attention_heads=2, num_key_value_heads=1, hidden_size=48, max_position_embeddings=640,
         original_max_position_embeddings=160, sliding_window=None, pad_token_id=1, partial_rotary_factor=0.667,
         **newer("longrope", 10000.0, partial_rotary_factor=0.667, original_max_position_embeddings=160,
                 short_factor=SHORT_FACTORS, long_factor=LONG_FACTORS)), runs=(100, PROMPT)),
    case("phi3", "phi3-window", rms(sliding_window=64, pad_token_id=1, tie_word_embeddings=True, rope_theta=10000.0, rope_scaling=None, original_max_position_embeddings=2048)),
    case("granite", "granite", rms(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_theta=10000.0,
         embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=2.0, attention_multiplier=0.4)),
    case("granite", "granite-newer", rms(attention_bias=False, mlp_bias=False, embedding_multiplier=6.0, residual_multiplier=0.6,
         logits_scaling=0.5, attention_multiplier=0.25, **newer("default", 10000000.0)), stored="float16"),
]  # fmt: skip

CLASS = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "olmo2": "Olmo2ForCausalLM", "gpt2": "GPT2LMHeadModel", "gpt_neox": "GPTNeoXForCausalLM",
    "phi3": "Phi3ForCausalLM", "granite": "GraniteForCausalLM",
}  # fmt: skip


def config_of(case):
    stored = case["stored"] if isinstance(case["stored"], str) else case["stored"][0]
    is_newer = "rope_parameters" in case["keys"]
    keys = {k: v for k, v in case["keys"].items() if k not in case.get("drop", [])}
    return (
        {"architectures": [CLASS[case["kind"]]], "model_type": case["kind"], "vocab_size": VOCAB}
        | keys
        | {"bos_token_id": 0, "eos_token_id": 1, "dtype" if is_newer else "torch_dtype": stored}
    )
