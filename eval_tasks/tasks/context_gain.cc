#include "eval_tasks/tasks/context_gain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"
#include "eval_tasks/text_bytes.h"

namespace varifocal {
namespace {

constexpr size_t kWordBytesMax = 256;  // how far back the end of a window looks for the end of a word

bool IsInsideCharacter(absl::string_view text, size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; }

class ContextGain : public SingleQuestionTask {
 public:
  ContextGain(TaskSpec spec, std::string text, std::string data_sha256)
      : spec_(std::move(spec)),
        text_(std::move(text)),
        data_sha256_(std::move(data_sha256)),
        scored_tokens_(GetInteger(spec_.parameters, "scored_tokens")),
        short_context_(GetInteger(spec_.parameters, "short_context")),
        longest_(GetInteger(spec_.parameters, "longest")) {}

  const std::string& name() const override { return spec_.name; }
  std::string data_sha256() const override { return data_sha256_; }
  int question_count() const override {
    if (text_.size() < WindowBytes()) return 0;
    return std::min<size_t>((text_.size() - WindowBytes()) / Stride() + 1, kSampleCountMax);
  }

  absl::StatusOr<int> QuestionCountAt(int context_length) const override {
    if (context_length > longest_ || context_length <= short_context_ + scored_tokens_) {
      return InvalidArgument("task \"", spec_.name, "\": the context length ", context_length, " must be above ",
                             short_context_ + scored_tokens_, " (short_context and scored_tokens) and at most ",
                             longest_, " (longest)");
    }
    return question_count();
  }

  Sample Identify(const SampleRequest& request) const override {
    const Sha256Digest item_seed = ItemSeed(request.seed, spec_.name, request.index);
    Sample sample = AskedSample(spec_, request);
    sample.row_id = absl::StrCat(EndOf(request));
    sample.question_id = QuestionId(spec_.name, request.index, item_seed);
    sample.cluster = ClusterId(spec_.name, request.index, GroupSeed(request.seed, spec_.name, request.index));
    sample.max_new_tokens = scored_tokens_;
    return sample;
  }

 private:
  size_t WindowBytes() const { return kBytesPerToken * longest_; }
  size_t Stride() const { return kBytesPerToken * scored_tokens_; }

  // The byte at which a window ends, after a word where there is one: windows in random order.
  size_t EndOf(const SampleRequest& request) const {
    Random order(absl::StrCat("windows\n", request.seed, "\n", spec_.name, "\n"));
    const size_t count = question_count();
    const size_t place = order.Sample(count, request.index + 1).back();
    size_t end = WindowBytes() + place * Stride();
    const size_t blank = text_.find_last_of(" \n\t", end);
    if (blank != std::string::npos && blank + kWordBytesMax > end) return blank;
    while (IsInsideCharacter(text_, end)) --end;
    return end;
  }

  absl::StatusOr<Sample> Make(const SampleRequest& request, const TokenCounter& tokenizer) const override {
    Sample sample = Identify(request);
    sample.tokenizer_sha256 = tokenizer.sha256();
    const size_t end = EndOf(request);
    size_t begin = end - std::min(end, WindowBytes());
    while (IsInsideCharacter(text_, begin)) ++begin;
    ASSIGN_OR_RETURN(const std::vector<int32_t> specials, tokenizer.EncodePromptStart(""));
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     tokenizer.EncodePiece(absl::string_view(text_).substr(begin, end - begin)));
    const size_t needed = request.context_length - specials.size();
    if (ids.size() < needed) {
      return OutOfRange("the window of task \"", spec_.name, "\" that ends at byte ", end, " has ", ids.size(),
                        " tokens in ", end - begin, " bytes, and ", needed,
                        " are needed; give a smaller `longest` and shorter lengths");
    }
    const auto scored = ids.end() - scored_tokens_;
    const auto context = [&](size_t count) {
      std::vector<int32_t> with_specials = specials;
      with_specials.insert(with_specials.end(), scored - (count - specials.size()), scored);
      return with_specials;
    };
    sample.token_ids = context(request.context_length - scored_tokens_);
    sample.context_token_ids = {sample.token_ids, context(short_context_)};
    sample.continuation_token_ids.assign(2, {scored, ids.end()});
    ASSIGN_OR_RETURN(sample.prompt,
                     tokenizer.DecodePiece(absl::MakeConstSpan(sample.token_ids).subspan(specials.size())));
    ASSIGN_OR_RETURN(const std::string text, tokenizer.DecodePiece(sample.continuation_token_ids[0]));
    sample.continuations.assign(2, text);
    sample.gold = {text};
    sample.gold_continuation_indices = {0};
    return sample;
  }

  const TaskSpec spec_;
  const std::string text_;
  const std::string data_sha256_;
  const int scored_tokens_, short_context_, longest_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeContextGain(const TaskSpec& spec) {
  const std::string& path = GetText(spec.parameters, "path");
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kDataFile));
  return MakeContextGain(spec, path, std::move(bytes));
}

absl::StatusOr<std::unique_ptr<Task>> MakeContextGain(const TaskSpec& spec, absl::string_view path, std::string bytes) {
  if (spec.chat) {
    return InvalidArgument("task \"", spec.name, "\": text is scored as it is, so context_gain has no chat format");
  }
  const std::string digest = Sha256Hex(bytes);
  RETURN_IF_ERROR(CheckRecordedSha256(spec.parameters, path, digest));
  RETURN_IF_ERROR(CheckIsText(path, bytes));
  const size_t size = bytes.size();
  auto task = std::make_unique<ContextGain>(spec, std::move(bytes), digest);
  if (task->question_count() == 0) {
    return InvalidArgument(path, " has ", size, " bytes; windows of up to ", GetInteger(spec.parameters, "longest"),
                           " tokens (longest) need ",
                           kBytesPerToken * static_cast<size_t>(GetInteger(spec.parameters, "longest")));
  }
  return std::unique_ptr<Task>(std::move(task));
}

}  // namespace varifocal
