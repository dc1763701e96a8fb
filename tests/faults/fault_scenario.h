// What the tests of the layers below SQLite share: the failing VFS, installed once, and files to start again from.
#pragma once

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "db/sqlite/fault_injection.h"

namespace varifocal {

inline void InstallFaultInjectionOnce() {
  static const bool installed = [] {
    sqlite::InstallFaultInjection();
    return true;
  }();
  (void)installed;
}

inline void RemoveDatabase(const std::string& path) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm", ".lock"}) unlink(absl::StrCat(path, suffix).c_str());
}

}  // namespace varifocal
