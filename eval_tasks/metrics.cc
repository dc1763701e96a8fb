// The table of metrics. Adding one is a function in metrics/ and a row here.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval_tasks/helmet/score.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/choice_metrics.h"
#include "eval_tasks/metrics/gold_metrics.h"
#include "eval_tasks/metrics/text_metrics.h"
#include "eval_tasks/ruler/score.h"

namespace varifocal {
namespace {

template <typename Score>
Metric Helmet(std::string name, std::string summary, bool is_binary, Score score) {
  return {.name = "helmet/" + name,
          .summary = std::move(summary),
          .is_binary = is_binary,
          .score = score,
          .uses_raw_output = true};
}

Metric Gold(std::string name, std::string summary, decltype(Metric::score) score) {
  return {.name = absl::StrCat(kGoldPrefix, name),
          .summary = std::move(summary),
          .is_binary = false,
          .score = score,
          .is_unbounded = true};
}

std::vector<Metric> OwnMetrics() {
  return {
      {.name = "exact_match", .summary = "the normalised answer equals a gold answer", .score = &ScoreExactMatch},
      {.name = "substring_exact_match",
       .summary = "the normalised answer contains a normalised gold answer",
       .score = &ScoreSubstringExactMatch},
      {.name = "token_f1",
       .summary = "harmonic mean of precision and recall over the words of answer and gold",
       .is_binary = false,
       .score = &ScoreTokenF1},
      {.name = "string_match_all",
       .summary = "share of the gold answers that the answer contains, ignoring case",
       .is_binary = false,
       .score = &ScoreStringMatchAll},
      {.name = "string_match_part",
       .summary = "the answer contains a gold answer, ignoring case",
       .score = &ScoreStringMatchPart},
      {.name = "ruler/string_match_all",
       .summary = "RULER: share of the references that the answer contains, cleaned as upstream does",
       .is_binary = false,
       .score = &ruler::ScoreRulerMatchAll},
      {.name = "ruler/string_match_part",
       .summary = "RULER: the answer contains a reference, cleaned as upstream does",
       .score = &ruler::ScoreRulerMatchPart},
      {.name = "written_match",
       .summary = "the answer equals a gold answer as written: points, signs and articles count",
       .score = &ScoreWrittenMatch},
      {.name = "written_substring",
       .summary = "the answer contains a gold answer as written, as whole words",
       .score = &ScoreWrittenSubstring},
      {.name = "multiple_choice_accuracy",
       .summary = "a right continuation has the highest log-likelihood",
       .needs_continuations = true,
       .score = &ScoreMultipleChoice},
      {.name = "multiple_choice_accuracy_normalized",
       .summary = "the same, with each log-likelihood divided by its number of characters",
       .needs_continuations = true,
       .score = &ScoreMultipleChoiceNormalized},
      {.name = "greedy_continuation",
       .summary = "every token of the continuation was the most likely one",
       .needs_continuations = true,
       .score = &ScoreGreedyContinuation},
      {.name = "continuation_log_likelihood",
       .summary = "log-likelihood of the continuation; exp(-mean) is the perplexity",
       .needs_continuations = true,
       .is_binary = false,
       .score = &ScoreContinuationLogLikelihood,
       .is_unbounded = true},
      {.name = "context_gain",
       .summary = "nats per token by which the long context raises the log-likelihood over the short one",
       .needs_continuations = true,
       .is_binary = false,
       .score = &ScoreContextGain,
       .is_unbounded = true},
      {.name = "long_context_log_likelihood",
       .summary = "log-likelihood per token after the long context; exp(-mean) is the perplexity",
       .needs_continuations = true,
       .is_binary = false,
       .score = &ScoreLongContext,
       .is_unbounded = true},
      {.name = "short_context_log_likelihood",
       .summary = "the same after the short context",
       .needs_continuations = true,
       .is_binary = false,
       .score = &ScoreShortContext,
       .is_unbounded = true},
      Gold("log_likelihood", "log-likelihood of the first gold answer after the prompt, in nats",
           &ScoreGoldLogLikelihood),
      Gold("log_likelihood_per_token", "the same divided by the number of its tokens", &ScoreGoldLogLikelihoodPerToken),
      Gold("token_count", "tokens of the first gold answer", &ScoreGoldTokenCount),
      {.name = "gold/is_greedy",
       .summary = "every token of the first gold answer was the most likely one",
       .score = &ScoreGoldIsGreedy},
      Helmet("default/exact_match", "HELMET: output or parsed answer equals a gold answer", true,
             [](const MetricInput& input) { return helmet::ScoreValue("default", "exact_match", input); }),
      Helmet("default/substring_exact_match", "HELMET: the output contains a gold answer", true,
             [](const MetricInput& input) { return helmet::ScoreValue("default", "substring_exact_match", input); }),
      Helmet("default/f1", "HELMET: word F1 of output or parsed answer, the better one", false,
             [](const MetricInput& input) { return helmet::ScoreValue("default", "f1", input); }),
      Helmet("default/rougeL_f1", "HELMET: ROUGE-L F1 of output or parsed answer, the better one", false,
             [](const MetricInput& input) { return helmet::ScoreValue("default", "rougeL_f1", input); }),
      Helmet("default/rougeLsum_f1", "HELMET: ROUGE-Lsum F1 of output or parsed answer, the better one", false,
             [](const MetricInput& input) { return helmet::ScoreValue("default", "rougeLsum_f1", input); }),
      Helmet("json_kv/substring_exact_match", "HELMET: the output contains the value", true,
             [](const MetricInput& input) { return helmet::ScoreValue("json_kv", "substring_exact_match", input); }),
      Helmet("json_kv/exact_match", "HELMET: output or parsed value equals the value", true,
             [](const MetricInput& input) { return helmet::ScoreValue("json_kv", "exact_match", input); }),
      Helmet("icl/exact_match", "HELMET: the parsed label is right", true,
             [](const MetricInput& input) { return helmet::ScoreValue("icl", "exact_match", input); }),
      Helmet("infbench_choice/exact_match", "HELMET: the letter, or the option's text, is right", true,
             [](const MetricInput& input) { return helmet::ScoreValue("infbench_choice", "exact_match", input); }),
      Helmet("multi_lexsum/rougeLsum_f1", "HELMET: ROUGE-Lsum F1 of output or parsed summary, the better one", false,
             [](const MetricInput& input) { return helmet::ScoreValue("multi_lexsum", "rougeLsum_f1", input); }),
      Helmet("multi_lexsum/rougeL_f1", "HELMET: ROUGE-L F1 of output or parsed summary, the better one", false,
             [](const MetricInput& input) { return helmet::ScoreValue("multi_lexsum", "rougeL_f1", input); }),
      Helmet("ruler/ruler_recall", "HELMET: share of the gold answers that the output contains", false,
             [](const MetricInput& input) { return helmet::ScoreValue("ruler", "ruler_recall", input); }),
      Helmet("rerank/NDCG@10", "HELMET: NDCG at 10 of the parsed ranking", false,
             [](const MetricInput& input) { return helmet::ScoreValue("rerank", "NDCG@10", input); }),
      Helmet("rerank/MRR", "HELMET: one over the rank of the first relevant document", false,
             [](const MetricInput& input) { return helmet::ScoreValue("rerank", "MRR", input); }),
      Helmet("alce_asqa/str_em", "HELMET: share of the short questions answered, citations removed", false,
             [](const MetricInput& input) { return helmet::ScoreValue("alce_asqa", "str_em", input); }),
      Helmet("alce_asqa/str_hit", "HELMET: all short questions answered", true,
             [](const MetricInput& input) { return helmet::ScoreValue("alce_asqa", "str_hit", input); }),
      Helmet("alce_qampari/qampari_rec_top5", "HELMET: gold items listed, of at most five", false,
             [](const MetricInput& input) { return helmet::ScoreValue("alce_qampari", "qampari_rec_top5", input); }),
      Helmet("alce_qampari/qampari_f1_top5", "HELMET: harmonic mean of the list's precision and that recall", false,
             [](const MetricInput& input) { return helmet::ScoreValue("alce_qampari", "qampari_f1_top5", input); }),
  };
}

const std::vector<Metric>& MetricTable() {
  static const std::vector<Metric> table = [] {
    std::vector<Metric> metrics = OwnMetrics();
    for (const auto& of_benchmark :
         {&LongBenchMetrics, &BabilongMetrics, &NolimaMetrics, &MrcrMetrics, &InfiniteBenchMetrics, &LongProcMetrics}) {
      for (Metric& metric : of_benchmark()) metrics.push_back(std::move(metric));
    }
    return metrics;
  }();
  return table;
}

}  // namespace

absl::Span<const Metric> Metrics() { return MetricTable(); }

bool IsGoldMetric(absl::string_view name) { return absl::StartsWith(name, kGoldPrefix); }

const Metric* FindMetric(absl::string_view name) {
  for (const Metric& metric : MetricTable()) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace varifocal
