// The sentences of verdicts against the numbers beside them, for random jobs: with failures, empty and cut answers, prompts
// that reach their length, partly or not, or are the same at all, ties, one context, values without bounds, and missing
// answers. Seeded; each job is written through db::Writer and read back as the JSON of a report.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/random.h"
#include "base/sha256.h"
#include "tests/fakes/report_fixture.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal {
namespace {

constexpr int kJobCount = 48;
constexpr int64_t kNewTokens = 8;

enum class Prompts { kFilled, kPartial, kSame, kShort };

struct RandomTask {
  std::string name;
  bool is_bounded = true;
  Prompts prompts = Prompts::kFilled;
};

class VerdictPropertyTest : public ReportTest {
 protected:
  // Writes the job of this number; its shape depends on the number alone.
  void WriteJob(int number) {
    Random random(absl::StrCat("verdicts ", number));
    const auto one_of = [&](int64_t count) { return static_cast<int64_t>(random.Below(count)); };
    path_ = directory_.File(absl::StrCat(number, ".db"));
    FakeClock clock(kTimeUs);
    ASSIGN_OR_FAIL(auto writer, db::Writer::Open(path_, clock));
    std::vector<int64_t> lengths = {1024, 2048, 4096, 8192};
    lengths.resize(1 + one_of(4));
    std::vector<RandomTask> tasks;
    const int64_t task_count = 1 + one_of(3);
    const bool all_unbounded = one_of(8) == 0;
    for (int64_t t = 0; t < task_count; ++t) {
      const Prompts prompts = one_of(2) == 0 ? Prompts::kFilled : static_cast<Prompts>(one_of(4));
      tasks.push_back({absl::StrCat("task", t), !all_unbounded && one_of(6) > 0, prompts});
    }
    const int64_t context_count = one_of(6) == 0 ? 1 + one_of(3) : 4 + one_of(20), context_size = 1 + one_of(4);
    const int64_t question_count = context_count * context_size;
    const double failing = one_of(3) == 0 ? 0.15 * random.Uniform() : 0, empty = one_of(2) == 0 ? random.Uniform() : 0;
    const double cut = one_of(3) == 0 ? random.Uniform() : 0;
    const bool is_unfinished = one_of(6) == 0, is_tied = one_of(6) == 0;
    const double right = random.Uniform(), gain = 0.6 * (random.Uniform() - 0.5);

    db::NewJob job;
    job.suite = "quick";
    job.spec_json = "{}";
    std::vector<std::string> variants = {"baseline", "focal"};
    if (one_of(3) == 0) variants.push_back("other");
    for (const std::string& name : variants) {
      job.variants.push_back({name, {name, "llama", Sha256Hex(name), Hash('7'), "f32", "{}", 65536, 65536}, {}});
      for (const RandomTask& task : tasks) {
        for (int64_t length : lengths) job.cells.push_back({name, task.name, length, question_count});
      }
    }
    for (const RandomTask& task : tasks) {
      if (task.is_bounded) {
        job.metrics.push_back({task.name, "exact_match", 0, true, 0.0, 1.0});
      } else {
        job.metrics.push_back({task.name, "log_score", 0, false, std::nullopt, std::nullopt});
      }
    }
    const auto execution = writer->AddExecution({"0.1.0+test", "cpu", "avx2", "A processor", "a-host", 2, "run"});
    ASSIGN_OR_FAIL(const auto added, writer->AddJob(job));
    std::vector<db::Outcome> outcomes;
    const auto cells = writer->Cells(added.job_id);
    for (const db::CellRow& cell : *cells) {
      const RandomTask& task = *std::find_if(tasks.begin(), tasks.end(),
                                             [&](const RandomTask& known) { return known.name == cell.cell.task; });
      const int64_t length = cell.cell.context_length;
      const bool is_last = length == lengths.back(), is_baseline = cell.cell.variant == "baseline";
      for (int64_t i = 0; i < (is_unfinished && is_last ? question_count / 2 : question_count); ++i) {
        db::Outcome& outcome = outcomes.emplace_back();
        outcome.cell_id = cell.cell_id;
        outcome.execution_id = *execution;
        db::SampleRecord& sample = outcome.sample;
        sample.task = task.name;
        sample.context_length = length;
        sample.sample_index = i;
        sample.tokenizer_sha256 = Hash('7');
        sample.question_id = absl::StrCat("q", i);
        sample.cluster = absl::StrCat("c", i / context_size);
        sample.new_token_count_max = kNewTokens;
        sample.gold_json = R"(["x"])";
        const bool is_same = task.prompts == Prompts::kSame || (task.prompts == Prompts::kPartial && length > 1024);
        sample.token_ids_sha256 = Sha256Hex(absl::StrCat(task.name, " ", i, " ", is_same ? 0 : length));
        const int64_t tokens[] = {length - kNewTokens, std::min<int64_t>(length, 1100 + i) - kNewTokens, 7 + i % 3,
                                  length / 5 + i % 7};
        sample.prompt_token_count = tokens[static_cast<int>(task.prompts)];
        if (random.Uniform() < failing * (is_baseline ? 0.5 : 1)) {
          outcome.generation.error_code = "RESOURCE_EXHAUSTED";
          outcome.generation.error_message = "no page is free";
          continue;
        }
        // The context has a share of its own in what is answered.
        Random context(absl::StrCat(number, task.name, i / context_size, is_same ? 0 : length));
        const double level =
            right + 0.4 * (context.Uniform() - 0.5) + (is_baseline ? 0 : gain * length / lengths.back());
        bool is_right = is_tied ? i % 2 == 0 : random.Uniform() < level;
        const bool is_empty = is_last && random.Uniform() < empty * (is_baseline ? 0.8 : 0.1);
        is_right &= !is_empty;
        outcome.generation.finish_reason = random.Uniform() < cut ? "length" : "stop";
        outcome.generation.answer = outcome.generation.answer_raw = is_empty ? "" : is_right ? "x" : "y";
        if (task.is_bounded) {
          outcome.scores = {{"exact_match", is_right ? 1.0 : 0.0}};
        } else {
          outcome.scores = {{"log_score", is_tied ? -2.0 : -12 + level + random.Uniform()}};
        }
      }
    }
    ASSERT_TRUE(writer->RecordSamples(outcomes).ok());
  }
};

bool IsComparisonRow(const Json& row) {
  static const std::set<std::string> kinds = {"cell", "suite_mean", "contrast", "slope"};
  return kinds.contains(row.value("kind", ""));
}

bool HasLabel(const Json& row, const std::string& label) {
  const std::vector<std::string> labels = absl::StrSplit(row["labels"].get<std::string>(), ' ');
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool IsDecided(const Json& row) { return row["outcome"] == "better" || row["outcome"] == "worse"; }

// `of` "" or "adjusted_".
bool ExcludesZero(const Json& row, const std::string& of = "") {
  return !row["low"].is_null() && (row[of + "low"].get<double>() > 0 || row[of + "high"].get<double>() < 0);
}

bool IsWithin(const Json& row, const std::string& of = "") {
  return !row["low"].is_null() && !row["margin"].is_null() &&
         row[of + "low"].get<double>() > -row["margin"].get<double>() &&
         row[of + "high"].get<double>() < row["margin"].get<double>();
}

void ExpectRowAgreesWithItself(const Json& row) {
  SCOPED_TRACE(row.dump());
  if (!row["p_value"].is_null()) {
    EXPECT_EQ(row["p_value"].get<double>() < 0.05, ExcludesZero(row));
    EXPECT_EQ(row["p_adjusted"].get<double>() < 0.05, ExcludesZero(row, "adjusted_"));
  }
  if (IsDecided(row)) {
    EXPECT_LT(row["p_adjusted"].get<double>(), 0.05);
    EXPECT_TRUE(ExcludesZero(row, "adjusted_"));
    EXPECT_EQ(row["outcome"] == "better", row["difference"].get<double>() > 0);
    EXPECT_FALSE(HasLabel(row, "few_differ"));
    EXPECT_FALSE(HasLabel(row, "failures"));
  } else if (!row["p_adjusted"].is_null() && row["p_adjusted"].get<double>() < 0.05 && row["unfinished"] == false) {
    EXPECT_TRUE(HasLabel(row, "few_differ") || HasLabel(row, "failures"));
  }
  if (row["outcome"] == "equivalent") {
    EXPECT_TRUE(IsWithin(row));
    EXPECT_LT(row["p_equivalence_adjusted"].get<double>(), 0.05);
  }
  EXPECT_EQ(row["within_margin"], IsDecided(row) && IsWithin(row, "adjusted_"));
  if (!row["low"].is_null() && row["margin"].is_null()) {
    EXPECT_FALSE(row["detectable_difference"].is_null());
  }
  for (const std::string kind : {"empty", "refused", "cut", "truncated", "several"}) {
    if (HasLabel(row, "rests_on_" + kind)) {
      EXPECT_NE(row["outcome_without_" + kind], row["outcome"]);
    }
  }
  if (!row["prompt_tokens_max"].is_null()) {
    const auto length = row["context_length"].get<int64_t>(), longest = row["prompt_tokens_max"].get<int64_t>();
    EXPECT_TRUE(length == longest || longest + kNewTokens >= 0.75 * length);
  }
}

std::string Plain(const std::string& text) { return absl::StrReplaceAll(text, {{"\u2212", "-"}, {"\u00A0", " "}}); }

std::vector<std::smatch> Matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::smatch> found;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), regex); at != std::sregex_iterator(); ++at)
    found.push_back(*at);
  return found;
}

double Number(const std::string& text) {
  double value = 0;
  EXPECT_TRUE(absl::SimpleAtod(absl::StrReplaceAll(text, {{",", ""}}), &value)) << text;
  return value;
}

bool IsShown(const Json& value, double scale, const std::string& text) {
  if (value.is_null()) return false;
  return std::abs(value.get<double>() * scale - Number(text)) <= (scale == 100 ? 0.0501 : 0.000501);
}

// Of one candidate's verdict.
void ExpectSentencesAgree(const std::string& candidate, const std::string& headline, const std::string& all,
                          const std::vector<Json>& rows, bool is_finished) {
  SCOPED_TRACE(all);
  std::vector<Json> own, suite;
  for (const Json& row : rows) {
    if (row["candidate"] != candidate) continue;
    own.push_back(row);
    if (row["kind"] == "suite_mean") suite.push_back(row);
  }
  const auto any = [&](const std::vector<Json>& of, const auto& is_such) {
    return std::any_of(of.begin(), of.end(), is_such);
  };
  const auto has_outcome = [&](const char* outcome) {
    return any(suite, [&](const Json& row) { return row["outcome"] == outcome; });
  };
  if (is_finished) {
    EXPECT_FALSE(absl::StrContains(headline, " yet"));
  }
  if (!suite.empty()) {
    EXPECT_EQ(absl::StrContains(headline, candidate + " is better"), has_outcome("better"));
    EXPECT_EQ(absl::StrContains(headline, " is worse") || absl::StrContains(headline, "but worse"),
              has_outcome("worse"));
    if (absl::StrContains(headline, " equivalent to ")) {
      EXPECT_FALSE(any(suite, [](const Json& row) {
        return row["unfinished"] == false && !row["low"].is_null() && row["outcome"] != "equivalent";
      }));
    }
    // A failed answer is named wherever there is a verdict.
    const bool has_failed_verdict = any(suite, [](const Json& row) {
      return row["unfinished"] == false && !row["low"].is_null() && row["failed_count"].get<int64_t>() > 0;
    });
    if (has_failed_verdict) {
      EXPECT_TRUE(absl::StrContains(all, "failed"));
    }
  }
  // Lengths: of rows that reach them.
  for (const std::smatch& match : Matches(all, R"(\b(\d+)K\b)")) {
    const double length = 1024 * Number(match[1]);
    EXPECT_TRUE(any(own, [&](const Json& row) {
      return row["context_length"] == length || row["short_length"] == length;
    })) << match[0];
  }
  for (const std::smatch& match : Matches(all, R"((\d[\d,]*) prompt tokens)")) {
    EXPECT_TRUE(any(own, [&](const Json& row) {
      return row["prompt_tokens_max"] == Number(match[1]) || row["short_length"] == Number(match[1]) ||
             row["context_length"] == Number(match[1]);
    })) << match[0];
  }
  // Numbers: of some row. Points of a share have one digit, other values three.
  for (const std::smatch& match : Matches(all, R"(interval ([+-]?[\d.]+) to ([+-]?[\d.]+))")) {
    const double scale = match[1].str().size() - match[1].str().find('.') > 3 ? 1 : 100;
    EXPECT_TRUE(any(own, [&](const Json& row) {
      return IsShown(row["adjusted_low"], scale, match[1]) && IsShown(row["adjusted_high"], scale, match[2]);
    })) << match[0];
  }
  for (const std::smatch& match : Matches(all, R"(\(([+-][\d.]+) points)")) {
    EXPECT_TRUE(any(own, [&](const Json& row) { return IsShown(row["difference"], 100, match[1]); })) << match[0];
  }
  // Counts.
  for (const std::smatch& match : Matches(all, R"((\d+) of (\d+) answers of (\w+))")) {
    const std::string side = match[3] == "baseline" ? "baseline" : "candidate";
    const std::string key = side + "_failed_count";
    double all_cells = 0;  // which a headline without a mean over tasks counts
    for (const Json& row : own) {
      if (suite.empty() && row["kind"] == "cell" && row["is_primary_metric"] == true)
        all_cells += row[key].get<double>();
    }
    EXPECT_TRUE(all_cells == Number(match[1]) ||
                any(suite.empty() ? own : suite, [&](const Json& row) { return row[key] == Number(match[1]); }))
        << match[0];
  }
  for (const std::smatch& match : Matches(all, R"(empty answers \((\d+) of (\d+) of (\w+))")) {
    const std::string side = match[3] == "baseline" ? "baseline" : "candidate";
    EXPECT_TRUE(any(suite, [&](const Json& row) {
      return row[side + "_empty_count"] == Number(match[1]) && HasLabel(row, "rests_on_empty");
    })) << match[0];
  }
  // The interval of what is undecided contains zero, but where only few contexts differ.
  if (absl::StrContains(headline, "Undecided whether") && !absl::StrContains(headline, "failed answers")) {
    for (const std::smatch& match : Matches(headline, R"(interval ([+-]?[\d.]+) to ([+-]?[\d.]+))")) {
      if (Number(match[1]) <= 0 && Number(match[2]) >= 0) continue;
      EXPECT_TRUE(any(suite, [](const Json& row) { return HasLabel(row, "few_differ"); }));
    }
  }
  // Two ends and what is between them.
  for (const Json& change : own) {
    if (change["kind"] != "contrast" || !change["task"].is_null() || change["unfinished"] == true) continue;
    if (!absl::StrContains(all, "The difference moves")) continue;
    const double at_short = change["short_difference"], at_long = at_short + change["difference"].get<double>();
    for (const Json& row : suite) {
      const bool is_between =
          row["context_length"] > change["short_length"] && row["context_length"] < change["context_length"];
      const bool is_outside = row["difference"].get<double>() < std::min(at_short, at_long) - 1e-9 ||
                              row["difference"].get<double>() > std::max(at_short, at_long) + 1e-9;
      if (is_between && IsDecided(row) && is_outside) {
        EXPECT_TRUE(absl::StrContains(all, "not steadily"));
      }
    }
  }
}

TEST_F(VerdictPropertyTest, SentencesAgreeWithTheirNumbers) {
  std::map<std::string, int> seen;
  for (int number = 0; number < kJobCount; ++number) {
    SCOPED_TRACE(absl::StrCat("job ", number));
    WriteJob(number);
    if (HasFatalFailure()) return;
    ASSIGN_OR_FAIL(const auto all, ParseJson(Render(ReportFormat::kJson)));
    std::vector<Json> rows, verdicts;
    bool is_finished = true;
    for (const Json& row : all) {
      if (row.value("kind", "") == "verdict") verdicts.push_back(row);
      if (!IsComparisonRow(row)) continue;
      ExpectRowAgreesWithItself(row);
      is_finished &= row["unfinished"] == false;
      rows.push_back(row);
      ++seen[absl::StrCat(row["outcome"].get<std::string>(), row["within_margin"] == true ? ", within" : "")];
      for (const char* label : {"failures", "few_differ", "rests_on_empty"}) seen[label] += HasLabel(row, label);
    }
    std::set<std::string> candidates;
    for (const Json& row : rows) candidates.insert(row["candidate"].get<std::string>());
    // Holm counts each test once: the rows of a finished job.
    if (is_finished) {
      int64_t suite_count = 0;
      for (const Json& row : rows) suite_count += row["kind"] == "suite_mean";
      for (const Json& row : rows) {
        if (row["kind"] == "suite_mean") {
          EXPECT_EQ(row["test_count"], suite_count);
        }
      }
    }
    for (const Json& verdict : verdicts) {
      const std::string headline = Plain(verdict["headline"].get<std::string>());
      std::string sentences = headline;
      for (const Json& detail : verdict["details"]) absl::StrAppend(&sentences, "\n", Plain(detail.get<std::string>()));
      for (const std::string& candidate : candidates) {
        const std::set<std::string> words = absl::StrSplit(headline, ' ');
        if (words.contains(candidate)) ExpectSentencesAgree(candidate, headline, sentences, rows, is_finished);
      }
      seen["unreached"] += absl::StrContains(headline, "prompt tokens");
      seen["rests"] += absl::StrContains(headline, "rests on");
      seen["without bounds"] += absl::StrContains(headline, "no mean");
    }
  }
  for (const char* kind : {"better", "worse", "undecided", "failures", "few_differ", "rests_on_empty", "unreached",
                           "rests", "without bounds"}) {
    EXPECT_GT(seen[kind], 0) << "the jobs do not contain: " << kind;
  }
}

}  // namespace
}  // namespace varifocal
