#include "eval_tasks/seeds.h"

#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {
std::string Brief(const Sha256Digest& digest) { return ToHex(digest).substr(0, 8); }
}  // namespace

Sha256Digest ItemSeed(int64_t seed, absl::string_view task, int index) {
  return Sha256(absl::StrCat("item\n", seed, "\n", task, "\n", index, "\n"));
}

Sha256Digest GroupSeed(int64_t seed, absl::string_view task, int group) {
  return Sha256(absl::StrCat("group\n", seed, "\n", task, "\n", group, "\n"));
}

Sha256Digest FillerSeed(const Sha256Digest& group_seed, int context_length) {
  return Sha256(absl::StrCat("filler\n", ToHex(group_seed), "\n", context_length, "\n"));
}

Sha256Digest ShotSeed(int64_t shots_seed, absl::string_view task, absl::string_view row_id) {
  return Sha256(absl::StrCat("shot\n", shots_seed, "\n", task, "\n", row_id, "\n"));
}

std::string QuestionId(absl::string_view task, int index, const Sha256Digest& item_seed) {
  return absl::StrCat(task, "/", index, "/", Brief(item_seed));
}

std::string ClusterId(absl::string_view task, int group, const Sha256Digest& group_seed) {
  return absl::StrCat(task, "/g", group, "/", Brief(group_seed));
}

uint64_t SamplingSeed(const Sha256Digest& item_seed) {
  uint64_t seed = 0;
  for (int i = 0; i < 8; ++i) seed |= static_cast<uint64_t>(item_seed[i]) << (8 * i);
  return seed >> 1;  // fits a signed column
}

uint64_t EpochSeed(uint64_t sampling_seed, int epoch) {
  return epoch == 0 ? sampling_seed : SamplingSeed(Sha256(absl::StrCat("epoch\n", sampling_seed, "\n", epoch, "\n")));
}

}  // namespace varifocal
