// Fault injection below SQLite: fails the N-th memory allocation or the N-th file operation.
//
// A test runs its scenario with N = 1, 2, 3, .. until the scenario ends without reaching the N-th operation: then every
// possible failure point was tried. Test only; no program links it.
//
// Threads: install before any other use of SQLite; everything on one thread.
// Source:  the method of SQLite's own test harness (sqlite.org/testing.html, sections 3.1 and 3.2).
#pragma once

#include <cstdint>

namespace varifocal::sqlite {

enum class FaultKind {
  kMemory,       // an allocation returns null
  kInputOutput,  // a read, write, sync, truncate, open or delete fails with an I/O error
  kDiskFull,     // a write finds no space
};

// Installs the failing allocator and VFS, once per process; they have no effect until armed.
void InstallFaultInjection();

// The `at`-th operation of this kind from now fails (and all later ones too when sticky). 0 disarms.
void ArmFault(FaultKind kind, int64_t at, bool sticky);
void DisarmFaults();
bool FaultHappened();  // since it was armed

}  // namespace varifocal::sqlite
