// Packed checkpoints and adapters: their values, bit for bit, against those of the packages that define the formats
// (recipes/goldens/make_packed.py: transformers, compressed-tensors, bitsandbytes, PEFT in float64; GPTQ and AWQ from their
// formulas), what is refused, and what identifies them. tests/testdata/goldens/packed/mutation_test.txt lists mistakes that
// these values detect; server/engine/golden_test.cc has log-probabilities of some.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "kernels/tensor.h"
#include "server/model/adapter.h"
#include "server/model/model.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/packed_weights/values.h"
#include "server/model/transformer.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

constexpr char kPackedGoldens[] = "tests/testdata/goldens/packed/";

Json ReadJsonFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kConfigFile);
  EXPECT_TRUE(text.ok()) << text.status();
  return ParseJson(text.value_or("{}")).value_or(Json::object());
}

std::vector<std::string> PackedGoldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kPackedGoldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool HasAdapter(const std::string& directory) { return std::filesystem::is_directory(directory + "/adapter"); }

ModelOptions OptionsOf(const std::string& directory) {
  ModelOptions options;
  options.device = "reference";
  options.cache_directory = testing::TempDir();
  if (HasAdapter(directory)) options.adapter_directory = directory + "/adapter";
  return options;
}

std::string BaseOf(const std::string& directory) { return HasAdapter(directory) ? directory + "/base" : directory; }

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::string& directory) {
  return LoadModel(BaseOf(directory), OptionsOf(directory));
}

class PackedWeightsTest : public testing::TestWithParam<std::string> {};

TEST_P(PackedWeightsTest, ValuesAreThoseOfTheFormat) {
  const std::string directory = kPackedGoldens + GetParam();
  const Json golden = ReadJsonFile(directory + "/values.json");
  ASSIGN_OR_FAIL(const auto config, ReadModelConfig(BaseOf(directory), {}, OptionsOf(directory).adapter_directory));
  ASSIGN_OR_FAIL(auto source, OpenWeights(BaseOf(directory)));
  TensorDigests digests = HashWeights(*source, "")->tensors;
  if (config.packed_weights != nullptr) {
    Unpacking tensors(*source, digests);
    const absl::Status unpacked = config.packed_weights->unpack(tensors);
    ASSERT_TRUE(unpacked.ok()) << unpacked;
  }
  if (config.adapter != nullptr) {
    ASSIGN_OR_FAIL(auto adapter, OpenAdapterWeights(directory + "/adapter"));
    TensorDigests of_adapter = HashWeights(*adapter, "")->tensors;
    const absl::Status merged = MergeAdapter(*config.adapter, *FindArchitecture(config.model_type), config,
                                             std::move(*adapter), of_adapter, *source, digests);
    ASSERT_TRUE(merged.ok()) << merged;
  }
  ASSERT_GT(golden["sha256"].size(), 0u);
  for (const auto& [name, sha256] : golden["sha256"].items()) {
    const auto tensor = source->tensors().find(name);
    ASSERT_NE(tensor, source->tensors().end()) << name;
    EXPECT_TRUE(digests.contains(name)) << name;
    const absl::Status loaded = source->Load(tensor->second);
    ASSERT_TRUE(loaded.ok()) << loaded;
    EXPECT_EQ(kernels::DTypeName(tensor->second.type), golden["type"].get<std::string>()) << name;
    EXPECT_EQ(Sha256Hex(tensor->second.bytes), sha256.get<std::string>()) << name;
    source->Release(tensor->second);
  }
}

TEST_P(PackedWeightsTest, TheModelLoadsAndSaysWhatItsWeightsAreFrom) {
  const std::string directory = kPackedGoldens + GetParam();
  ASSIGN_OR_FAIL(const auto model, Load(directory));
  const ModelProvenance& provenance = model->provenance();
  EXPECT_FALSE(provenance.weights_from.empty());
  const Json function = ParseJson(provenance.function_json).value_or(Json());
  EXPECT_TRUE(function.contains(HasAdapter(directory) ? "adapter" : "packed_weights")) << provenance.function_json;
  // Equal files share their weights.
  ASSIGN_OR_FAIL(const auto again, Load(directory));
  EXPECT_EQ(again->transformer().shared_weight_bytes(), again->transformer().weight_bytes());
}

INSTANTIATE_TEST_SUITE_P(All, PackedWeightsTest, testing::ValuesIn(PackedGoldens()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(PackedValuesTest, SmallFloatsAreThoseOfTheirTables) {
  EXPECT_EQ(WidenE4M3(0x3c), 1.5f);
  EXPECT_EQ(WidenE4M3(0x7e), 448.0f);
  EXPECT_EQ(WidenE4M3(0x01), 0x1p-9f);
  EXPECT_EQ(WidenE4M3(0x08), 0x1p-6f);
  EXPECT_EQ(WidenE4M3(0xb8), -1.0f);
  EXPECT_TRUE(std::isnan(WidenE4M3(0x7f)));
  EXPECT_TRUE(std::isnan(WidenE4M3(0xff)));
}

// Every f16 and the middle between neighbours, which goes to the even one.
TEST(PackedValuesTest, F16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float value = kernels::WidenF16(bits);
    ASSERT_EQ(RoundToF16(value), bits);
    ASSERT_EQ(RoundToF16(-value), bits | 0x8000);
    if (bits == 0x7bff) continue;
    const float next = kernels::WidenF16(bits + 1), middle = (value + next) / 2;
    ASSERT_EQ(RoundToF16(middle), bits + bits % 2);
    ASSERT_EQ(RoundToF16(std::nextafter(middle, 0.0f)), bits);
    ASSERT_EQ(RoundToF16(std::nextafter(middle, 1e6f)), bits + 1);
  }
  EXPECT_EQ(RoundToF16(65519.99f), 0x7bff);
  EXPECT_EQ(RoundToF16(65520.0f), 0x7c00);
  EXPECT_EQ(RoundToF16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_GT(RoundToF16(std::nanf("")), 0x7c00);
}

// A copy of a golden whose files a test changes.
class CopiedGolden {
 public:
  explicit CopiedGolden(const std::string& name) : path_(directory_.File("golden")) {
    std::filesystem::copy(kPackedGoldens + name, path_, std::filesystem::copy_options::recursive);
  }
  const std::string& path() const { return path_; }
  void Patch(const std::string& file, const Json& patch) const {
    Json json = ReadJsonFile(path_ + "/" + file);
    json.merge_patch(patch);
    WriteFile(path_ + "/" + file, json.dump());
  }
  // Gives a tensor another name of the same length.
  void Rename(const std::string& file, const std::string& from, const std::string& to) const {
    ASSERT_EQ(from.size(), to.size());
    std::string bytes = ReadFile(path_ + "/" + file, kDataFile).value_or("");
    const size_t at = bytes.find("\"" + from + "\"");
    ASSERT_NE(at, bytes.npos) << from;
    bytes.replace(at + 1, from.size(), to);
    WriteFile(path_ + "/" + file, bytes);
  }
  std::string Error() const { return std::string(Load(path_).status().message()); }

 private:
  TemporaryDirectory directory_;
  const std::string path_;
};

struct Refusal {
  const char* golden;
  const char* file;
  const char* patch;
  std::vector<std::string> words;  // of the message
};

const Refusal kPackedRefusals[] = {
    {"gptq", "config.json", R"({"quantization_config":{"bits":3}})", {"\"quantization_config.bits\" is 3", "4 and 8"}},
    {"gptq", "config.json", R"({"quantization_config":{"quant_method":"quip"}})", {"\"quip\"", "gptq, awq"}},
    {"gptq", "config.json", R"({"quantization_config":7})", {"\"quantization_config\" is 7"}},
    {"gptq", "config.json", R"({"quantization_config":{"checkpoint_format":"marlin"}})", {"\"marlin\"", "gptq_v2"}},
    {"gptq", "config.json", R"({"quantization_config":{"group_size":0}})", {"group_size\" is 0"}},
    {"gptq", "config.json", R"({"quantization_config":{"a_new_key":1}})", {"\"quantization_config.a_new_key\" is 1"}},
    {"gptq", "config.json", R"({"torch_dtype":"float64"})", {"\"torch_dtype\" is \"float64\"", "bfloat16"}},
    {"gptq", "config.json", R"({"quantization_config":{"bits":8}})", {"qzeros", "[4, 4]", "[4, 8]"}},
    {"awq", "config.json", R"({"quantization_config":{"bits":8}})", {"bits\" is 8", "4 bits"}},
    {"awq", "config.json", R"({"quantization_config":{"version":"gemv"}})", {"version\" is \"gemv\""}},
    {"awq", "config.json", R"({"quantization_config":{"zero_point":false}})", {"zero_point\" is false"}},
    {"awq", "config.json", R"({"quantization_config":{"group_size":8}})", {"qzeros", "[4, 4]", "[7, 4]"}},
    {"fp8-blocks", "config.json", R"({"quantization_config":{"fmt":"e5m2"}})", {"fmt\" is \"e5m2\""}},
    {"fp8-blocks",
     "config.json",
     R"({"quantization_config":{"weight_block_size":[24]}})",
     {"weight_block_size\" is [24]"}},
    {"fp8-blocks",
     "config.json",
     R"({"quantization_config":{"weight_block_size":[9,20]}})",
     {"weight_scale_inv", "blocks of 9 x 20"}},
    {"ct-int4",
     "config.json",
     R"({"quantization_config":{"format":"nvfp4-pack-quantized"}})",
     {"\"nvfp4-pack-quantized\""}},
    {"ct-int4", "config.json", R"({"quantization_config":{"transform_config":{"a":1}}})", {"transform_config"}},
    {"ct-int4",
     "config.json",
     R"({"quantization_config":{"config_groups":{"group_0":{"weights":{"num_bits":3}}}}})",
     {"num_bits\" is 3"}},
    {"ct-int4",
     "config.json",
     R"({"quantization_config":{"config_groups":{"group_0":{"weights":{"num_bits":8}}}}})",
     {"weight_packed", "INT8"}},
    {"ct-int4",
     "config.json",
     R"({"quantization_config":{"config_groups":{"group_0":{"weights":{"symmetric":false}}}}})",
     {"INT4 with zero points"}},
    {"ct-int4",
     "config.json",
     R"({"quantization_config":{"config_groups":{"group_0":{"weights":{"dynamic":true}}}}})",
     {"weights.dynamic\" is true"}},
    {"bnb-nf4", "config.json", R"({"quantization_config":{"load_in_8bit":true}})", {"load_in_4bit", "exactly one"}},
    {"bnb-nf4", "config.json", R"({"quantization_config":{"bnb_4bit_quant_type":"af4"}})", {"\"af4\""}},
    {"lora", "adapter/adapter_config.json", R"({"use_dora":true})", {"\"use_dora\" is true"}},
    {"lora", "adapter/adapter_config.json", R"({"peft_type":"IA3"})", {"\"IA3\"", "LORA"}},
    {"lora", "adapter/adapter_config.json", R"({"bias":"all"})", {"\"bias\" is \"all\""}},
    {"lora", "adapter/adapter_config.json", R"({"init_lora_weights":"pissa"})", {"\"pissa\"", "another base"}},
    {"lora", "adapter/adapter_config.json", R"({"init_lora_weights":"loftq"})", {"\"loftq\""}},
    {"lora", "adapter/adapter_config.json", R"({"a_new_key":1})", {"\"a_new_key\" is 1"}},
    {"lora", "adapter/adapter_config.json", R"({"r":5})", {"rank 5", "lora_A"}},
    {"lora", "adapter/adapter_config.json", R"({"rank_pattern":{".*q_proj":3}})", {"\".*q_proj\""}},
    {"lora", "adapter/adapter_config.json", R"({"rank_pattern":{"q_proj":4}})", {"two values", "q_proj"}},
    {"lora", "adapter/adapter_config.json", R"({"target_modules":["q_proj"]})", {"target_modules", "does not have"}},
    {"lora",
     "adapter/adapter_config.json",
     R"({"target_parameters":["experts.gate_up_proj"],"rank_pattern":{".*\\.gate_up_proj":8}})",
     {"target_parameters"}},
    {"lora", "adapter/adapter_config.json", R"({"alpha_pattern":{"o_proj":-1}})", {"\"o_proj\"", "above 0"}},
};

TEST(PackedRefusalsTest, ErrorsNameKeyAndValue) {
  for (const Refusal& refusal : kPackedRefusals) {
    const CopiedGolden golden(refusal.golden);
    golden.Patch(refusal.file, *ParseJson(refusal.patch));
    const std::string message = golden.Error();
    EXPECT_THAT(message, MessageMatcher(refusal.words)) << refusal.golden << " " << refusal.patch;
  }
}

struct Renaming {
  const char* golden;
  const char* file;
  const char* from;
  const char* to;
  std::vector<std::string> words;
};

const Renaming kRenamings[] = {
    {"gptq-order",
     "model.safetensors",
     "model.layers.0.mlp.up_proj.g_idx",
     "model.layers.0.mlp.up_proj.g_idy",
     {"model.layers.0.mlp.up_proj.g_idx", "desc_act"}},
    {"gptq",
     "model.safetensors",
     "model.layers.0.mlp.up_proj.scales",
     "model.layers.0.mlp.up_proj.scalez",
     {"model.layers.0.mlp.up_proj.scales", "missing"}},
    {"fp8-blocks",
     "model.safetensors",
     "model.layers.0.mlp.up_proj.weight_scale_inv",
     "model.layers.0.mlp.up_proj.weight_scale_inw",
     {"model.layers.0.mlp.up_proj.weight", "has no scale"}},
    {"ct-int4",
     "model.safetensors",
     "model.layers.0.mlp.up_proj.weight_shape",
     "model.layers.0.mlp.up_proj.weight_shapo",
     {"model.layers.0.mlp.up_proj.weight_shape", "missing"}},
    {"../architectures/gpt-oss-mxfp4",
     "model.safetensors",
     "model.layers.0.mlp.experts.down_proj_scales",
     "model.layers.0.mlp.experts.down_proj_scalez",
     {"model.layers.0.mlp.experts.down_proj_scales", "missing"}},
    {"lora",
     "adapter/adapter_model.safetensors",
     "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
     "base_model.model.model.layers.0.self_attn.q_proj.lora_X.weight",
     {"lora_B.weight is missing", "lora_A"}},
    {"lora",
     "adapter/adapter_model.safetensors",
     "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
     "base_model.model.model.layers.8.self_attn.q_proj.lora_B.weight",
     {"lora_B.weight is missing", "layers.0"}},
    {"lora",
     "base/model.safetensors",
     "model.layers.0.self_attn.q_proj.weight",
     "model.layers.0.self_attn.p_proj.weight",
     {"no such tensor", "model.layers.0.self_attn.q_proj.weight"}},
};

TEST(PackedRefusalsTest, ErrorsNameTheTensor) {
  for (const Renaming& row : kRenamings) {
    const CopiedGolden golden(row.golden);
    golden.Rename(row.file, row.from, row.to);
    const std::string message = golden.Error();
    EXPECT_THAT(message, MessageMatcher(row.words)) << row.golden << " " << row.from;
  }
}

TEST(PackedRefusalsTest, AnAdapterOfATiedEmbeddingIsRefused) {
  const CopiedGolden golden("lora-embedding");
  golden.Patch("base/config.json", {{"tie_word_embeddings", true}});
  EXPECT_THAT(golden.Error(), Message("tie_word_embeddings"));
}

TEST(PackedRefusalsTest, ADirectoryWithoutAnAdapterIsRefused) {
  const CopiedGolden golden("lora");
  std::filesystem::rename(golden.path() + "/adapter/adapter_model.safetensors",
                          golden.path() + "/adapter/adapter_model.bin");
  EXPECT_THAT(golden.Error(), Message("adapter_model.bin", "pickle"));
  std::filesystem::remove(golden.path() + "/adapter/adapter_config.json");
  EXPECT_THAT(golden.Error(), Message("adapter_config.json", "PEFT"));
}

TEST(PackedIdentityTest, AnAdapterSharesWhatItLeavesAndIsAnotherModel) {
  const std::string directory = std::string(kPackedGoldens) + "lora-stabilized";
  ModelOptions plain = OptionsOf(directory);
  plain.adapter_directory = "";
  const auto base = LoadModel(directory + "/base", plain);
  const auto adapted = Load(directory);
  ASSERT_TRUE(base.ok() && adapted.ok()) << base.status() << adapted.status();
  EXPECT_NE((*base)->weights_sha256(), (*adapted)->weights_sha256());
  EXPECT_NE((*base)->provenance().function_json, (*adapted)->provenance().function_json);
  // All but the matrix of queries, keys and values: [64, 32].
  EXPECT_EQ((*adapted)->transformer().shared_weight_bytes() + 64 * 32 * 4, (*adapted)->transformer().weight_bytes());
}

}  // namespace
}  // namespace varifocal
