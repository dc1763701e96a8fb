#include "server/model/packed_weights/column_groups.h"

#include "base/status_macros.h"
#include "server/model/packed_weights/values.h"

namespace varifocal {

void IgnoreHowItWasMade(ConfigReader& reader) {
  reader.Ignore({"true_sequential",
                 "act_group_aware",
                 "damp_percent",
                 "damp_auto_increment",
                 "model_name_or_path",
                 "model_file_base_name",
                 "meta",
                 "lm_head",
                 "dataset",
                 "tokenizer",
                 "backend",
                 "block_name_to_quantize",
                 "module_name_preceding_first_block",
                 "modules_in_block_to_quantize",
                 "batch_size",
                 "pad_token_id",
                 "use_cuda_fp16",
                 "model_seqlen",
                 "max_input_length",
                 "cache_block_outputs",
                 "exllama_config",
                 "use_exllama",
                 "disable_exllama",
                 "is_marlin_format",
                 "mse",
                 "quantizer",
                 "is_finetuned",
                 "modules_to_not_convert"});
}

absl::Status FillFromGroups(
    const ColumnGroups& layout, const TensorView& scales, const TensorView& zeros, const TensorView* order,
    int64_t first, int64_t count,
    const std::function<void(int64_t input, int64_t first, int64_t count, float* fields)>& quantized, float* rows) {
  const int64_t fields = 32 / layout.bits, words = layout.outputs / fields;
  const uint32_t mask = (1u << layout.bits) - 1;
  std::vector<float> scale(layout.groups * count), zero(layout.groups * count), values(count);
  for (int64_t g = 0; g < layout.groups; ++g) {
    Widen(scales, g * layout.outputs + first, count, scale.data() + g * count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t output = first + i;
      const uint32_t word = WordOf(zeros, g * words + output / fields) + layout.zero_offset;
      zero[g * count + i] = word >> (layout.bits * layout.field_of_output[output % fields]) & mask;
    }
  }
  for (int64_t k = 0; k < layout.inputs; ++k) {
    const int64_t g = order == nullptr ? k / layout.group_size : IntegerOf(*order, k);
    if (g < 0 || g >= layout.groups)
      return InvalidArgument("tensor ", order->name, "[", k, "] is ", g, "; it must lie in 0..", layout.groups - 1);
    quantized(k, first, count, values.data());
    const float *s = scale.data() + g * count, *z = zero.data() + g * count;
    for (int64_t i = 0; i < count; ++i) rows[i * layout.inputs + k] = s[i] * (values[i] - z[i]);
  }
  return absl::OkStatus();
}

}  // namespace varifocal
