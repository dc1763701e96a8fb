#include "eval_tasks/task.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/sha256.h"

namespace varifocal {

namespace {

void UpdateWithIds(const std::vector<int32_t>& ids, Sha256Stream& stream) {
  stream.Update("[");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) stream.Update(",");
    stream.Update(absl::StrCat(ids[i]));
  }
  stream.Update("]");
}

}  // namespace

absl::string_view Sample::Given(size_t index) const {
  return given_bytes.empty() ? "" : absl::string_view(continuations[index]).substr(0, given_bytes[index]);
}

absl::string_view Sample::Scored(size_t index) const {
  return absl::string_view(continuations[index]).substr(Given(index).size());
}

std::string Sample::TokenIdsSha256() const {
  Sha256Stream stream;
  if (context_token_ids.empty()) {
    UpdateWithIds(token_ids, stream);
    return ToHex(stream.Finish());
  }
  stream.Update("[");
  for (size_t i = 0; i < context_token_ids.size(); ++i) {
    if (i > 0) stream.Update(",");
    UpdateWithIds(context_token_ids[i], stream);
  }
  stream.Update("]");
  return ToHex(stream.Finish());
}

absl::StatusOr<Sample> Task::MakeSample(const SampleRequest& request, const TokenCounter& tokenizer) const {
  VF_CHECK(request.index >= 0 && request.index < question_count());
  const GroupRange range = GroupOf(request.index);
  std::vector<absl::StatusOr<Sample>> group = MakeGroup(request, tokenizer);
  const int place = request.index - range.first_index;
  VF_CHECK(place >= 0 && place < std::ssize(group));
  return std::move(group[place]);
}

std::vector<absl::StatusOr<Sample>> SingleQuestionTask::MakeGroup(const SampleRequest& request,
                                                                  const TokenCounter& tokenizer) const {
  std::vector<absl::StatusOr<Sample>> group;
  group.push_back(Make(request, tokenizer));
  return group;
}

}  // namespace varifocal
