#include "eval_tasks/ruler/sample.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/python/text.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/tasks/fit.h"

namespace varifocal::ruler {
namespace {

absl::StatusOr<std::vector<int32_t>> PromptIds(const SampleForm& form, bool chat, const TokenCounter& tokenizer,
                                               Sample& sample) {
  if (chat && form.with_answer_prefix) {
    return tokenizer.EncodeAnswered(std::nullopt, sample.prompt, sample.answer_prefix);
  }
  if (chat || !form.special_tokens_in_text) return tokenizer.EncodePrompt(sample.prompt);
  // A server that gets the text adds its BOS, and reads the template's markers as tokens.
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.EncodePromptStart(""));
  ASSIGN_OR_RETURN(const std::vector<int32_t> text, tokenizer.EncodeMarker(sample.prompt));
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

// The values to be recalled, each at its first place: they are numbers, uuids or pairs of words, which nothing else has.
absl::Status LocateValues(const TokenCounter& tokenizer, Sample& sample) {
  for (const std::string& value : sample.gold) {
    const size_t at = sample.prompt.find(value);
    if (at == std::string::npos) continue;
    PromptSpan span;
    span.byte_begin = at;
    span.byte_end = at + value.size();
    sample.evidence.push_back(span);
  }
  if (sample.evidence.empty()) return absl::OkStatus();
  std::sort(sample.evidence.begin(), sample.evidence.end(),
            [](const PromptSpan& a, const PromptSpan& b) { return a.byte_begin < b.byte_begin; });
  sample.depth = static_cast<double>(sample.evidence[0].byte_begin) / sample.prompt.size();
  return LocateTokens(sample.prompt, sample.token_ids, tokenizer, sample.evidence);
}

}  // namespace

Sample StartSample(const TaskSpec& spec, const RulerTaskInfo& info, const SampleRequest& request) {
  Sample sample;
  sample.task = spec.name;
  sample.context_length = request.context_length;
  sample.index = request.index;
  sample.row_id = absl::StrCat(request.index);
  sample.max_new_tokens = AnswerTokens(spec, info.max_new_tokens);
  sample.thinking_max_tokens = spec.answer.thinking_max_tokens;
  sample.sampling_seed = SamplingSeed(ItemSeed(request.seed, spec.name, request.index));
  sample.metrics = spec.metrics;
  return sample;
}

absl::Status FillSample(const TaskSpec& spec, const RulerTaskInfo& info, const RulerRow& row, const SampleForm& form,
                        const TokenCounter& tokenizer, Sample& sample) {
  sample.tokenizer_sha256 = tokenizer.sha256();
  sample.gold = row.outputs;
  sample.prompt = row.input;
  if (form.with_answer_prefix) {
    sample.answer_prefix = spec.chat ? PythonStrip(row.answer_prefix) : row.answer_prefix;
    if (!spec.chat) absl::StrAppend(&sample.prompt, sample.answer_prefix);
  }
  ASSIGN_OR_RETURN(sample.token_ids, PromptIds(form, spec.chat, tokenizer, sample));
  // The length is that of upstream's own count, without special tokens: a label, which the prompt may exceed by a BOS.
  sample.shortfall_tokens = sample.context_length - sample.prompt_token_count() - info.max_new_tokens;
  if (info.script != Script::kNiah || form.special_tokens_in_text) return absl::OkStatus();
  return LocateValues(tokenizer, sample);
}

}  // namespace varifocal::ruler
