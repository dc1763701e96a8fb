// The cost of statements in instructions of SQLite's virtual machine: deterministic, so a test can compare the cost of a
// call on a small and on a large database. Test only, as fault_injection.h.
#pragma once

#include <cstdint>

namespace varifocal::sqlite {

// Counts the statements of connections opened from now on. Once per process.
void StartInstructionCounts();

// Of the statements that the calling thread has finished since then.
int64_t InstructionCount();

}  // namespace varifocal::sqlite
