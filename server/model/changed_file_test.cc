// A checkpoint that changes: during loading it is rejected, and between two loads it is read and hashed again.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "kernels/backend.h"
#include "server/model/model.h"
#include "server/model/safetensors.h"
#include "server/model/transformer.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

constexpr char kGolden[] = "tests/testdata/goldens/llama/tied-d16-f32";

class ChangedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        absl::StrCat(testing::TempDir(), "/changed_", testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    std::filesystem::copy(kGolden, directory_ + "/model");
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/model"))
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
    bytes_ = *ReadFile(Weights(), kDataFile);
    options_.device = "reference";
    options_.cache_directory = directory_ + "/cache";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Weights() const { return directory_ + "/model/model.safetensors"; }
  // In place, as `cp` does; the inode stays.
  void Overwrite(const std::string& bytes) const {
    std::ofstream(Weights(), std::ios::binary | std::ios::trunc) << bytes;
  }
  // The weights with one bit of one tensor changed; equal in size.
  std::string Flipped(const std::string& tensor) const {
    std::string bytes = bytes_;
    const auto tensors = ParseSafetensors(bytes_);
    for (const TensorView& view : *tensors) {
      if (view.name == tensor) bytes[view.bytes.data() - bytes_.data()] ^= 1;
    }
    EXPECT_NE(bytes, bytes_);
    return bytes;
  }
  absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(const std::function<void()>& before_packing = [] {}) {
    options_.admit = [&](const kernels::Backend&, int64_t) {
      before_packing();
      return absl::OkStatus();
    };
    return LoadModel(directory_ + "/model", options_);
  }
  void ExpectDataLoss(const absl::Status& status) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, Message()));
  }

  std::string directory_, bytes_;
  ModelOptions options_;
};

// Errors of the process, not of the checkpoint: the same call may succeed later.
TEST_F(ChangedFileTest, WithoutMemoryOrDescriptorsItIsResourceExhausted) {
  // Addresses for a sparse file of a terabyte.
  ASSERT_EQ(truncate(Weights().c_str(), off_t{1} << 40), 0);
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit low = {pages * sysconf(_SC_PAGESIZE) + (size_t{256} << 20), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  absl::Status status = Load().status();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, Message()));

  Overwrite(bytes_);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};  // the standard streams; files are closed by a thread of their own, later
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  status = Load().status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(Load().ok());
}

TEST_F(ChangedFileTest, TruncationIsAnErrorNotASignal) {
  for (const int64_t size : {int64_t{0}, int64_t{1000}, std::ssize(bytes_) - 1}) {
    SCOPED_TRACE(size);
    Overwrite(bytes_);
    const auto loaded = Load([&] { ASSERT_EQ(truncate(Weights().c_str(), size), 0); });
    ExpectDataLoss(loaded.status());
  }
  Overwrite(bytes_);
  EXPECT_TRUE(Load().ok());
}

TEST_F(ChangedFileTest, OverwritingDuringLoadIsRejected) {
  const auto mixed = Load([&] { Overwrite(Flipped("model.layers.0.mlp.down_proj.weight")); });
  ExpectDataLoss(mixed.status());
  ASSIGN_OR_FAIL(const auto loaded, Load());
  EXPECT_EQ(loaded->weights_sha256(), Sha256Hex(*ReadFile(Weights(), kDataFile)));
}

// A wrong hash in the cache never identifies a model, and never causes sharing of another model's weights.
TEST_F(ChangedFileTest, AWrongCachedHashIsDetected) {
  // Old enough to be cached.
  ASSIGN_OR_FAIL(const auto source, OpenWeights(directory_ + "/model"));
  FakeClock later(source->files()[0]->input().identity().changed_ns / 1000 + 10'000'000);
  ASSERT_TRUE(HashWeights(*source, options_.cache_directory, later).ok());
  ASSIGN_OR_FAIL(const auto first, Load());
  const std::string other = Flipped("model.layers.0.mlp.down_proj.weight");
  Overwrite(other);
  // The cache entry of the old bytes is copied to that of the new ones.
  const std::string folder = options_.cache_directory + "/weights/";
  std::string remembered;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) remembered = *ReadFile(entry.path(), kDataFile);
  ASSIGN_OR_FAIL(const auto changed, OpenWeights(directory_ + "/model"));
  later.Advance(3600'000'000);
  ASSERT_TRUE(HashWeights(*changed, options_.cache_directory, later).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) std::ofstream(entry.path()) << remembered;
  ASSERT_EQ(HashWeights(*changed, options_.cache_directory)->whole, first->weights_sha256());
  // The old model is resident: its matrices have the digests in the cache.
  ExpectDataLoss(Load().status());
  ASSIGN_OR_FAIL(const auto second, Load());
  EXPECT_EQ(second->weights_sha256(), Sha256Hex(other));
  EXPECT_NE(second->weights_sha256(), first->weights_sha256());
}

// Equal name, size and time of modification: a reproducible archive, `cp -p` or an edit in place.
TEST_F(ChangedFileTest, AReplacementOfEqualSizeAndTimeIsHashedAgain) {
  const auto time = std::filesystem::last_write_time(Weights()) - std::chrono::hours(1);
  std::filesystem::last_write_time(Weights(), time);
  const auto remember = [&] {
    const auto source = OpenWeights(directory_ + "/model");
    FakeClock later((*source)->files()[0]->input().identity().changed_ns / 1000 + 10'000'000);
    return HashWeights(**source, options_.cache_directory, later)->whole;
  };
  EXPECT_EQ(remember(), Sha256Hex(bytes_));
  const auto old = (*InputFile::Open(Weights(), FileUse::kModel))->identity();
  const std::string other = Flipped("model.norm.weight");
  FileIdentity now = old;
  while (now.changed_ns == old.changed_ns) {  // the kernel's clock ticks every few milliseconds
    Overwrite(other);
    std::filesystem::last_write_time(Weights(), time);
    now = (*InputFile::Open(Weights(), FileUse::kModel))->identity();
  }
  ASSERT_EQ(now.modified_ns, old.modified_ns);
  ASSERT_EQ(now.inode, old.inode);
  EXPECT_EQ(remember(), Sha256Hex(other));
}

TEST_F(ChangedFileTest, ARecentlyChangedFileIsNotCached) {
  ASSIGN_OR_FAIL(const auto source, OpenWeights(directory_ + "/model"));
  const FileIdentity& is = source->files()[0]->input().identity();
  const int64_t changed_us = std::max(is.changed_ns, is.modified_ns) / 1000;
  const auto remembered = [&] {
    const std::string folder = options_.cache_directory + "/weights";
    return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
  };
  for (const int64_t age_us : {int64_t{-1'000'000}, int64_t{0}, int64_t{1'999'999}}) {
    ASSERT_TRUE(HashWeights(*source, options_.cache_directory, FakeClock(changed_us + age_us)).ok());
    EXPECT_FALSE(remembered()) << age_us;
  }
  ASSERT_TRUE(HashWeights(*source, options_.cache_directory, FakeClock(changed_us + 2'000'000)).ok());
  EXPECT_TRUE(remembered());
}

}  // namespace
}  // namespace varifocal
