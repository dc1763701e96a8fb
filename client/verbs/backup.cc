// varifocal backup: a copy of a results database that a daemon may be writing.
#include <filesystem>
#include <ostream>

#include "base/status_macros.h"
#include "client/rows.h"
#include "client/verb.h"
#include "db/copy_database.h"

namespace varifocal::client {
namespace {

class Backup : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &database_path_, "PATH", "the results database; a daemon may have it open").Required();
    flags.Add("out", &copy_path_, "PATH", "the copy, a new file").Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    RETURN_IF_ERROR(db::CopyDatabase(database_path_, copy_path_));
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(copy_path_, error);
    if (console.format != Format::kText) return DoneOr(PrintJson(console, {{"out", copy_path_}, {"bytes", bytes}}));
    console.out << copy_path_ << ": " << WithThousands(bytes) << " bytes, checked.\n";
    return ExitCode::kDone;
  }

 private:
  std::string database_path_, copy_path_;
};

}  // namespace

constinit const Verb kBackupVerb = {
    .name = "backup",
    .group = "Results",
    .summary = "copy a results database while a daemon writes it",
    .about =
        R"(Writes one consistent state of the database to a new file, synced and checked, without stopping the daemon or its
job. The copy has every sample that was recorded when the command began; it has no -wal or -shm beside it.)",
    .examples = "varifocal backup --db=results.db --out=results-monday.db",
    .make = &Make<Backup>,
};

}  // namespace varifocal::client
