#include "eval_tasks/benchmarks/import.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace varifocal::benchmarks {
namespace {

using OpenFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

absl::StatusOr<OpenFile> OpenForWriting(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  OpenFile file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) return FileError(path, "write", errno);
  return file;
}

absl::Status Write(std::FILE* file, const std::string& path, absl::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size()) return absl::OkStatus();
  return ResourceExhausted("Cannot write ", path);
}

absl::Status WriteWhole(const std::string& path, absl::string_view bytes) {
  ASSIGN_OR_RETURN(OpenFile file, OpenForWriting(path));
  RETURN_IF_ERROR(Write(file.get(), path, bytes));
  if (std::fclose(file.release()) == 0) return absl::OkStatus();
  return ResourceExhausted("Cannot write ", path);
}

// The rows of a task at one or more lengths.
struct WrittenRows {
  BenchmarkTask task;
  std::string path;
  OpenFile file = {nullptr, &std::fclose};
  int row_count = 0;
  bool has_messages = false;
};

Json RowJson(const BenchmarkRow& row) {
  Json object = {{"id", row.id}, {"gold", row.gold}, {"reference", row.reference}};
  if (!row.cluster.empty()) object["cluster"] = row.cluster;
  if (row.messages.is_array()) {
    object["messages"] = row.messages;
  } else {
    object["prompt"] = row.prompt;
  }
  return object;
}

std::string TaskYaml(const WrittenRows& rows, const TaskLength& length) {
  const BenchmarkTask& task = rows.task;
  std::string yaml = absl::StrCat(
      "  - name: ", task.name, "\n    kind: jsonl\n", task.chat ? "    chat: true\n" : "", "    metrics: [",
      absl::StrJoin(task.metrics, ", "), "]\n    parameters:\n      path: rows/", rows.path, "\n",
      rows.has_messages ? "      messages: messages\n" : "      prompt: \"{prompt}\"\n",
      "      gold: gold\n      id: id\n      cluster: cluster\n      reference: reference\n      stop: []\n",
      "      max_new_tokens: ", task.max_new_tokens, "\n      truncate: ", task.truncate, "\n");
  if (length.prompt_tokens > 0) absl::StrAppend(&yaml, "      prompt_tokens: ", length.prompt_tokens, "\n");
  return yaml;
}

class Importer {
 public:
  Importer(const Benchmark& benchmark, ImportOptions options) : benchmark_(benchmark), options_(std::move(options)) {}

  absl::StatusOr<ImportResult> Run() {
    if (options_.form.empty()) options_.form = benchmark_.forms[0];
    const std::string& form = options_.form;
    if (std::find(benchmark_.forms.begin(), benchmark_.forms.end(), form) == benchmark_.forms.end()) {
      return absl::InvalidArgumentError(
          benchmark_.forms.size() == 1
              ? absl::StrCat("the form is \"", form, "\"; ", benchmark_.name, " has one form alone, without a name")
              : absl::StrCat("the form is \"", form, "\"; those of ", benchmark_.name, " are ",
                             absl::StrJoin(benchmark_.forms, ", ")));
    }
    RETURN_IF_ERROR(CheckTaken());
    ASSIGN_OR_RETURN(Download download, Download::Open(options_.folder));
    const std::vector<std::string> datasets =
        options_.datasets.empty() ? benchmark_.datasets(options_) : options_.datasets;
    std::set<std::string> seen;
    for (const std::string& dataset : datasets) {
      if (seen.insert(dataset).second) RETURN_IF_ERROR(ImportDataset(dataset, download));
    }
    for (auto& [path, rows] : written_) {
      if (std::fclose(rows.file.release()) != 0) return ResourceExhausted("Cannot write ", path);
      std::error_code error;
      std::filesystem::rename(PartOf(path), absl::StrCat(options_.out, "/rows/", path), error);
      if (error) return FileError(path, "write", error.value());
    }
    RETURN_IF_ERROR(WriteSuites());
    if (!result_.tasks.empty()) RETURN_IF_ERROR(WriteManifest(download));
    return std::move(result_);
  }

 private:
  // An option that would change nothing is a mistake.
  absl::Status CheckTaken() const {
    const std::pair<const char*, bool> given[] = {{"lengths", !options_.lengths.empty()},
                                                  {"prompt-tokens", options_.prompt_tokens > 0},
                                                  {"jieba", !options_.jieba.empty()},
                                                  {"no-chat", options_.no_chat},
                                                  {"answers", !options_.answers.empty()}};
    const std::vector<std::string>& takes = benchmark_.takes;
    for (const auto& [name, is_given] : given) {
      if (!is_given || std::find(takes.begin(), takes.end(), name) != takes.end()) continue;
      return InvalidArgument("--", name, " is given, and changes nothing for ", benchmark_.name,
                             takes.empty() ? "" : absl::StrCat(", which takes --", absl::StrJoin(takes, ", --")));
    }
    return absl::OkStatus();
  }

  absl::Status ImportDataset(const std::string& dataset, Download& download) {
    std::set<std::string> begun;
    absl::Status of_writing;
    const RowSink sink = [&](const BenchmarkTask& task, const BenchmarkRow& row) -> absl::Status {
      RETURN_IF_ERROR(CheckFits(task, row));
      of_writing = AddRow(task, row, begun);
      return of_writing;
    };
    Import import{options_, options_.form, download, sink, result_.notes};
    const absl::Status status = benchmark_.import(dataset, import);
    RETURN_IF_ERROR(of_writing);
    if (status.ok() && !begun.empty()) return status;
    for (const std::string& path : begun) {  // part of a dataset is no dataset
      written_.erase(path);
      std::remove(PartOf(path).c_str());
      order_.erase(std::find(order_.begin(), order_.end(), path));
    }
    result_.problems.push_back(absl::StrCat(dataset, ": ", status.ok() ? "has no rows" : status.message()));
    return absl::OkStatus();
  }

  static std::string PathOf(const BenchmarkTask& task) {
    return absl::StrCat(task.rows_name.empty() ? task.name : task.rows_name, ".jsonl");
  }
  // Renamed when all rows are in it: an interrupted import leaves no half of a file beside an older suite.
  std::string PartOf(const std::string& path) const { return absl::StrCat(options_.out, "/rows/", path, ".part"); }

  // Rows of one file are scored and asked alike, and each has an id of its own.
  absl::Status CheckFits(const BenchmarkTask& task, const BenchmarkRow& row) {
    const std::string path = PathOf(task);
    const auto found = written_.find(path);
    if (found != written_.end() &&
        (found->second.task.metrics != task.metrics || found->second.has_messages != row.messages.is_array())) {
      return InvalidArgument("its rows for ", path,
                             " have other metrics or another form than those before; import them apart");
    }
    if (ids_[path].insert(row.id).second) return absl::OkStatus();
    return InvalidArgument("the row \"", row.id, "\" of ", path, " is there twice");
  }

  absl::Status AddRow(const BenchmarkTask& task, const BenchmarkRow& row, std::set<std::string>& begun) {
    const std::string path = PathOf(task), whole = PartOf(path);
    WrittenRows& rows = written_[path];
    if (rows.file == nullptr) {
      rows.task = task;
      rows.path = path;
      ASSIGN_OR_RETURN(rows.file, OpenForWriting(whole));
      begun.insert(path);
      order_.push_back(path);
    }
    rows.has_messages = row.messages.is_array();
    ++rows.row_count;
    ASSIGN_OR_RETURN(const std::string line, DumpJson(RowJson(row)));
    return Write(rows.file.get(), whole, absl::StrCat(line, "\n"));
  }

  absl::Status WriteSuites() {
    std::map<int, std::string> yaml_of;
    for (const std::string& path : order_) {
      const WrittenRows& rows = written_.at(path);
      for (const TaskLength& length : rows.task.lengths) {
        std::string& yaml = yaml_of[length.context_length];
        if (yaml.empty()) {
          yaml =
              absl::StrCat("name: ", benchmark_.name, "_", length.context_length, "\ndescription: Rows imported from ",
                           benchmark_.name, "\nlengths: [", length.context_length, "]\ntasks:\n");
        }
        yaml += TaskYaml(rows, length);
        result_.tasks.push_back({rows.task.name, length.context_length, rows.row_count});
      }
    }
    for (const auto& [length, yaml] : yaml_of) {
      result_.suites.push_back(absl::StrCat(options_.out, "/", benchmark_.name, "_", length, ".yaml"));
      RETURN_IF_ERROR(WriteWhole(result_.suites.back(), yaml));
    }
    return absl::OkStatus();
  }

  absl::Status WriteManifest(const Download& download) const {
    Json tasks = Json::array();
    for (const ImportedTask& task : result_.tasks) {
      tasks.push_back({{"task", task.task}, {"context_length", task.context_length}, {"row_count", task.row_count}});
    }
    const Json manifest = {{"benchmark", benchmark_.name}, {"form", options_.form},
                           {"files", download.files()},    {"tasks", tasks},
                           {"notes", result_.notes},       {"problems", result_.problems}};
    return WriteWhole(absl::StrCat(options_.out, "/manifest.json"),
                      manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  const Benchmark& benchmark_;
  ImportOptions options_;
  std::map<std::string, WrittenRows> written_;        // by the path of the rows
  std::vector<std::string> order_;                    // of these paths
  std::map<std::string, std::set<std::string>> ids_;  // likewise
  ImportResult result_;
};

}  // namespace

absl::StatusOr<ImportResult> ImportBenchmark(const Benchmark& benchmark, ImportOptions options) {
  return Importer(benchmark, std::move(options)).Run();
}

}  // namespace varifocal::benchmarks
