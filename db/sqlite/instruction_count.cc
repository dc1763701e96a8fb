#include "db/sqlite/instruction_count.h"

#include <sqlite3.h>

#include "base/check.h"

namespace varifocal::sqlite {
namespace {

thread_local int64_t instruction_count = 0;

// SQLite calls it when a statement has run to its end or is reset.
int Count(unsigned, void*, void* statement, void*) {
  instruction_count +=
      sqlite3_stmt_status(static_cast<sqlite3_stmt*>(statement), SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1);
  return 0;
}

int TraceConnection(sqlite3* connection, const char**, const struct sqlite3_api_routines*) {
  return sqlite3_trace_v2(connection, SQLITE_TRACE_PROFILE, Count, nullptr);
}

}  // namespace

void StartInstructionCounts() {
  // Declared without parameters; SQLite calls it with those of an extension's entry point.
  VF_CHECK(sqlite3_auto_extension(reinterpret_cast<void (*)()>(TraceConnection)) == SQLITE_OK, "out of memory");
}

int64_t InstructionCount() { return instruction_count; }

}  // namespace varifocal::sqlite
