// A benchmark that people cite, as rows of ours: a file that reads upstream's texts and rows, and a row in benchmarks.cc.
//
// A benchmark writes tasks (name, metrics, answer length, how a long prompt is cut) with rows (prompt, gold answers,
// reference for the metrics). import.h makes suites of them. Prompts are whole texts: what is left to the model's
// tokenizer is the cut.
//
// Errors: of a dataset, one sentence with the file and the row, or what is missing and where upstream keeps it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/benchmarks/download.h"
#include "eval_tasks/helmet/import/family.h"

namespace varifocal::benchmarks {

struct TaskLength {
  int context_length = 0;
  int prompt_tokens = 0;  // to which a longer prompt is cut; 0: it is refused
};

struct BenchmarkTask {
  std::string name;
  bool chat = false;
  std::vector<std::string> metrics;
  int max_new_tokens = 0;
  std::string truncate = "error";  // of a jsonl task
  std::vector<TaskLength> lengths;
  std::string rows_name;  // where a task has other rows at another length; the name when empty
};

struct BenchmarkRow {
  std::string id;       // unique in its task
  std::string prompt;   // or
  Json messages;        // a list of turns
  std::string cluster;  // names rows that are not independent, such as those of one document
  std::vector<std::string> gold;
  Json reference = Json::object();
};

using RowSink = std::function<absl::Status(const BenchmarkTask& task, const BenchmarkRow& row)>;

struct ImportOptions {
  std::string folder;                 // all of the user's files of upstream are in it
  std::string out;                    // where suites, rows and manifest.json are written
  std::vector<std::string> datasets;  // empty: all that the form has by default
  std::vector<int> lengths;           // context lengths of the tasks; empty: the benchmark's
  int prompt_tokens = 0;              // instead of what belongs to the length
  std::string form;                   // empty: the benchmark's first
  std::string jieba;                  // folder of the package, which scores three Chinese sets
  bool no_chat = false;               // no chat format, as for base models
  std::string answers;                // file of a model's answers, for the form that asks with them
};

// What a benchmark reads from and writes to.
struct Import {
  const ImportOptions& options;
  std::string form;
  Download& download;
  const RowSink& sink;
  std::vector<std::string>&
      notes;  // sentences about what is unusual in the user's data, which is imported nevertheless
};

struct Benchmark {
  std::string name;
  std::string title;
  std::string upstream;  // where it is kept
  std::string licence;
  std::string needs;               // what the folder must have
  std::vector<std::string> forms;  // the first is the default; none: ""
  std::vector<std::string> takes;  // flags of import-data beside --out, --datasets and --form; the others are refused
  std::vector<std::string> (*datasets)(const ImportOptions& options) = nullptr;  // by default; the form is set
  absl::Status (*import)(const std::string& dataset, Import& import) = nullptr;
};

const std::vector<Benchmark>& Benchmarks();
const Benchmark* FindBenchmark(absl::string_view name);  // null when unknown

// Calls `visit` for every row of a file: its lines, or a list.
absl::Status ForEachRow(Download& download, const std::string& path,
                        const std::function<absl::Status(int64_t number, const helmet::RowView& row)>& visit);

// A name for rows of one text.
std::string ClusterOf(absl::string_view text);

// Gold answers for people and for `truncated`; the reference's JSON where all are blank.
std::vector<std::string> ShownGold(const std::vector<std::string>& gold, const Json& reference);

// The template with the row's fields; those that are not texts as Python shows them.
absl::StatusOr<std::string> FillFromRow(const helmet::Template& form, const helmet::RowView& row);

// The lengths to write: those asked for, or `usual`; each with upstream's cut, or the one asked for.
std::vector<TaskLength> LengthsOf(const ImportOptions& options, int usual, int (*prompt_tokens)(int context_length));

Benchmark LongBench();
Benchmark LongBench2();
Benchmark Babilong();
Benchmark Nolima();
Benchmark Mrcr();
Benchmark InfiniteBench();
Benchmark LongProc();

}  // namespace varifocal::benchmarks
