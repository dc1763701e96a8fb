// Page tokens: the start of the next page, with a checksum to detect invalid tokens.
//
// A token is the key of the last row and a keyed hash over it and the name of the list. The key of the hash is fixed:
// it detects mistakes (a token of another list, a truncated one). It needs no secrecy: every page can be reached
// anyway.
//
// Errors: INVALID_ARGUMENT (BAD_PAGE_TOKEN, BAD_PAGE_SIZE).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

inline constexpr int32_t kDefaultPageSize = 100;
inline constexpr int32_t kPageSizeMax = 1000;

std::string MakePageToken(absl::string_view list, absl::string_view last_key);
// The last key; "" for an empty token, which means the first page.
absl::StatusOr<std::string> ParsePageToken(absl::string_view list, absl::string_view token);
// 0 is the default, too large is the maximum, negative is an error.
absl::StatusOr<int32_t> CheckPageSize(int32_t page_size);

}  // namespace varifocal
