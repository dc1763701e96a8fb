#include "server/model/adapter.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "server/model/config_reader.h"
#include "server/model/packed_weights/values.h"
#include "server/model/safetensors.h"

namespace varifocal {
namespace {

constexpr char kConfigName[] = "adapter_config.json";
constexpr char kWeightsName[] = "adapter_model.safetensors";
constexpr int64_t kRankMax = 1 << 16;

// Initial values that leave the base as it is. The others (pissa, olora, corda, loftq, ..) change it before training, so the
// adapter is one of another base.
constexpr absl::string_view kInitials[] = {"gaussian", "orthogonal", "eva", "mica"};

absl::Status CheckInitial(ConfigReader& reader) {
  const Json* value = reader.Take("init_lora_weights");
  if (value == nullptr || value->is_boolean()) return absl::OkStatus();
  for (const absl::string_view initial : kInitials) {
    if (*value == initial.data()) return absl::OkStatus();
  }
  return Unimplemented(reader.Name("init_lora_weights"), " is ", ShownValue(*value),
                       ", which trains on another base; true, false, ", absl::StrJoin(kInitials, ", "),
                       " are supported");
}

// A key whose only supported values are null, false and empty.
absl::Status RequireUnset(ConfigReader& reader, const char* key) {
  const Json* value = reader.Take(key);
  if (value == nullptr || *value == false || ((value->is_array() || value->is_object()) && value->empty()))
    return absl::OkStatus();
  return Unimplemented(reader.Name(key), " is ", ShownValue(*value), "; it is not supported");
}

// Patterns are regular expressions of a name's end; those that are plain names are read.
absl::Status CheckPattern(const ConfigReader& reader, const char* key, const std::string& pattern) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  if (!pattern.empty() && std::all_of(pattern.begin(), pattern.end(), is_plain)) return absl::OkStatus();
  return Unimplemented(reader.Name(key), " has the pattern \"", pattern,
                       "\"; names of modules of letters, digits, _ and . are supported");
}

template <typename T>
absl::Status ReadPatterns(ConfigReader& reader, const char* key, std::map<std::string, T>& to) {
  const Json* object = reader.Take(key);
  if (object == nullptr) return absl::OkStatus();
  if (!object->is_object())
    return InvalidArgument(reader.Name(key), " is ", ShownValue(*object), "; it must be an object");
  for (const auto& [name, value] : object->items()) {
    const std::string pattern(absl::StripPrefix(name, "^"));
    RETURN_IF_ERROR(CheckPattern(reader, key, pattern));
    if (!value.is_number() || !(value.template get<double>() > 0) || !(value.template get<double>() <= kNumberMax))
      return InvalidArgument(reader.Name(key), " of \"", name, "\" is ", ShownValue(value), "; it must be above 0");
    to[pattern] = value.template get<T>();
  }
  return absl::OkStatus();
}

bool IsEnd(absl::string_view module, absl::string_view pattern) {
  return module == pattern || absl::EndsWith(module, absl::StrCat(".", pattern));
}

// The value of the pattern that is the module's end; patterns of unequal values are ambiguous, because PEFT takes the first.
template <typename T>
absl::StatusOr<T> ValueOf(const std::map<std::string, T>& patterns, const char* key, absl::string_view module,
                          T fallback) {
  const std::pair<const std::string, T>* found = nullptr;
  for (const auto& entry : patterns) {
    if (!IsEnd(module, entry.first)) continue;
    if (found != nullptr && found->second != entry.second) {
      return Unimplemented("\"", key, "\" has two values for ", module, ", by \"", found->first, "\" and \"",
                           entry.first, "\"; one is supported");
    }
    found = &entry;
  }
  return found == nullptr ? fallback : found->second;
}

// One row of factors for each row of the result: left [count, r], right [r, columns].
struct Factors {
  TensorView a, b;             // [r, inputs], [outputs, r]
  bool is_transposed = false;  // the result is [inputs, outputs]
  double scale = 0;

  void Add(int64_t first, int64_t count, int64_t columns, float* rows) const {
    const int64_t rank = a.shape[0], inputs = a.shape[1], outputs = b.shape[0];
    std::vector<float> left(count * rank), right(rank * columns);
    if (is_transposed) {
      std::vector<float> row(outputs * rank);
      Widen(b, 0, outputs * rank, row.data());
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t i = 0; i < count; ++i) Widen(a, r * inputs + first + i, 1, &left[i * rank + r]);
        for (int64_t n = 0; n < outputs; ++n) right[r * columns + n] = row[n * rank + r];
      }
    } else {
      Widen(b, first * rank, count * rank, left.data());
      Widen(a, 0, rank * inputs, right.data());
    }
    std::vector<double> sum(columns);
    for (int64_t i = 0; i < count; ++i) {
      std::fill(sum.begin(), sum.end(), 0);
      for (int64_t r = 0; r < rank; ++r) {
        const double factor = left[i * rank + r];
        const float* from = right.data() + r * columns;
        for (int64_t k = 0; k < columns; ++k) sum[k] += factor * from[k];
      }
      float* row = rows + i * columns;
      for (int64_t k = 0; k < columns; ++k) row[k] = static_cast<float>(row[k] + scale * sum[k]);
    }
  }
};

class Merger {
 public:
  Merger(const Adapter& adapter, const Architecture& architecture, const ModelConfig& config, WeightSource& weights,
         TensorDigests& weight_digests, WeightSource& base, TensorDigests& digests)
      : adapter_(adapter),
        names_(architecture.names),
        wrapper_(FindWrapper(config.wrapper)),
        is_tied_(config.tied_embeddings),
        weights_(weights),
        weight_digests_(weight_digests),
        base_(base),
        digests_(digests) {}

  absl::Status Run() {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : weights_.tensors()) {
      if (!tensor.other_type.empty()) {
        return Unimplemented("tensor ", name, " has dtype \"", tensor.other_type,
                             "\"; F32, F16 and BF16 are supported");
      }
      names.push_back(name);
    }
    // Whole tensors first: one of them may have an adapter too.
    const auto is_whole = [](const std::string& name) { return !absl::StrContains(name, ".lora_"); };
    std::stable_partition(names.begin(), names.end(), is_whole);
    for (const std::string& name : names) RETURN_IF_ERROR(Take(name));
    const auto left = weights_.tensors().begin();
    if (left != weights_.tensors().end())
      return InvalidArgument("tensor ", left->first, " has no partner, lora_A or lora_B");
    if (changed_count_ == 0) return InvalidArgument("the adapter's file changes no tensor");
    return absl::OkStatus();
  }

 private:
  // Handles one name; the second of a pair is gone when its turn comes.
  absl::Status Take(const std::string& name) {
    if (!weights_.tensors().contains(name)) return absl::OkStatus();
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, "base_model.model."))
      return Unimplemented("tensor ", name, " does not begin with base_model.model., as those of PEFT do");
    absl::string_view module = rest;
    if (absl::ConsumeSuffix(&module, ".lora_A.weight"))
      return Merge(std::string(module), name, absl::StrCat("base_model.model.", module, ".lora_B.weight"), false);
    if (absl::ConsumeSuffix(&module, ".lora_embedding_A"))
      return Merge(std::string(module), name, absl::StrCat("base_model.model.", module, ".lora_embedding_B"), true);
    if (absl::EndsWith(rest, ".lora_B.weight") || absl::EndsWith(rest, ".lora_embedding_B")) return absl::OkStatus();
    if (absl::StrContains(rest, ".lora_")) {
      return Unimplemented("tensor ", name,
                           " is not lora_A, lora_B or one of an embedding; DoRA and other kinds are not supported");
    }
    return Put(name, std::string(rest));
  }

  absl::Status Merge(const std::string& module, const std::string& a_name, const std::string& b_name,
                     bool is_embedding) {
    const auto is_target = [&](const std::string& target) { return IsEnd(module, target); };
    if (!adapter_.targets.empty() && std::none_of(adapter_.targets.begin(), adapter_.targets.end(), is_target))
      return InvalidArgument("tensor ", a_name, " changes a module that \"target_modules\" does not have");
    ASSIGN_OR_RETURN(const std::string target, TargetOf(absl::StrCat(module, ".weight")));
    RETURN_IF_ERROR(CheckTied(module, false));
    if (!weights_.tensors().contains(b_name))
      return InvalidArgument("tensor ", b_name, " is missing; there is ", a_name);
    Factors factors;
    factors.a = weights_.tensors().at(a_name);
    factors.b = weights_.tensors().at(b_name);
    ASSIGN_OR_RETURN(const int64_t rank, ValueOf(adapter_.ranks, "rank_pattern", module, adapter_.rank));
    ASSIGN_OR_RETURN(const double alpha, ValueOf(adapter_.alphas, "alpha_pattern", module, adapter_.alpha));
    const TensorView& weight = base_.tensors().at(target);
    factors.is_transposed = is_embedding || (names_.transposed && !IsOf(module, names_.head));
    factors.scale = alpha / (adapter_.is_rank_stabilized ? std::sqrt(rank) : static_cast<double>(rank));
    std::vector<int64_t> shape = {-1, -1};
    if (factors.a.shape.size() == 2 && factors.b.shape.size() == 2) shape = {factors.b.shape[0], factors.a.shape[1]};
    if (factors.is_transposed) std::swap(shape[0], shape[1]);
    if (weight.shape != shape || factors.a.shape[0] != rank || factors.b.shape[1] != rank) {
      return InvalidArgument("tensors ", a_name, " ", ShapeToString(factors.a.shape), " and its lora_B ",
                             ShapeToString(factors.b.shape), " do not fit ", target, " ", ShapeToString(weight.shape),
                             " at rank ", rank);
    }
    DerivedTensor merged;
    merged.tensor.name = target;
    merged.tensor.type = kernels::DType::kF32;
    merged.tensor.shape = weight.shape;
    merged.recipe = absl::StrCat("lora ", Json(factors.scale).dump(), factors.is_transposed ? " transposed" : "");
    merged.inputs = {base_.Hide(target, digests_), weights_.Hide(a_name, weight_digests_),
                     weights_.Hide(b_name, weight_digests_)};
    merged.fill = [factors](const auto& inputs, int64_t first, int64_t count, float* rows) {
      const int64_t columns = inputs[0].tensor.shape.back();
      Widen(inputs[0].tensor, first * columns, count * columns, rows);
      factors.Add(first, count, columns, rows);
      return absl::OkStatus();
    };
    ++changed_count_;
    return base_.Derive(std::move(merged), digests_);
  }

  // A whole tensor in place of the base's.
  absl::Status Put(const std::string& name, std::string target) {
    // As some releases name an embedding that has an adapter as well.
    for (const char* infix : {".base_layer.", ".modules_to_save.", ".original_module."}) {
      if (const size_t at = target.find(infix); at != target.npos) target.replace(at, std::string(infix).size(), ".");
    }
    const std::string module = target.substr(0, target.rfind('.'));
    RETURN_IF_ERROR(CheckTied(module, true));
    const bool is_new_head = is_tied_ && IsOf(module, names_.head) && !TargetOf(target).ok();
    if (!is_new_head) {
      ASSIGN_OR_RETURN(target, TargetOf(target));
      base_.Hide(target, digests_);
    }
    DerivedTensor::Input input = weights_.Hide(name, weight_digests_);
    input.tensor.name = target;
    base_.Add(std::move(input), digests_);
    ++changed_count_;
    return absl::OkStatus();
  }

  // Where embedding and head are one matrix, programs differ in what a change of one means.
  absl::Status CheckTied(absl::string_view module, bool is_whole) const {
    const bool is_embedding = IsOf(module, names_.embedding);
    if (!is_tied_ || !(is_embedding || (IsOf(module, names_.head) && !is_whole))) return absl::OkStatus();
    return Unimplemented("the adapter changes ", module, ", which the base's \"tie_word_embeddings\" ",
                         "has embedding and head share; it is not supported");
  }

  static bool IsOf(absl::string_view module, const char* name) { return IsEnd(module, name); }

  // The tensor's name in the base: a program may have loaded it under another prefix.
  absl::StatusOr<std::string> TargetOf(const std::string& name) const {
    std::vector<std::string> prefixes = {""};
    if (wrapper_ != nullptr) {
      for (const char* prefix : wrapper_->prefixes) {
        if (prefix != nullptr) prefixes.push_back(prefix);
      }
    } else {
      prefixes.push_back(names_.prefix);
    }
    std::vector<std::string> candidates = {name};
    for (const std::string& from : prefixes) {
      if (!absl::StartsWith(name, from)) continue;
      for (const std::string& to : prefixes) candidates.push_back(absl::StrCat(to, name.substr(from.size())));
    }
    if (wrapper_ != nullptr && wrapper_->older_head != nullptr && absl::StartsWith(name, names_.head))
      candidates.push_back(absl::StrCat(wrapper_->older_head, name.substr(std::string(names_.head).size())));
    for (const std::string& candidate : candidates) {
      if (base_.tensors().contains(candidate)) return candidate;
    }
    return InvalidArgument("the adapter changes ", name, "; the base has no such tensor");
  }

  const Adapter& adapter_;
  const TensorNames& names_;
  const Wrapper* wrapper_;
  const bool is_tied_;
  WeightSource& weights_;
  TensorDigests& weight_digests_;
  WeightSource& base_;
  TensorDigests& digests_;
  int64_t changed_count_ = 0;
};

absl::StatusOr<Adapter> ParseAdapter(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  if (!json.is_object()) return InvalidArgument("the file is ", json.type_name(), ", not an object");
  ConfigReader reader(json, "");
  ASSIGN_OR_RETURN(const std::string type, reader.String("peft_type"));
  if (type != "LORA") return Unimplemented(reader.Name("peft_type"), " is \"", type, "\"; LORA is supported");
  ASSIGN_OR_RETURN(const std::string task, reader.String("task_type", "CAUSAL_LM"));
  if (task != "CAUSAL_LM") return Unimplemented(reader.Name("task_type"), " is \"", task, "\"; CAUSAL_LM is supported");
  Adapter adapter;
  ASSIGN_OR_RETURN(adapter.rank, reader.Int("r", {1, kRankMax}, 8));
  ASSIGN_OR_RETURN(adapter.alpha, reader.Positive("lora_alpha", 8));
  ASSIGN_OR_RETURN(adapter.is_rank_stabilized, reader.Bool("use_rslora", false));
  ASSIGN_OR_RETURN(const std::string bias, reader.String("bias", "none"));
  if (bias != "none") return Unimplemented(reader.Name("bias"), " is \"", bias, "\"; none is supported");
  RETURN_IF_ERROR(CheckInitial(reader));
  for (const char* key :
       {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "layer_replication", "target_parameters",
        "trainable_token_indices", "megatron_config", "alora_invocation_tokens", "arrow_config", "loftq_config"}) {
    RETURN_IF_ERROR(RequireUnset(reader, key));
  }
  // After what is refused anyway: PEFT writes patterns for stacked experts of its own accord.
  RETURN_IF_ERROR(ReadPatterns(reader, "rank_pattern", adapter.ranks));
  RETURN_IF_ERROR(ReadPatterns(reader, "alpha_pattern", adapter.alphas));
  if (const Json* targets = reader.Take("target_modules"); targets != nullptr && targets->is_array()) {
    for (const Json& target : *targets) {
      if (target.is_string()) adapter.targets.push_back(target.get<std::string>());
    }
  }
  reader.Ignore({"base_model_name_or_path", "revision", "inference_mode", "lora_dropout", "exclude_modules",
                 "fan_in_fan_out", "modules_to_save", "layers_to_transform", "layers_pattern", "megatron_core",
                 "qalora_group_size", "auto_mapping", "peft_version", "eva_config", "corda_config", "lora_ga_config",
                 "ensure_weight_tying", "runtime_config", "parent_library"});
  RETURN_IF_ERROR(reader.RefuseUnread(/*may_be_ignored=*/false));
  return adapter;
}

}  // namespace

std::string Adapter::Label() const {
  return absl::StrCat("LoRA of rank ", rank, ranks.empty() ? "" : " (some others)", ", alpha ", ShortNumber(alpha),
                      alphas.empty() ? "" : " (some others)", is_rank_stabilized ? ", rank-stabilized" : "");
}

Json Adapter::Identity() const {
  Json json = {{"rank", rank}, {"alpha", alpha}, {"rank_stabilized", is_rank_stabilized}};
  if (!ranks.empty()) json["ranks"] = ranks;
  if (!alphas.empty()) json["alphas"] = alphas;
  return json;
}

absl::StatusOr<Adapter> ReadAdapter(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kConfigName);
  const absl::StatusOr<std::string> text = ReadFile(path, kConfigFile);
  if (absl::IsNotFound(text.status())) {
    return NotFound(text.status().message(), "; an adapter is a directory with ", kConfigName, " and ", kWeightsName,
                    ", as PEFT writes it");
  }
  RETURN_IF_ERROR(text.status());
  return Annotate(ParseAdapter(*text), path);
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenAdapterWeights(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kWeightsName);
  if (FileExists(path, FileUse::kModel)) return OpenSafetensorsFile(path);
  const bool is_pickled = FileExists(absl::StrCat(directory, "/adapter_model.bin"), FileUse::kModel);
  return NotFound(
      directory, " has no ", kWeightsName,
      is_pickled ? "; adapter_model.bin is not read, because reading a pickle runs its code: save it as safetensors"
                 : "");
}

absl::Status MergeAdapter(const Adapter& adapter, const Architecture& architecture, const ModelConfig& config,
                          WeightSource weights, TensorDigests weight_digests, WeightSource& base,
                          TensorDigests& digests) {
  RETURN_IF_ERROR(Merger(adapter, architecture, config, weights, weight_digests, base, digests).Run());
  base.TakeFiles(std::move(weights));
  return absl::OkStatus();
}

}  // namespace varifocal
