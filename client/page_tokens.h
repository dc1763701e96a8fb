// The tokens of a list's pages, followed as long as that can end: a daemon may be broken, or another program.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal::client {

class PageTokens {
 public:
  static constexpr int64_t kPagesMax = 100'000;

  // Whether there is a page after one that has these entries and this token. INTERNAL when it names itself or an earlier one,
  // has no entries, or is the last of kPagesMax.
  absl::StatusOr<bool> HasNext(const std::string& token, int64_t entry_count);

 private:
  std::set<std::string> seen_;
};

}  // namespace varifocal::client
