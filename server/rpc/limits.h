// How much the RPC side takes at once: what is above is refused with RESOURCE_EXHAUSTED, the value and the limit.
// docs/limits.md lists these numbers; server/limits_test.cc compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varifocal {

// Threads of the lanes (server/rpc/lanes.h).
inline constexpr int kControlThreads = 2;
inline constexpr int kSubmitThreads = 2;
inline constexpr int kChangeThreads = 1;
inline constexpr int kLoadThreads = 1;
inline constexpr int kTextThreads = 4;
// Calls that wait for a thread of one lane.
inline constexpr size_t kLaneQueueMax = 4096;

// Calls that carry work (not those of the control lane) from their arrival to their answer, and the bytes of their
// requests; one peer is one address, whatever its connections.
inline constexpr int64_t kAdmittedCallsMax = 4096;
inline constexpr int64_t kAdmittedBytesMax = int64_t{256} << 20;
inline constexpr int64_t kAdmittedCallsOfPeerMax = 2048;
inline constexpr int64_t kAdmittedBytesOfPeerMax = int64_t{128} << 20;

// Generate and ComputeLogLikelihoods calls of one model that are in its engine at once; the others wait, the peers in
// turn. Beside a running job they are as many as the samples of a job that are asked at once by default, so that job
// and callers get about half of the engine each.
inline constexpr int64_t kEngineCallsMax = 64;
inline constexpr int64_t kEngineCallsBesideJobMax = 8;

// Health: a lane whose oldest waiting call has waited longer is stalled, and so is a job thread that is silent longer.
inline constexpr int64_t kControlStallUs = 10'000'000;
inline constexpr int64_t kWorkStallUs = 60'000'000;
inline constexpr int64_t kJobStallUs = 120'000'000;

}  // namespace varifocal
