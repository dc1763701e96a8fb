#include "eval_tasks/helmet/import/importer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/family.h"
#include "eval_tasks/job_spec.h"

namespace varifocal::helmet {
namespace {

constexpr const char* kPaperConfigs[] = {"recall",       "recall_short", "rag",        "rag_short", "rerank",
                                         "rerank_short", "cite",         "cite_short", "longqa",    "longqa_short",
                                         "summ",         "summ_short",   "icl",        "icl_short"};

absl::Status WriteFile(const std::string& path, absl::string_view bytes) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr || std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() ||
      std::fflush(file.get()) != 0) {
    return PermissionDenied("Cannot write ", path);
  }
  return absl::OkStatus();
}

// Rows of one task and length, written incrementally; the file is renamed when complete.
class RowWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RowWriter>> Open(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    std::FILE* file = std::fopen((path + ".part").c_str(), "wb");
    if (file == nullptr) return PermissionDenied("Cannot write ", path);
    return std::unique_ptr<RowWriter>(new RowWriter(path, file));
  }
  ~RowWriter() {
    if (file_ != nullptr) std::fclose(file_);
    std::remove((path_ + ".part").c_str());
  }

  absl::Status Add(const ImportedRow& row) {
    ASSIGN_OR_RETURN(std::string line, DumpJson(ToJson(row)));
    line += '\n';
    hash_.Update(line);
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) {
      return ResourceExhausted("Cannot write ", path_);
    }
    ++row_count_;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Finish() {
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    if (!closed || std::rename((path_ + ".part").c_str(), path_.c_str()) != 0) {
      return ResourceExhausted("Cannot write ", path_);
    }
    return ToHex(hash_.Finish());
  }
  int row_count() const { return row_count_; }

 private:
  RowWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  std::FILE* file_;
  Sha256Stream hash_;
  int row_count_ = 0;
};

bool HaveSameSettings(const TaskIndex& a, const TaskIndex& b) {
  return a.kind == b.kind && a.user_template == b.user_template && a.system_template == b.system_template &&
         a.separator == b.separator && a.stop_strings == b.stop_strings && a.chat == b.chat &&
         a.system_message == b.system_message && a.settings == b.settings;
}

bool IsSameRun(const LengthEntry& length, const ConfigEntry& entry) {
  return length.dataset == entry.dataset && length.test_file == entry.test_file &&
         length.demo_file == entry.demo_file && length.max_new_tokens == entry.generation_max_length;
}

// Names of tasks are in lower case and without dots; upstream lowers the case of a dataset itself.
std::string TaskName(const FamilyInfo& family, const std::string& dataset) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(family.task_name(dataset)), {{".", "_"}});
}

// Why a run of an upstream configuration is not supported; empty when it is.
std::string Unaskable(const ConfigEntry& entry) {
  constexpr size_t kNameSizeMax = 60;  // a suite's names have 63, and a second run of the same dataset ends in _2
  if (entry.input_max_length < 1 || entry.input_max_length > kContextLengthMax) {
    return absl::StrCat("input_max_length is ", entry.input_max_length, "; it must be from 1 to ", kContextLengthMax);
  }
  if (entry.generation_max_length < 1) return "generation_max_length is 0; it must be at least 1";
  if (entry.dataset.size() > kNameSizeMax || !absl::ascii_isalpha(entry.dataset[0])) {
    return absl::StrCat("a dataset's name must be a letter and at most ", kNameSizeMax - 1, " characters more");
  }
  return "";
}

struct SuiteTask {
  std::string name;
  bool chat = false;
  std::vector<std::string> metrics;
};

// "recall" and "recall_short" are one suite.
std::string SuiteName(const std::string& config) {
  return absl::StrCat("helmet_", absl::StripSuffix(config, "_short"));
}

std::string SuiteYaml(const std::string& name, const std::set<int>& lengths, const std::vector<SuiteTask>& tasks) {
  std::string yaml = absl::StrCat("name: ", name, "\ndescription: Rows imported from HELMET\nlengths: [",
                                  absl::StrJoin(lengths, ", "), "]\ntasks:\n");
  for (const SuiteTask& task : tasks) {
    absl::StrAppend(&yaml, "  - name: ", task.name, "\n    kind: helmet\n", task.chat ? "    chat: true\n" : "",
                    "    metrics: [", absl::StrJoin(task.metrics, ", "), "]\n    parameters: {path: tasks/", task.name,
                    ".json}\n");
  }
  return yaml;
}

class Importer {
 public:
  explicit Importer(const ImportOptions& options) : options_(options) {}

  absl::StatusOr<ImportResult> Run() {
    ASSIGN_OR_RETURN(texts_, UpstreamTexts::Read(options_.checkout));
    for (const TextChange& change : texts_.changes()) result_.changes.push_back(change.message);
    sources_ = {options_.checkout, options_.data, &texts_, nullptr, {}};
    if (!options_.length_tokenizer.empty()) {
      ASSIGN_OR_RETURN(sources_.length_tokenizer, Tokenizer::Load(options_.length_tokenizer, options_.tokenizer_rules));
    }
    ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, ReadConfigs());
    for (const ConfigEntry& entry : entries) RETURN_IF_ERROR(ImportEntry(entry));
    // A suite has one list of lengths; a task has no questions at lengths that its configurations lack.
    for (const auto& [suite, tasks] : suites_) {
      for (const SuiteTask& task : tasks) {
        for (int length : suite_lengths_[suite]) {
          LengthEntry& entry = indices_[task.name].lengths[length];
          if (entry.rows_file.empty() && entry.missing.empty()) entry.missing = "no configuration has this length";
        }
      }
    }
    for (const auto& [name, index] : indices_) {
      RETURN_IF_ERROR(WriteFile(absl::StrCat(options_.out, "/tasks/", name, ".json"), DumpTaskIndex(index)));
    }
    for (const auto& [suite, tasks] : suites_) {
      const std::string path = absl::StrCat(options_.out, "/", suite, ".yaml");
      RETURN_IF_ERROR(WriteFile(path, SuiteYaml(suite, suite_lengths_[suite], tasks)));
      result_.suites.push_back(path);
    }
    RETURN_IF_ERROR(WriteFile(absl::StrCat(options_.out, "/manifest.json"), Manifest()));
    return std::move(result_);
  }

 private:
  static absl::StatusOr<std::vector<ConfigEntry>> ReadConfig(const std::string& path) {
    ASSIGN_OR_RETURN(const std::string yaml, ReadFile(path, kConfigFile));
    return ParseConfig(yaml, path);
  }

  absl::StatusOr<std::vector<ConfigEntry>> ReadConfigs() {
    std::vector<std::string> names = options_.configs;
    if (names.empty()) names.assign(std::begin(kPaperConfigs), std::end(kPaperConfigs));
    std::vector<ConfigEntry> entries;
    for (const std::string& given : names) {
      const std::string name(absl::StripSuffix(given, ".yaml"));
      const std::string path = absl::StrCat(options_.checkout, "/configs/", name, ".yaml");
      absl::StatusOr<std::vector<ConfigEntry>> more = ReadConfig(path);
      if (!more.ok()) {
        result_.problems.emplace_back(more.status().message());
        continue;
      }
      for (ConfigEntry& entry : *more) {
        entry.config = name;
        const bool wanted = options_.lengths.empty() || std::find(options_.lengths.begin(), options_.lengths.end(),
                                                                  entry.input_max_length) != options_.lengths.end();
        if (options_.no_chat) entry.chat = false;
        if (wanted) entries.push_back(std::move(entry));
      }
    }
    if (entries.empty()) {
      return absl::InvalidArgumentError(result_.problems.empty()
                                            ? "the configurations have no datasets at these lengths"
                                            : absl::StrJoin(result_.problems, "\n"));
    }
    return entries;
  }

  absl::Status ReadPrompting(const ConfigEntry& entry, const FamilyInfo& family, TaskIndex* settings,
                             std::vector<std::string>* metrics) const {
    ASSIGN_OR_RETURN(const Prompting prompting, family.prompting(entry));
    ASSIGN_OR_RETURN(settings->user_template, sources_.texts->Text(prompting.texts + ".user"));
    ASSIGN_OR_RETURN(settings->system_template, sources_.texts->Text(prompting.texts + ".system"));
    settings->kind = prompting.kind;
    settings->separator = prompting.separator;
    for (const std::string& measure : prompting.measures) {
      metrics->push_back(absl::StrCat("helmet/", prompting.kind, "/", measure));
    }
    return absl::OkStatus();
  }

  absl::Status ImportEntry(const ConfigEntry& entry) {
    const std::string place = absl::StrCat(entry.config, ": ", entry.dataset, " at ", entry.input_max_length);
    const FamilyInfo* family = FindFamily(entry.dataset);
    if (family == nullptr) {
      result_.problems.push_back(absl::StrCat(place, ": is not a dataset that can be imported"));
      return absl::OkStatus();
    }
    if (const std::string wrong = Unaskable(entry); !wrong.empty()) {
      result_.problems.push_back(absl::StrCat(place, ": ", wrong));
      return absl::OkStatus();
    }
    TaskIndex settings;
    std::vector<std::string> metrics;
    if (const absl::Status status = ReadPrompting(entry, *family, &settings, &metrics); !status.ok()) {
      result_.problems.push_back(absl::StrCat(place, ": ", status.message()));
      return absl::OkStatus();
    }
    settings.chat = entry.chat;
    settings.system_message = entry.system_message;
    if (entry.stop_newline || (options_.stop_at_newline && entry.stop_new_line)) settings.stop_strings = {"\n"};
    settings.settings = {
        {"shots", entry.shots}, {"seed", entry.seed}, {"profile", options_.stop_at_newline ? "newline" : "published"}};
    settings.settings["max_test_samples"] = OrNull(entry.max_test_samples);
    const std::string name = TaskFor(entry, TaskName(*family, entry.dataset), settings);
    AddToSuite(entry, name, std::move(metrics));
    TaskIndex& index = indices_.emplace(name, std::move(settings)).first->second;
    const auto [place_of_length, is_new] = index.lengths.try_emplace(entry.input_max_length);
    if (!is_new) return absl::OkStatus();  // duplicate of another configuration's run
    LengthEntry& length = place_of_length->second;
    length.dataset = entry.dataset;
    length.test_file = entry.test_file;
    length.demo_file = entry.demo_file;
    length.max_new_tokens = entry.generation_max_length;
    const absl::Status status = WriteRows(entry, *family, name, length);
    if (absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status)) return status;
    if (!status.ok()) {
      length.missing = std::string(status.message());
      result_.problems.push_back(absl::StrCat(place, ": ", status.message()));
    }
    return absl::OkStatus();
  }

  // A task has one setting for all its lengths and one file at each. Other settings, or another file at the same length,
  // make a separate task: NAME_2, NAME_3, ..
  std::string TaskFor(const ConfigEntry& entry, const std::string& name, const TaskIndex& settings) const {
    for (int number = 1;; ++number) {
      const std::string candidate = number == 1 ? name : absl::StrCat(name, "_", number);
      const auto index = indices_.find(candidate);
      if (index == indices_.end()) return candidate;
      if (!HaveSameSettings(index->second, settings)) continue;
      const auto length = index->second.lengths.find(entry.input_max_length);
      if (length == index->second.lengths.end() || IsSameRun(length->second, entry)) return candidate;
    }
  }

  void AddToSuite(const ConfigEntry& entry, const std::string& name, std::vector<std::string> metrics) {
    const std::string suite = SuiteName(entry.config);
    suite_lengths_[suite].insert(entry.input_max_length);
    std::vector<SuiteTask>& tasks = suites_[suite];
    const bool is_known =
        std::any_of(tasks.begin(), tasks.end(), [&](const SuiteTask& task) { return task.name == name; });
    if (!is_known) tasks.push_back({name, entry.chat, std::move(metrics)});
  }

  absl::Status WriteRows(const ConfigEntry& entry, const FamilyInfo& family, const std::string& name,
                         LengthEntry& length) {
    const std::string file = absl::StrCat(name, ".", entry.input_max_length, ".jsonl");
    ASSIGN_OR_RETURN(const std::unique_ptr<RowWriter> writer,
                     RowWriter::Open(absl::StrCat(options_.out, "/rows/", file)));
    ImportedTask task{name, entry.input_max_length, 0, 0, 0};
    RETURN_IF_ERROR(family.import(entry, sources_, [&](const ImportedRow& row) {
      task.cut_row_count += row.length_cut_tokens > 0;
      task.gold_lost_count += !row.gold_survived_length_cut;
      return writer->Add(row);
    }));
    if (writer->row_count() == 0) return InvalidArgument("no rows remain after upstream's filters");
    task.row_count = writer->row_count();
    ASSIGN_OR_RETURN(length.rows_sha256, writer->Finish());
    length.rows_file = absl::StrCat("../rows/", file);
    length.row_count = task.row_count;
    result_.tasks.push_back(task);
    if (options_.on_progress)
      options_.on_progress(absl::StrCat(name, " ", task.context_length, ": ", task.row_count, " rows"));
    return absl::OkStatus();
  }

  std::string Manifest() const {
    Json files = Json::object();
    for (const auto& [path, facts] : sources_.files) {
      files[path] = {{"sha256", facts.sha256}, {"row_count", facts.row_count}};
    }
    Json tasks = Json::array();
    for (const ImportedTask& task : result_.tasks) {
      const LengthEntry& length = indices_.at(task.task).lengths.at(task.context_length);
      tasks.push_back({{"task", task.task},
                       {"context_length", task.context_length},
                       {"dataset", length.dataset},
                       {"row_count", task.row_count},
                       {"rows_sha256", length.rows_sha256},
                       {"cut_row_count", task.cut_row_count},
                       {"gold_lost_count", task.gold_lost_count}});
    }
    const Json manifest = {{"data_py_sha256", texts_.data_py_sha256()},
                           {"known_commit", "4526dfb"},
                           {"changes", result_.changes},
                           {"problems", result_.problems},
                           {"profile", options_.stop_at_newline ? "newline" : "published"},
                           {"length_tokenizer_sha256",
                            sources_.length_tokenizer == nullptr ? Json() : Json(sources_.length_tokenizer->sha256())},
                           {"files", files},
                           {"tasks", tasks}};
    return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  const ImportOptions& options_;
  UpstreamTexts texts_;
  Sources sources_;
  std::map<std::string, TaskIndex> indices_;
  std::map<std::string, std::vector<SuiteTask>> suites_;
  std::map<std::string, std::set<int>> suite_lengths_;
  ImportResult result_;
};

}  // namespace

absl::StatusOr<ImportResult> ImportHelmet(const ImportOptions& options) { return Importer(options).Run(); }

}  // namespace varifocal::helmet
