// Limits of messages that both sides of a call know: a client splits what is larger.
#pragma once

#include <cstddef>

namespace varifocal {

// Requests and responses above this are refused: 16 MiB hold a 32K prompt about eighty times.
inline constexpr int kMessageBytesMax = 16 << 20;

// Of one ImportScores. Storing the largest number takes about a second, in which records of a running job wait.
inline constexpr int kImportedScoresMax = 100'000;
inline constexpr int kImportedNamesMax = 64;
inline constexpr size_t kImportSourceBytesMax = 1024;
inline constexpr size_t kImportIdBytesMax = 64;

}  // namespace varifocal
