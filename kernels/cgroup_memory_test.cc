// Limits of control groups of both versions, in directories laid out like the kernel's.
#include "kernels/cgroup_memory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace varifocal::kernels {
namespace {

constexpr size_t kMB = 1'000'000;
constexpr MemoryInfo kMachine = {64'000 * kMB, 21'000 * kMB};

class CgroupMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "/cgroups_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& path, const std::string& text) const {
    const std::string whole = directory_ + "/" + path;
    std::filesystem::create_directories(whole.substr(0, whole.rfind('/')));
    std::ofstream(whole) << text << "\n";
  }
  void Group2(const std::string& path, const std::string& max, size_t current, size_t inactive_file) const {
    Write("fs" + path + "/memory.max", max);
    Write("fs" + path + "/memory.current", std::to_string(current));
    Write("fs" + path + "/memory.stat", "anon 1\ninactive_file " + std::to_string(inactive_file) + "\nactive_file 7");
  }
  void Group1(const std::string& path, size_t limit, size_t usage, size_t inactive_file) const {
    Write("fs/memory" + path + "/memory.limit_in_bytes", std::to_string(limit));
    Write("fs/memory" + path + "/memory.usage_in_bytes", std::to_string(usage));
    Write("fs/memory" + path + "/memory.stat", "inactive_file 3\ntotal_inactive_file " + std::to_string(inactive_file));
  }
  void ExpectMemory(size_t total, size_t free) const {
    const MemoryInfo info = LimitByCgroups(kMachine, directory_ + "/self", directory_ + "/fs");
    EXPECT_EQ(info.total_bytes, total);
    EXPECT_EQ(info.free_bytes, free);
  }
  std::string directory_;
};

TEST_F(CgroupMemoryTest, NoneIsTheMachine) { ExpectMemory(kMachine.total_bytes, kMachine.free_bytes); }

TEST_F(CgroupMemoryTest, AContainerSeesItsLimitAtTheRoot) {
  Write("self", "0::/");
  Group2("", "400000000", 150 * kMB, 50 * kMB);
  ExpectMemory(400 * kMB, 300 * kMB);
}

TEST_F(CgroupMemoryTest, AUnitAndTheSlicesAboveIt) {
  Write("self", "0::/system.slice/varifocald.service");
  Group2("/system.slice/varifocald.service", "max", 90 * kMB, 0);
  ExpectMemory(kMachine.total_bytes, kMachine.free_bytes);
  Group2("/system.slice/varifocald.service", "400000000", 90 * kMB, 0);
  ExpectMemory(400 * kMB, 310 * kMB);
  // A larger limit of the slice, of which less is left.
  Group2("/system.slice", "1000000000", 950 * kMB, 100 * kMB);
  ExpectMemory(400 * kMB, 150 * kMB);
  Group2("/system.slice", "300000000", 100 * kMB, 0);
  ExpectMemory(300 * kMB, 200 * kMB);
  Group2("/system.slice", "300000000", 400 * kMB, 0);
  ExpectMemory(300 * kMB, 0);
}

TEST_F(CgroupMemoryTest, Version1) {
  Write("self", "12:pids:/a\n5:cpu,memory:/batch/job\n1:name=systemd:/a\n0::/a");
  Group1("", 9'223'372'036'854'771'712u, 900 * kMB, 0);
  ExpectMemory(kMachine.total_bytes, kMachine.free_bytes);
  Group1("/batch/job", 400 * kMB, 90 * kMB, 40 * kMB);
  ExpectMemory(400 * kMB, 350 * kMB);
  Group1("/batch", 500 * kMB, 450 * kMB, 0);
  ExpectMemory(400 * kMB, 50 * kMB);
}

// A container without a cgroup namespace sees the host's path, which does not exist in its mount.
TEST_F(CgroupMemoryTest, APathOutsideTheMount) {
  Write("self", "5:memory:/docker/0123");
  Group1("", 400 * kMB, 100 * kMB, 0);
  ExpectMemory(400 * kMB, 300 * kMB);
}

TEST_F(CgroupMemoryTest, OddMembershipsAreIgnored) {
  Write("self", "\n::\n0:\nx\n0::relative\n7:memory:");
  Group2("", "400000000", 0, 0);
  ExpectMemory(400 * kMB, 400 * kMB);
}

}  // namespace
}  // namespace varifocal::kernels
