// Seeds of all draws of native tasks: digests of the purpose of the draw, so that questions keep their identity.
//
// item   SHA-256("item\n<seed>\n<task>\n<index>\n")     the question, its answer, its depth, its id
// group  SHA-256("group\n<seed>\n<task>\n<group>\n")    shared by the four questions of a context (e.g. the labels)
// filler SHA-256("filler\n<group in hex>\n<length>\n")  the filler at one context length
// epoch  SHA-256("epoch\n<sampling seed>\n<epoch>\n")   the sampling seed of answer 1, 2, .. to a question
//
// shot   SHA-256("shot\n<seed>\n<task>\n<row id>\n")   the rank of a user's row as a demonstration: ascending digests;
//                                                      <seed> is `shots_seed`, not the data seed
//
// `task` is the task's name in the suite; numbers are decimal. Only the filler depends on the length, and none on the
// tokenizer, which only determines the number of units that fit.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/sha256.h"

namespace varifocal {

Sha256Digest ItemSeed(int64_t seed, absl::string_view task, int index);
Sha256Digest GroupSeed(int64_t seed, absl::string_view task, int group);
Sha256Digest FillerSeed(const Sha256Digest& group_seed, int context_length);

Sha256Digest ShotSeed(int64_t shots_seed, absl::string_view task, absl::string_view row_id);

std::string QuestionId(absl::string_view task, int index, const Sha256Digest& item_seed);  // "recall_kv/7/0123abcd"
std::string ClusterId(absl::string_view task, int group, const Sha256Digest& group_seed);  // "recall_kv/g1/0123abcd"
// Seed of a sampled answer: the item's, so that lengths and variants use the same draws.
uint64_t SamplingSeed(const Sha256Digest& item_seed);
// That of one of several answers to a question; the first one's is `sampling_seed` itself.
uint64_t EpochSeed(uint64_t sampling_seed, int epoch);

}  // namespace varifocal
