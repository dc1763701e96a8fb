// Calls of a file system that may never return: a network mount or a FUSE file system whose server is gone.
//
// A call runs on a thread of its own, and is given up when it takes longer than the patience. What it uses must be its own: it may
// still run then. While it does, calls for files of the same directory fail at once, so a mount costs its waiter once.
//
// Errors:  UNAVAILABLE with the path: no answer in time.
// Threads: any; at most 64 of its own, which are reused and never joined.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace varifocal {

inline constexpr int64_t kFilePatienceUs = 20'000'000;

absl::Status CallFileSystem(const std::string& path, std::function<void()> call);
// The same without waiting for it.
void CallFileSystemLater(std::function<void()> call);
void SetFilePatienceForTesting(int64_t microseconds);

}  // namespace varifocal
