#include "server/model/dual_chunk_keys.h"

#include <algorithm>

#include "base/status_macros.h"

namespace varifocal {

// Dual chunk attention (Qwen2.5-1M): positions are counted within chunks, sums are split by them, and beyond the original
// length scores are scaled. Within the first chunk it is the plain function, so the model is limited to that length.
absl::Status ReadDualChunk(ConfigReader& reader, ModelConfig& config) {
  constexpr absl::string_view kKey = "dual_chunk_attention_config";
  const Json* object = reader.Take(kKey);
  if (object == nullptr) return absl::OkStatus();
  if (!object->is_object())
    return InvalidArgument(reader.Name(kKey), " is ", ShownValue(*object), "; it must be an object");
  ConfigReader chunks(*object, reader.Place(kKey));
  ASSIGN_OR_RETURN(const int64_t chunk_size, chunks.Int("chunk_size", {1, kPositionMax}, 8192));
  ASSIGN_OR_RETURN(const int64_t local_size, chunks.Int("local_size", {0, kPositionMax}, 1024));
  if (local_size >= chunk_size) {
    return InvalidArgument(chunks.Name("local_size"), " is ", local_size, "; it must be below chunk_size, ",
                           chunk_size);
  }
  int64_t limit = chunk_size - local_size;
  ASSIGN_OR_RETURN(const int64_t original, chunks.Int("original_max_position_embeddings", {0, kPositionMax}, 0));
  if (original > 0) limit = std::min(limit, original);
  // Longer prompts are then attended to sparsely.
  const bool has_sparse_part = chunks.Take("sparse_attention_config") != nullptr;
  ASSIGN_OR_RETURN(const bool is_sparse, chunks.Bool("sparse_attention_enabled", has_sparse_part));
  ASSIGN_OR_RETURN(const int64_t threshold, chunks.Int("sparse_attention_threshold", {0, kPositionMax}, 32768));
  if (is_sparse) limit = std::min(limit, threshold);
  chunks.Ignore({"sparse_attention_last_q"});
  RETURN_IF_ERROR(chunks.RefuseUnread());
  if (limit == 0)
    return Unimplemented(chunks.Name("sparse_attention_threshold"), " is 0; sparse attention is not supported");
  if (limit >= config.max_position) return absl::OkStatus();
  config.notes.push_back(absl::StrCat("context limited from ", config.max_position, " to ", limit,
                                      " positions, up to which ", kKey, " is the plain function"));
  config.max_position = limit;
  return absl::OkStatus();
}

}  // namespace varifocal
