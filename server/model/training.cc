#include "server/model/training.h"

#include <algorithm>
#include <limits>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kTrainingKey[] = "training";
constexpr int64_t kContextLengthMax = int64_t{1} << 30;

// An arm is part of a variant's label and of flags: one word without the separators of those.
bool IsArmName(const std::string& arm) {
  return !arm.empty() && arm.size() <= kArmBytesMax && std::all_of(arm.begin(), arm.end(), [](char c) {
    return c > ' ' && c <= '~' && c != '@' && c != ',' && c != '/';
  });
}

absl::StatusOr<std::optional<int64_t>> OptionalInt(ConfigReader& reader, const char* key, IntRange range) {
  if (!reader.Has(key)) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t value, reader.Int(key, range));
  return std::optional<int64_t>(value);
}

}  // namespace

absl::StatusOr<Training> ReadTraining(ConfigReader& config) {
  Training training;
  const Json* json = config.Take(kTrainingKey);
  if (json == nullptr) return training;
  if (!json->is_object())
    return InvalidArgument(config.Name(kTrainingKey), " is ", ShownValue(*json), "; it must be an object");
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ConfigReader reader(*json, config.Place(kTrainingKey));
  if (reader.Has("arm")) {
    ASSIGN_OR_RETURN(training.arm, reader.String("arm"));
    if (!IsArmName(training.arm)) {
      return InvalidArgument(reader.Name("arm"), " is ", ShownValue((*json)["arm"]), "; it must be 1 to ", kArmBytesMax,
                             " printable ASCII characters without spaces, @, comma and /");
    }
  }
  ASSIGN_OR_RETURN(training.seed, OptionalInt(reader, "seed", {0, kMax}));
  ASSIGN_OR_RETURN(training.tokens, OptionalInt(reader, "tokens", {1, kMax}));
  ASSIGN_OR_RETURN(training.context_length, OptionalInt(reader, "context_length", {1, kContextLengthMax}));
  if (reader.IsPresent("parameters"))
    return InvalidArgument(reader.Name("parameters"), " is set; the number of parameters is counted from the tensors");
  RETURN_IF_ERROR(reader.RefuseUnread());
  return training;
}

}  // namespace varifocal
