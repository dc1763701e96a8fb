#include "server/model/model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "kernels/backend.h"
#include "server/model/adapter.h"
#include "server/model/config.h"
#include "server/model/device_list.h"
#include "server/model/function_json.h"
#include "server/model/kernel_status.h"
#include "server/model/packed_weights/packed_weights.h"
#include "server/model/transformer.h"
#include "server/model/weight_source.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

// One backend for all models with the same options: one thread pool, one account of the device's memory.
absl::StatusOr<std::shared_ptr<kernels::Backend>> SharedBackend(const kernels::BackendOptions& options) {
  static Mutex mutex;
  static auto* const backends VF_PT_GUARDED_BY(mutex) =
      new std::map<kernels::BackendOptions, std::weak_ptr<kernels::Backend>>;
  MutexLock lock(mutex);
  kernels::BackendOptions key = options;
  key.device = kernels::ChosenDevice(options);  // "auto" and its name are one
  std::weak_ptr<kernels::Backend>& slot = (*backends)[key];
  if (std::shared_ptr<kernels::Backend> backend = slot.lock()) return backend;
  ASSIGN_OR_RETURN(std::shared_ptr<kernels::Backend> backend, ToStatusOr(kernels::CreateBackend(options)));
  for (const std::string& note : backend->info().notes) Log(LogLevel::kInfo, "backend", {{"note", note}});
  slot = backend;
  return backend;
}

absl::StatusOr<kernels::BackendOptions> ToBackendOptions(const ModelOptions& options) {
  kernels::BackendOptions to;
  to.device = options.device.empty() ? "auto" : options.device;
  if (options.dtype.empty()) {
    to.dtype = kernels::DefaultDType(to.device);
  } else if (options.dtype == "bf16") {
    to.dtype = kernels::DType::kBF16;
  } else if (options.dtype != "f32") {
    return InvalidArgument("dtype is \"", options.dtype, "\"; it must be f32 or bf16");
  }
  if (options.threads < 0 || options.threads > 1024)
    return InvalidArgument("threads is ", options.threads, "; it must lie in 0..1024");
  to.thread_count = options.threads;
  if (!options.cpu_isa.empty()) to.cpu_isa = options.cpu_isa;
  to.cuda_graphs = options.cuda_graphs;
  if (!options.attention_kernel.empty()) to.attention_kernel = options.attention_kernel;
  if (!options.product_kernel.empty()) to.product_kernel = options.product_kernel;
  if (!options.decode_kernels.empty()) to.decode_kernels = options.decode_kernels;
  return to;
}

absl::Status ReadEos(const std::string& directory, ModelConfig& config) {
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  if (!FileExists(path, FileUse::kModel)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigFile));
  ASSIGN_OR_RETURN(std::optional<std::vector<int32_t>> ids,
                   Annotate(ParseGenerationConfigEos(text, config.vocabulary_size), path));
  if (ids.has_value()) config.eos_token_ids = *std::move(ids);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> ReadTokenizer(const std::string& directory, TokenizerRules rules,
                                                               ModelConfig& config) {
  if (!FileExists(absl::StrCat(directory, "/tokenizer.json"), FileUse::kModel))
    return std::shared_ptr<const Tokenizer>();
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(directory, rules));
  config.notes.insert(config.notes.end(), tokenizer->notes().begin(), tokenizer->notes().end());
  if (tokenizer->vocab_size() > config.vocabulary_size) {
    // Texts without these tokens, which are common for padding and images, are as they should be.
    config.notes.push_back(absl::StrCat("the tokenizer has ids up to ", tokenizer->vocab_size() - 1,
                                        ", the model's vocab_size is ", config.vocabulary_size,
                                        ": texts with tokens beyond it are refused"));
  }
  return tokenizer;
}

// "; directories in it that have one: baseline, focal", where a directory of models was given.
std::string ModelsBelow(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (std::filesystem::exists(it->path() / "config.json", error)) names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() > 8) names.resize(8);
  return names.empty() ? "; a model's directory has one"
                       : absl::StrCat("; directories in it that have one: ", absl::StrJoin(names, ", "));
}

}  // namespace

absl::Status CheckModelOptions(const ModelOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, ParseDevices(options.device));
  ModelOptions of_device = options;
  for (const std::string& device : devices) {
    of_device.device = device;
    ASSIGN_OR_RETURN(const kernels::BackendOptions backend, ToBackendOptions(of_device));
    RETURN_IF_ERROR(SharedBackend(backend).status());
  }
  return absl::OkStatus();
}

LoadedModel::LoadedModel() = default;
LoadedModel::~LoadedModel() = default;

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory, const std::vector<std::string>& ignored_keys,
                                            const std::string& adapter_directory) {
  const std::string path = absl::StrCat(directory, "/config.json");
  const absl::StatusOr<std::string> text = ReadFile(path, kConfigFile);
  if (absl::IsNotFound(text.status()) && !IsDirectory(directory)) {
    return NotFound(text.status().message(),
                    "; a model is a directory on this machine with config.json, not a hub's name");
  }
  if (absl::IsNotFound(text.status())) return NotFound(text.status().message(), ModelsBelow(directory));
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<ModelConfig> config = ParseModelConfig(*text, ignored_keys);
  if (!config.ok()) return Annotate(config.status(), path);
  RETURN_IF_ERROR(ReadEos(directory, *config));
  if (!adapter_directory.empty()) {
    ASSIGN_OR_RETURN(Adapter adapter, ReadAdapter(adapter_directory));
    config->adapter = std::make_shared<const Adapter>(std::move(adapter));
  }
  return config;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadModel(const std::string& directory,
                                                             const ModelOptions& options) {
  ASSIGN_OR_RETURN(const kernels::BackendOptions backend_options, ToBackendOptions(options));
  auto model = std::shared_ptr<LoadedModel>(new LoadedModel);
  model->directory_ = directory;
  ASSIGN_OR_RETURN(model->config_, ReadModelConfig(directory, options.ignored_config_keys, options.adapter_directory));
  ASSIGN_OR_RETURN(model->tokenizer_, ReadTokenizer(directory, options.tokenizer_rules, model->config_));
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightSource> source, OpenWeights(directory));
  std::unique_ptr<WeightSource> adapter;
  if (model->config_.adapter != nullptr) {
    ASSIGN_OR_RETURN(adapter, OpenAdapterWeights(options.adapter_directory));
  }
  std::shared_ptr<kernels::Backend> backend = options.backend;
  if (backend == nullptr) {
    ASSIGN_OR_RETURN(backend, SharedBackend(backend_options));
  }
  const std::string cache = options.cache_directory.empty() ? DefaultCacheDirectory() : options.cache_directory;
  ModelProvenance& provenance = model->provenance_;
  ASSIGN_OR_RETURN(WeightDigests digests, HashWeights(*source, cache));
  provenance.weights_sha256 = digests.whole;

  const Architecture* architecture = FindArchitecture(model->config_.model_type);
  if (const PackedWeights* packed = model->config_.packed_weights.get(); packed != nullptr) {
    Unpacking tensors(*source, digests.tensors);
    RETURN_IF_ERROR(Annotate(packed->unpack(tensors), directory));
    provenance.weights_from = packed->label;
  }
  if (adapter != nullptr) {
    ASSIGN_OR_RETURN(WeightDigests of_adapter, HashWeights(*adapter, cache));
    provenance.weights_sha256 = Sha256Hex(absl::StrCat(digests.whole, "\n", of_adapter.whole, "\n"));
    RETURN_IF_ERROR(Annotate(MergeAdapter(*model->config_.adapter, *architecture, model->config_, std::move(*adapter),
                                          std::move(of_adapter.tensors), *source, digests.tensors),
                             options.adapter_directory));
    absl::StrAppend(&provenance.weights_from, provenance.weights_from.empty() ? "" : "; ",
                    model->config_.adapter->Label());
  }
  absl::StatusOr<std::unique_ptr<Transformer>> transformer =
      Transformer::Load(*architecture, model->config_, *source, backend, digests.tensors, options.admit);
  if (absl::IsDataLoss(transformer.status())) ForgetHashes(*source, cache);
  if (!transformer.ok()) return Annotate(transformer.status(), directory);
  RETURN_IF_ERROR(source->CheckUnchanged());
  model->transformer_ = *std::move(transformer);
  model->config_.tied_embeddings = model->transformer_->config().tied_embeddings;

  for (const std::string& note : model->config_.notes)
    Log(LogLevel::kWarning, "model", {{"directory", directory}, {"note", note}});
  for (const std::string& key : model->config_.ignored_keys)
    Log(LogLevel::kWarning, "model", {{"directory", directory}, {"ignored_config_key", key}});

  const kernels::BackendInfo& info = backend->info();
  const std::vector<std::string> name_parts = absl::StrSplit(info.name, '-');
  provenance.backend = name_parts.front();
  provenance.isa = name_parts.size() > 2 ? name_parts[1] : "";
  provenance.kernels = info.name;
  provenance.device = info.device;
  provenance.dtype = kernels::DTypeName(info.dtype);
  provenance.threads = info.thread_count;
  provenance.tokenizer_sha256 = model->tokenizer_ == nullptr ? "" : model->tokenizer_->sha256();
  provenance.attention = model->config_.attention.Label();
  provenance.function_json = FunctionJson(model->config_, provenance.dtype);
  provenance.page_bytes = model->transformer_->PageBytes();
  provenance.weight_bytes = model->transformer_->weight_bytes();
  provenance.parameter_count = model->transformer_->parameter_count();
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

}  // namespace varifocal
