// What the tests of the layers below SQLite share: the failing VFS, installed once, files to start again from, and the
// errors that a fault may cause.
#pragma once

#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
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

// The codes a caller may see; anything else is not a clean error.
inline bool IsExpected(sqlite::FaultKind kind, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
      return true;
    case absl::StatusCode::kFailedPrecondition:  // SQLite 3.40's json_valid returns 0 when out of memory
      return kind == sqlite::FaultKind::kMemory && absl::StrContains(status.message(), "json_valid");
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kPermissionDenied:  // SQLITE_CANTOPEN
    case absl::StatusCode::kUnavailable:       // a lock that could not be acquired
      return kind == sqlite::FaultKind::kInputOutput;
    default:
      return false;
  }
}

}  // namespace varifocal
