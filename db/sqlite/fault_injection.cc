#include "db/sqlite/fault_injection.h"

#include <sqlite3.h>

#include <cstring>

#include "base/check.h"

namespace varifocal::sqlite {
namespace {

struct Armed {
  FaultKind kind = FaultKind::kMemory;
  int64_t left = 0;  // operations until the failure; 0: disarmed
  bool sticky = false;
  bool failing = false;  // sticky, and reached
  bool happened = false;
} armed;

bool ShouldFail(FaultKind kind) {
  if (kind != armed.kind) return false;
  if (armed.failing) return true;
  if (armed.left == 0 || --armed.left > 0) return false;
  armed.happened = true;
  armed.failing = armed.sticky;
  return true;
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
  sqlite3_file* under() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
sqlite3_vfs* under_vfs = nullptr;

sqlite3_file* Under(sqlite3_file* file) { return reinterpret_cast<FaultyFile*>(file)->under(); }
bool FailsIo() { return ShouldFail(FaultKind::kInputOutput); }

int Close(sqlite3_file* f) { return Under(f)->pMethods->xClose(Under(f)); }
int Read(sqlite3_file* f, void* to, int count, sqlite3_int64 at) {
  return FailsIo() ? SQLITE_IOERR_READ : Under(f)->pMethods->xRead(Under(f), to, count, at);
}
int Write(sqlite3_file* f, const void* from, int count, sqlite3_int64 at) {
  if (ShouldFail(FaultKind::kDiskFull)) return SQLITE_FULL;
  return FailsIo() ? SQLITE_IOERR_WRITE : Under(f)->pMethods->xWrite(Under(f), from, count, at);
}
int Truncate(sqlite3_file* f, sqlite3_int64 size) {
  return FailsIo() ? SQLITE_IOERR_TRUNCATE : Under(f)->pMethods->xTruncate(Under(f), size);
}
// No sync to disk: thousands of scenarios would wait for it, and none of them simulates a power loss.
int Sync(sqlite3_file*, int) { return FailsIo() ? SQLITE_IOERR_FSYNC : SQLITE_OK; }
int FileSize(sqlite3_file* f, sqlite3_int64* size) {
  return FailsIo() ? SQLITE_IOERR_FSTAT : Under(f)->pMethods->xFileSize(Under(f), size);
}
int Lock(sqlite3_file* f, int level) {
  return FailsIo() ? SQLITE_IOERR_LOCK : Under(f)->pMethods->xLock(Under(f), level);
}
int Unlock(sqlite3_file* f, int level) { return Under(f)->pMethods->xUnlock(Under(f), level); }
int CheckReservedLock(sqlite3_file* f, int* out) { return Under(f)->pMethods->xCheckReservedLock(Under(f), out); }
int FileControl(sqlite3_file* f, int op, void* arg) { return Under(f)->pMethods->xFileControl(Under(f), op, arg); }
int SectorSize(sqlite3_file* f) { return Under(f)->pMethods->xSectorSize(Under(f)); }
int Characteristics(sqlite3_file* f) { return Under(f)->pMethods->xDeviceCharacteristics(Under(f)); }
int ShmMap(sqlite3_file* f, int page, int size, int extend, void volatile** out) {
  return FailsIo() ? SQLITE_IOERR_SHMMAP : Under(f)->pMethods->xShmMap(Under(f), page, size, extend, out);
}
int ShmLock(sqlite3_file* f, int at, int count, int flags) {
  return Under(f)->pMethods->xShmLock(Under(f), at, count, flags);
}
void ShmBarrier(sqlite3_file* f) { Under(f)->pMethods->xShmBarrier(Under(f)); }
int ShmUnmap(sqlite3_file* f, int remove) { return Under(f)->pMethods->xShmUnmap(Under(f), remove); }

constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         Characteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;  // SQLite must not close a file that failed to open
  if (FailsIo()) return SQLITE_CANTOPEN;
  int code = under_vfs->xOpen(under_vfs, name, Under(file), flags, out_flags);
  if (code == SQLITE_OK) file->pMethods = &kMethods;
  return code;
}
int Delete(sqlite3_vfs*, const char* name, int sync_folder) {
  return FailsIo() ? SQLITE_IOERR_DELETE : under_vfs->xDelete(under_vfs, name, sync_folder);
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

void ArmFault(FaultKind kind, int64_t at, bool sticky) { armed = {kind, at, sticky, false, false}; }
void DisarmFaults() {
  armed.left = 0;
  armed.failing = false;
}
bool FaultHappened() { return armed.happened; }

}  // namespace varifocal::sqlite
