#include "db/file_watch.h"

#include <sys/stat.h>

#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace varifocal::db {
namespace {

struct Held {
  std::mutex mutex;
  std::multiset<std::pair<dev_t, ino_t>> files;
};

Held& AllHeld() {
  static Held* const held = new Held;
  return *held;
}

}  // namespace

HeldFile::HeldFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  std::lock_guard<std::mutex> lock(AllHeld().mutex);
  AllHeld().files.insert({device_, inode_});
}

HeldFile::~HeldFile() {
  std::lock_guard<std::mutex> lock(AllHeld().mutex);
  const auto mine = AllHeld().files.find({device_, inode_});
  if (mine != AllHeld().files.end()) AllHeld().files.erase(mine);
}

bool HeldFile::IsHeld(dev_t device, ino_t inode) {
  std::lock_guard<std::mutex> lock(AllHeld().mutex);
  return AllHeld().files.count({device, inode}) > 0;
}

FileWatch::FileWatch(const std::string& database_path) {
  for (const char* suffix : {"", "-wal"}) {
    File file = {database_path + suffix};
    struct stat info;
    if (stat(file.path.c_str(), &info) != 0) continue;
    file.device = info.st_dev;
    file.inode = info.st_ino;
    files_.push_back(std::move(file));
  }
}

absl::Status FileWatch::Check() const {
  for (const File& file : files_) {
    struct stat info;
    const char* what = nullptr;
    if (stat(file.path.c_str(), &info) != 0) {
      what = "was deleted or moved away";
    } else if (info.st_dev != file.device || info.st_ino != file.inode) {
      what = "was replaced by another file";
    }
    if (what != nullptr) {
      return absl::DataLossError(
          absl::StrCat(file.path, ": the file ", what,
                       " while it was in use; nothing more is stored until the daemon is started again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace varifocal::db
