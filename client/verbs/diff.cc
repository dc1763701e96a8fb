// varifocal diff: compares two databases bit for bit.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/rows.h"
#include "client/verb.h"
#include "db/diff.h"

namespace varifocal::client {
namespace {

constexpr size_t kShownBytesMax = 60;  // of a differing value in the table; JSON has all of it

std::string Shortened(const std::string& value) {
  return value.size() <= kShownBytesMax ? value : absl::StrCat(value.substr(0, kShownBytesMax), "..");
}

Json DifferenceJson(const db::ContentDifference& row) {
  return {{"variant", row.variant},
          {"task", row.task},
          {"metric", row.metric},
          {"data_seed", row.data_seed},
          {"context_length", row.context_length},
          {"sample_index", row.sample_index},
          {"column", row.column},
          {"a", row.a},
          {"b", row.b}};
}

class Diff : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("A.db", &a_, "a results database").Required();
    flags.AddPositional("B.db", &b_, "another one").Required();
    flags.Add("limit", &limit_, "N", "maximum number of differences to show (default 20)").AtLeast(0);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    ASSIGN_OR_RETURN(const db::ContentDiff diff, db::DiffDatabases(a_, b_, limit_));
    const ExitCode code = diff.difference_count == 0 ? ExitCode::kDone : ExitCode::kFailed;
    if (console.format == Format::kJson) {
      Json object = {{"row_count_a", diff.row_count_a},
                     {"row_count_b", diff.row_count_b},
                     {"difference_count", diff.difference_count},
                     {"differences", Json::array()}};
      for (const db::ContentDifference& row : diff.differences) object["differences"].push_back(DifferenceJson(row));
      RETURN_IF_ERROR(PrintJson(console, object));
      return code;
    }
    const auto shortened = [](const char* key) {
      return [key](const Json& row) { return Shortened(row.at(key).get<std::string>()); };
    };
    Rows rows(console, {{.key = "variant", .title = "variant"},
                        {.key = "task", .title = "task"},
                        {.key = "metric", .title = "metric"},
                        {.key = "data_seed", .title = "seed", .right_aligned = true},
                        {.key = "context_length", .title = "length", .right_aligned = true},
                        {.key = "sample_index", .title = "sample", .right_aligned = true},
                        {.key = "column", .title = "column"},
                        {.key = "a", .title = "A", .text = shortened("a")},
                        {.key = "b", .title = "B", .text = shortened("b")}});
    for (const db::ContentDifference& row : diff.differences) RETURN_IF_ERROR(rows.Add(DifferenceJson(row)));
    RETURN_IF_ERROR(rows.Finish());
    if (console.format == Format::kText) {
      console.out << (diff.differences.empty() ? "" : "\n") << WithThousands(diff.difference_count)
                  << Plural(diff.difference_count, " difference; A has ", " differences; A has ")
                  << WithThousands(diff.row_count_a) << Plural(diff.row_count_a, " row, B has ", " rows, B has ")
                  << WithThousands(diff.row_count_b) << ".\n";
    }
    return code;
  }

 private:
  std::string a_, b_;
  int64_t limit_ = 20;
};

}  // namespace

constinit const Verb kDiffVerb = {
    .name = "diff",
    .group = "Results",
    .summary = "compare two databases bit for bit; exit 1 if any answer differs",
    .about =
        R"(Compares every answer, score and log-likelihood of two databases by their bits: "did my kernel change anything?"
Times, ids, machines and the order of writing are ignored.)",
    .examples = "varifocal diff before.db after.db && echo same",
    .formats = "text json jsonl csv",
    .make = &Make<Diff>,
};

}  // namespace varifocal::client
