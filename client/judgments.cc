#include "client/judgments.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/jobs.h"
#include "db/judgments.h"
#include "db/reader.h"
#include "db/writer.h"
#include "eval_tasks/text_bytes.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "wire/message_limits.h"
#include "wire/resource_names.h"

namespace varifocal::client {
namespace {

using db::CheckPromptDigest;
using db::Judgment;

struct JudgmentFile {
  db::Judgments judgments;
  int64_t unscored_count = 0;
  std::vector<std::string> left_out;
};

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
    ASSIGN_OR_RETURN(judgment.sample_index, FindInt(line, "sample_index"));
    const auto scores = line.find("scores");
    if (scores == line.end() || !scores->is_object() || scores->empty()) {
      return InvalidArgument("\"scores\" must be an object of numbers by name, such as {\"correct\": 1}");
    }
    for (const auto& [name, value] : scores->items()) {
      RETURN_IF_ERROR(db::CheckScoreName(name));
      if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > score_max) {
        return InvalidArgument("the score \"", name, "\" is ",
                               value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80),
                               "; it must be a number from 0 to ", score_max);
      }
      judgment.scores[name] = value.get<double>() / score_max;
    }
    ASSIGN_OR_RETURN(const std::string text, DumpJson(line));
    hash.Update(text + "\n");
    file.judgments.judgments.push_back(std::move(judgment));
    return absl::OkStatus();
  }));
  file.judgments.source_sha256 = ToHex(hash.Finish());
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
  ASSIGN_OR_RETURN(const Json parsed, Annotate(ParseJson(bytes), path));
  if (!parsed.is_object() || !parsed.contains("data") || !parsed["data"].is_array()) {
    return InvalidArgument(path,
                           ": is no result file of HELMET's, which has a list \"data\"; JSON lines end in .jsonl.");
  }
  JudgmentFile file;
  file.judgments.source_sha256 = Sha256Hex(bytes);
  const Json ours = parsed.value("varifocal", Json::object());
  const auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(file.judgments.job_id, FindInt(ours, "job"));
    ASSIGN_OR_RETURN(const std::optional<std::string> variant, FindString(ours, "variant"));
    ASSIGN_OR_RETURN(const std::optional<std::string> task, FindString(ours, "task"));
    ASSIGN_OR_RETURN(const std::optional<int64_t> context_length, FindInt(ours, "context_length"));
    int64_t index = 0;
    for (const Json& item : parsed["data"]) {
      Judgment judgment{.place = absl::StrCat(path, ": data[", index++, "]"),
                        .variant = variant,
                        .task = task,
                        .context_length = context_length};
      if (!item.is_object() || !item.contains("gpt-4-scores") || item["gpt-4-scores"].is_null()) {
        ++file.unscored_count;
        continue;
      }
      const absl::StatusOr<std::string> digest = GetString(item, "token_ids_sha256");
      if (!digest.ok()) {
        return InvalidArgument(judgment.place,
                               " has no \"token_ids_sha256\": judge a file that `varifocal export` wrote.");
      }
      judgment.token_ids_sha256 = *digest;
      RETURN_IF_ERROR(Annotate(CheckPromptDigest(*digest), judgment.place));
      ASSIGN_OR_RETURN(auto scores,
                       Annotate(ScoresOfItem(item["gpt-4-scores"]), absl::StrCat(judgment.place, ": gpt-4-scores")));
      for (const auto& [name, value] : scores) {
        if (value >= 0 && value <= 1) {
          judgment.scores[name] = value;
        } else {  // judges may count key points that do not exist
          file.left_out.push_back(
              absl::StrCat(judgment.place, ": ", name, " is ", value, ", which is not from 0 to 1, and was left out."));
        }
      }
      file.judgments.judgments.push_back(std::move(judgment));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read());
  return file;
}

absl::StatusOr<std::vector<JudgmentFile>> ReadFiles(const JudgmentImport& import) {
  std::vector<JudgmentFile> files;
  const std::string import_id = FreshId();
  for (const std::string& path : import.paths) {
    const bool is_result_file = absl::EndsWith(path, ".json");
    ASSIGN_OR_RETURN(JudgmentFile file, is_result_file ? ReadResultFile(path) : ReadLines(path, import.score_max));
    if (file.judgments.judgments.empty()) return NotFound(path, ": has no judgments.");
    file.judgments.source = import.source.value_or(path);
    if (import.job_id.has_value()) file.judgments.job_id = import.job_id;
    file.judgments.variant = import.variant;
    file.judgments.import_id = import_id;
    files.push_back(std::move(file));
  }
  return files;
}

JudgmentResult ResultOf(const JudgmentFile& file) {
  JudgmentResult result;
  result.path = file.judgments.source;
  result.unscored_count = file.unscored_count;
  result.left_out = file.left_out;
  return result;
}

v1::ImportScoresRequest ToProto(const db::Judgments& judgments) {
  v1::ImportScoresRequest request;
  if (judgments.job_id.has_value()) request.set_job(JobResource(*judgments.job_id));
  request.set_source(judgments.source);
  request.set_source_sha256(judgments.source_sha256);
  request.set_import_id(judgments.import_id);
  for (const Judgment& judgment : judgments.judgments) {
    v1::Judgment& proto = *request.add_judgments();
    proto.set_token_ids_sha256(judgment.token_ids_sha256);
    proto.set_variant(judgments.variant.value_or(judgment.variant.value_or("")));
    proto.set_task(judgment.task.value_or(""));
    proto.set_context_length(judgment.context_length.value_or(0));
    if (judgment.sample_index.has_value()) proto.set_sample_index(*judgment.sample_index);
    proto.mutable_scores()->insert(judgment.scores.begin(), judgment.scores.end());
  }
  return request;
}

// Each within the limits of a call; one where all judgments fit.
std::vector<v1::ImportScoresRequest> PartsOf(v1::ImportScoresRequest whole) {
  google::protobuf::RepeatedPtrField<v1::Judgment> judgments;
  judgments.Swap(whole.mutable_judgments());
  const v1::ImportScoresRequest& head = whole;
  constexpr size_t kFramingBytes = 16;  // of a judgment in its list
  const size_t head_bytes = head.ByteSizeLong() + kFramingBytes;
  std::vector<v1::ImportScoresRequest> parts;
  size_t bytes = 0;
  int score_count = 0;
  for (v1::Judgment& judgment : judgments) {
    const size_t more_bytes = judgment.ByteSizeLong() + kFramingBytes;
    const int more_scores = judgment.scores_size();
    if (parts.empty() || bytes + more_bytes > size_t{kMessageBytesMax} ||
        score_count + more_scores > kImportedScoresMax) {
      parts.push_back(head);
      bytes = head_bytes;
      score_count = 0;
    }
    *parts.back().add_judgments() = std::move(judgment);
    bytes += more_bytes;
    score_count += more_scores;
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<JudgmentResult>> ImportJudgments(const JudgmentImport& import) {
  ASSIGN_OR_RETURN(const std::vector<JudgmentFile> files, ReadFiles(import));
  std::vector<db::JoinedJudgments> joined;
  std::vector<JudgmentResult> results;
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(import.database_path));
    for (const JudgmentFile& file : files) {
      ASSIGN_OR_RETURN(joined.emplace_back(), db::JoinJudgments(*reader, file.judgments));
      JudgmentResult& result = results.emplace_back(ResultOf(file));
      result.job_id = joined.back().job_id;
      result.value_count = joined.back().value_count;
      result.unknown_count = joined.back().unknown_count;
      result.metrics = joined.back().metrics;
    }
  }
  std::map<int64_t, std::vector<db::ScoreImport>> imports;
  for (db::JoinedJudgments& of_file : joined) {
    for (db::ScoreImport& one : of_file.imports) imports[of_file.job_id].push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Writer> writer, db::Writer::Open(import.database_path));
  for (const auto& [job_id, of_job] : imports) RETURN_IF_ERROR(writer->ImportScores(job_id, of_job));
  return results;
}

absl::StatusOr<std::vector<JudgmentResult>> SendJudgments(Daemon& daemon, const JudgmentImport& import) {
  ASSIGN_OR_RETURN(const std::vector<JudgmentFile> files, ReadFiles(import));
  std::vector<JudgmentResult> results;
  for (const JudgmentFile& file : files) {
    JudgmentResult& result = results.emplace_back(ResultOf(file));
    std::vector<v1::ImportScoresRequest> parts = PartsOf(ToProto(file.judgments));
    std::set<std::string> metrics;
    absl::Status nothing_known;
    for (v1::ImportScoresRequest& part : parts) {
      if (result.job_id != 0) part.set_job(JobResource(result.job_id));  // not a newer one meanwhile
      const absl::StatusOr<v1::ImportScoresResponse> response =
          Call(daemon.evaluation(), &v1::Evaluation::Stub::ImportScores, part);
      if (parts.size() > 1 && absl::IsNotFound(response.status())) {  // judgments of other answers only
        nothing_known = response.status();
        result.unknown_count += part.judgments_size();
        continue;
      }
      RETURN_IF_ERROR(response.status());
      ASSIGN_OR_RETURN(result.job_id, ParseJobResource(response->job(), "job"));
      result.value_count += response->value_count();
      result.unknown_count += response->unknown_count();
      metrics.insert(response->metrics().begin(), response->metrics().end());
    }
    if (metrics.empty()) return nothing_known;
    result.metrics.assign(metrics.begin(), metrics.end());
  }
  return results;
}

}  // namespace varifocal::client
