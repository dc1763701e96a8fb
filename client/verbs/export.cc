// varifocal export: a job's answers as HELMET's result files.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/jobs.h"
#include "client/prompt_ends.h"
#include "client/tokenizers.h"
#include "client/verb.h"
#include "db/reader.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/helmet/score.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/json_scan.h"

namespace varifocal::client {
namespace {

absl::Status WriteTextFile(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return PermissionDenied("Cannot write ", path, ".");
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !written) return ResourceExhausted("Cannot write ", path, ".");
  return absl::OkStatus();
}

// As Python's json.dump(.., indent=4).
std::string PythonJson(const Json& value) { return value.dump(4, ' ', true, Json::error_handler_t::replace); }

// Pairwise summation as in numpy, so that a mean has upstream's bits: eight running sums, halves above 128 values.
double PairwiseSum(absl::Span<const double> values) {
  if (values.size() > 128) {
    const size_t half = values.size() / 2 / 8 * 8;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  double sum = 0;
  size_t at = 0;
  if (values.size() >= 8) {
    double sums[8] = {};
    for (; at + 8 <= values.size(); at += 8) {
      for (size_t lane = 0; lane < 8; ++lane) sums[lane] += values[at + lane];
    }
    sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  for (; at < values.size(); ++at) sum += values[at];
  return sum;
}

// The mean of each measure, in percent but for counts.
template <typename IsCount>
Json Averages(const Json& lists, const IsCount& is_count) {
  Json averages = Json::object();
  for (const auto& [name, list] : lists.items()) {
    const std::vector<double> values = list;
    averages[name] = PairwiseSum(values) / values.size() * (is_count(name) ? 1 : 100);
  }
  return averages;
}

const char* PythonBool(bool value) { return value ? "True" : "False"; }

// Upstream's name of a result file.
std::string ResultName(const helmet::TaskIndex& index, const helmet::LengthEntry& entry, int length, bool chat,
                       const std::string& tag) {
  const std::string test_name = std::filesystem::path(entry.test_file).stem().string();
  const Json& size = index.settings["max_test_samples"];
  return absl::StrCat(entry.dataset, "_", tag, "_", test_name, "_in", length, "_size",
                      size.is_null() ? "None" : size.dump(), "_shots", index.settings["shots"].dump(), "_sampFalsemax",
                      entry.max_new_tokens, "min0t0.0p1.0_chat", PythonBool(chat), "_", index.settings["seed"].dump(),
                      ".json");
}

// Upstream's measures of one output, and those of its ALCE scorer.
struct UpstreamScores {
  Json metrics = Json::object();
  Json parsed_output;
  Json alce;
};

absl::StatusOr<UpstreamScores> ScoreAsUpstream(const helmet::TaskIndex& index, const helmet::ImportedRow& row,
                                               const std::string& output) {
  UpstreamScores scores;
  Json options = Json::object();
  if (index.kind == "rerank") {
    const int64_t count = row.item.value("first_ctx_count", int64_t{0});
    options["k_values"] = Json::array();
    for (int depth : {1, 5, 10, 20, 50, 100, 200, 500, 1000}) {
      if (depth <= count) options["k_values"].push_back(depth);
    }
  }
  const bool is_alce = absl::StartsWith(index.kind, "alce");
  Json gold = row.reference;
  if (is_alce) {
    ASSIGN_OR_RETURN(scores.alce, helmet::Score(index.kind, output, gold));
    if (!row.item.contains("answer"))
      return InvalidArgument("the row has no \"answer\", which upstream's own scorer needs");
    gold = row.item["answer"];
  }
  ASSIGN_OR_RETURN(scores.metrics, helmet::Score(is_alce ? "default" : index.kind, output, gold, options));
  scores.parsed_output = scores.metrics["parsed_output"];
  scores.metrics.erase("parsed_output");
  return scores;
}

class ExportResults : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &db_, "PATH", "the results database").Required();
    flags.Add("out", &out_, "DIR", "output directory, with one subdirectory per variant").Required();
    flags.Add("job", &job_, "JOB", "this job instead of the newest one");
    flags.Add("tag", &tag_, "TAG", "the tag in the file names, for collect_results; default: eval");
    flags.Add("tokenizer", &tokenizers_, "DIR",
              "a model's directory, to rebuild prompts for input_text; may be repeated");
    tokenizer_flags_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    const bool is_good_tag = !tag_.empty() && std::all_of(tag_.begin(), tag_.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
    });
    if (!is_good_tag) return UsageError("--tag=", tag_, ": part of a file's name: letters, digits, -, _ and \".\".");
    ASSIGN_OR_RETURN(reader_, db::Reader::Open(db_));
    RETURN_IF_ERROR(reader_->HoldSnapshot());  // all files are of one state of a job that runs
    db::JobRow job;
    if (job_.empty()) {
      ASSIGN_OR_RETURN(job, reader_->LatestJob());
    } else {
      ASSIGN_OR_RETURN(const int64_t id, JobNumber(job_));
      ASSIGN_OR_RETURN(job, reader_->Job(id));
    }
    ASSIGN_OR_RETURN(const JobSpec spec, FromCanonicalJson(job.spec_json));
    if (EpochCount(spec.suite) > 1) {
      return FailedPrecondition("jobs/", job.job_id, " has ", spec.suite.epochs,
                                " answers to each question, and HELMET's files have one.");
    }
    ASSIGN_OR_RETURN(PromptEnds prompt_ends, PromptEnds::Open(tokenizers_, tokenizer_flags_.Rules()));
    prompt_ends_ = &prompt_ends;
    int file_count = 0;
    for (const TaskSpec& task : spec.suite.tasks) {
      if (task.kind != "helmet") {
        console.err << "varifocal: " << task.name << " is no task of HELMET's and was left out.\n";
        continue;
      }
      ASSIGN_OR_RETURN(const int written, ExportTask(job.job_id, spec, task, console));
      file_count += written;
    }
    if (file_count == 0) return NotFound("The job has no answers to tasks of HELMET's.");
    if (missing_text_count_ > 0) {
      console.err << "varifocal: " << missing_text_count_ << Plural(missing_text_count_, " item has", " items have")
                  << " no input_text: no --tokenizer was given that made their prompts.\n";
    }
    console.out << file_count << Plural(file_count, " result file\n", " result files\n");
    return ExitCode::kDone;
  }

 private:
  absl::StatusOr<int> ExportTask(int64_t job_id, const JobSpec& spec, const TaskSpec& task, Console& console) {
    const std::string& path = task.parameters.at("path");
    ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
    ASSIGN_OR_RETURN(helmet::TaskIndex index, Annotate(helmet::ParseTaskIndex(bytes), path));
    ASSIGN_OR_RETURN(const helmet::Template prefix, helmet::Template::Parse(index.system_template));
    int file_count = 0;
    for (int length : spec.suite.lengths) {
      const auto entry = index.lengths.find(length);
      if (entry == index.lengths.end() || !entry->second.missing.empty()) continue;
      const std::string rows_path = (std::filesystem::path(path).parent_path() / entry->second.rows_file).string();
      ASSIGN_OR_RETURN(const auto rows, JsonRowFile::Open(rows_path));
      RETURN_IF_ERROR(rows->Scan([](int64_t, absl::string_view) { return absl::OkStatus(); }));
      if (rows->sha256() != entry->second.rows_sha256) {
        return FailedPrecondition(rows_path, ": the SHA-256 of the file is ", rows->sha256(), ", not ",
                                  entry->second.rows_sha256, " as when it was imported.");
      }
      for (const Variant& variant : spec.variants) {
        const std::string folder = absl::StrCat(out_, "/", variant.Name());
        ASSIGN_OR_RETURN(const Json result,
                         Result(job_id, variant, task, spec.suite.seed, index, length, *rows, prefix, folder, console));
        if (result.is_null()) continue;
        std::error_code error;
        std::filesystem::create_directories(folder, error);
        if (error) return PermissionDenied("Cannot make ", folder, ": ", error.message(), ".");
        const std::string file = absl::StrCat(folder, "/", ResultName(index, entry->second, length, task.chat, tag_));
        RETURN_IF_ERROR(WriteTextFile(file, PythonJson(result["result"])));
        RETURN_IF_ERROR(WriteTextFile(file + ".score", PythonJson(result["score"])));
        ++file_count;
      }
    }
    return file_count;
  }

  // {"result", "score"}, or null when nothing was answered.
  absl::StatusOr<Json> Result(int64_t job_id, const Variant& variant, const TaskSpec& task, int64_t seed,
                              const helmet::TaskIndex& index, int length, const JsonRowFile& rows,
                              const helmet::Template& prefix, const std::string& folder, Console& console) {
    std::map<int64_t, db::SampleDetail> details;
    db::SampleQuery query;
    query.job_id = job_id;
    query.variant = variant.Name();
    query.task = task.name;
    query.context_length = length;
    for (;;) {
      ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> page, reader_->Samples(query));
      for (const db::SampleDetail& detail : page) details[detail.sample.sample_index] = detail;
      if (std::ssize(page) < query.limit) break;
      query.after_id = page.back().generation_id;
    }
    Json data = Json::array(), lists = Json::object(), alce_lists = Json::object();
    int64_t skipped_count = 0, time_us = 0;
    for (const auto& [sample_index, detail] : details) {
      if (!detail.generation.answer_raw.has_value() || static_cast<size_t>(sample_index) >= rows.places().size()) {
        ++skipped_count;
        continue;
      }
      ASSIGN_OR_RETURN(const Json object, rows.Read(sample_index));
      ASSIGN_OR_RETURN(const helmet::ImportedRow row,
                       Annotate(helmet::RowFromJson(object), rows.PlaceOf(sample_index)));
      std::string output(BeforeStop(*detail.generation.answer_raw, index.stop_strings));
      if (!task.chat) {
        ASSIGN_OR_RETURN(const std::string before, prefix.Render(row.values));
        output = before + output;
      }
      ASSIGN_OR_RETURN(UpstreamScores scores,
                       Annotate(ScoreAsUpstream(index, row, output), rows.PlaceOf(sample_index)));
      scores.metrics["input_len"] = detail.sample.prompt_token_count.value_or(0);
      scores.metrics["output_len"] = detail.generation.new_token_count;
      Json item = row.item;
      item.erase("first_ctx_count");
      item["output"] = output;
      item["parsed_output"] = scores.parsed_output;
      if (detail.sample.token_ids_sha256.has_value()) item["token_ids_sha256"] = *detail.sample.token_ids_sha256;
      ASSIGN_OR_RETURN(const std::optional<std::string> input_text, prompt_ends_->Of(task, seed, detail.sample));
      if (input_text.has_value()) item["input_text"] = *input_text;
      missing_text_count_ += !input_text.has_value();
      for (const auto& [name, value] : scores.metrics.items()) {
        item[name] = value;
        lists[name].push_back(value);
      }
      for (const auto& [name, value] : scores.alce.items()) alce_lists[name].push_back(value);
      time_us += detail.generation.prefill_us + detail.generation.decode_us;
      data.push_back(std::move(item));
    }
    if (skipped_count > 0) {
      console.err << "varifocal: " << task.name << " at " << length << ", " << variant.Name() << ": " << skipped_count
                  << Plural(skipped_count, " question without an answer was", " questions without an answer were")
                  << " left out, as upstream leaves them out.\n";
    }
    if (data.empty()) return Json();
    const Json averaged = Averages(lists, [](const std::string& name) { return absl::StrContains(name, "_len"); });
    Json score = averaged;
    if (!alce_lists.empty()) {
      score = Averages(alce_lists, [](const std::string& name) { return name == "length" || name == "num_preds"; });
      for (const char* name : {"str_em", "str_hit"}) score.emplace(name, 0);  // upstream's value for: no short answers
    }
    const helmet::LengthEntry& entry = index.lengths.at(length);
    // The arguments of upstream's program; see its arguments.py.
    const Json args = {{"config", nullptr},
                       {"tag", tag_},
                       {"model_name_or_path", variant.Name()},
                       {"use_vllm", false},
                       {"use_sglang", false},
                       {"use_tgi_or_vllm_serving", false},
                       {"endpoint_url", "http://localhost:8080/v1/"},
                       {"datasets", entry.dataset},
                       {"demo_files", entry.demo_file},
                       {"test_files", entry.test_file},
                       {"output_dir", folder},
                       {"overwrite", false},
                       {"max_test_samples", index.settings["max_test_samples"]},
                       {"num_workers", 0},
                       {"popularity_threshold", 3},
                       {"shots", index.settings["shots"]},
                       {"input_max_length", length},
                       {"do_sample", false},
                       {"generation_max_length", entry.max_new_tokens},
                       {"generation_min_length", 0},
                       {"temperature", 0.0},
                       {"top_p", 1.0},
                       {"stop_newline", !index.stop_strings.empty()},
                       {"system_message", OrNull(index.system_message)},
                       {"seed", index.settings["seed"]},
                       {"no_cuda", true},
                       {"no_bf16", true},
                       {"no_torch_compile", true},
                       {"use_chat_template", task.chat},
                       {"rope_theta", nullptr},
                       {"thinking", false},
                       {"debug", false},
                       {"count_tokens", false}};
    // Not upstream's: lets `varifocal import --judgments` match the answers.
    const Json ours = {{"job", job_id}, {"variant", variant.Name()}, {"task", task.name}, {"context_length", length}};
    const double seconds = time_us * 1e-6;
    return Json{{"result",
                 {{"args", args},
                  {"varifocal", ours},
                  {"data", data},
                  {"metrics", lists},
                  {"averaged_metrics", averaged},
                  {"throughput", seconds > 0 ? data.size() / seconds : 0.0}}},
                {"score", score}};
  }

  std::unique_ptr<db::Reader> reader_;
  std::string db_, out_, job_, tag_ = "eval";
  std::vector<std::string> tokenizers_;
  TokenizerFlags tokenizer_flags_;
  PromptEnds* prompt_ends_ = nullptr;
  int64_t missing_text_count_ = 0;
};

}  // namespace

constinit const Verb kExportVerb = {
    .name = "export",
    .group = "Results",
    .summary = "a job's answers in HELMET's result files",
    .about =
        R"(For a job whose tasks were imported from HELMET: one JSON file and one .score file for each variant, task and
length, with upstream's names and fields, so that its collect_results and its judges' scripts read them. The measures
are recomputed from the stored answers. Measures that need another model are omitted: judges, citations, and the
ROUGE of ALCE's scorer, which needs a sentence splitter.)",
    .examples = "varifocal export --format=helmet --db=results.db --out=output --tag=v1",
    .formats = "helmet",
    .make = &Make<ExportResults>,
};

}  // namespace varifocal::client
