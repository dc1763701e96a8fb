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

Metric Helmet(std::string kind, std::string measure, std::string summary, bool is_binary) {
  return {.name = absl::StrCat("helmet/", kind, "/", measure),
          .summary = absl::StrCat("HELMET: ", summary),
          .is_binary = is_binary,
          .score = [=](const MetricInput& input) { return helmet::ScoreValue(kind, measure, input); },
          .uses_raw_output = true};
}

// With the properties of `form`.
Metric MetricLike(Metric form, std::string name, std::string summary, decltype(Metric::score) score) {
  form.name = std::move(name);
  form.summary = std::move(summary);
  form.score = std::move(score);
  return form;
}

std::vector<Metric> OwnMetrics() {
  const Metric binary = {}, graded = {.is_binary = false}, choice = {.needs_continuations = true};
  const Metric unbounded = {.is_binary = false, .is_unbounded = true};
  const Metric log_likelihood = {.needs_continuations = true, .is_binary = false, .is_unbounded = true};
  return {
      MetricLike(binary, "exact_match", "the normalised answer equals a gold answer", &ScoreExactMatch),
      MetricLike(binary, "substring_exact_match", "the normalised answer contains a normalised gold answer",
                 &ScoreSubstringExactMatch),
      MetricLike(graded, "token_f1", "harmonic mean of precision and recall over the words of answer and gold",
                 &ScoreTokenF1),
      MetricLike(graded, "string_match_all", "share of the gold answers that the answer contains, ignoring case",
                 &ScoreStringMatchAll),
      MetricLike(binary, "string_match_part", "the answer contains a gold answer, ignoring case",
                 &ScoreStringMatchPart),
      MetricLike(graded, "ruler/string_match_all",
                 "RULER: share of the references that the answer contains, cleaned as upstream does",
                 &ruler::ScoreRulerMatchAll),
      MetricLike(binary, "ruler/string_match_part", "RULER: the answer contains a reference, cleaned as upstream does",
                 &ruler::ScoreRulerMatchPart),
      MetricLike(binary, "written_match",
                 "the answer equals a gold answer as written: points, signs and articles count", &ScoreWrittenMatch),
      MetricLike(binary, "written_substring", "the answer contains a gold answer as written, as whole words",
                 &ScoreWrittenSubstring),
      MetricLike(choice, "multiple_choice_accuracy", "a right continuation has the highest log-likelihood",
                 &ScoreMultipleChoice),
      MetricLike(choice, "multiple_choice_accuracy_normalized",
                 "the same, with each log-likelihood divided by its number of characters",
                 &ScoreMultipleChoiceNormalized),
      MetricLike(choice, "greedy_continuation", "every token of the continuation was the most likely one",
                 &ScoreGreedyContinuation),
      MetricLike(log_likelihood, "continuation_log_likelihood",
                 "log-likelihood of the continuation; exp(-mean) is the perplexity", &ScoreContinuationLogLikelihood),
      MetricLike(log_likelihood, "context_gain",
                 "nats per token by which the long context raises the log-likelihood over the short one",
                 &ScoreContextGain),
      MetricLike(log_likelihood, "long_context_log_likelihood",
                 "log-likelihood per token after the long context; exp(-mean) is the perplexity", &ScoreLongContext),
      MetricLike(log_likelihood, "short_context_log_likelihood", "the same after the short context",
                 &ScoreShortContext),
      MetricLike(unbounded, "gold/log_likelihood", "log-likelihood of the first gold answer after the prompt, in nats",
                 &ScoreGoldLogLikelihood),
      MetricLike(unbounded, "gold/log_likelihood_per_token", "the same divided by the number of its tokens",
                 &ScoreGoldLogLikelihoodPerToken),
      MetricLike(unbounded, "gold/token_count", "tokens of the first gold answer", &ScoreGoldTokenCount),
      MetricLike(binary, "gold/is_greedy", "every token of the first gold answer was the most likely one",
                 &ScoreGoldIsGreedy),
      Helmet("default", "exact_match", "output or parsed answer equals a gold answer", true),
      Helmet("default", "substring_exact_match", "the output contains a gold answer", true),
      Helmet("default", "f1", "word F1 of output or parsed answer, the better one", false),
      Helmet("default", "rougeL_f1", "ROUGE-L F1 of output or parsed answer, the better one", false),
      Helmet("default", "rougeLsum_f1", "ROUGE-Lsum F1 of output or parsed answer, the better one", false),
      Helmet("json_kv", "substring_exact_match", "the output contains the value", true),
      Helmet("json_kv", "exact_match", "output or parsed value equals the value", true),
      Helmet("icl", "exact_match", "the parsed label is right", true),
      Helmet("infbench_choice", "exact_match", "the letter, or the option's text, is right", true),
      Helmet("multi_lexsum", "rougeLsum_f1", "ROUGE-Lsum F1 of output or parsed summary, the better one", false),
      Helmet("multi_lexsum", "rougeL_f1", "ROUGE-L F1 of output or parsed summary, the better one", false),
      Helmet("ruler", "ruler_recall", "share of the gold answers that the output contains", false),
      Helmet("rerank", "NDCG@10", "NDCG at 10 of the parsed ranking", false),
      Helmet("rerank", "MRR", "one over the rank of the first relevant document", false),
      Helmet("alce_asqa", "str_em", "share of the short questions answered, citations removed", false),
      Helmet("alce_asqa", "str_hit", "all short questions answered", true),
      Helmet("alce_qampari", "qampari_rec_top5", "gold items listed, of at most five", false),
      Helmet("alce_qampari", "qampari_f1_top5", "harmonic mean of the list's precision and that recall", false),
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
