#include "db/judgments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal::db {
namespace {

constexpr size_t kNameBytesMax = 64;

struct Answer {
  int64_t generation_id = 0;
  std::string task;
  int64_t context_length = 0;
  int64_t sample_index = 0;
};
using AnswersByPrompt = std::multimap<std::string, Answer>;  // by the hash of the prompt

absl::StatusOr<AnswersByPrompt> AnswersOf(Reader& reader, int64_t job_id, const std::string& variant) {
  AnswersByPrompt answers;
  RETURN_IF_ERROR(reader.EachAnswer(job_id, variant, [&](AnswerRow row) {
    if (row.generation.error_code.empty() && row.sample.token_ids_sha256.has_value()) {
      answers.insert({*row.sample.token_ids_sha256,
                      {row.generation_id, row.sample.task, row.sample.context_length, row.sample.sample_index}});
    }
    return absl::OkStatus();
  }));
  return answers;
}

absl::StatusOr<std::string> VariantOf(const Judgments& all, const Judgment& judgment,
                                      const std::vector<VariantRecord>& variants) {
  const std::optional<std::string>& named = all.variant.has_value() ? all.variant : judgment.variant;
  const auto list = [&] {
    return absl::StrJoin(variants, ", ", [](std::string* out, const auto& v) { out->append(v.name); });
  };
  if (!named.has_value()) {
    if (variants.size() == 1) return variants[0].name;
    return InvalidArgument(judgment.place, ": the judgment names no variant, and the job has ", list(),
                           "; add \"variant\", or give --variant.");
  }
  const bool is_known = std::any_of(variants.begin(), variants.end(), [&](const auto& v) { return v.name == *named; });
  if (is_known) return *named;
  return InvalidArgument(judgment.place, ": the job has no variant \"", *named, "\", only ", list(), ".");
}

}  // namespace

absl::Status CheckPromptDigest(const std::string& digest) {
  if (IsSha256Hex(digest)) return absl::OkStatus();
  return InvalidArgument("\"token_ids_sha256\" is \"", digest.substr(0, 80),
                         "\", not 64 lower-case hexadecimal digits");
}

absl::Status CheckScoreName(const std::string& name) {
  const bool is_good =
      !name.empty() && name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(c) || absl::StrContains("_-.@/", absl::string_view(&c, 1));
      });
  if (is_good) return absl::OkStatus();
  return InvalidArgument("a score is called \"", name.substr(0, kNameBytesMax), "\"; a name has 1 to ", kNameBytesMax,
                         " letters, digits, _, -, ., @ and /");
}

absl::StatusOr<JoinedJudgments> JoinJudgments(Reader& reader, const Judgments& judgments) {
  JoinedJudgments result;
  JobRow job;
  if (judgments.job_id.has_value()) {
    ASSIGN_OR_RETURN(job, reader.Job(*judgments.job_id));
  } else {
    ASSIGN_OR_RETURN(job, reader.LatestJob());
  }
  result.job_id = job.job_id;
  ASSIGN_OR_RETURN(const std::vector<VariantRecord> variants, reader.Variants(job.job_id));
  std::map<std::string, AnswersByPrompt> answers_of;                                // by variant
  std::map<std::pair<std::string, std::string>, std::map<int64_t, double>> values;  // by variant and metric
  for (const Judgment& judgment : judgments.judgments) {
    ASSIGN_OR_RETURN(const std::string variant, VariantOf(judgments, judgment, variants));
    const auto [answers, is_new] = answers_of.try_emplace(variant);
    if (is_new) {
      ASSIGN_OR_RETURN(answers->second, AnswersOf(reader, job.job_id, variant));
    }
    bool is_known = false;
    const auto [begin, end] = answers->second.equal_range(judgment.token_ids_sha256);
    for (auto answer = begin; answer != end; ++answer) {
      const auto& [generation_id, task, context_length, sample_index] = answer->second;
      if (judgment.task.has_value() && *judgment.task != task) continue;
      if (judgment.context_length.has_value() && *judgment.context_length != context_length) continue;
      if (judgment.sample_index.has_value() && *judgment.sample_index != sample_index) continue;
      is_known = true;
      for (const auto& [name, value] : judgment.scores) {
        const auto [earlier, is_first] = values[{variant, kImportedPrefix + name}].emplace(generation_id, value);
        if (!is_first && earlier->second != value) {
          return InvalidArgument(judgment.place, ": this answer of ", variant, " has another score \"", name,
                                 "\" already.");
        }
      }
    }
    result.unknown_count += !is_known;
  }
  std::set<std::string> metrics;
  for (const auto& [key, of_metric] : values) {
    ScoreImport import{key.first, key.second, judgments.source, judgments.source_sha256, {}, judgments.import_id};
    for (const auto& [generation_id, value] : of_metric) import.values.push_back({generation_id, value});
    result.value_count += std::ssize(import.values);
    metrics.insert(key.second);
    result.imports.push_back(std::move(import));
  }
  if (metrics.empty()) {
    const int64_t count = std::ssize(judgments.judgments);
    return NotFound(judgments.source, ": ", count == 1 ? "its " : "none of its ", count,
                    Plural(count, " judgment belongs to no answer", " judgments belongs to an answer"), " in job ",
                    job.job_id, ".");
  }
  result.metrics.assign(metrics.begin(), metrics.end());
  return result;
}

}  // namespace varifocal::db
