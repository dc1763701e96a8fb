#include "server/rpc/page_token.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kHashCharacters = 16;

std::string Hash(absl::string_view list, absl::string_view last_key) {
  return Sha256Hex(absl::StrCat("varifocal page token 1 ", list, " ", last_key)).substr(0, kHashCharacters);
}

}  // namespace

std::string MakePageToken(absl::string_view list, absl::string_view last_key) {
  return absl::StrCat(Hash(list, last_key), absl::WebSafeBase64Escape(last_key));
}

absl::StatusOr<std::string> ParsePageToken(absl::string_view list, absl::string_view token) {
  if (token.empty()) return std::string();
  std::string last_key;
  if (token.size() > kHashCharacters && token.size() <= 512 &&
      absl::WebSafeBase64Unescape(token.substr(kHashCharacters), &last_key) &&
      token.substr(0, kHashCharacters) == Hash(list, last_key)) {
    return last_key;
  }
  return WithReason(InvalidArgument("page_token \"", token.substr(0, 64), "\" was not returned by this list"),
                    ErrorReason::kBadPageToken, {{"field", "page_token"}});
}

absl::StatusOr<int32_t> CheckPageSize(int32_t page_size) {
  if (page_size < 0) {
    return WithReason(InvalidArgument("page_size ", page_size, " is negative, the least is 0"),
                      ErrorReason::kBadPageSize, {{"field", "page_size"}});
  }
  return page_size == 0 ? kDefaultPageSize : std::min(page_size, kPageSizeMax);
}

}  // namespace varifocal
