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


def small(**keys):
    return SMALL | dict(hidden_act="silu", max_position_embeddings=2048) | keys


def moe(**keys):
    """Mixtures of experts; the loss of their training is not a part of the function."""
    return rms(output_router_logits=False, router_aux_loss_coef=0.001) | keys


def latent(**keys):
    """DeepSeek's latent attention and experts."""
    return rms(num_key_value_heads=4, kv_lora_rank=16, moe_intermediate_size=16, n_shared_experts=1, rms_norm_eps=1e-6) | keys


def scaled(kind, **keys):
    """Older keys: rope_scaling and rope_theta."""
    return dict(rope_theta=10000.0, rope_scaling={"type": kind} | keys)


def newer(kind, theta=10000.0, **keys):
    return dict(rope_parameters={"rope_type": kind, "rope_theta": theta} | keys)


def both(full, near):
    """RoPE of full and of window layers."""
    return dict(rope_parameters={"full_attention": full, "sliding_attention": near})


GEMMA = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1, head_dim=24,
    hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, max_position_embeddings=2048, sliding_window=64,
    attention_bias=False, attn_logit_softcapping=None, final_logit_softcapping=None,
)  # fmt: skip
GEMMA2 = {k: v for k, v in GEMMA.items() if "softcapping" not in k} | dict(
    num_hidden_layers=2, intermediate_size=48, head_dim=16, num_key_value_heads=2
)
GEMMA4 = {k: v for k, v in GEMMA.items() if k not in ("attn_logit_softcapping",)} | dict(intermediate_size=48)
GEMMA3N = {k: v for k, v in GEMMA4.items()} | dict(laurel_rank=5, num_kv_shared_layers=0, altup_coef_clip=120.0)
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

MIXED = ("bfloat16", "float32")  # matrices and vectors
VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)

CASES = [
    case("llama", "llama-biases", rms(attention_bias=True, mlp_bias=True, head_dim=24, rope_theta=10000.0)),
    case("llama", "llama-linear", rms(**scaled("linear", factor=4.0)), stored="float16"),
    case("llama", "llama-dynamic", rms(**scaled("dynamic", factor=4.0), max_position_embeddings=128), runs=(90, PROMPT)),
    case("llama", "llama-yarn", rms(**newer("yarn", factor=8.0, original_max_position_embeddings=64))),
    case("llama", "llama-yarn-attention-factor", rms(**scaled("yarn", factor=4.0, original_max_position_embeddings=128, attention_factor=1.5, beta_fast=8.0, beta_slow=2.0), head_dim=32)),
    case("llama", "llama-yarn-mscale", rms(**newer("yarn", factor=8.0, original_max_position_embeddings=64, mscale=0.707, mscale_all_dim=0.4, truncate=False), head_dim=32)),
    case("llama", "llama-longrope", rms(**newer("longrope", factor=4.0, attention_factor=1.3, original_max_position_embeddings=160,
         short_factor=SHORT_FACTORS[:4], long_factor=LONG_FACTORS[:4])), runs=(100, PROMPT)),
    case("mistral", "mistral-window", rms(sliding_window=64, rope_theta=10000.0)),
    case("mistral", "mistral-full", rms(sliding_window=None, head_dim=24, **newer("default", 1000000.0)), stored="float16"),
    case("qwen2", "qwen2-older", rms(tie_word_embeddings=True, rope_theta=1000000.0, use_sliding_window=False, sliding_window=64, max_window_layers=1),
         stored="float32"),
    case("qwen2", "qwen2-window", rms(num_hidden_layers=3, rope_theta=10000.0, use_sliding_window=True, sliding_window=64, max_window_layers=1,
         rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128})),
    case("qwen3", "qwen3-wide-heads", rms(num_attention_heads=2, num_key_value_heads=1, head_dim=128, rope_theta=1000000.0,
         attention_bias=False, tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, max_window_layers=2)),
    case("qwen3", "qwen3-layer-types", rms(num_hidden_layers=3, head_dim=16, attention_bias=True, use_sliding_window=True, sliding_window=64, max_window_layers=2,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"], **newer("default", 1000000.0))),
    case("gemma3_text", "gemma3-older", GEMMA | dict(query_pre_attn_scalar=40, rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=3,
         rope_scaling={"rope_type": "linear", "factor": 8.0})),
    case("gemma3_text", "gemma3-newer", GEMMA | dict(num_attention_heads=2, head_dim=32, query_pre_attn_scalar=32, _sliding_window_pattern=6, tie_word_embeddings=True,
         layer_types=["sliding_attention", "full_attention"] * 2,
         **both({"rope_type": "default", "rope_theta": 1000000.0}, {"rope_type": "default", "rope_theta": 10000.0})),
         stored=MIXED),
    case("gemma2", "gemma2-older", GEMMA2 | dict(num_hidden_layers=3, query_pre_attn_scalar=16, rope_theta=10000.0, hidden_act="gelu_pytorch_tanh",
         attn_logit_softcapping=3.0, final_logit_softcapping=4.0)),
    case("gemma2", "gemma2-newer", GEMMA2 | dict(head_dim=32, num_attention_heads=2, query_pre_attn_scalar=64, attn_logit_softcapping=50.0,
         final_logit_softcapping=30.0, layer_types=["full_attention", "sliding_attention"], **newer("default", 1000000.0)), stored=MIXED),
    case("gemma3n_text", "gemma3n", GEMMA3N | dict(num_hidden_layers=5, num_key_value_heads=2, head_dim=16, hidden_size_per_layer_input=6, vocab_size_per_layer_input=100,
         altup_num_inputs=3, altup_active_idx=1, altup_correct_scale=False, intermediate_size=64, activation_sparsity_pattern=[0.8, 0.0, 0.5, 0.0, 0.0], final_logit_softcapping=5.0,
         rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None, attention_bias=True)),
    case("gemma3n_text", "gemma3n-shared", GEMMA3N | dict(num_hidden_layers=4, intermediate_size=[72, 40, 64, 32], num_attention_heads=2, num_key_value_heads=1, head_dim=16,
         num_kv_shared_layers=2, hidden_size_per_layer_input=12, vocab_size_per_layer_input=130, altup_num_inputs=4, activation_sparsity_pattern=[0.9, 0.0, 0.8, 0.3],
         final_logit_softcapping=30.0, layer_types=["sliding_attention", "full_attention"] * 2,
         **both({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}, {"rope_type": "default", "rope_theta": 500.0})), stored=MIXED),
    case("gemma3n_text", "gemma3n-wrapped", GEMMA3N | dict(num_hidden_layers=4, intermediate_size=[80] * 2 + [32] * 2, num_attention_heads=2, head_dim=16, num_kv_shared_layers=2,
         hidden_size_per_layer_input=10, vocab_size_per_layer_input=110, altup_num_inputs=2, altup_active_idx=0, altup_correct_scale=True, sliding_window=48,
         activation_sparsity_pattern=[0.9, 0.85, 0.0, 0.0], layer_types=["sliding_attention", "full_attention"] * 2, rope_theta=1000000.0, rope_local_base_freq=10000.0),
         stored=MIXED, drop=["hidden_activation", "rms_norm_eps", "attention_bias", "num_key_value_heads", "final_logit_softcapping"],
         wrapper=dict(model_type="gemma3n", prefix="model.language_model.", others=[
             "model.vision_tower.timm_model.conv_stem.conv.weight", "model.embed_vision.embedding.weight", "model.embed_vision.embedding_projection.weight",
             "model.audio_tower.conformer.0.attention.post.weight", "model.embed_audio.embedding_projection.weight"], keys=dict(
             image_token_id=262145, audio_token_id=262273, boi_token_id=255999, eoi_token_id=262144, boa_token_id=256000, eoa_token_id=262272,
             audio_soft_tokens_per_image=188, vision_soft_tokens_per_image=256, vision_config=dict(model_type="gemma3n_vision", hidden_size=8, vocab_offset=262144, vocab_size=128),
             audio_config=dict(model_type="gemma3n_audio", hidden_size=8, vocab_offset=262272, vocab_size=128)))),
    case("gemma4_text", "gemma4", GEMMA4 | dict(num_hidden_layers=3, num_key_value_heads=2, head_dim=8, global_head_dim=12, num_global_key_value_heads=1,
         attention_k_eq_v=True, hidden_size_per_layer_input=0, final_logit_softcapping=5.0, use_bidirectional_attention="vision", tie_word_embeddings=True)),
    case("gemma4_text", "gemma4-shared", GEMMA4 | dict(num_hidden_layers=5, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=16, num_kv_shared_layers=2,
         use_double_wide_mlp=True, hidden_size_per_layer_input=12, vocab_size_per_layer_input=130, final_logit_softcapping=30.0,
         layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
         per_layer_config={str(i): {"head_dim": 32} for i in (2, 4)},
         **both({"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 10000.0}, {"rope_type": "default", "rope_theta": 500.0})), stored=MIXED),
    case("gemma4_text", "gemma4-experts", GEMMA4 | dict(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16, global_head_dim=112, num_global_key_value_heads=1,
         attention_k_eq_v=True, attention_bias=True, hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=5, top_k_experts=2,
         moe_intermediate_size=16, layer_types=["sliding_attention", "full_attention"],
         **both({"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0}, {"rope_type": "default", "rope_theta": 10000.0}))),
    case("gemma4_text", "gemma4-wrapped", GEMMA4 | dict(num_hidden_layers=4, intermediate_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=16, global_head_dim=32,
         num_kv_shared_layers=2, hidden_size_per_layer_input=10, vocab_size_per_layer_input=120, sliding_window=48,
         layer_types=["sliding_attention", "full_attention"] * 2), stored=MIXED, drop=["hidden_activation", "rms_norm_eps", "attention_bias"],
         wrapper=dict(model_type="gemma4", prefix="model.language_model.", keys=dict(
             image_token_id=258880, video_token_id=258884, audio_token_id=258881, boi_token_id=255999, eoi_token_id=258882, boa_token_id=256000, eoa_token_index=258883,
             audio_config=None, vision_soft_tokens_per_image=4,
             vision_config=dict(model_type="gemma4_vision", num_key_value_heads=1, head_dim=8, patch_size=4, position_embedding_size=16, **VISION)))),
    case("olmo2", "olmo2", rms(rms_norm_eps=1e-6, rope_theta=500000.0, attention_bias=False), stored=MIXED),
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
    case("olmo3", "olmo3-older", rms(num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, sliding_window=64, attention_bias=False, rope_theta=500000.0,
         rope_scaling={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128})),
    case("olmo3", "olmo3-newer", rms(num_hidden_layers=3, num_key_value_heads=4, sliding_window=64, rms_norm_eps=1e-6,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"],
         **both({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "attention_factor": 1.3, "beta_fast": 16.0, "beta_slow": 2.0,
                 "original_max_position_embeddings": 128}, {"rope_type": "default", "rope_theta": 10000.0})), stored=MIXED),
    case("ministral", "ministral-older", rms(head_dim=8, sliding_window=64, rope_theta=10000.0), stored="float16"),
    case("ministral", "ministral-newer", rms(num_hidden_layers=3, head_dim=24, sliding_window=64,
         layer_types=["sliding_attention", "full_attention", "sliding_attention"], **newer("default", 1000000.0))),
    case("smollm3", "smollm3-older", rms(num_hidden_layers=4, no_rope_layer_interval=2, sliding_window=64, use_sliding_window=False,
         rope_scaling=None, pretraining_tp=2, max_window_layers=28, pad_token_id=1), drop=["tie_word_embeddings"]),
    case("smollm3", "smollm3-newer", rms(num_hidden_layers=3, no_rope_layers=[0, 1, 1], use_sliding_window=True, sliding_window=64,
         attention_bias=True, mlp_bias=True, pad_token_id=1, **newer("yarn", 10000.0, factor=8.0, original_max_position_embeddings=64))),
    case("seed_oss", "seed-oss", rms(head_dim=24, attention_bias=True, attention_out_bias=False, mlp_bias=False, rope_theta=10000000.0,
         rope_scaling={"rope_type": "default"}, residual_dropout=0.1, pretraining_tp=1)),
    case("seed_oss", "seed-oss-biases", rms(head_dim=8, attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True,
         **newer("default", 10000.0)), stored="float16"),
    case("arcee", "arcee", rms(hidden_act="relu2", head_dim=16, attention_bias=False, mlp_bias=False, rope_theta=10000.0,
         rope_scaling={"rope_type": "yarn", "factor": 20.0, "original_max_position_embeddings": 64, "mscale": 1.0, "beta_fast": 32.0, "beta_slow": 1.0})),
    case("arcee", "arcee-biases", rms(hidden_act="relu2", attention_bias=True, mlp_bias=True, **newer("default", 10000.0)), stored=MIXED),
    case("exaone4", "exaone4-hybrid", rms(num_hidden_layers=3, head_dim=16, sliding_window=64, sliding_window_pattern=2, rope_theta=1000000.0,
         rope_scaling={"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 64})),
    case("exaone4", "exaone4-full", rms(head_dim=16, sliding_window=None, sliding_window_pattern=None, tie_word_embeddings=True,
         layer_types=["full_attention", "full_attention"], **newer("default", 1000000.0)), stored=MIXED),
    case("starcoder2", "starcoder2", small(hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, use_bias=True, sliding_window=64,
         rope_theta=10000.0, residual_dropout=0.1, embedding_dropout=0.1, mlp_type="default", norm_type="layer_norm", tie_word_embeddings=False)),
    case("nemotron", "nemotron", small(hidden_act="relu2", norm_eps=1e-5, head_dim=16, partial_rotary_factor=0.5, rope_theta=10000.0,
         attention_bias=False, mlp_bias=False, tie_word_embeddings=False), stored="float16"),
    case("stablelm", "stablelm", small(hidden_size=64, num_key_value_heads=4, intermediate_size=48, layer_norm_eps=1e-5, use_qkv_bias=True,
         use_parallel_residual=False, rope_theta=10000.0, tie_word_embeddings=False)),
    case("stablelm", "stablelm-parallel", small(layer_norm_eps=1e-5, use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=True,
         tie_word_embeddings=True, **newer("default", 10000.0, partial_rotary_factor=0.5)), stored=MIXED),
    case("ernie4_5", "ernie4-5", small(rms_norm_eps=1e-5, head_dim=16, use_bias=False, tie_word_embeddings=True, rope_theta=500000.0)),
    case("glm4", "glm4", small(rms_norm_eps=1e-5, head_dim=16, attention_bias=True, partial_rotary_factor=0.5, rope_theta=10000.0,
         tie_word_embeddings=False, pad_token_id=1), stored=MIXED),
    case("cohere2", "cohere2", small(num_hidden_layers=3, hidden_size=64, intermediate_size=40, layer_norm_eps=1e-5, logit_scale=0.25, sliding_window=64, sliding_window_pattern=3,
         rope_theta=10000.0, rotary_pct=1.0, use_parallel_block=True, attention_bias=False, pad_token_id=0)),
    case("ministral3", "ministral3", rms(head_dim=16, **newer("yarn", 10000.0, factor=16.0, original_max_position_embeddings=64, mscale=1.0,
         mscale_all_dim=1.0, llama_4_scaling_beta=0.4, max_position_embeddings=2048))),
    case("gemma3_text", "gemma3-wrapped", GEMMA | dict(head_dim=16, query_pre_attn_scalar=40, num_hidden_layers=3, intermediate_size=48,
         rope_theta=1000000.0, rope_local_base_freq=10000.0, sliding_window_pattern=3, rope_scaling={"rope_type": "linear", "factor": 8.0}),
         drop=["num_key_value_heads", "hidden_activation", "rms_norm_eps"],
         wrapper=dict(model_type="gemma3", prefix="language_model.model.", keys=dict(
             image_token_index=262144, boi_token_index=255999, eoi_token_index=256000, mm_tokens_per_image=4,
             vision_config=dict(model_type="siglip_vision_model", image_size=32, patch_size=8, **VISION)))),
    case("mistral", "mistral3-wrapped", rms(head_dim=8, sliding_window=None, rope_theta=1000000.0), stored="float16",
         wrapper=dict(model_type="mistral3", prefix="language_model.model.", head="language_model.lm_head", keys=dict(
             image_token_index=10000, multimodal_projector_bias=False, projector_hidden_act="gelu", spatial_merge_size=2,
             vision_feature_layer=-1, tie_word_embeddings=False,
             vision_config=dict(model_type="pixtral", image_size=32, patch_size=8, head_dim=8, rope_theta=10000.0, **VISION)))),
    case("ministral3", "ministral3-wrapped", rms(head_dim=16, tie_word_embeddings=False, **newer("yarn", 1000000.0, factor=4.0,
         original_max_position_embeddings=128, mscale=0.8, mscale_all_dim=0.5, llama_4_scaling_beta=0.6)),
         wrapper=dict(model_type="mistral3", prefix="model.language_model.", keys=dict(
             image_token_index=10000, spatial_merge_size=2, tie_word_embeddings=True,
             vision_config=dict(model_type="pixtral", image_size=32, patch_size=8, head_dim=8, rope_theta=10000.0, **VISION)))),
    case("qwen2_5_vl_text", "qwen2-5-vl", rms(hidden_size=64, num_attention_heads=2, num_key_value_heads=1, use_sliding_window=False,
         sliding_window=64, max_window_layers=1, rope_theta=1000000.0, rope_scaling={"type": "mrope", "mrope_section": [4, 6, 6]}),
         wrapper=dict(model_type="qwen2_5_vl", prefix="model.", flat=True, keys=dict(
             image_token_id=10000, video_token_id=10001, vision_start_token_id=10002, vision_end_token_id=10003,
             vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=64, patch_size=4)))),
    case("qwen3_vl_text", "qwen3-vl", rms(head_dim=16, attention_bias=False, rope_theta=5000000.0, tie_word_embeddings=True,
         rope_scaling={"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}), stored=MIXED,
         wrapper=dict(model_type="qwen3_vl", prefix="model.language_model.", keys=dict(
             image_token_id=10000, video_token_id=10001, vision_start_token_id=10002, vision_end_token_id=10003, tie_word_embeddings=True,
             vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=32, patch_size=4,
                                num_position_embeddings=16, deepstack_visual_indexes=[0])))),
    case("qwen3_moe", "qwen3-moe", moe(head_dim=16, rope_theta=1000000.0, attention_bias=False, decoder_sparse_step=1, mlp_only_layers=[],
         moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, use_sliding_window=False,
         sliding_window=None, max_window_layers=48)),
    case("qwen3_moe", "qwen3-moe-fused", moe(num_hidden_layers=4, head_dim=8, attention_bias=True, decoder_sparse_step=2, mlp_only_layers=[3],
         moe_intermediate_size=20, num_local_experts=5, num_experts_per_tok=3, use_sliding_window=True, sliding_window=64,
         **newer("default", 10000.0)), stored=MIXED, experts="fused"),
    case("olmoe", "olmoe", moe(num_key_value_heads=4, intermediate_size=24, attention_bias=False, clip_qkv=1.5, num_experts=6,
         num_experts_per_tok=3, norm_topk_prob=False, rope_theta=10000.0, rope_scaling=None)),
    case("olmoe", "olmoe-fused", moe(intermediate_size=20, attention_bias=True, clip_qkv=None, num_experts=5, num_experts_per_tok=2,
         norm_topk_prob=True, **newer("default", 500000.0)), stored=MIXED, experts="fused"),
    case("mixtral", "mixtral", moe(intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    case("mixtral", "mixtral-window", moe(intermediate_size=24, head_dim=16, num_local_experts=5, num_experts_per_tok=3, sliding_window=64,
         router_jitter_noise=0.1, **newer("default", 10000.0)), stored=MIXED, experts="fused"),
    case("qwen2_moe", "qwen2-moe", moe(decoder_sparse_step=1, moe_intermediate_size=20, shared_expert_intermediate_size=40, num_experts=6,
         num_experts_per_tok=2, norm_topk_prob=False, use_sliding_window=False, sliding_window=64, max_window_layers=1,
         rope_theta=1000000.0)),
    case("qwen2_moe", "qwen2-moe-window", moe(num_hidden_layers=3, decoder_sparse_step=1, mlp_only_layers=[1], moe_intermediate_size=24,
         shared_expert_intermediate_size=16, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True, qkv_bias=False,
         use_sliding_window=True, sliding_window=64, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
         **newer("default", 10000.0)), stored=MIXED, experts="fused"),
    case("qwen3_next", "qwen3-next", moe(num_hidden_layers=2, head_dim=32, num_attention_heads=2, num_key_value_heads=1, full_attention_interval=2,
         linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2, linear_num_value_heads=4,
         attention_bias=False, decoder_sparse_step=1, mlp_only_layers=[1], moe_intermediate_size=16, shared_expert_intermediate_size=24,
         num_experts=6, num_experts_per_tok=2, rope_theta=1000000.0, partial_rotary_factor=0.25, rope_scaling=None)),
    case("qwen3_5_text", "qwen3-5", rms(num_hidden_layers=3, head_dim=32, num_attention_heads=2, num_key_value_heads=1,
         layer_types=["linear_attention", "full_attention", "linear_attention"], linear_conv_kernel_dim=4, linear_key_head_dim=16,
         linear_value_head_dim=40, linear_num_key_heads=2, linear_num_value_heads=2, attention_bias=False, tie_word_embeddings=True,
         **newer("default", 10000.0, partial_rotary_factor=0.5)), stored=MIXED),
    case("qwen3_5_text", "qwen3-5-wrapped", rms(num_hidden_layers=2, head_dim=16, linear_key_head_dim=8, linear_value_head_dim=16,
         linear_num_key_heads=1, linear_num_value_heads=3, linear_conv_kernel_dim=4, full_attention_interval=2, attn_output_gate=True, mamba_ssm_dtype="float32",
         mtp_num_hidden_layers=1, **newer("default", 10000000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True)),
         wrapper=dict(model_type="qwen3_5", prefix="model.language_model.", keys=dict(
             image_token_id=10000, video_token_id=10001, vision_start_token_id=10002, vision_end_token_id=10003, tie_word_embeddings=False,
             vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, out_hidden_size=32, patch_size=4,
                                num_position_embeddings=16)))),
    case("granitemoe", "granitemoe", moe(intermediate_size=24, num_local_experts=6, num_experts_per_tok=3, attention_bias=True,
         tie_word_embeddings=True, embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=2.0, attention_multiplier=0.4,
         rope_theta=10000.0, rope_scaling=None)),
    case("granitemoe", "granitemoe-newer", moe(intermediate_size=20, num_local_experts=5, num_experts_per_tok=2, attention_bias=False,
         embedding_multiplier=6.0, residual_multiplier=0.6, logits_scaling=0.5, attention_multiplier=0.25,
         **newer("default", 10000000.0)), stored=MIXED),
    case("granitemoehybrid", "granitemoehybrid", moe(num_hidden_layers=3, intermediate_size=20, shared_intermediate_size=24, num_local_experts=5,
         num_experts_per_tok=2, layer_types=["mamba", "attention", "mamba"], position_embedding_type="nope", attention_bias=False,
         embedding_multiplier=3.0, residual_multiplier=0.6, logits_scaling=0.5, attention_multiplier=0.4, rope_theta=10000, rope_scaling=None,
         mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=64,
         mamba_conv_bias=True, mamba_proj_bias=False, init_method="mup", normalization_function="rmsnorm")),
    case("granitemoehybrid", "granitemoehybrid-dense", moe(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=56, shared_intermediate_size=40, num_local_experts=0,
         num_experts_per_tok=0, layer_types=["linear_attention", "full_attention"], position_embedding_type="rope", attention_bias=True,
         embedding_multiplier=6.0, residual_multiplier=0.6, logits_scaling=0.5, attention_multiplier=0.3, tie_word_embeddings=True,
         mamba_n_heads=6, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=8, mamba_d_conv=3, mamba_expand=3, mamba_chunk_size=256,
         mamba_conv_bias=False, mamba_proj_bias=True, time_step_limit=[0.0, {"__float__": "Infinity"}],
         **newer("default", 10000.0)), stored=MIXED),
    case("falcon_h1", "falcon-h1", rms(head_dim=12, intermediate_size=48, mamba_d_ssm=48, mamba_n_heads=6, mamba_d_head=8, mamba_n_groups=2,
         mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=64, mamba_conv_bias=True, mamba_proj_bias=False,
         mamba_rms_norm=False, mamba_norm_before_gate=True, mamba_use_mlp=True, projectors_bias=False, attention_bias=False, mlp_bias=False,
         attn_layer_indices=None, mlp_expansion_factor=8, num_logits_to_keep=1, rope_theta=100000000000.0, rope_scaling=None,
         attention_in_multiplier=1.25, attention_out_multiplier=0.75, key_multiplier=0.625, embedding_multiplier=3.0, lm_head_multiplier=0.75,
         mlp_multipliers=[0.625, 1.5], ssm_in_multiplier=1.25, ssm_out_multiplier=0.875, ssm_multipliers=[0.75, 1.25, 0.625, 1.5, 0.5])),
    case("falcon_h1", "falcon-h1-normed", rms(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, mamba_d_ssm=None, mamba_n_heads=4, mamba_d_head="auto", mamba_n_groups=2,
         mamba_d_state=8, mamba_conv_bias=False, mamba_rms_norm=True, mamba_norm_before_gate=True, tie_word_embeddings=True,
         **newer("default", 10000.0)), stored=MIXED),
    case("nemotron_h", "nemotron-h", dict(hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
         max_position_embeddings=2048, layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"],
         mlp_hidden_act="relu2", layer_norm_epsilon=1e-5, mamba_num_heads=6, mamba_head_dim=8, mamba_hidden_act="silu", n_groups=2,
         ssm_state_size=12, conv_kernel=4, expand=2, chunk_size=64, use_bias=True, use_conv_bias=True, mlp_bias=True, attention_bias=False,
         mamba_proj_bias=False, time_step_min=0.1, time_step_max=0.5, time_step_floor=0.0001, time_step_limit=[0.0, {"__float__": "Infinity"}],
         residual_in_fp32=False, rescale_prenorm_residual=True, use_mamba_kernels=True, sliding_window=None, tie_word_embeddings=False)),
    case("nemotron_h", "nemotron-h-older", dict(hidden_size=32, intermediate_size=56, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1,
         num_query_groups=1, head_dim=16, attention_head_dim=16, max_position_embeddings=2048, hybrid_override_pattern="*M-M", mlp_hidden_act="relu2",
         layer_norm_epsilon=1e-5, rms_norm_eps=1e-5, mamba_num_heads=4, mamba_head_dim=16, mamba_hidden_act="silu", n_groups=1, ssm_state_size=8,
         conv_kernel=3, chunk_size=128, use_bias=False, use_conv_bias=False, mlp_bias=False, attention_bias=False, time_step_rank=256,
         time_step_limit=[0.0, {"__float__": "Infinity"}], tie_word_embeddings=False), stored=MIXED),
    case("bamba", "bamba", rms(num_hidden_layers=3, head_dim=12, intermediate_size=48, attn_layer_indices=[1], attn_rotary_emb=6, mamba_n_heads=4, mamba_d_head=16,
         mamba_n_groups=2, mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=64, mamba_conv_bias=True, mamba_proj_bias=False,
         num_logits_to_keep=1, z_loss_coefficient=0.0, attention_bias=False, mlp_bias=False, rope_theta=10000.0, rope_scaling=None)),
    case("bamba", "bamba-newer", rms(num_hidden_layers=2, attn_layer_indices=[0], mamba_n_heads=8, mamba_d_head="auto", mamba_d_state=8, mamba_d_conv=3,
         mamba_conv_bias=False, mamba_proj_bias=True, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
         time_step_limit=[0.0, {"__float__": "Infinity"}], **newer("default", 500000.0, partial_rotary_factor=0.5)), stored=MIXED),
    case("lfm2", "lfm2", SMALL | dict(num_hidden_layers=3, norm_eps=1e-5, max_position_embeddings=2048, full_attn_idxs=[1], block_ff_dim=70,
         block_auto_adjust_ff_dim=True, block_multiple_of=8, block_ffn_dim_multiplier=1.1, block_dim=32, block_norm_eps=1e-5,
         block_use_swiglu=True, conv_L_cache=3, conv_bias=False, conv_dim=32, conv_dim_out=32, num_heads=4, rope_theta=10000.0,
         use_pos_enc=True), drop=["intermediate_size"]),
    case("lfm2", "lfm2-newer", SMALL | dict(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, norm_eps=1e-5, max_position_embeddings=2048, layer_types=["conv", "full_attention"],
         block_auto_adjust_ff_dim=False, conv_L_cache=4, conv_bias=True, tie_word_embeddings=False, **newer("default", 10000.0)), stored=MIXED),
    case("gpt_oss", "gpt-oss", moe(num_hidden_layers=2, intermediate_size=20, head_dim=16, attention_bias=True, sliding_window=64, num_local_experts=6,
         num_experts_per_tok=2, experts_per_token=2, initial_context_length=64, swiglu_limit=2.0, swiglu_alpha=1.5, rope_theta=150000.0,
         rope_scaling={"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                       "original_max_position_embeddings": 64})),
    case("gpt_oss", "gpt-oss-mxfp4", moe(num_hidden_layers=2, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1, head_dim=24, attention_bias=False,
         sliding_window=64, num_local_experts=4, num_experts_per_tok=3, swiglu_limit=7.0, layer_types=["full_attention", "sliding_attention"],
         quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                  "model.embed_tokens", "lm_head"]},
         **newer("default", 10000.0)), experts="mxfp4"),
    case("phi", "phi", small(hidden_act="gelu_new", num_key_value_heads=4, layer_norm_eps=1e-5, partial_rotary_factor=0.5, rope_theta=10000.0,
         qk_layernorm=False, resid_pdrop=0.1, embd_pdrop=0.1, tie_word_embeddings=False)),
    case("phi", "phi-grouped", small(hidden_act="gelu_new", head_dim=None, hidden_size=64, intermediate_size=48, layer_norm_eps=1e-6,
         tie_word_embeddings=False, **newer("default", 10000.0, partial_rotary_factor=0.25)), stored=MIXED, drop=["head_dim"]),
    case("apertus", "apertus", rms(hidden_act="xielu", rope_theta=12000000.0, attention_bias=False, mlp_bias=False, post_norm=False, qk_norm=True,
         rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 64})),
    case("apertus", "apertus-newer", rms(hidden_act="xielu", attention_bias=True, tie_word_embeddings=True, **newer("default", 10000.0)), stored=MIXED),
    case("hunyuan_v1_dense", "hunyuan", rms(head_dim=16, attention_bias=False, rope_theta=10000.0, use_qk_norm=True, use_cla=False,
         rope_scaling={"type": "dynamic", "alpha": 50.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.0})),
    case("hunyuan_v1_dense", "hunyuan-newer", rms(head_dim=24, attention_bias=True, tie_word_embeddings=True, **newer("default", 10000.0)), stored=MIXED),
    case("deepseek_v3", "deepseek-v3", latent(q_lora_rank=20, qk_nope_head_dim=24, qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1,
         n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3, norm_topk_prob=True, routed_scaling_factor=1.5, scoring_func="sigmoid",
         topk_method="noaux_tc", num_nextn_predict_layers=1, num_key_value_heads=4, rope_theta=10000,
         auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, ep_size=1, pretraining_tp=1, moe_layer_freq=1,
         rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.8,
                       "original_max_position_embeddings": 64}), further=1),
    case("deepseek_v3", "deepseek-v3-plain", latent(q_lora_rank=None, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12, first_k_dense_replace=0,
         n_routed_experts=6, n_group=1, topk_group=1, num_experts_per_tok=2, norm_topk_prob=False, n_shared_experts=2, num_nextn_predict_layers=0,
         attention_bias=True, rope_interleave=False, tie_word_embeddings=True, num_key_value_heads=4, rms_norm_eps=1e-5,
         **newer("default", 10000.0)), stored=MIXED, experts="fused"),
    case("deepseek_v3", "deepseek-v3-wide", latent(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=24, qk_nope_head_dim=128,
         qk_rope_head_dim=64, v_head_dim=128, first_k_dense_replace=1, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
         attention_bias=True, rms_norm_eps=1e-3, **newer("default", 10000.0))),
    case("deepseek_v2", "deepseek-v2", latent(q_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=24, first_k_dense_replace=1,
         n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=2, norm_topk_prob=False, routed_scaling_factor=1.5, topk_method="group_limited_greedy",
         scoring_func="softmax", aux_loss_alpha=0.001, seq_aux=True, ep_size=1, moe_layer_freq=1, num_key_value_heads=4, rope_theta=10000,
         rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
                       "original_max_position_embeddings": 64})),
    case("deepseek_v2", "deepseek-v2-lite", latent(q_lora_rank=None, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=16, first_k_dense_replace=1,
         n_routed_experts=6, n_group=1, topk_group=1, num_experts_per_tok=3, norm_topk_prob=False, routed_scaling_factor=1.0, topk_method="greedy",
         n_shared_experts=2, attention_bias=True, tie_word_embeddings=True, **newer("default", 10000.0)), stored=MIXED, experts="fused"),
    case("minicpm3", "minicpm3", rms(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, scale_emb=3,
         scale_depth=1.4, dim_model_base=16, rope_theta=10000.0, attention_bias=False, max_position_embeddings=640,
         rope_scaling={"type": "longrope", "short_factor": SHORT_FACTORS, "long_factor": LONG_FACTORS, "original_max_position_embeddings": 160}),
         runs=(100, PROMPT)),
    case("minicpm3", "minicpm3-newer", rms(num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=20, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=12,
         scale_emb=2.0, scale_depth=None, dim_model_base=None, tie_word_embeddings=True, attention_bias=True, **newer("default", 10000.0)), stored=MIXED, drop=["tie_word_embeddings"]),
    case("nemotron_h", "nemotron-h-experts", dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
         head_dim=16, max_position_embeddings=2048, hybrid_override_pattern="ME*E", mlp_hidden_act="relu2", layer_norm_epsilon=1e-5, norm_eps=1e-5,
         mamba_num_heads=4, mamba_head_dim=8, mamba_hidden_act="silu", n_groups=2, ssm_state_size=12, conv_kernel=4, chunk_size=64, use_bias=False,
         use_conv_bias=True, mlp_bias=False, attention_bias=False, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=20,
         moe_shared_expert_intermediate_size=24, moe_shared_expert_overlap=False, routed_scaling_factor=1.5, norm_topk_prob=True, n_group=1, topk_group=1,
         time_step_limit=[0.0, {"__float__": "Infinity"}], tie_word_embeddings=False)),
    case("nemotron_h", "nemotron-h-groups", dict(hidden_size=32, intermediate_size=40, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
         max_position_embeddings=2048, layers_block_type=["full_attention", "moe", "linear_attention", "mlp"], mlp_hidden_act="relu2",
         layer_norm_epsilon=1e-5, mamba_num_heads=4, mamba_head_dim=16, mamba_hidden_act="silu", n_groups=1, ssm_state_size=8, conv_kernel=3,
         use_bias=True, use_conv_bias=False, mlp_bias=False, attention_bias=False, moe_latent_size=None, n_routed_experts=8, num_experts_per_tok=2,
         moe_intermediate_size=16, moe_shared_expert_intermediate_size=20, norm_topk_prob=False, n_group=4, topk_group=2,
         time_step_limit=[0.0, {"__float__": "Infinity"}], tie_word_embeddings=False), stored=MIXED, experts="fused"),
]  # fmt: skip


def classes(ending, text):
    """Of each kind in `text`, as `kind:Name`."""
    return {kind: name + ending for kind, name in (pair.split(":") for pair in text.split())}


CLASS = classes("ForCausalLM", """llama:Llama mistral:Mistral qwen2:Qwen2 qwen3:Qwen3 gemma3_text:Gemma3 olmo2:Olmo2 gpt_neox:GPTNeoX phi3:Phi3 granite:Granite
    olmo3:Olmo3 ministral:Ministral smollm3:SmolLM3 seed_oss:SeedOss arcee:Arcee exaone4:Exaone4 gemma2:Gemma2
    ministral3:Ministral3 starcoder2:Starcoder2 nemotron:Nemotron stablelm:StableLm ernie4_5:Ernie4_5 glm4:Glm4 cohere2:Cohere2
    gemma3n_text:Gemma3n gemma4_text:Gemma4 qwen3_moe:Qwen3Moe olmoe:Olmoe mixtral:Mixtral qwen2_moe:Qwen2Moe
    granitemoe:GraniteMoe granitemoehybrid:GraniteMoeHybrid lfm2:Lfm2 falcon_h1:FalconH1 nemotron_h:NemotronH bamba:Bamba
    gpt_oss:GptOss deepseek_v2:DeepseekV2 deepseek_v3:DeepseekV3 minicpm3:MiniCPM3 phi:Phi apertus:Apertus
    hunyuan_v1_dense:HunYuanDenseV1 qwen3_next:Qwen3Next qwen3_5_text:Qwen3_5""")
CLASS |= classes("ForConditionalGeneration", """gemma3n:Gemma3n gemma4:Gemma4 gemma3:Gemma3 mistral3:Mistral3 qwen3_5:Qwen3_5 qwen2_5_vl:Qwen2_5_VL qwen3_vl:Qwen3VL""")
CLASS["gpt2"] = "GPT2LMHeadModel"


def config_of(case):
    stored = case["stored"] if isinstance(case["stored"], str) else case["stored"][0]
    is_newer = "rope_parameters" in case["keys"]
    keys = {k: v for k, v in case["keys"].items() if k not in case.get("drop", [])}
    if wrapper := case.get("wrapper"):
        text = {"model_type": case["kind"], "vocab_size": VOCAB} | keys
        outer = {"architectures": [CLASS[wrapper["model_type"]]]} | (text if wrapper.get("flat") else {"text_config": text})
        ends = {"bos_token_id": 0, "eos_token_id": 1, "dtype" if is_newer else "torch_dtype": stored}
        return outer | wrapper["keys"] | {"model_type": wrapper["model_type"]} | ends
    return (
        {"architectures": [CLASS[case["kind"]]], "model_type": case["kind"], "vocab_size": VOCAB}
        | keys
        | {"bos_token_id": 0, "eos_token_id": 1, "dtype" if is_newer else "torch_dtype": stored}
    )
