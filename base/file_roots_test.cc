// What a request may name once the process is confined: every way out of a root is refused in one sentence, and what is
// below one is read as before.
#include "base/file_roots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

namespace fs = std::filesystem;

class FileRootsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"models/m", "data", "outside", "models-too", "own"})
      fs::create_directories(base_ / folder);
    for (const char* file : {"models/m/config.json", "data/rows.jsonl", "outside/secret", "models-too/x", "own/x"}) {
      std::ofstream(base_ / file) << "bytes of " << file;
    }
  }
  void TearDown() override { UnconfineFilesForTesting(); }
  std::string Path(const std::string& name) const { return (base_ / name).string(); }
  void Confine() const {
    FileRoots roots;
    roots.model_roots = {Path("models")};
    roots.data_roots = {Path("data")};
    roots.own_model_directories = {Path("own")};
    ASSERT_TRUE(ConfineFiles(roots).ok());
  }
  static void ExpectOutside(const std::string& path, const FileKind& kind) {
    const absl::Status status = ReadFile(path, kind).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << path << ": " << status;
    EXPECT_EQ(status.message(),
              path + " is not below a directory of " + (kind.use == FileUse::kModel ? "--model-root" : "--data-root"));
    EXPECT_TRUE(HasReason(status, ErrorReason::kPathOutsideRoots));
    EXPECT_TRUE(FileExists(path, kind.use)) << "so that reading it is refused: " << path;
  }
  testing_support::TemporaryDirectory directory_;
  fs::path base_ = directory_.path();
};

TEST_F(FileRootsTest, WithoutRootsEveryPathIsRead) {
  EXPECT_EQ(*ReadFile(Path("outside/secret"), kDataFile), "bytes of outside/secret");
  EXPECT_FALSE(FileExists(Path("absent"), FileUse::kModel));
}

TEST_F(FileRootsTest, WhatIsBelowARootIsRead) {
  fs::create_symlink("m", base_ / "models/link");                       // to a neighbour
  fs::create_symlink("../m/config.json", base_ / "models/m/snapshot");  // up and down again, inside of the root
  fs::create_directory_symlink(Path("models"), base_ / "alias");        // to the root itself
  Confine();
  for (const char* name : {"models/m/config.json", "models/./m/../m/config.json", "models/link/config.json",
                           "models/m/snapshot", "models-too/../models/m/config.json"}) {
    const auto read = ReadFile(Path(name), kConfigFile);
    ASSERT_TRUE(read.ok()) << name << ": " << read.status();
    EXPECT_EQ(*read, "bytes of models/m/config.json") << name;
  }
  EXPECT_EQ(*ReadFile(Path("data/rows.jsonl"), kDataFile), "bytes of data/rows.jsonl");
  EXPECT_FALSE(FileExists(Path("data/absent"), FileUse::kData));
  EXPECT_EQ(ReadFile(Path("data/absent"), kDataFile).status().code(), absl::StatusCode::kNotFound);
  // A path relative to the working directory of the process.
  const fs::path old = fs::current_path();
  fs::current_path(base_ / "data");
  EXPECT_TRUE(ReadFile("rows.jsonl", kDataFile).ok());
  ExpectOutside("../outside/secret", kDataFile);
  fs::current_path(old);
}

TEST_F(FileRootsTest, ARootThatIsALinkHasBothNames) {
  fs::create_directory_symlink(Path("models"), base_ / "alias");
  ASSERT_TRUE(ConfineFiles({.model_roots = {Path("alias/")}}).ok());
  EXPECT_TRUE(ReadFile(Path("alias/m/config.json"), kConfigFile).ok());
  EXPECT_TRUE(ReadFile(Path("models/m/config.json"), kConfigFile).ok());
}

TEST_F(FileRootsTest, EveryWayOutIsRefusedInOneSentence) {
  fs::create_symlink(Path("outside/secret"), base_ / "data/absolute");
  fs::create_symlink("../outside/secret", base_ / "data/relative");
  fs::create_symlink("../outside/absent", base_ / "data/to_nothing");
  fs::create_directory_symlink("../outside", base_ / "data/folder");
  fs::create_symlink("/proc/self/exe", base_ / "data/magic");
  fs::create_symlink("loop", base_ / "data/loop");
  Confine();
  for (const char* name : {"outside/secret", "outside/absent", "absent/absent", "data/../outside/secret",
                           "data/absolute", "data/relative", "data/to_nothing", "data/folder/secret",
                           "data/folder/absent", "data/magic", "data/loop", "models/m/config.json", "own/x"}) {
    ExpectOutside(Path(name), kDataFile);
  }
  // A name that only begins like a root, and the root of the other kind.
  for (const char* name : {"models-too/x", "models-too/absent", "data/rows.jsonl"})
    ExpectOutside(Path(name), kConfigFile);
  for (const char* path : {"/etc/shadow", "/etc/absent", "/proc/self/environ", "/dev/zero", ""}) {
    ExpectOutside(path, kDataFile);
  }
}

// A link that is made after the path was looked at is refused when the file is opened: there is no separate check.
TEST_F(FileRootsTest, ALinkThatIsMadeLaterLeadsNowhere) {
  Confine();
  ASSERT_TRUE(ReadFile(Path("data/rows.jsonl"), kDataFile).ok());
  fs::remove(base_ / "data/rows.jsonl");
  fs::create_symlink(Path("outside/secret"), base_ / "data/rows.jsonl");
  ExpectOutside(Path("data/rows.jsonl"), kDataFile);
  fs::rename(base_ / "data", base_ / "moved");
  fs::create_directory_symlink(Path("outside"), base_ / "data");
  EXPECT_EQ(ReadFile(Path("data/secret"), kDataFile).status().code(), absl::StatusCode::kNotFound)
      << "the root is the directory that was opened, whatever its name is now";
}

TEST_F(FileRootsTest, WhatTheCommandLineNamesIsReadAsItIs) {
  fs::create_symlink(Path("outside/secret"), base_ / "own/link");
  Confine();
  EXPECT_TRUE(ReadFile(Path("own/x"), kConfigFile).ok());
  EXPECT_EQ(*ReadFile(Path("own/link"), kConfigFile), "bytes of outside/secret");
  ExpectOutside(Path("own/../outside/secret"), kConfigFile);
}

TEST_F(FileRootsTest, RootsOfOneKindConfineBoth) {
  ASSERT_TRUE(ConfineFiles({.model_roots = {Path("models")}}).ok());
  EXPECT_TRUE(ReadFile(Path("models/m/config.json"), kConfigFile).ok());
  ExpectOutside(Path("data/rows.jsonl"), kDataFile);
}

TEST_F(FileRootsTest, ARootMustBeADirectory) {
  for (const char* name : {"absent", "data/rows.jsonl"}) {
    const absl::Status status = ConfineFiles({.data_roots = {Path(name)}});
    EXPECT_TRUE(HasReason(status, ErrorReason::kBadFileRoot)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--data-root=" + Path(name)));
  }
  EXPECT_TRUE(ReadFile(Path("outside/secret"), kDataFile).ok()) << "a refused root confines nothing";
}

TEST_F(FileRootsTest, TheWholeFileSystemMayBeARoot) {
  FileRoots roots;
  roots.data_roots = {"/"};
  ASSERT_TRUE(ConfineFiles(roots).ok());
  EXPECT_EQ(*ReadFile(Path("outside/secret"), kDataFile), "bytes of outside/secret");
  ExpectOutside(Path("models/m/config.json"), kConfigFile);
  roots.model_roots = {Path("absent")};
  EXPECT_FALSE(ConfineFiles(roots).ok());
}

TEST_F(FileRootsTest, ARootIsADirectoryAndOwnFilesAreNotConfined) {
  Confine();
  EXPECT_EQ(ReadFile(Path("data"), kDataFile).status().message(), Path("data") + " is a directory, not a regular file");
  const auto own = OpenConfined(Path("outside/secret"), FileUse::kOwn, O_RDONLY);
  ASSERT_TRUE(own.ok()) << own.status();
  close(*own);
}

}  // namespace
}  // namespace varifocal
