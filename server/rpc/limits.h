// Limits of the RPC layer; beyond them a call is refused with RESOURCE_EXHAUSTED, the value and the limit.
// docs/limits.md lists these numbers; server/limits_test.cc compares the two.
#pragma once

#include <cstddef>
#include <cstdint>

namespace varifocal {

// Threads of the pools (server/rpc/rpc_pools.h).
inline constexpr int kControlThreads = 2;
inline constexpr int kSubmitThreads = 2;
inline constexpr int kChangeThreads = 1;
inline constexpr int kLoadThreads = 1;
inline constexpr int kTextThreads = 4;
// Calls that wait for a thread of one pool.
inline constexpr size_t kPoolQueueMax = 4096;

// Active calls (except those of the control pool) from arrival to response, and the bytes of their requests; one peer
// is one name of tokens, or without tokens one address, with all its connections.
inline constexpr int64_t kAdmittedCallsMax = 4096;
inline constexpr int64_t kAdmittedBytesMax = int64_t{256} << 20;
inline constexpr int64_t kAdmittedCallsOfPeerMax = 2048;
inline constexpr int64_t kAdmittedBytesOfPeerMax = int64_t{128} << 20;

// Streams of WatchJob; one thread serves them all.
inline constexpr size_t kWatchesMax = 1024;
// Streams of the health service's Watch, which needs no token, in all and of one connection.
inline constexpr size_t kHealthWatchesMax = 1024;
inline constexpr size_t kHealthWatchesOfConnectionMax = 64;

// Bytes of the text of Tokenize, and ids of its answer, which is smaller than a message may be with three bytes per id. A
// text has fewer ids than bytes, unless its normalizer makes it longer.
inline constexpr size_t kTokenizeBytesMax = 4 << 20;
inline constexpr size_t kTokenizeIdsMax = 5'000'000;
// Ids of Detokenize, which needs some fifty bytes of memory for each; a request has room for 16 million.
inline constexpr int kDetokenizeIdsMax = 5'000'000;

// Shares of an inspection, 8 bytes each, layers x heads x segments: so that the response stays below the message size limit.
inline constexpr int64_t kInspectedMassesMax = int64_t{3} << 19;
// Heads of a model whose jobs are inspected on workers: those that fit with the 257 segments of a strip.
inline constexpr int64_t kInspectedHeadsMax = kInspectedMassesMax / 257;

// Concurrent Generate and ComputeLogLikelihoods calls of one copy of a model in its engine; the others wait, round-robin over
// peers. Beside a running job the limit equals the default number of concurrent samples of a job: more would wait in the
// engine, where they are no longer in turn.
inline constexpr int64_t kEngineCallsMax = 64;
inline constexpr int64_t kEngineCallsBesideJobMax = 8;

// Health: a pool whose oldest waiting call has waited longer is stalled, as is a job thread without a heartbeat for
//         longer.
inline constexpr int64_t kControlStallUs = 10'000'000;
inline constexpr int64_t kWorkStallUs = 60'000'000;
inline constexpr int64_t kJobStallUs = 120'000'000;
// A model with work whose engine finishes no step: longer than a step of 32K tokens on a slow processor.
inline constexpr int64_t kEngineStallUs = 600'000'000;

}  // namespace varifocal
