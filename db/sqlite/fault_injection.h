// Fault injection below SQLite: failed memory allocations and file operations, a disk with a quota, kill points, and a
// trace of everything written.
//
// A test runs its scenario with the N-th operation failing, N = 1, 2, 3, .., until the scenario ends without reaching the
// N-th operation: then every possible failure point was tried. Test only; no program that is installed links it.
//
// Threads: install before any other use of SQLite; then any. Counts and traces are those of all threads together.
// Source:  the method of SQLite's own test harness (sqlite.org/testing.html, sections 3.1 to 3.3).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace varifocal::sqlite {

enum class FaultKind {
  kMemory,       // an allocation returns null
  kInputOutput,  // a read, write, sync, truncate, open or delete fails with an I/O error
  kDiskFull,     // a write finds no space
};

// Installs the failing allocator and VFS, once per process; they have no effect until armed, except that nothing is
// synced to disk.
void InstallFaultInjection();

// The `at`-th operation of this kind from now fails (and all later ones too when sticky). 0 disarms.
void ArmFault(FaultKind kind, int64_t at, bool sticky);
void DisarmFaults();
bool FaultHappened();  // since it was armed

// A disk with room for this many more bytes: a write that makes a file longer fails once they are used. Negative: no limit.
void SetDiskQuota(int64_t bytes);

// ---- Kill points ----

// The process kills itself (SIGKILL) when it passes the named point for the `nth` time. Points of the VFS: before_ and
// after_ each of write, sync, truncate, delete; a program adds its own with PassKillPoint.
void ArmKillPoint(const std::string& point, int64_t nth);
void PassKillPoint(const char* point);
std::map<std::string, int64_t> KillPointCounts();  // passes since the process started

// ---- Trace ----

struct FileChange {
  enum class Kind { kCreate, kWrite, kTruncate, kSync, kDelete };
  Kind kind = Kind::kWrite;
  std::string path;
  int64_t at = 0;           // offset of a write, new size of a truncation
  std::string bytes;        // of a write
  bool is_durable = false;  // a deletion that syncs the directory
};

// Records the changes of all files from now on.
void StartTrace();
std::vector<FileChange> StopTrace();
int64_t TraceLength();

}  // namespace varifocal::sqlite
