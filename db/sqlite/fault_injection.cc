#include "db/sqlite/fault_injection.h"

#include <signal.h>
#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"

namespace varifocal::sqlite {
namespace {

// One lock for all of the state: tests inject faults under several threads.
Mutex mutex;

struct Armed {
  FaultKind kind = FaultKind::kMemory;
  int64_t left = 0;  // operations until the failure; 0: disarmed
  bool sticky = false;
  bool failing = false;  // sticky, and reached
  bool happened = false;
} armed VF_GUARDED_BY(mutex);

int64_t quota_left VF_GUARDED_BY(mutex) = -1;  // negative: no quota

struct {
  std::string point;
  int64_t left = 0;
  std::map<std::string, int64_t> counts;
} kill_points VF_GUARDED_BY(mutex);

bool is_tracing VF_GUARDED_BY(mutex) = false;
std::vector<FileChange> trace VF_GUARDED_BY(mutex);

bool ShouldFail(FaultKind kind) {
  MutexLock lock(mutex);
  if (kind != armed.kind) return false;
  if (armed.failing) return true;
  if (armed.left == 0 || --armed.left > 0) return false;
  armed.happened = true;
  armed.failing = armed.sticky;
  return true;
}

// Takes the bytes by which a write makes the file longer from the quota; false when too few are left.
bool TakeFromQuota(int64_t byte_count) {
  MutexLock lock(mutex);
  if (quota_left < 0 || byte_count <= 0) return true;
  if (quota_left < byte_count) return false;
  quota_left -= byte_count;
  return true;
}

void Record(FileChange change) {
  MutexLock lock(mutex);
  if (is_tracing && !change.path.empty()) trace.push_back(std::move(change));
}

// Allocation: wraps SQLite's own functions.
sqlite3_mem_methods true_memory;
void* FaultyMalloc(int size) { return ShouldFail(FaultKind::kMemory) ? nullptr : true_memory.xMalloc(size); }
void* FaultyRealloc(void* old, int size) {
  return ShouldFail(FaultKind::kMemory) ? nullptr : true_memory.xRealloc(old, size);
}

// Files: a VFS that counts operations and forwards them to the default one.
struct FaultyFile {
  sqlite3_file base;
  const char* name;  // SQLite keeps it until the file is closed; null for temporary files
  sqlite3_file* under() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
sqlite3_vfs* under_vfs = nullptr;

sqlite3_file* Under(sqlite3_file* file) { return reinterpret_cast<FaultyFile*>(file)->under(); }
std::string NameOf(sqlite3_file* file) {
  const char* name = reinterpret_cast<FaultyFile*>(file)->name;
  return name == nullptr ? "" : name;
}
bool FailsIo() { return ShouldFail(FaultKind::kInputOutput); }

using Methods = sqlite3_io_methods;

// The file's own method; `fault` is its error where it may fail.
template <auto method, int fault = SQLITE_OK, typename... Args>
int Forward(sqlite3_file* f, Args... args) {
  if (fault != SQLITE_OK && FailsIo()) return fault;
  return (Under(f)->pMethods->*method)(Under(f), args...);
}
int Write(sqlite3_file* f, const void* from, int count, sqlite3_int64 at) {
  sqlite3_int64 size = 0;
  Under(f)->pMethods->xFileSize(Under(f), &size);
  if (ShouldFail(FaultKind::kDiskFull) || !TakeFromQuota(at + count - std::max(size, at))) return SQLITE_FULL;
  if (FailsIo()) return SQLITE_IOERR_WRITE;
  PassKillPoint("before_write");
  Record({FileChange::Kind::kWrite, NameOf(f), at, std::string(static_cast<const char*>(from), count)});
  const int code = Under(f)->pMethods->xWrite(Under(f), from, count, at);
  PassKillPoint("after_write");
  return code;
}
int Truncate(sqlite3_file* f, sqlite3_int64 size) {
  if (FailsIo()) return SQLITE_IOERR_TRUNCATE;
  PassKillPoint("before_truncate");
  Record({FileChange::Kind::kTruncate, NameOf(f), size});
  const int code = Under(f)->pMethods->xTruncate(Under(f), size);
  PassKillPoint("after_truncate");
  return code;
}
// No sync to disk: thousands of scenarios would wait for it, and a power loss is simulated from the trace.
int Sync(sqlite3_file* f, int) {
  if (FailsIo()) return SQLITE_IOERR_FSYNC;
  PassKillPoint("before_sync");
  Record({FileChange::Kind::kSync, NameOf(f)});
  PassKillPoint("after_sync");
  return SQLITE_OK;
}
void ShmBarrier(sqlite3_file* f) { Under(f)->pMethods->xShmBarrier(Under(f)); }

constexpr Methods kMethods = {.iVersion = 2,
                              .xClose = Forward<&Methods::xClose>,
                              .xRead = Forward<&Methods::xRead, SQLITE_IOERR_READ>,
                              .xWrite = Write,
                              .xTruncate = Truncate,
                              .xSync = Sync,
                              .xFileSize = Forward<&Methods::xFileSize, SQLITE_IOERR_FSTAT>,
                              .xLock = Forward<&Methods::xLock, SQLITE_IOERR_LOCK>,
                              .xUnlock = Forward<&Methods::xUnlock>,
                              .xCheckReservedLock = Forward<&Methods::xCheckReservedLock>,
                              .xFileControl = Forward<&Methods::xFileControl>,
                              .xSectorSize = Forward<&Methods::xSectorSize>,
                              .xDeviceCharacteristics = Forward<&Methods::xDeviceCharacteristics>,
                              .xShmMap = Forward<&Methods::xShmMap, SQLITE_IOERR_SHMMAP>,
                              .xShmLock = Forward<&Methods::xShmLock>,
                              .xShmBarrier = ShmBarrier,
                              .xShmUnmap = Forward<&Methods::xShmUnmap>};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // SQLite must not close a file that failed to open
  reinterpret_cast<FaultyFile*>(file)->name = name;
  if (FailsIo()) return SQLITE_CANTOPEN;
  int exists = 1;
  if (name != nullptr) under_vfs->xAccess(under_vfs, name, SQLITE_ACCESS_EXISTS, &exists);
  int code = under_vfs->xOpen(under_vfs, name, Under(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &kMethods;
  if (code == SQLITE_OK && exists == 0) Record({FileChange::Kind::kCreate, name});
  return code;
}
int Delete(sqlite3_vfs*, const char* name, int sync_folder) {
  if (FailsIo()) return SQLITE_IOERR_DELETE;
  PassKillPoint("before_delete");
  Record({FileChange::Kind::kDelete, name, 0, "", sync_folder != 0});
  const int code = under_vfs->xDelete(under_vfs, name, sync_folder);
  PassKillPoint("after_delete");
  return code;
}

}  // namespace

void InstallFaultInjection() {
  VF_CHECK(under_vfs == nullptr, "once per process");
  VF_CHECK(sqlite3_shutdown() == SQLITE_OK);
  VF_CHECK(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &true_memory) == SQLITE_OK);
  static sqlite3_mem_methods faulty = true_memory;
  faulty.xMalloc = FaultyMalloc;
  faulty.xRealloc = FaultyRealloc;
  VF_CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &faulty) == SQLITE_OK);
  VF_CHECK(sqlite3_initialize() == SQLITE_OK);

  under_vfs = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs vfs = *under_vfs;
  vfs.zName = "faulty";
  vfs.pNext = nullptr;
  vfs.szOsFile = static_cast<int>(sizeof(FaultyFile)) + under_vfs->szOsFile;
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  VF_CHECK(sqlite3_vfs_register(&vfs, /*makeDflt=*/1) == SQLITE_OK);
}

void ArmFault(FaultKind kind, int64_t at, bool sticky) {
  MutexLock lock(mutex);
  armed = {kind, at, sticky, false, false};
}
void DisarmFaults() {
  MutexLock lock(mutex);
  armed.left = 0;
  armed.failing = false;
}
bool FaultHappened() {
  MutexLock lock(mutex);
  return armed.happened;
}

void SetDiskQuota(int64_t bytes) {
  MutexLock lock(mutex);
  quota_left = bytes;
}

void ArmKillPoint(const std::string& point, int64_t nth) {
  MutexLock lock(mutex);
  kill_points.point = point;
  kill_points.left = nth;
}
void PassKillPoint(const char* point) {
  MutexLock lock(mutex);
  ++kill_points.counts[point];
  if (kill_points.point == point && --kill_points.left == 0) raise(SIGKILL);
}
std::map<std::string, int64_t> KillPointCounts() {
  MutexLock lock(mutex);
  return kill_points.counts;
}

void StartTrace() {
  MutexLock lock(mutex);
  trace.clear();
  is_tracing = true;
}
std::vector<FileChange> StopTrace() {
  MutexLock lock(mutex);
  is_tracing = false;
  return std::exchange(trace, {});
}
int64_t TraceLength() {
  MutexLock lock(mutex);
  return std::ssize(trace);
}

}  // namespace varifocal::sqlite
