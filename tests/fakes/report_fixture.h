// A synthetic job for tests of the report: a database written through db::Writer with known answers, so that every
// sentence and number can be verified by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/clock.h"
#include "base/json.h"
#include "client/report/report.h"
#include "db/writer.h"
#include "tests/support/process.h"

namespace varifocal {

constexpr int64_t kTimeUs = 1'795'271'400'000'000;  // 2026-11-21 14:30 UTC

inline constexpr char kFocusConfig[] =
    R"({"focus_attention":{"bias":"calibrated","group_count":8,"regime":"frozen","top_k":2,)"
    R"("trained_context_length":512,"window":32}})";

inline std::string Hash(char c) { return std::string(64, c); }

using testing_support::ReadFile;

struct Made {
  int question_count = 48;                     // four to a context
  std::optional<int> answered_of_last_length;  // fewer than question_count: the job is interrupted
  bool has_failures = false;
  bool has_short_samples = false;  // none is longer than the models' training
  std::string answer;              // what wrong answers say
  std::vector<std::string> tasks = {"recall_kv", "rag_facts"};
  std::vector<std::string> variants = {"baseline", "sharp", "soft"};
  bool is_imported = false;
  std::vector<std::string> temperatures;       // the baseline's model at each of them, too
  std::vector<std::string> late_temperatures;  // likewise in its late layers alone
  bool has_evidence = false;                   // of question i at i % 4 quarters of the prompt
  bool has_groups = false;                     // "sharp" has learned groups; the baseline's model also runs with others
  // Two layers of two heads: half of layer 1's second head is on the evidence at 1K, less as the context grows, and the
  // less for "sharp".
  bool has_attention = false;
  int cut_count = 0;  // of the first answers of each cell: the limit on new tokens ended them
  std::string command_line = "varifocal run quick --model=models/baseline";
  std::string spec_json = R"({"seed":7,"suite":"quick"})";
  std::string failing_variant;                           // its answers fail
  int truncated_count = 0;                               // of the first prompts of each cell, by 2,251 tokens
  std::set<std::pair<std::string, int64_t>> unanswered;  // task and length
  int other_prompt_count = 0;                            // of the first questions, which are asked in other words
  int64_t prompt_tokens = 0;       // of even questions, odd ones have one more; the same prompts at every length
  bool has_empty_answers = false;  // the baseline's wrong answers to even questions at 8K, which "sharp" gains
  bool nothing_right = false;      // no answer of any variant
  bool has_mixed_answers = false;  // those are empty, refusals or cut in turn
  bool has_filters = false;        // right answers are taken out of longer texts; of wrong ones nothing is
  std::string thinking_state, thinking_raw;  // of wrong answers, which are nothing but this block
  std::string metric = "exact_match";
  bool has_bounds = true;  // else the metric is a log-likelihood: -1 for right answers, -2 to -1.5 for others
};

// Two candidates at 1K to 8K. "sharp" is right wherever the baseline is and, from 4K on, on every second question that
// the baseline misses; "soft" is the baseline's equal but for one question in either direction.
class ReportTest : public testing::Test {
 protected:
  static bool IsRight(const std::string& variant, int64_t length, int index) {
    const int hard = length >= 8192 ? 4 : length >= 4096 ? 3 : length >= 2048 ? 1 : 0;
    const bool baseline = (index * 7 + index / 4) % 10 >= hard * 2;
    if (variant == "sharp" && length >= 4096) return baseline || index % 2 == 0;
    if ((variant == "soft" || variant == "baseline@t=1.1") && index == 5) return !baseline;
    return baseline;
  }

  // As the runner stores it.
  static std::string Stored(const std::string& answer) { return std::string(absl::StripAsciiWhitespace(answer)); }

  // The plain job is written once and copied.
  void MakePlain() {
    static const std::string* const plain = [this] {
      Make({});
      return new std::string(ReadFile(path_));
    }();
    testing_support::WriteFile(path_, *plain);
  }

  void Make(const Made& made) {
    FakeClock clock(kTimeUs);
    auto writer = db::Writer::Open(path_, clock);
    ASSERT_TRUE(writer.ok()) << writer.status();
    db::NewJob job;
    job.suite = "quick";
    job.spec_json = made.spec_json;
    job.data_seed = 7;
    db::ModelRecord model;
    model.architecture = "llama";
    model.tokenizer_sha256 = Hash('7');
    model.dtype = "f32";
    model.context_length_max = 65536;
    model.trained_context_length = 4096;
    std::pair<const char*, const char*> models[] = {
        {"baseline", "{}"},
        {"sharp", R"({"focal_attention":{"mode":"constant","temperature":0.4}})"},
        {"soft", R"({"focal_attention":{"mode":"learned","tau_max":8.0,"tau_mean":"causal","tau_min":3.5}})"}};
    if (made.has_groups) models[1].second = kFocusConfig;
    if (made.is_imported) model.architecture = "imported";
    for (const auto& [name, attention] : models) {
      if (std::find(made.variants.begin(), made.variants.end(), name) == made.variants.end()) continue;
      model.name = name;
      model.attention_json = attention;
      model.weights_sha256 = Hash(name[0]);
      job.variants.push_back({name, model, std::nullopt});
      if (job.variants.size() == 3) job.variants.back().focal_temperature_json = "0.7";
    }
    for (const std::string& temperature : made.temperatures) {
      db::VariantRecord variant = job.variants.front();
      absl::StrAppend(&variant.name, "@t=", temperature);
      variant.focal_temperature_json = temperature;
      job.variants.push_back(variant);
    }
    for (const std::string& temperature : made.late_temperatures) {
      db::VariantRecord variant = job.variants.front();
      absl::StrAppend(&variant.name, "@late-t=", temperature);
      job.variants.push_back(variant);
    }
    if (made.has_groups) {
      db::VariantRecord variant = job.variants[1];
      variant.name = "sharp@focus-top-k=1";
      job.variants.push_back(variant);
    }
    const std::vector<int64_t> lengths = {1024, 2048, 4096, 8192};
    for (const std::string& task : made.tasks) {
      if (made.has_bounds) {
        job.metrics.push_back({task, made.metric, 0, true, 0.0, 1.0});
      } else {
        job.metrics.push_back({task, "log_score", 0, false, std::nullopt, std::nullopt});
      }
    }
    for (const auto& variant : job.variants) {
      for (const std::string& task : made.tasks) {
        for (int64_t length : lengths) job.cells.push_back({variant.name, task, length, made.question_count});
      }
    }
    const auto execution =
        (*writer)->AddExecution({"0.1.0+test", "cpu", "avx2", "A processor", "a-host", 2, made.command_line});
    const auto added = (*writer)->AddJob(job);
    ASSERT_TRUE(added.ok()) << added.status();
    const auto cells = (*writer)->Cells(added->job_id);
    std::vector<db::Outcome> outcomes;
    for (const db::CellRow& cell : *cells) {
      if (made.unanswered.contains({cell.cell.task, cell.cell.context_length})) continue;
      const bool is_last = cell.cell.context_length == 8192;
      const int count = is_last ? made.answered_of_last_length.value_or(made.question_count) : made.question_count;
      for (int index = 0; index < count; ++index) {
        db::Outcome outcome;
        outcome.cell_id = cell.cell_id;
        outcome.execution_id = *execution;
        db::SampleRecord& sample = outcome.sample;
        sample.task = cell.cell.task;
        sample.context_length = cell.cell.context_length;
        sample.sample_index = index;
        sample.tokenizer_sha256 = Hash('7');
        sample.question_id = absl::StrCat("q", index);
        sample.cluster = absl::StrCat(cell.cell.task, "/", index / 4);
        sample.token_ids_sha256 = Hash(index < made.other_prompt_count ? 'b' : 'a');
        sample.prompt_token_count = cell.cell.context_length - 16;
        if (made.prompt_tokens > 0) {
          sample.token_ids_sha256 = Hash(index % 2 == 0 ? 'e' : 'f');
          sample.prompt_token_count = made.prompt_tokens + index % 2;
        }
        sample.new_token_count_max = 8;
        if (made.has_evidence) {
          const double depth = (index % 4) / 4.0;
          sample.evidence_json =
              absl::StrCat("[{\"token_begin\":", static_cast<int64_t>(depth * *sample.prompt_token_count),
                           ",\"token_end\":", static_cast<int64_t>(depth * *sample.prompt_token_count) + 12, "}]");
        }
        if (index < made.truncated_count) sample.truncation_json = R"({"cut_token_count":2251,"gold_survived":true})";
        sample.gold_json = R"(["amber-17"])";
        sample.excerpt =
            "... \"harbor\":\"amber-17\", \"kettle\":\"stone-02\" <b>& more</b> ...\nThe value of harbor is";
        const bool right = !made.nothing_right && IsRight(cell.cell.variant, cell.cell.context_length, index);
        outcome.generation.finish_reason = index < made.cut_count ? "length" : "stop";
        outcome.generation.answer = outcome.generation.answer_raw = right                 ? "amber-17"
                                                                    : made.answer.empty() ? "stone-02"
                                                                                          : Stored(made.answer);
        outcome.generation.is_extrapolated = cell.cell.context_length > 4096 && !made.has_short_samples;
        if (made.has_groups && cell.cell.variant.starts_with("sharp")) {
          const bool is_first_task = cell.cell.task == made.tasks.front();
          outcome.generation.pairs_visible_share = (is_first_task ? 0.5 : 0.25) + (index % 2 == 0 ? 0.125 : -0.125);
          outcome.generation.largest_group_share = is_last ? 0.75 : 0.375;
        }
        if (made.has_empty_answers && cell.cell.variant == "baseline" && is_last && !right && index % 2 == 0)
          outcome.generation.answer = outcome.generation.answer_raw = "";
        if (made.has_mixed_answers && cell.cell.variant == "baseline" && is_last && !right && index % 2 == 0) {
          if (index % 3 == 0) outcome.generation.answer = outcome.generation.answer_raw = "";
          if (index % 3 == 1) outcome.generation.answer = outcome.generation.answer_raw = "I cannot answer";
          if (index % 3 == 2) outcome.generation.finish_reason = "length";
        }
        if (made.has_filters) {
          outcome.generation.answer_raw = right ? "It is in the harbor.\nAnswer: amber-17" : "It is stone-02, I think.";
          if (!right) outcome.generation.answer = "";
        }
        if (!right && !made.thinking_state.empty()) {
          outcome.generation.thinking_state = made.thinking_state;
          outcome.generation.answer_raw = made.thinking_raw;
          outcome.generation.answer = "";
        }
        if (made.has_bounds) {
          outcome.scores = {{made.metric, right ? 1.0 : 0.0}};
        } else {
          outcome.scores = {{"log_score", right ? -1.0 : -2.0 + 0.1 * (index / 4 % 6)}};
        }
        if ((made.has_failures && index == 3 && is_last && cell.cell.variant == "sharp") ||
            cell.cell.variant == made.failing_variant) {
          outcome.generation = {};
          outcome.generation.error_code = "RESOURCE_EXHAUSTED";
          outcome.generation.error_message = "8192 tokens need 12 pages, 3 are free";
          outcome.scores.clear();
        }
        if (made.has_attention) {
          const double length = cell.cell.context_length;
          const double mass = std::pow(1024 / length, cell.cell.variant == "sharp" ? 0.25 : 1.0);
          for (int head = 0; head < 4; ++head) {
            outcome.attention.push_back({.layer = head / 2,
                                         .head = head % 2,
                                         .scale = 0.125,
                                         .entropy = std::log(length / 8),
                                         .largest_weight = 0.25,
                                         .first_mass = 0.125,
                                         .evidence_mass = (head == 3 ? 0.5 : 0.0) * mass * (right ? 1 : 0.5),
                                         .distractor_mass = 0.25,
                                         .question_mass = std::nullopt,
                                         .strip = "ffef000080"});
          }
        }
        outcomes.push_back(std::move(outcome));
      }
    }
    const auto recorded = (*writer)->RecordSamples(outcomes);
    ASSERT_TRUE(recorded.ok()) << recorded.status();
  }

  std::string Render(ReportFormat format = ReportFormat::kHtml, const std::string& baseline = "",
                     const std::vector<std::string>& candidates = {}) {
    auto bytes = RenderReport({.database_path = path_,
                               .format = format,
                               .is_long = is_long_,
                               .baseline = baseline,
                               .candidates = candidates,
                               .effective_score = effective_score_,
                               .with_max_t = with_max_t_});
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    // The path differs from run to run; nothing else may.
    return bytes.ok() ? absl::StrReplaceAll(*bytes, {{path_, "results.db"}}) : "";
  }

  // The JSON rows of one kind of table: comparisons, or the scores of a variant alone.
  Json ComparisonRows(const std::string& baseline = "", const std::vector<std::string>& candidates = {}) {
    const auto all = ParseJson(Render(ReportFormat::kJson, baseline, candidates));
    EXPECT_TRUE(all.ok()) << all.status();
    const std::set<std::string> others = {"effective_length", "depth", "work", "verdict"};
    Json rows = Json::array();
    for (const Json& row : *all) {
      if (others.count(row.value("kind", "")) == 0) rows.push_back(row);
    }
    return rows;
  }

  // Those of one kind of a report as JSON.
  static std::vector<Json> RowsOf(const std::string& kind, const std::string& report) {
    const auto all = ParseJson(report);
    EXPECT_TRUE(all.ok()) << all.status();
    std::vector<Json> rows;
    for (const Json& row : *all) {
      if (row["kind"] == kind) rows.push_back(row);
    }
    return rows;
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("report_test.db");
  bool is_long_ = false, with_max_t_ = false;
  std::optional<double> effective_score_;
};

}  // namespace varifocal
