// varifocal query: one SELECT over a results database.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/rows.h"
#include "client/verb.h"
#include "db/query.h"

namespace varifocal::client {
namespace {

class Query : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("SQL", &sql_, "one SELECT, in quotes").Required();
    flags.Add("db", &db_, "PATH", "the results database; a daemon may be writing to it").Required();
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    std::vector<std::string> names;
    std::unique_ptr<Rows> rows;
    RETURN_IF_ERROR(db::RunQuery(db_, sql_,
                                 {.start = [&](const std::vector<std::string>& columns) -> absl::Status {
                                    names = columns;
                                    std::vector<Column> shown;
                                    for (const std::string& name : names) shown.push_back({.key = name, .title = name});
                                    rows = std::make_unique<Rows>(console, std::move(shown));
                                    return absl::OkStatus();
                                  },
                                  .add = [&](std::vector<Json> values) -> absl::Status {
                                    Json row = Json::object();
                                    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = std::move(values[i]);
                                    return rows->Add(std::move(row));
                                  }}));
    return DoneOr(rows->Finish("No rows."));
  }

 private:
  std::string db_, sql_;
};

}  // namespace

constinit const Verb kQueryVerb = {
    .name = "query",
    .group = "Results",
    .summary = "one SELECT over a results database, read-only",
    .about =
        R"(Opens the database read-only, also while a daemon writes to it, and prints the rows of the query. The views
v_scores_by_length, v_samples, v_pairs, v_attention and v_content are an interface (docs/formats.md has their
columns, docs/queries.md worked queries). Anything but one SELECT is refused.)",
    .examples =
        "varifocal query --db=results.db 'SELECT variant, task, metric, context_length, mean FROM v_scores_by_length'\n"
        "varifocal query --db=results.db \"SELECT * FROM v_samples WHERE finish_reason = 'length'\" --format=csv",
    .formats = "text json jsonl csv",
    .make = &Make<Query>,
};

}  // namespace varifocal::client
