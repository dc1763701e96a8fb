#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/model/architectures.h"

namespace varifocal {
namespace {

constexpr Wrapper kWrappers[] = {
    {.model_type = "gemma3",
     .class_name = "Gemma3ForConditionalGeneration",
     .text = {{"gemma3_text",
               R"({"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
                   "num_attention_heads":8,"max_position_embeddings":131072})"}},
     .tied_default = true,
     .prefixes = {"language_model.model.", "model.language_model."},
     .skipped = {"vision_tower.", "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector."},
     .image_tokens = {"image_token_index", "image_token_id"},
     .ignored = {"mm_tokens_per_image", "boi_token_index", "eoi_token_index", "boi_token_id", "eoi_token_id"}},
    {.model_type = "gemma3n",
     .class_name = "Gemma3nForConditionalGeneration",
     .text = {{"gemma3n_text",
               R"({"vocab_size":262400,"hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":35,
                   "num_attention_heads":8,"max_position_embeddings":32768})"}},
     .tied_default = true,
     .prefixes = {"model.language_model."},
     .skipped = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."},
     .image_tokens = {"image_token_id", "audio_token_id"},
     .image_tokens_from = "vocab_offset",
     .image_tokens_from_default = 262144,
     .ignored = {"boi_token_id", "eoi_token_id", "boa_token_id", "eoa_token_id", "audio_config",
                 "audio_soft_tokens_per_image", "vision_soft_tokens_per_image"}},
    {.model_type = "gemma4",
     .class_name = "Gemma4ForConditionalGeneration",
     .text = {{"gemma4_text",
               R"({"vocab_size":262144,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":30,
                   "num_attention_heads":8,"max_position_embeddings":131072})"}},
     .tied_default = true,
     .prefixes = {"model.language_model."},
     .skipped = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."},
     .image_tokens = {"image_token_id", "video_token_id", "audio_token_id"},
     .ignored = {"boi_token_id", "eoi_token_id", "boa_token_id", "eoa_token_id", "eoa_token_index", "audio_config",
                 "vision_soft_tokens_per_image"}},
    {.model_type = "mistral3",
     .class_name = "Mistral3ForConditionalGeneration",
     .text = {{"mistral",
               R"({"vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
                   "num_attention_heads":32,"max_position_embeddings":131072})"},
              {"ministral3",
               R"({"vocab_size":131072,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":34,
                   "num_attention_heads":32,"max_position_embeddings":262144})"}},
     .tied_default = true,
     .prefixes = {"language_model.model.", "model.language_model."},
     .skipped = {"vision_tower.", "model.vision_tower.", "multi_modal_projector.", "model.multi_modal_projector."},
     .image_tokens = {"image_token_index", "image_token_id"},
     .ignored = {"multimodal_projector_bias", "projector_hidden_act", "spatial_merge_size", "vision_feature_layer"}},
    {.model_type = "qwen2_5_vl",
     .class_name = "Qwen2_5_VLForConditionalGeneration",
     .text = {{"qwen2_5_vl_text",
               R"({"vocab_size":152064,"hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,
                   "num_attention_heads":64,"max_position_embeddings":32768})"}},
     .tied_inside = true,
     .flat = true,
     .prefixes = {"model.", "model.language_model."},
     .skipped = {"visual.", "model.visual."},
     .image_tokens = {"image_token_id", "video_token_id"},
     .ignored = {"vision_start_token_id", "vision_end_token_id", "vision_token_id"}},
    {.model_type = "qwen3_vl",
     .class_name = "Qwen3VLForConditionalGeneration",
     .text = {{"qwen3_vl_text",
               R"({"vocab_size":151936,"hidden_size":4096,"intermediate_size":22016,"num_hidden_layers":32,
                   "num_attention_heads":32,"max_position_embeddings":128000})"}},
     .prefixes = {"model.language_model."},
     .skipped = {"model.visual."},
     .image_tokens = {"image_token_id", "video_token_id"},
     .ignored = {"vision_start_token_id", "vision_end_token_id"}},
    {.model_type = "qwen3_5",
     .class_name = "Qwen3_5ForConditionalGeneration",
     .text = {{"qwen3_5_text",
               R"({"vocab_size":248320,"hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":32,
                   "num_attention_heads":16,"max_position_embeddings":32768})"}},
     .prefixes = {"model.language_model."},
     .skipped = {"model.visual."},
     .image_tokens = {"image_token_id", "video_token_id"},
     .ignored = {"vision_start_token_id", "vision_end_token_id"}},
};

}  // namespace

absl::Span<const Wrapper> Wrappers() { return kWrappers; }

const Wrapper* FindWrapper(absl::string_view model_type) {
  for (const Wrapper& wrapper : kWrappers) {
    if (wrapper.model_type == model_type) return &wrapper;
  }
  return nullptr;
}

}  // namespace varifocal
