#include "eval_tasks/tasks/jsonl.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/files.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/tasks/fit.h"
#include "eval_tasks/tasks/jsonl_rows.h"
#include "eval_tasks/tasks/jsonl_shots.h"

namespace varifocal {
namespace {

enum class PromptSeam {
  // LongBench: M/2 tokens on either side, rounded down, and each side decoded alone: a character that a side cuts is
  // U+FFFD, and a sentencepiece tokenizer loses the blank at the seam.
  kTwoTexts,
  // LongBench v2, InfiniteBench: M/2 tokens before the seam, the rest of M after it, decoded as one text.
  kOneText,
};

struct CutPrompt {
  std::string text;
  int64_t cut_token_count = 0;  // 0: the whole prompt
};

// The middle of a prompt left out by tokens, as LongBench, LongBench v2 and InfiniteBench do when one is too long: the first
// and last halves of its tokens are decoded, and the text is what is asked. Special tokens that the tokenizer adds count, and
// are dropped; a chat format is put around the text afterwards. Decoding and encoding again may give a few tokens more or less.
absl::StatusOr<CutPrompt> CutMiddle(absl::string_view prompt, int64_t tokens_max, PromptSeam seam,
                                    const TokenCounter& tokenizer) {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.EncodeUnwrapped(prompt));
  CutPrompt cut;
  if (std::ssize(ids) <= tokens_max) {
    cut.text = std::string(prompt);
    return cut;
  }
  const int64_t head = tokens_max / 2, tail = seam == PromptSeam::kTwoTexts ? head : tokens_max - head;
  cut.cut_token_count = std::ssize(ids) - head - tail;
  if (seam == PromptSeam::kTwoTexts) {
    const absl::Span<const int32_t> all(ids);
    ASSIGN_OR_RETURN(const std::string before, tokenizer.DecodeUnwrapped(all.first(head)));
    // Python's ids[-0:] is the whole list.
    ASSIGN_OR_RETURN(const std::string after, tokenizer.DecodeUnwrapped(tail == 0 ? all : all.last(tail)));
    cut.text = absl::StrCat(before, after);
    return cut;
  }
  ids.erase(ids.begin() + head, ids.end() - tail);
  ASSIGN_OR_RETURN(cut.text, tokenizer.DecodeUnwrapped(ids));
  return cut;
}

// Largest k' <= k at a character boundary.
size_t CharacterStart(absl::string_view text, size_t k) {
  while (k > 0 && k < text.size() && (text[k] & 0xC0) == 0x80) --k;
  return k;
}

// `keep` bytes of the context (fewer at character boundaries), the rest removed according to the policy.
std::string TruncateContext(const std::string& context, size_t keep, absl::string_view policy) {
  if (keep >= context.size()) return context;
  if (policy == "start") return context.substr(CharacterStart(context, context.size() - keep));
  if (policy == "end") return context.substr(0, CharacterStart(context, keep));
  const size_t head = CharacterStart(context, keep / 2);
  return absl::StrCat(context.substr(0, head),
                      context.substr(CharacterStart(context, context.size() - (keep - keep / 2))));
}

// Answers are compared without white space at their ends.
bool HoldsAnswer(absl::string_view text, const std::vector<std::string>& gold) {
  return std::any_of(gold.begin(), gold.end(), [&](const std::string& answer) {
    return absl::StrContains(text, absl::StripAsciiWhitespace(answer));
  });
}

bool HoldsAll(absl::string_view text, const std::vector<std::string>& needles) {
  for (const std::string& needle : needles) {
    if (!absl::StrContains(text, needle)) return false;
  }
  return true;
}

size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  size_t size = 0;
  while (size < std::min(a.size(), b.size()) && a[size] == b[size]) ++size;
  return CharacterStart(a, size);
}

// As one text, for people; what a model gets is a conversation in its chat format.
std::string TurnsText(const std::vector<ChatTurn>& turns) {
  std::string text;
  for (const ChatTurn& turn : turns) {
    absl::StrAppend(&text, text.empty() ? "" : "\n\n", "[", turn.role, "]\n", turn.content);
  }
  return text;
}

// Of the policies that cut the whole prompt by tokens.
std::optional<PromptSeam> SeamOf(absl::string_view policy) {
  if (policy == "prompt_halves") return PromptSeam::kTwoTexts;
  if (policy == "prompt_ends") return PromptSeam::kOneText;
  return std::nullopt;
}

class JsonlTask : public Task {
 public:
  JsonlTask(TaskSpec spec, std::shared_ptr<const std::vector<JsonlRow>> rows, JsonlShots shots, std::string data_sha256)
      : spec_(std::move(spec)),
        shared_rows_(std::move(rows)),
        rows_(*shared_rows_),
        shots_(std::move(shots)),
        data_sha256_(std::move(data_sha256)) {
    for (int i = 0; i < std::ssize(rows_); ++i) {
      const bool same = i > 0 && !rows_[i].context.empty() && rows_[i].context == rows_[i - 1].context;
      group_begin_.push_back(same ? group_begin_.back() : i);
    }
  }

  const std::string& name() const override { return spec_.name; }
  int question_count() const override { return rows_.size(); }
  std::string data_sha256() const override { return data_sha256_; }

  TurnRoles turn_roles() const override {
    TurnRoles roles;
    roles.assistant = !shots_.empty() && shots_.as_turns();
    for (const JsonlRow& row : rows_) {
      for (const ChatTurn& turn : row.turns) {
        roles.system |= turn.role == "system";
        roles.assistant |= turn.role == "assistant";
      }
    }
    return roles;
  }

  GroupRange GroupOf(int index) const override {
    const int begin = group_begin_[index];
    int end = index + 1;
    while (end < std::ssize(rows_) && group_begin_[end] == begin) ++end;
    return {begin, end - begin};
  }

  Sample Identify(const SampleRequest& request) const override {
    const JsonlRow& row = rows_[request.index];
    Sample sample = AskedSample(spec_, request);
    sample.row_id = row.id;
    sample.question_id = absl::StrCat(spec_.name, "/", row.id);
    sample.cluster = row.cluster.empty() ? absl::StrCat(spec_.name, "/g", group_begin_[request.index])
                                         : absl::StrCat(spec_.name, "/", row.cluster);
    sample.stop_strings = GetTextList(spec_.parameters, "stop");
    sample.max_new_tokens = AnswerTokens(spec_, GetInteger(spec_.parameters, "max_new_tokens"));
    sample.thinking_max_tokens = spec_.answer.thinking_max_tokens;
    sample.continuations = row.choices;
    sample.sampling_seed = SamplingSeed(ItemSeed(request.seed, spec_.name, request.index));
    sample.gold = row.gold;
    sample.gold_continuation_indices = row.gold_choices;
    sample.reference_json = row.reference_json;
    return sample;
  }

  std::vector<absl::StatusOr<Sample>> MakeGroup(const SampleRequest& request,
                                                const TokenCounter& tokenizer) const override {
    const GroupRange range = GroupOf(request.index);
    std::vector<absl::StatusOr<Sample>> group;
    std::vector<Sample> too_long;
    for (int index = range.first_index; index < range.first_index + range.count; ++index) {
      group.push_back(Whole({request.seed, request.context_length, index}, tokenizer));
      if (group.back().ok() && group.back()->shortfall_tokens < 0) too_long.push_back(*group.back());
    }
    if (!too_long.empty()) {
      const std::string& policy = GetText(spec_.parameters, "truncate");
      if (policy == "error" || SeamOf(policy).has_value()) {
        for (const Sample& sample : too_long) group[sample.index - range.first_index] = DoesNotFit(sample, "");
      } else {
        TruncateGroup(range, tokenizer, group);
      }
    }
    MarkSharedPrefix(group);
    for (absl::StatusOr<Sample>& sample : group) {
      if (!sample.ok()) continue;
      const absl::Status located = LocateEvidence(tokenizer, *sample);
      if (!located.ok()) sample = located;
    }
    return group;
  }

 private:
  absl::StatusOr<Sample> Whole(const SampleRequest& request, const TokenCounter& tokenizer) const {
    Sample sample = Identify(request);
    sample.tokenizer_sha256 = tokenizer.sha256();
    if (!sample.continuations.empty()) sample.max_new_tokens = 0;  // scored instead of generated
    for (const std::string& continuation : sample.continuations) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.EncodePiece(continuation));
      sample.max_new_tokens = std::max<int>(sample.max_new_tokens, ids.size());
    }
    RETURN_IF_ERROR(Render(rows_[request.index].context, tokenizer, sample));
    if (const std::optional<PromptSeam> seam = SeamOf(GetText(spec_.parameters, "truncate")); seam.has_value()) {
      RETURN_IF_ERROR(CutPromptOf(*seam, tokenizer, sample));
    }
    return sample;
  }

  // To `prompt_tokens`; without it, to what leaves space for the answer once the cut text is encoded again.
  absl::Status CutPromptOf(PromptSeam seam, const TokenCounter& tokenizer, Sample& sample) const {
    const std::optional<double> stated = FindNumber(spec_.parameters, "prompt_tokens");
    if (!stated.has_value() && sample.shortfall_tokens >= 0) return absl::OkStatus();
    const std::string whole = sample.prompt;
    int64_t tokens_max = sample.context_length - TokensInContext(spec_, sample.max_new_tokens);
    if (stated.has_value()) tokens_max = static_cast<int64_t>(*stated);
    constexpr int kTriesMax = 8;
    for (int tries = 0; tries < kTriesMax && tokens_max > 0; ++tries) {
      ASSIGN_OR_RETURN(CutPrompt cut, CutMiddle(whole, tokens_max, seam, tokenizer));
      if (cut.cut_token_count == 0 && tries == 0) return absl::OkStatus();  // asked as it was rendered
      sample.truncation.cut_token_count = cut.cut_token_count;
      sample.prompt = std::move(cut.text);
      RETURN_IF_ERROR(Encode(tokenizer, sample));
      if (stated.has_value() || sample.shortfall_tokens >= 0) break;
      tokens_max += sample.shortfall_tokens;
    }
    const std::vector<std::string>& evidence = rows_[sample.index].evidence;
    sample.truncation.gold_survived = evidence.empty()
                                          ? !HoldsAnswer(whole, sample.gold) || HoldsAnswer(sample.prompt, sample.gold)
                                          : HoldsAll(sample.prompt, evidence);
    return absl::OkStatus();
  }

  // The prompt with this context; a negative shortfall is the excess.
  absl::Status Render(absl::string_view context, const TokenCounter& tokenizer, Sample& sample) const {
    const JsonlRow& row = rows_[sample.index];
    if (!row.turns.empty() || (!shots_.empty() && shots_.as_turns())) {
      sample.turns = TurnsOf(row, context);
      sample.prompt = TurnsText(sample.turns);
      ASSIGN_OR_RETURN(sample.token_ids, tokenizer.EncodeTurns(sample.turns));
      return SetShortfall(sample);
    }
    sample.prompt = absl::StrCat(shots_.Text(row), RowPrompt(row, context));
    return Encode(tokenizer, sample);
  }

  absl::Status Encode(const TokenCounter& tokenizer, Sample& sample) const {
    ASSIGN_OR_RETURN(sample.token_ids, sample.continuations.empty() ? tokenizer.EncodePrompt(sample.prompt)
                                                                    : tokenizer.EncodeContext(sample.prompt, ""));
    return SetShortfall(sample);
  }

  absl::Status SetShortfall(Sample& sample) const {
    sample.shortfall_tokens =
        sample.context_length - sample.prompt_token_count() - TokensInContext(spec_, sample.max_new_tokens);
    return absl::OkStatus();
  }

  // The row's system message comes before the demonstrations.
  std::vector<ChatTurn> TurnsOf(const JsonlRow& row, absl::string_view context) const {
    std::vector<ChatTurn> turns = row.turns;
    if (turns.empty()) turns.push_back({"user", RowPrompt(row, context)});
    const std::vector<ChatTurn> shown = shots_.Turns(row);
    turns.insert(turns.begin() + (turns.front().role == "system" ? 1 : 0), shown.begin(), shown.end());
    return turns;
  }

  absl::Status DoesNotFit(const Sample& sample, absl::string_view why) const {
    return WithReason(
        OutOfRange("row ", rows_[sample.index].line_number, " of task \"", spec_.name, "\" takes ",
                   sample.prompt_token_count(), " tokens and ", TokensInContext(spec_, sample.max_new_tokens),
                   " for its answer; the limit is ", sample.context_length, why),
        ErrorReason::kPromptTooLong);
  }

  // Truncates the context of all rows of the group to a part with which the longest of them fits, at most eight tokens
  // shorter than necessary (LongestThatFits). Rows that do not fit without any context fail, and are ignored.
  void TruncateGroup(const GroupRange& range, const TokenCounter& tokenizer,
                     std::vector<absl::StatusOr<Sample>>& group) const {
    const std::string& context = rows_[range.first_index].context;
    const std::string& policy = GetText(spec_.parameters, "truncate");
    std::vector<Sample> cut;
    for (absl::StatusOr<Sample>& sample : group) {
      if (!sample.ok()) continue;
      Sample bare = *sample;
      const absl::Status rendered = Render("", tokenizer, bare);
      if (!rendered.ok()) {
        sample = rendered;
      } else if (bare.shortfall_tokens < 0) {
        sample = DoesNotFit(*sample, ", and its context is shorter than the excess");
      } else {
        cut.push_back(std::move(bare));
      }
    }
    auto measure = [&](absl::string_view kept) -> absl::StatusOr<int> {
      int room = INT_MAX;
      for (Sample& sample : cut) {
        RETURN_IF_ERROR(Render(kept, tokenizer, sample));
        room = std::min(room, sample.shortfall_tokens);
      }
      return room;
    };
    const absl::StatusOr<std::string> kept = LongestThatFits(context, policy, measure);
    for (Sample& sample : cut) {
      absl::StatusOr<Sample>& whole = group[sample.index - range.first_index];
      if (!kept.ok()) {
        whole = kept.status();
        continue;
      }
      sample.truncation.cut_token_count = whole->prompt_token_count() - sample.prompt_token_count();
      // The row's evidence, or else the answer itself.
      const std::vector<std::string>& evidence = rows_[sample.index].evidence;
      sample.truncation.gold_survived = evidence.empty()
                                            ? !HoldsAnswer(context, sample.gold) || HoldsAnswer(*kept, sample.gold)
                                            : HoldsAll(*kept, evidence);
      whole = std::move(sample);
    }
  }

  // By regula falsi on bytes, with occasional bisection. Leaves the samples as built with the result.
  template <typename Measure>
  static absl::StatusOr<std::string> LongestThatFits(const std::string& context, const std::string& policy,
                                                     const Measure& measure) {
    constexpr int kProbesMax = 24;
    constexpr int kRoomAim = 8;  // tokens
    size_t fits = 0, too_long = context.size();
    ASSIGN_OR_RETURN(int room_at_fits, measure(""));
    ASSIGN_OR_RETURN(int room, measure(context));
    if (room >= 0) return context;
    double excess = -room;
    for (int probe = 0; probe < kProbesMax && too_long - fits > 1 && room_at_fits > kRoomAim; ++probe) {
      const double share = probe % 4 == 3 ? 0.5 : room_at_fits / (room_at_fits + excess);
      const size_t step = (too_long - fits) * share;
      const size_t keep = std::clamp(fits + step, fits + 1, too_long - 1);
      ASSIGN_OR_RETURN(room, measure(TruncateContext(context, keep, policy)));
      if (room < 0) {
        too_long = keep;
        excess = -room;
      } else {
        fits = keep;
        room_at_fits = room;
      }
    }
    std::string kept = TruncateContext(context, fits, policy);
    ASSIGN_OR_RETURN(room, measure(kept));
    VF_CHECK(room >= 0, "this part was measured before");
    return kept;
  }

  // The first occurrence of each evidence text in the prompt; none for a truncated text.
  absl::Status LocateEvidence(const TokenCounter& tokenizer, Sample& sample) const {
    const JsonlRow& row = rows_[sample.index];
    if (row.evidence.empty() || !sample.turns.empty())
      return absl::OkStatus();  // the text of turns has no tokens of its own
    const size_t shown_bytes = shots_.Text(row).size();
    for (const std::string& text : row.evidence) {
      const size_t at = sample.prompt.find(text, shown_bytes);
      if (at == std::string::npos) continue;
      PromptSpan span;
      span.byte_begin = at;
      span.byte_end = at + text.size();
      sample.evidence.push_back(span);
    }
    std::sort(sample.evidence.begin(), sample.evidence.end(),
              [](const PromptSpan& a, const PromptSpan& b) { return a.byte_begin < b.byte_begin; });
    if (!sample.evidence.empty()) {
      sample.depth = static_cast<double>(sample.evidence[0].byte_begin) / sample.prompt.size();
    }
    return LocateTokens(sample.prompt, sample.token_ids, tokenizer, sample.evidence);
  }

  static void MarkSharedPrefix(std::vector<absl::StatusOr<Sample>>& group) {
    const Sample* first = nullptr;
    size_t shared = 0;
    int made_count = 0;
    for (const absl::StatusOr<Sample>& sample : group) {
      if (!sample.ok()) continue;
      if (first == nullptr) {
        first = &*sample;
        shared = first->prompt.size();
      }
      shared = std::min(shared, CommonPrefix(first->prompt, sample->prompt));
      ++made_count;
    }
    for (absl::StatusOr<Sample>& sample : group) {
      if (sample.ok()) sample->shared_prefix_bytes = made_count > 1 ? static_cast<int64_t>(shared) : 0;
    }
  }

  const TaskSpec spec_;
  const std::shared_ptr<const std::vector<JsonlRow>> shared_rows_;  // with the shots
  const std::vector<JsonlRow>& rows_;
  const JsonlShots shots_;
  std::string data_sha256_;
  std::vector<int> group_begin_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeJsonlTask(const TaskSpec& spec) {
  const std::string& path = GetText(spec.parameters, "path");
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kDataFile));
  return MakeJsonlTask(spec, path, bytes);
}

absl::StatusOr<std::unique_ptr<Task>> MakeJsonlTask(const TaskSpec& spec, absl::string_view path,
                                                    absl::string_view bytes) {
  std::string digest = Sha256Hex(bytes);
  std::string shots_bytes;
  const std::string& shots_path = GetText(spec.parameters, "shots_path");
  if (!shots_path.empty()) {
    ASSIGN_OR_RETURN(shots_bytes, ReadFile(shots_path, kDataFile));
    digest = Sha256Hex(absl::StrCat(digest, " ", Sha256Hex(shots_bytes)));
  }
  RETURN_IF_ERROR(CheckRecordedSha256(
      spec.parameters, shots_path.empty() ? std::string(path) : absl::StrCat(path, " and ", shots_path), digest));
  const std::string& policy = GetText(spec.parameters, "truncate");
  if (FindNumber(spec.parameters, "prompt_tokens").has_value() && !SeamOf(policy).has_value()) {
    return InvalidArgument("prompt_tokens: truncate is ", policy,
                           "; only prompt_halves and prompt_ends cut a prompt to a number of tokens");
  }
  if (SeamOf(policy).has_value() && !GetText(spec.parameters, "shots").empty()) {
    return InvalidArgument("truncate: ", policy,
                           " would cut the rows that are shown; give no shots, or cut the context");
  }
  if (SeamOf(policy).has_value() &&
      (!GetText(spec.parameters, "messages").empty() || GetText(spec.parameters, "shots_as") == "turns")) {
    return InvalidArgument("truncate: ", policy, " cuts one text; rows of several turns are asked whole");
  }
  using SharedRows = std::shared_ptr<const std::vector<JsonlRow>>;
  const auto parse = [&](absl::string_view rows_path, absl::string_view rows_bytes) -> absl::StatusOr<SharedRows> {
    ASSIGN_OR_RETURN(std::vector<JsonlRow> rows, ParseJsonlRows(spec.parameters, rows_path, rows_bytes));
    return std::make_shared<const std::vector<JsonlRow>>(std::move(rows));
  };
  ASSIGN_OR_RETURN(SharedRows rows, parse(path, bytes));
  JsonlShots shots;
  if (!GetText(spec.parameters, "shots").empty()) {
    SharedRows pool = rows;
    if (!shots_path.empty()) {
      ASSIGN_OR_RETURN(pool, parse(shots_path, shots_bytes));
    }
    shots = JsonlShots(spec, std::move(pool));
    RETURN_IF_ERROR(shots.Check(*rows, shots_path.empty() ? path : shots_path));
  }
  return std::make_unique<JsonlTask>(spec, std::move(rows), std::move(shots), digest);
}

}  // namespace varifocal
