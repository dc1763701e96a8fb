// Reads one JSON object key by key and records which keys were read, so that unread keys can be rejected by name.
//
//   ConfigReader reader(json, "rope_scaling");
//   ASSIGN_OR_RETURN(double factor, reader.Positive("factor"));
//   RETURN_IF_ERROR(reader.RefuseUnread());
//
// A getter with a fallback returns it when the key is missing or null; one without fails then.
// Errors: INVALID_ARGUMENT with key, value and limit.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/json.h"

namespace varifocal {

// A value as in the file, truncated for messages.
std::string ShownValue(const Json& value);
// The shortest text that reads back as `value`, "0.4", "500000"; finite values only.
std::string ShortNumber(double value);

// Limits of nonzero numbers; beyond them products and quotients no longer fit an f32.
inline constexpr double kNumberMin = 1e-30;
inline constexpr double kNumberMax = 1e30;

struct IntRange {
  int64_t low = 1;
  int64_t high = 1;
};

// While it exists, the keys that readers of this thread look up, with their places ("rope_scaling.factor"). For tests.
class ReadKeys {
 public:
  ReadKeys();
  ~ReadKeys();
  ReadKeys(const ReadKeys&) = delete;
  ReadKeys& operator=(const ReadKeys&) = delete;
  const std::set<std::string>& keys() const { return keys_; }

 private:
  friend class ConfigReader;
  std::set<std::string> keys_;
};

class ConfigReader {
 public:
  // `json` must outlive the reader; `place` prefixes keys in messages ("rope_scaling.factor"), "" at the top.
  ConfigReader(const Json& json, absl::string_view place) : json_(json), place_(place) {}

  bool Has(absl::string_view key) const;        // present and not null
  bool IsPresent(absl::string_view key) const;  // null or not
  // The raw value, marked as read; null when missing or null.
  const Json* Take(absl::string_view key);

  absl::StatusOr<int64_t> Int(absl::string_view key, IntRange range, std::optional<int64_t> fallback = std::nullopt);
  absl::StatusOr<double> Positive(absl::string_view key, std::optional<double> fallback = std::nullopt);
  absl::StatusOr<double> NonNegative(absl::string_view key, std::optional<double> fallback = std::nullopt);
  absl::StatusOr<bool> Bool(absl::string_view key, bool fallback);
  absl::StatusOr<std::string> String(absl::string_view key, std::optional<std::string> fallback = std::nullopt);

  // A key whose only supported value (or absence) is `value`; anything else is UNIMPLEMENTED by name.
  absl::Status RequireValue(absl::string_view key, const Json& value);
  // A key that states again what `other`, which is read, states or implies; anything else is INVALID_ARGUMENT.
  absl::Status RequireSame(absl::string_view key, const Json& value, absl::string_view other);
  void Ignore(absl::Span<const char* const> keys);
  // Null means not set. `may_be_ignored`: --ignore-config-key reaches the keys of this file.
  absl::Status RefuseUnread(bool may_be_ignored = true) const;

  std::string Place(absl::string_view key) const;  // "rope_scaling.factor"
  std::string Name(absl::string_view key) const;   // "\"rope_scaling.factor\""

 private:
  absl::StatusOr<double> Number(absl::string_view key, bool zero_allowed, std::optional<double> fallback);

  const Json& json_;
  std::string place_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace varifocal
