// Validates a request and converts it to a sequence for the scheduler.
//
// Errors: as Engine::Start, each with a reason (base/reason.h) and, where a part of the request is invalid, its `field`.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/sequence.h"
#include "server/model/model.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

struct RequestLimits {
  std::vector<PageGroupShape> groups;
  std::vector<int64_t> page_counts;  // of each group
  int64_t prefill_rows_max = 0;      // of a step
  int64_t step_rows_max = 0;         // a longer prompt that must run in one step needs additional memory
  bool prefix_cache = true;
};

absl::StatusOr<std::unique_ptr<Sequence>> CheckRequest(const LoadedModel& model, const RequestLimits& limits,
                                                       EngineRequest request);

// The checks that need no cache, for callers who prepare a request. Fields are named
// "prompt_token_ids", "continuations[2]", "top_p".
inline constexpr size_t kStopsMax = 16;
inline constexpr size_t kContinuationsMax = 1024;
// The tokenizer, if any, may have more ids than the model: the message names the token.
absl::Status CheckIds(absl::Span<const int32_t> ids, const std::string& field, int64_t vocabulary_size,
                      const Tokenizer* tokenizer = nullptr);
// None is the token of an image (ModelConfig::image_token_ids).
absl::Status CheckNoImages(absl::Span<const int32_t> ids, const std::string& field, const ModelConfig& config);
absl::Status CheckNotEmpty(absl::Span<const int32_t> prompt);
absl::Status CheckGenerateWork(const GenerateWork& work);
absl::Status CheckContinuationCount(size_t count);
// Prompt and new (or scored) tokens against the limit of the model's setting, both counts in the message.
absl::Status CheckLength(int64_t limit, int64_t prompt_token_count, int64_t new_token_count);
// The sequence size of a request.
SequenceExtent ExtentOf(const RequestLimits& limits, const AttentionSetting& attention, int64_t prompt_token_count,
                        int64_t new_token_count, bool scores_continuations);
// Peak bytes of a request, and whether the pages of every group suffice.
struct CacheNeed {
  int64_t bytes = 0;
  bool fits = true;
};
CacheNeed NeedOf(const LoadedModel& model, const RequestLimits& limits, const AttentionSetting& attention,
                 const SequenceExtent& extent);
// Bytes of all pages.
int64_t CacheBytes(const RequestLimits& limits);

}  // namespace varifocal
