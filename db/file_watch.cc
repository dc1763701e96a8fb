#include "db/file_watch.h"

#include <sys/stat.h>

#include <set>
#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"

namespace varifocal::db {
namespace {

struct Held {
  Mutex mutex;
  std::multiset<std::pair<dev_t, ino_t>> files VF_GUARDED_BY(mutex);
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
  Held& all = AllHeld();
  MutexLock lock(all.mutex);
  all.files.insert({device_, inode_});
}

HeldFile::~HeldFile() {
  Held& all = AllHeld();
  MutexLock lock(all.mutex);
  const auto mine = all.files.find({device_, inode_});
  if (mine != all.files.end()) all.files.erase(mine);
}

bool HeldFile::IsHeld(dev_t device, ino_t inode) {
  Held& all = AllHeld();
  MutexLock lock(all.mutex);
  return all.files.count({device, inode}) > 0;
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
      return DataLoss(file.path, ": the file ", what,
                      " while it was in use; nothing more is stored until the daemon is started again");
    }
  }
  return absl::OkStatus();
}

}  // namespace varifocal::db
