#include "eval_tasks/ruler/generate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal::ruler {
namespace {

constexpr int kShort = 4096;            // below it, some steps are smaller
constexpr int64_t kCommonProbe = 4096;  // words of the first probe of cwe
// Upstream repeats the smallest build until its draws fit, without end where none do. Here it ends after so many tokens.
constexpr int64_t kTriedTokensMax = 4'000'000;
constexpr int kTriedTokensMin = 1000;  // of a try, for the draws

int64_t StepOf(const RulerTaskInfo& task, int context_length) {
  switch (task.script) {
    case Script::kNiah:
      if (task.haystack == HaystackKind::kEssay) return 500;
      return context_length < kShort ? 5 : 25;
    case Script::kVariableTracking:
      return context_length < kShort ? 5 : 10;
    case Script::kCommonWords:
    case Script::kQuestions:
    case Script::kFrequentWords:
      break;
  }
  return 10;
}

std::unique_ptr<const Builder> MakeBuilder(const RulerTaskInfo& task, const Inputs& inputs,
                                           const BuildSettings& settings) {
  switch (task.script) {
    case Script::kNiah:
      return MakeNiahBuilder(task, inputs, settings);
    case Script::kVariableTracking:
      return MakeVariableTrackingBuilder(inputs, false);
    case Script::kCommonWords:
      return MakeCommonWordsBuilder(inputs, settings);
    case Script::kQuestions:
      return MakeQuestionBuilder(inputs, settings);
    case Script::kFrequentWords:
      break;
  }
  return nullptr;
}

// x // y of Python's floats, both positive.
double FloorDivide(double x, double y) {
  const double quotient = (x - std::fmod(x, y)) / y;
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

}  // namespace

RowGenerator::RowGenerator(const RulerTaskInfo& task, const Inputs& inputs, const GenerateSettings& settings)
    : task_(task),
      inputs_(inputs),
      settings_(settings),
      limit_(settings.context_length - settings.template_tokens),
      step_(StepOf(task, settings.context_length)),
      builder_(MakeBuilder(task, inputs, {settings.seed, settings.context_length})),
      streams_(settings.seed) {}

absl::StatusOr<int> RowGenerator::Count(absl::string_view text) const {
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer_->EncodeMarker(text));
  return ids.size();
}

absl::Status RowGenerator::NeverFits(int64_t units, int tokens) const {
  return WithReason(
      InvalidArgument(
          "RULER's ", task_.name, " has no prompt that fits ", limit_, " tokens: its smallest one, of ", units,
          task_.script == Script::kNiah && task_.haystack == HaystackKind::kEssay ? " words of an essay" : " units",
          ", takes ", tokens, " with ", task_.max_new_tokens,
          " for its answer by this tokenizer; upstream's script would draw it again and again"),
      ErrorReason::kImpossibleLength);
}

absl::StatusOr<int64_t> RowGenerator::Search(const Builder& builder, int64_t step, int limit, int tokens_beside) {
  const auto measure = [&](int64_t units) -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const std::optional<Built> built, builder.Build(units, 0, streams_));
    if (!built.has_value()) {
      return FailedPrecondition("RULER's ", task_.name, " needs more of its data: ", units,
                                " units cannot be drawn from it at ", limit, " tokens");
    }
    return Count(built->text);
  };
  const bool is_common = task_.script == Script::kCommonWords;
  const int64_t probe = is_common ? kCommonProbe : step;
  ASSIGN_OR_RETURN(const int probe_tokens, measure(probe));
  const double tokens_per_unit = static_cast<double>(std::max(probe_tokens, 1)) / probe;
  const int64_t estimate = is_common ? static_cast<int64_t>(FloorDivide(limit, tokens_per_unit)) * 2
                                     : static_cast<int64_t>(limit / tokens_per_unit * 3);
  int64_t low = step, high = std::max(estimate, step * 2), best = step;
  while (low <= high) {
    const int64_t middle = (low + high) / 2;
    ASSIGN_OR_RETURN(const int tokens, measure(middle));
    if (tokens + tokens_beside <= limit) {
      best = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return best;
}

// One sample of at most 500 tokens, whose answer is written out.
absl::Status RowGenerator::StartExample(const Builder& builder) {
  constexpr int kExampleTokens = 500;
  constexpr int64_t kStep = 5;
  const int limit = kExampleTokens - settings_.template_tokens;
  ASSIGN_OR_RETURN(int64_t units, Search(builder, kStep, limit, 0));
  for (int64_t tried = 0; tried < kTriedTokensMax;) {
    int tokens = 0;
    ASSIGN_OR_RETURN(const std::optional<Built> built, builder.Build(units, 0, streams_));
    if (built.has_value()) {
      ASSIGN_OR_RETURN(tokens, Count(built->text));
      if (tokens <= limit) {
        example_ = absl::StrCat(built->text, " ", absl::StrJoin(built->outputs, " "), "\n");
        return absl::OkStatus();
      }
    }
    tried += std::max(tokens, kTriedTokensMin);
    if (units > kStep) units -= kStep;
  }
  return WithReason(InvalidArgument("RULER's vt has an example of at most ", limit, " tokens, which none of ", units,
                                    " lines fits by this tokenizer; upstream's script would draw it again and again"),
                    ErrorReason::kImpossibleLength);
}

absl::Status RowGenerator::StartFrequentWords() {
  const int limit = limit_ - task_.max_new_tokens;
  step_ = limit / 32;
  if (step_ < 1 || limit < 50) return NeverFits(0, settings_.context_length);
  const std::vector<std::string> vocabulary = DrawCodedWords(limit / 50, settings_.seed, streams_);
  int64_t words = limit / 6;
  while (true) {
    ASSIGN_OR_RETURN(const Built built, BuildFrequentWords(inputs_, vocabulary, words, settings_.seed));
    ASSIGN_OR_RETURN(const int tokens, Count(built.text));
    if (tokens >= limit) break;
    words += step_;
    if (words > int64_t{8} * limit) {
      return FailedPrecondition("RULER's ", task_.name, " has ", tokens, " tokens with ", words,
                                " words; this tokenizer leaves out words");
    }
  }
  units_ = words - step_;
  return absl::OkStatus();
}

absl::Status RowGenerator::Start() {
  if (task_.script == Script::kFrequentWords) return StartFrequentWords();
  int beside = task_.max_new_tokens;
  if (task_.script == Script::kVariableTracking) {
    RETURN_IF_ERROR(StartExample(*MakeVariableTrackingBuilder(inputs_, true)));
    ASSIGN_OR_RETURN(const int tokens, Count(example_));
    beside += tokens;
  }
  ASSIGN_OR_RETURN(const int64_t units, Search(*builder_, step_, limit_, beside));
  units_ = units;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Built>> RowGenerator::Build(int64_t units, int64_t index, Streams& streams) const {
  ASSIGN_OR_RETURN(std::optional<Built> built, builder_->Build(units, index, streams));
  if (!built.has_value() || example_.empty()) return built;
  const size_t cut = built->text.find(inputs_.task_start);
  if (cut == std::string::npos) return std::nullopt;
  built->text.insert(cut, absl::StrCat(RandomizeExample(example_, streams), "\n"));
  return built;
}

absl::StatusOr<Built> RowGenerator::PlanFrequentWords() {
  Plan plan{streams_, *units_, 0};
  const int limit = limit_ - task_.max_new_tokens;
  const std::vector<std::string> vocabulary = DrawCodedWords(limit / 50, settings_.seed, streams_);
  while (true) {
    ASSIGN_OR_RETURN(Built built, BuildFrequentWords(inputs_, vocabulary, plan.units, settings_.seed));
    ASSIGN_OR_RETURN(const int tokens, Count(built.text));
    plan.length = tokens + task_.max_new_tokens;
    if (tokens <= limit) {
      plans_.push_back(std::move(plan));
      return built;
    }
    if (plan.units < 0) return NeverFits(0, plan.length);
    plan.units -= step_;
  }
}

absl::StatusOr<Built> RowGenerator::PlanNext() {
  if (task_.script == Script::kFrequentWords) return PlanFrequentWords();
  int64_t units = *units_;
  int tokens = 0;
  for (int64_t tried = 0; tried < kTriedTokensMax;) {
    Plan plan{streams_, units, 0};
    ASSIGN_OR_RETURN(std::optional<Built> built, Build(units, std::ssize(plans_), streams_));
    if (built.has_value()) {
      ASSIGN_OR_RETURN(tokens, Count(built->text));
      tokens += task_.max_new_tokens;
      if (tokens <= limit_) {
        plan.length = tokens;
        plans_.push_back(std::move(plan));
        return *std::move(built);
      }
    }
    if (units > step_) {
      units -= step_;
    } else {
      tried += std::max(tokens, kTriedTokensMin);
    }
  }
  return NeverFits(units, tokens);
}

absl::StatusOr<Built> RowGenerator::BuildPlanned(int index) const {
  const Plan& plan = plans_[index];
  Streams streams = plan.streams;
  if (task_.script == Script::kFrequentWords) {
    const int limit = limit_ - task_.max_new_tokens;
    const std::vector<std::string> vocabulary = DrawCodedWords(limit / 50, settings_.seed, streams);
    return BuildFrequentWords(inputs_, vocabulary, plan.units, settings_.seed);
  }
  ASSIGN_OR_RETURN(std::optional<Built> built, Build(plan.units, index, streams));
  if (!built.has_value()) return Internal("a planned row cannot be built");
  return *std::move(built);
}

absl::StatusOr<RulerRow> RowGenerator::Split(Built built, int length) const {
  const PythonText prefix = ToPythonText(inputs_.answer_prefix);
  const std::string start = ToUtf8(prefix, 0, std::min<size_t>(10, prefix.size()));
  const size_t at = built.text.rfind(start);
  if (at == std::string::npos) {
    return InvalidArgument("the prompt of RULER's ", task_.name, " does not hold \"", start,
                           "\", the start of its prefix");
  }
  RulerRow row;
  row.answer_prefix = built.text.substr(at);
  built.text.resize(at);
  row.input = std::move(built.text);
  row.outputs = std::move(built.outputs);
  row.length = length;
  return row;
}

// Kept where another try would fail alike.
absl::Status RowGenerator::Failed(const absl::Status& status) {
  if (absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status)) failed_ = status;
  return status;
}

absl::StatusOr<RulerRow> RowGenerator::Row(int index, const TokenCounter& tokenizer) {
  RETURN_IF_ERROR(failed_);
  tokenizer_ = &tokenizer;
  if (!units_.has_value()) {
    const absl::Status started = Start();
    if (!started.ok()) {
      streams_ = Streams(settings_.seed);
      example_.clear();
      return Failed(started);
    }
  }
  if (index < std::ssize(plans_)) {
    ASSIGN_OR_RETURN(Built built, BuildPlanned(index));
    return Split(std::move(built), plans_[index].length);
  }
  Built last;
  while (std::ssize(plans_) <= index) {
    const Streams before = streams_;
    absl::StatusOr<Built> planned = PlanNext();
    if (!planned.ok()) {
      streams_ = before;
      return Failed(planned.status());
    }
    last = *std::move(planned);
  }
  return Split(std::move(last), plans_[index].length);
}

}  // namespace varifocal::ruler
