#include "client/page_tokens.h"

#include "base/status_macros.h"

namespace varifocal::client {

absl::StatusOr<bool> PageTokens::HasNext(const std::string& token, int64_t entry_count) {
  constexpr size_t kTokenBytesMax = 4096;
  if (token.empty()) return false;
  const char* why = nullptr;
  if (entry_count == 0) why = "a page without entries names another one";
  if (token.size() > kTokenBytesMax) why = "the token of a page is too long";
  if (std::ssize(seen_) >= kPagesMax) why = "there are more than 100,000 pages";
  if (why == nullptr && !seen_.insert(token).second) why = "a page names one that was there before";
  if (why == nullptr) return true;
  return Internal("the daemon's list does not end: ", why);
}

}  // namespace varifocal::client
