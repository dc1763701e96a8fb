#include "tests/fuzz/targets.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "eval_tasks/helmet/import/config.h"
#include "eval_tasks/helmet/import/importer.h"
#include "eval_tasks/helmet/import/testing_release.h"
#include "eval_tasks/helmet/import/upstream.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/tasks/jsonl.h"
#include "server/model/config.h"
#include "server/model/safetensors.h"
#include "server/model/weight_source.h"
#include "tests/support/process.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

// Serializing and parsing again gives the same value.
void RunJson(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto value, ParseJson(bytes));
  const auto text = DumpJson(value);
  VF_CHECK(text.ok());
  const auto again = ParseJson(*text);
  VF_CHECK(again.ok() && *again == value);
}

void RunModelConfig(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto config, ParseModelConfig(bytes));
  VF_CHECK(config.layer_count > 0 && config.head_count > 0 && config.head_width > 0 && config.max_position > 0);
  VF_CHECK(config.head_count % config.kv_head_count == 0);
  VF_CHECK(std::ssize(config.layers) == config.layer_count && !config.page_groups.empty());
  for (const RopeConfig& rope : config.ropes) {
    VF_CHECK(rope.RotaryWidth(config.head_width) <= config.head_width && !rope.ToString().empty());
    for (const int64_t length : {int64_t{1}, config.max_position}) {
      for (const double frequency : RopeFrequencies(rope, config.head_width, rope.RopeLength(length)))
        VF_CHECK(std::isfinite(frequency));
    }
  }
}

// Views are inside the file and their sizes agree with their shapes.
void RunSafetensors(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto tensors, ParseSafetensors(bytes));
  for (const TensorView& tensor : tensors) {
    VF_CHECK(tensor.bytes.data() >= bytes.data() &&
             tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
    if (!tensor.other_type.empty()) continue;
    VF_CHECK(tensor.element_count() * static_cast<int64_t>(kernels::DTypeBytes(tensor.type)) ==
             std::ssize(tensor.bytes));
  }
}

// The bytes as the index of a checkpoint of three shards: tensors of an accepted one are in the shards.
void RunWeightIndex(absl::string_view bytes) {
  static const auto* const directory = new TemporaryDirectory;
  static const bool is_written = [] {
    for (const char* shard :
         {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"}) {
      WriteFile(directory->File(shard),
                ReadFile(absl::StrCat("tests/testdata/goldens/llama/sharded-d16-bf16/", shard)));
    }
    return true;
  }();
  VF_CHECK(is_written);
  WriteFile(directory->File("model.safetensors.index.json"), std::string(bytes));
  ASSIGN_OR_REFUSE(const auto weights, OpenWeights(directory->path()));
  for (const auto& [name, tensor] : weights->tensors()) VF_CHECK(weights->Load(tensor).ok());
}

// A tokenizer that was accepted encodes and decodes.
void RunTokenizerJson(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto tokenizer, Tokenizer::FromJson(bytes));
  ASSIGN_OR_REFUSE(const auto ids,
                   tokenizer->Encode("Hello  world, 123\n\tna\xC3\xAFve \xF0\x9F\x99\x82 don't <|end|>"));
  for (const int32_t id : ids) VF_CHECK(id >= 0 && id < tokenizer->vocab_size());
  ExpectOkOrRefusal(tokenizer->Decode(ids).status());
}

// Any bytes are text for a byte-level vocabulary: encoding, counting and decoding agree.
void RunTokenizerText(absl::string_view bytes) {
  static const auto tokenizer = Tokenizer::Load("models/baseline");
  VF_CHECK(tokenizer.ok());
  const auto ids = (*tokenizer)->Encode(bytes, {.add_special_tokens = false});
  VF_CHECK(ids.ok());
  VF_CHECK(*(*tokenizer)->CountTokens(bytes, {.add_special_tokens = false}) == std::ssize(*ids));
  const auto text = (*tokenizer)->Decode(*ids, {.keep_special_tokens = true});
  VF_CHECK(text.ok());
}

// A stored job has a canonical form: parsing and serializing returns the input.
void RunJobSpec(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto spec, FromCanonicalJson(bytes));
  const std::string text = ToCanonicalJson(spec);
  const auto again = FromCanonicalJson(text);
  VF_CHECK(again.ok() && ToCanonicalJson(*again) == text);
}

void RunChatFormat(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto format, ParseChatFormat(bytes));
  ASSIGN_OR_REFUSE(const auto wrapped, format.Wrap("a question"));
  VF_CHECK(wrapped.text.find("a question") != std::string::npos);
}

// Rows of a data file: those that a scan accepts can be read again.
void RunJsonRows(absl::string_view bytes) {
  static const auto* const directory = new TemporaryDirectory;
  const std::string path = directory->File("rows.jsonl");
  WriteFile(path, std::string(bytes));
  for (const char* field : {"", "data"}) {
    ASSIGN_OR_REFUSE(const auto file, JsonRowFile::Open(path));
    const absl::Status scanned = file->Scan(
        [](int64_t, absl::string_view text) -> absl::Status {
          ExpectOkOrRefusal(FieldsOf(text, {"context", "answer"}).status());
          return absl::OkStatus();
        },
        field);
    if (!scanned.ok()) {
      ExpectOkOrRefusal(scanned);
      continue;
    }
    for (size_t i = 0; i < file->places().size(); ++i) {
      ExpectOkOrRefusal(file->Read(i).status());
    }
  }
}

// The bytes as a user's rows: every question of an accepted file has a prompt and an answer.
void RunJsonlTask(absl::string_view bytes) {
  TaskSpec spec;
  spec.name = "rows";
  spec.kind = "jsonl";
  spec.parameters = {{"path", "rows.jsonl"}, {"prompt", "{context} {question}"},
                     {"context", "context"}, {"gold", "answer"},
                     {"id", "id"},           {"cluster", "cluster"},
                     {"choices", "choices"}, {"evidence", "evidence"},
                     {"truncate", "middle"}};
  ASSIGN_OR_REFUSE(const auto task, MakeJsonlTask(spec, "rows.jsonl", bytes));
  VF_CHECK(task->question_count() > 0);
}

// Index and rows of an imported task: an accepted index is written as it is read.
void RunHelmetIndex(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto index, helmet::ParseTaskIndex(bytes));
  const std::string text = helmet::DumpTaskIndex(index);
  const auto again = helmet::ParseTaskIndex(text);
  VF_CHECK(again.ok() && helmet::DumpTaskIndex(*again) == text);
}

void RunHelmetRow(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto object, ParseJson(bytes));
  ASSIGN_OR_REFUSE(const auto row, helmet::RowFromJson(object));
  const auto again = helmet::RowFromJson(helmet::ToJson(row));
  VF_CHECK(again.ok() && helmet::ToJson(*again) == helmet::ToJson(row));
}

void RunHelmetConfig(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto entries, helmet::ParseConfig(bytes, "recall"));
  for (const helmet::ConfigEntry& entry : entries) VF_CHECK(entry.input_max_length > 0);
}

void RunHelmetTexts(absl::string_view bytes) { ExpectOkOrRefusal(helmet::PythonLiterals(bytes).status()); }

// The bytes as a data file of a release: the import ends, and rows that cannot be used are problems of their dataset.
void RunHelmetRows(absl::string_view bytes) {
  static const auto* const directory = new TemporaryDirectory;
  static const bool is_written = [] {
    helmet::WriteRelease(directory->path());
    return true;
  }();
  VF_CHECK(is_written);
  WriteFile(directory->File("data/json_kv/test_k6_dep6.jsonl"), std::string(bytes));
  helmet::ImportOptions options;
  options.checkout = directory->path();
  options.data = directory->File("data");
  options.out = directory->File("out");
  options.configs = {"recall"};
  ASSIGN_OR_REFUSE(const auto result, helmet::ImportHelmet(options));
  for (const helmet::ImportedTask& task : result.tasks) VF_CHECK(task.row_count > 0);
}

}  // namespace

const std::vector<FuzzTarget>& FuzzTargets() {
  static const auto* const targets = new std::vector<FuzzTarget>{
      {"json", RunJson, {"models/baseline/config.json"}},
      {"model_config",
       RunModelConfig,
       {"models/baseline/config.json", "models/focal-learned/config.json",
        "tests/testdata/goldens/llama/llama3-rope-d64-f32/config.json",
        "tests/testdata/goldens/architectures/gemma3-newer/config.json",
        "tests/testdata/goldens/architectures/gemma3-older/config.json",
        "tests/testdata/goldens/architectures/gpt2/config.json",
        "tests/testdata/goldens/architectures/gpt-neox-sequential/config.json",
        "tests/testdata/goldens/architectures/granite/config.json",
        "tests/testdata/goldens/architectures/llama-dynamic/config.json",
        "tests/testdata/goldens/architectures/llama-yarn-mscale/config.json",
        "tests/testdata/goldens/architectures/phi3-newer/config.json",
        "tests/testdata/goldens/architectures/qwen3-layer-types/config.json"}},
      {"safetensors",
       RunSafetensors,
       {"tests/testdata/goldens/llama/tied-d16-f32/model.safetensors", "tests/fuzz/seeds/tiny.safetensors"}},
      {"weight_index", RunWeightIndex, {"tests/testdata/goldens/llama/sharded-d16-bf16/model.safetensors.index.json"}},
      {"tokenizer_json", RunTokenizerJson, {"models/baseline/tokenizer.json"}},
      {"tokenizer_text", RunTokenizerText, {"README.md", "models/baseline/tokenizer.json"}},
      {"job_spec", RunJobSpec, {"tests/fuzz/seeds/job_spec.json"}},
      {"chat_format", RunChatFormat, {"tests/fuzz/seeds/chat_format.json"}},
      {"json_rows", RunJsonRows, {"tests/fuzz/seeds/rows.jsonl", "tests/fuzz/seeds/rows.json"}},
      {"jsonl_task", RunJsonlTask, {"tests/fuzz/seeds/task_rows.jsonl"}},
      {"helmet_index", RunHelmetIndex, {"tests/fuzz/seeds/helmet_index.json"}},
      {"helmet_row", RunHelmetRow, {"tests/fuzz/seeds/helmet_row.json"}},
      {"helmet_config", RunHelmetConfig, {"tests/fuzz/seeds/helmet_config.yaml"}},
      {"helmet_texts", RunHelmetTexts, {"recipes/chat_format.py"}},
      {"helmet_rows", RunHelmetRows, {"tests/fuzz/seeds/json_kv.jsonl"}},
  };
  return *targets;
}

}  // namespace varifocal
