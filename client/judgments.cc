#include "client/judgments.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "db/reader.h"
#include "db/writer.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal::client {
namespace {

constexpr size_t kNameBytesMax = 64;

struct Judgment {
  std::string place;  // for errors: file and line, or file and item
  std::string token_ids_sha256;
  std::optional<std::string> variant, task;
  std::optional<int64_t> context_length;
  std::map<std::string, double> scores;  // as stored, from 0 to 1
};

struct JudgmentFile {
  std::optional<int64_t> job_id;
  std::vector<Judgment> judgments;
  std::string sha256;
  int64_t unscored_count = 0;
  std::vector<std::string> left_out;
};

absl::Status CheckMetricName(const std::string& name) {
  const bool is_good =
      !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || absl::StrContains("_-.@/", absl::string_view(&c, 1));
      });
  if (is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a score is called \"", name.substr(0, kNameBytesMax),
                                                 "\"; a name has 1 to ", kNameBytesMax,
                                                 " letters, digits, _, -, ., @ and /"));
}

absl::StatusOr<JudgmentFile> ReadLines(const std::string& path, double score_max) {
  JudgmentFile file;
  Sha256Stream hash;
  RETURN_IF_ERROR(ForEachJsonLine(path, [&](int64_t line_number, const Json& line) -> absl::Status {
    Judgment judgment;
    judgment.place = absl::StrCat(path, ":", line_number);
    ASSIGN_OR_RETURN(judgment.token_ids_sha256, GetString(line, "token_ids_sha256"));
    RETURN_IF_ERROR(CheckPromptDigest(judgment.token_ids_sha256));
    ASSIGN_OR_RETURN(judgment.variant, FindString(line, "variant"));
    ASSIGN_OR_RETURN(judgment.task, FindString(line, "task"));
    ASSIGN_OR_RETURN(judgment.context_length, FindInt(line, "context_length"));
    const auto scores = line.find("scores");
    if (scores == line.end() || !scores->is_object() || scores->empty()) {
      return absl::InvalidArgumentError("\"scores\" must be an object of numbers by name, such as {\"correct\": 1}");
    }
    for (const auto& [name, value] : scores->items()) {
      RETURN_IF_ERROR(CheckMetricName(name));
      if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > score_max) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the score \"", name, "\" is ", value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80),
            "; it must be a number from 0 to ", score_max));
      }
      judgment.scores[name] = value.get<double>() / score_max;
    }
    ASSIGN_OR_RETURN(const std::string text, DumpJson(line));
    hash.Update(text + "\n");
    file.judgments.push_back(std::move(judgment));
    return absl::OkStatus();
  }));
  file.sha256 = ToHex(hash.Finish());
  return file;
}

// The fields that upstream's judging scripts add to an item of "data".
absl::StatusOr<std::map<std::string, double>> ScoresOfItem(const Json& given) {
  std::map<std::string, double> scores;
  if (given.contains("correctness")) {
    ASSIGN_OR_RETURN(const double fluency, GetDouble(given, "fluency"));
    ASSIGN_OR_RETURN(const double correctness, GetDouble(given, "correctness"));
    scores["gpt-4-score"] = fluency * correctness / 3;
    return scores;
  }
  for (const char* name : {"f1", "recall", "precision", "fluency"}) {
    ASSIGN_OR_RETURN(scores[absl::StrCat("gpt-4-", name)], GetDouble(given, name));
  }
  return scores;
}

absl::StatusOr<JudgmentFile> ReadResultFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  RETURN_IF_ERROR(CheckBeginsText(path, bytes));
  const absl::StatusOr<Json> parsed = ParseJson(bytes);
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  if (!parsed->is_object() || !parsed->contains("data") || !(*parsed)["data"].is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no result file of HELMET's, which has a list \"data\"; JSON lines end in .jsonl."));
  }
  JudgmentFile file;
  file.sha256 = Sha256Hex(bytes);
  const Json ours = parsed->value("varifocal", Json::object());
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(file.job_id, FindInt(ours, "job"));
    ASSIGN_OR_RETURN(const std::optional<std::string> variant, FindString(ours, "variant"));
    ASSIGN_OR_RETURN(const std::optional<std::string> task, FindString(ours, "task"));
    ASSIGN_OR_RETURN(const std::optional<int64_t> context_length, FindInt(ours, "context_length"));
    int64_t index = 0;
    for (const Json& item : (*parsed)["data"]) {
      Judgment judgment{absl::StrCat(path, ": data[", index++, "]"), "", variant, task, context_length, {}};
      if (!item.is_object() || !item.contains("gpt-4-scores") || item["gpt-4-scores"].is_null()) {
        ++file.unscored_count;
        continue;
      }
      const absl::StatusOr<std::string> digest = GetString(item, "token_ids_sha256");
      if (!digest.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(judgment.place, " has no \"token_ids_sha256\": judge a file that `varifocal export` wrote."));
      }
      judgment.token_ids_sha256 = *digest;
      RETURN_IF_ERROR(Annotate(CheckPromptDigest(*digest), judgment.place));
      auto scores = ScoresOfItem(item["gpt-4-scores"]);
      if (!scores.ok()) return Annotate(scores.status(), absl::StrCat(judgment.place, ": gpt-4-scores"));
      for (const auto& [name, value] : *scores) {
        if (value >= 0 && value <= 1) {
          judgment.scores[name] = value;
        } else {  // judges may count key points that do not exist
          file.left_out.push_back(
              absl::StrCat(judgment.place, ": ", name, " is ", value, ", which is not from 0 to 1, and was left out."));
        }
      }
      file.judgments.push_back(std::move(judgment));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read());
  return file;
}

struct Answer {
  int64_t generation_id = 0;
  std::string task;
  int64_t context_length = 0;
};

// Answers of a variant by the SHA-256 of their prompt's ids.
absl::StatusOr<std::multimap<std::string, Answer>> AnswersOf(db::Reader& reader, int64_t job_id,
                                                             const std::string& variant) {
  std::multimap<std::string, Answer> answers;
  db::SampleQuery query;
  query.job_id = job_id;
  query.variant = variant;
  for (;;) {
    ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> page, reader.Samples(query));
    for (const db::SampleDetail& detail : page) {
      if (!detail.generation.error_code.empty() || !detail.sample.token_ids_sha256.has_value()) continue;
      answers.insert(
          {*detail.sample.token_ids_sha256, {detail.generation_id, detail.sample.task, detail.sample.context_length}});
    }
    if (std::ssize(page) < query.limit) return answers;
    query.after_id = page.back().generation_id;
  }
}

class Importer {
 public:
  explicit Importer(const JudgmentImport& options) : options_(options) {}

  absl::StatusOr<std::vector<JudgmentResult>> Run() {
    std::vector<JudgmentFile> files;
    for (const std::string& path : options_.paths) {
      const bool is_result_file = absl::EndsWith(path, ".json");
      ASSIGN_OR_RETURN(JudgmentFile file, is_result_file ? ReadResultFile(path) : ReadLines(path, options_.score_max));
      if (file.judgments.empty()) return absl::NotFoundError(absl::StrCat(path, ": has no judgments."));
      files.push_back(std::move(file));
    }
    ASSIGN_OR_RETURN(reader_, db::Reader::Open(options_.database_path));
    std::map<int64_t, std::vector<db::ScoreImport>> imports;
    std::vector<JudgmentResult> results;
    for (size_t i = 0; i < files.size(); ++i) {
      ASSIGN_OR_RETURN(JudgmentResult result, Join(options_.paths[i], files[i], imports));
      results.push_back(std::move(result));
    }
    reader_.reset();
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Writer> writer, db::Writer::Open(options_.database_path));
    for (const auto& [job_id, of_job] : imports) RETURN_IF_ERROR(writer->ImportScores(job_id, of_job));
    return results;
  }

 private:
  absl::StatusOr<std::string> VariantOf(const Judgment& judgment,
                                        const std::vector<db::VariantRecord>& variants) const {
    const std::optional<std::string>& named = options_.variant.has_value() ? options_.variant : judgment.variant;
    const auto list = [&] {
      return absl::StrJoin(variants, ", ", [](std::string* out, const auto& v) { out->append(v.name); });
    };
    if (!named.has_value()) {
      if (variants.size() == 1) return variants[0].name;
      return absl::InvalidArgumentError(absl::StrCat(judgment.place,
                                                     ": the judgment names no variant, and the job has ", list(),
                                                     "; add \"variant\", or give --variant."));
    }
    const bool is_known =
        std::any_of(variants.begin(), variants.end(), [&](const auto& v) { return v.name == *named; });
    if (is_known) return *named;
    return absl::InvalidArgumentError(
        absl::StrCat(judgment.place, ": the job has no variant \"", *named, "\", only ", list(), "."));
  }

  absl::StatusOr<JudgmentResult> Join(const std::string& path, const JudgmentFile& file,
                                      std::map<int64_t, std::vector<db::ScoreImport>>& imports) {
    JudgmentResult result;
    result.path = path;
    result.unscored_count = file.unscored_count;
    result.left_out = file.left_out;
    const std::optional<int64_t> named = options_.job_id.has_value() ? options_.job_id : file.job_id;
    db::JobRow job;
    if (named.has_value()) {
      ASSIGN_OR_RETURN(job, reader_->Job(*named));
    } else {
      ASSIGN_OR_RETURN(job, reader_->LatestJob());
    }
    result.job_id = job.job_id;
    ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader_->Variants(job.job_id));
    std::map<std::pair<std::string, std::string>, std::map<int64_t, double>> values;  // by variant and metric
    for (const Judgment& judgment : file.judgments) {
      ASSIGN_OR_RETURN(const std::string variant, VariantOf(judgment, variants));
      const auto [answers, is_new] = answers_.try_emplace({job.job_id, variant});
      if (is_new) {
        ASSIGN_OR_RETURN(answers->second, AnswersOf(*reader_, job.job_id, variant));
      }
      bool is_known = false;
      const auto [begin, end] = answers->second.equal_range(judgment.token_ids_sha256);
      for (auto answer = begin; answer != end; ++answer) {
        if (judgment.task.has_value() && *judgment.task != answer->second.task) continue;
        if (judgment.context_length.has_value() && *judgment.context_length != answer->second.context_length) continue;
        is_known = true;
        for (const auto& [name, value] : judgment.scores) {
          const auto [earlier, is_first] =
              values[{variant, db::kImportedPrefix + name}].emplace(answer->second.generation_id, value);
          if (!is_first && earlier->second != value) {
            return absl::InvalidArgumentError(absl::StrCat(judgment.place, ": this answer of ", variant,
                                                           " has another score \"", name, "\" already."));
          }
        }
      }
      result.unknown_count += !is_known;
    }
    std::set<std::string> metrics;
    for (const auto& [key, of_metric] : values) {
      db::ScoreImport import{key.first, key.second, options_.source.value_or(path), file.sha256, {}};
      for (const auto& [generation_id, value] : of_metric) import.values.push_back({generation_id, value});
      result.value_count += std::ssize(import.values);
      metrics.insert(key.second);
      imports[job.job_id].push_back(std::move(import));
    }
    if (metrics.empty()) {
      const int64_t count = std::ssize(file.judgments);
      return absl::NotFoundError(
          absl::StrCat(path, ": ", count == 1 ? "its " : "none of its ", count,
                       Plural(count, " judgment belongs to no answer", " judgments belongs to an answer"), " in job ",
                       job.job_id, "."));
    }
    result.metrics.assign(metrics.begin(), metrics.end());
    return result;
  }

  const JudgmentImport& options_;
  std::unique_ptr<db::Reader> reader_;
  std::map<std::pair<int64_t, std::string>, std::multimap<std::string, Answer>> answers_;  // by job and variant
};

}  // namespace

absl::Status CheckPromptDigest(const std::string& digest) {
  if (IsSha256Hex(digest)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"token_ids_sha256\" is \"", digest.substr(0, 80), "\", not 64 lower-case hexadecimal digits"));
}

absl::StatusOr<std::vector<JudgmentResult>> ImportJudgments(const JudgmentImport& import) {
  return Importer(import).Run();
}

}  // namespace varifocal::client
