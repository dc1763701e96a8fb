// varifocal merge: joins the databases of a job's shards.
#include "db/merge.h"

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Merge : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("SHARD.db", &shards_, "the databases of the shards, in any order").Required();
    flags.Add("out", &out_, "PATH", "the database to create; it must not exist").Required();
    flags.Add("allow-missing", &options_.allow_missing, "join although shards are missing; the job is incomplete then");
    flags.Add("allow-mixed", &options_.allow_mixed,
              "join answers of different code versions, backends or instruction sets; labels the job as mixed");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    ASSIGN_OR_RETURN(const db::MergedJob merged, db::MergeShards(shards_, out_, options_));
    if (console.format != Format::kText) {
      return DoneOr(PrintJson(console, {{"shard_count", merged.shard_count},
                                        {"missing_shards", merged.missing_shards},
                                        {"sample_count", merged.sample_count},
                                        {"generation_count", merged.generation_count}}));
    }
    console.out << out_ << ": " << WithThousands(merged.shard_count)
                << Plural(merged.shard_count, " shard, ", " shards, ") << WithThousands(merged.sample_count)
                << Plural(merged.sample_count, " question, ", " questions, ") << WithThousands(merged.generation_count)
                << Plural(merged.generation_count, " answer.\n", " answers.\n");
    if (!merged.missing_shards.empty()) {
      console.err << "Note: without shards " << absl::StrJoin(merged.missing_shards, ", ")
                  << "; the job is incomplete.\n";
    }
    return ExitCode::kDone;
  }

 private:
  std::vector<std::string> shards_;
  std::string out_;
  db::MergeOptions options_;
};

}  // namespace

constinit const Verb kMergeVerb = {
    .name = "merge",
    .group = "Results",
    .summary = "join the databases of a job's shards into one",
    .about =
        R"(Joins what `varifocal run --shard=I/N` wrote in several processes or on several machines. The shards must be of one
job: the same suite, settings, weights, tokenizers, number formats, code version and backend; no sample may be in two of
them, and none may be missing. The result has the rows of one run of the whole job; it is complete, or no file.)",
    .examples = "varifocal merge --out=all.db shard-1.db shard-2.db shard-3.db",
    .make = &Make<Merge>,
};

}  // namespace varifocal::client
