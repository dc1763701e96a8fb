// Test helpers: tiny checkpoints, random prompts, and results as comparable bits.
#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/files.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/model/safetensors.h"

namespace varifocal {

// A llama by its name, any other by its directory and name.
inline std::string GoldenDirectory(const std::string& name) {
  return absl::StrCat("tests/testdata/goldens/", name.find('/') == std::string::npos ? "llama/" : "", name);
}

inline std::shared_ptr<const LoadedModel> LoadForTest(const std::string& directory, ModelOptions options = {}) {
  options.cache_directory = testing::TempDir();
  auto model = LoadModel(directory, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

inline std::unique_ptr<Engine> StartEngine(std::shared_ptr<const LoadedModel> model,
                                           const EngineOptions& options = {}) {
  auto engine = Engine::Create(std::move(model), options);
  VF_CHECK(engine.ok(), "the engine of a test starts");
  return *std::move(engine);
}

// A modifiable copy of a golden checkpoint.
class TemporaryCheckpoint {
 public:
  TemporaryCheckpoint(const std::string& golden, const std::string& name)
      : directory_(absl::StrCat(testing::TempDir(), "/checkpoint_", getpid(), "_", name)) {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(GoldenDirectory(golden), directory_, std::filesystem::copy_options::recursive);
    SetWritable(true);
  }
  ~TemporaryCheckpoint() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  // The directory and its files.
  void SetWritable(bool writable) const {
    using std::filesystem::perms;
    const perms write = writable ? perms::owner_write : perms::owner_write | perms::group_write | perms::others_write;
    const auto how = writable ? std::filesystem::perm_options::add : std::filesystem::perm_options::remove;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_))
      std::filesystem::permissions(entry.path(), write, how);
    std::filesystem::permissions(directory_, write, how);
  }
  const std::string& directory() const { return directory_; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) const { return *ReadFile(directory_ + "/" + name, kDataFile); }
  void EditConfig(const std::string& key, const Json& value) const {
    Json json = *ParseJson(Read("config.json"));
    json[key] = value;
    Write("config.json", json.dump());
  }
  // Sets every element of an F32 tensor.
  void Fill(const std::string& tensor, float value) const {
    std::string bytes = Read("model.safetensors");
    const auto tensors = ParseSafetensors(bytes);
    VF_CHECK(tensors.ok());
    for (const TensorView& view : *tensors) {
      if (view.name != tensor) continue;
      VF_CHECK(view.type == kernels::DType::kF32, "only f32 tensors are filled");
      for (size_t at = 0; at < view.bytes.size(); at += sizeof value)
        std::memcpy(&bytes[(view.bytes.data() - bytes.data()) + at], &value, sizeof value);
    }
    Write("model.safetensors", bytes);
  }

 private:
  std::string directory_;
};

// The checkpoint without its groups: key and tensors are gone.
inline void RemoveFocus(const TemporaryCheckpoint& checkpoint) {
  Json config = *ParseJson(checkpoint.Read("config.json"));
  config.erase("focus_attention");
  checkpoint.Write("config.json", config.dump());
  const std::string file = checkpoint.Read("model.safetensors");
  uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const Json header = *ParseJson(file.substr(sizeof header_size, header_size));
  const std::string data = file.substr(sizeof header_size + header_size);
  Json kept = Json::object();
  std::string bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name.find(".focus.") != std::string::npos || name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    kept[name] = entry;
    kept[name]["data_offsets"] = {bytes.size(), bytes.size() + end - begin};
    bytes += data.substr(begin, end - begin);
  }
  const std::string text = kept.dump();
  const uint64_t size = text.size();
  checkpoint.Write("model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + bytes);
}

// Ids 2..vocabulary-1: 0 and 1 are begin and end in the golden checkpoints.
inline std::vector<int32_t> RandomIds(const std::string& name, size_t count, int64_t vocabulary_size = 120) {
  Random random(name);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = 2 + random.Below(vocabulary_size - 2);
  return ids;
}

// Every number of a result, bit for bit; times and cache counts excluded.
inline std::string AnswerBits(const absl::StatusOr<EngineResult>& result) {
  if (!result.ok()) return result.status().ToString();
  std::string bits;
  auto add = [&](const auto& value) { bits.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const int32_t id : result->new_token_ids) add(id);
  for (const double log_prob : result->new_token_log_probs) add(log_prob);
  add(result->finish_reason);
  for (const EngineContinuationScore& score : result->continuations) {
    add(score.log_likelihood);
    add(score.is_greedy);
    for (const double log_prob : score.token_log_probs) add(log_prob);
  }
  for (const auto& log_prob : result->token_log_probs) add(log_prob.value_or(0));
  add(result->log_likelihood);
  add(result->pairs_visible_share.value_or(-1));
  add(result->largest_group_share.value_or(-1));
  return bits + result->text;
}

// The same without the shares of learned groups, which a dense model does not count.
inline std::string ComputedBits(absl::StatusOr<EngineResult> result) {
  if (result.ok()) result->pairs_visible_share = result->largest_group_share = std::nullopt;
  return AnswerBits(result);
}

// Generates as many tokens as asked for.
inline GenerateWork Tokens(int64_t count) { return {.max_new_tokens = count, .ignore_eos = true}; }

// All at once; the outcomes in order.
inline std::vector<absl::StatusOr<EngineResult>> AskAll(Engine& engine, const std::vector<EngineRequest>& requests) {
  std::vector<std::future<absl::StatusOr<EngineResult>>> results;
  for (const EngineRequest& request : requests) {
    auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
    results.push_back(done->get_future());
    const auto started = engine.Start(
        request, {.on_done = [done](absl::StatusOr<EngineResult> result) { done->set_value(std::move(result)); }});
    if (!started.ok()) done->set_value(started.status());
  }
  std::vector<absl::StatusOr<EngineResult>> outcomes;
  for (auto& result : results) outcomes.push_back(result.get());
  return outcomes;
}

inline std::vector<std::string> BitsOf(const std::vector<absl::StatusOr<EngineResult>>& outcomes) {
  std::vector<std::string> bits;
  for (const auto& outcome : outcomes) bits.push_back(AnswerBits(outcome));
  return bits;
}

}  // namespace varifocal
