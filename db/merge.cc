#include "db/merge.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/temporary_file.h"
#include "db/resume.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"

namespace varifocal::db {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

using IdMap = std::unordered_map<int64_t, int64_t>;  // of an input, to the result's

// NOLINTNEXTLINE(bugprone-exception-escape): moving a Json does not throw
struct Shard {
  std::string path;
  std::unique_ptr<Database> database;
  std::unique_ptr<Transaction> snapshot;  // a program may write it meanwhile
  int64_t job_id = 0;
  Json spec;  // without the shard
  int64_t index = 0, count = 0;
  std::vector<VariantRecord> variants;
  std::set<std::string> executions;  // of its answers, endpoints aside
};

absl::StatusOr<std::set<std::string>> ReadExecutions(Database& database) {
  constexpr char kSelect[] =
      "SELECT DISTINCT code_version, backend, instruction_set FROM executions WHERE backend <> 'endpoint'"
      " AND execution_id IN (SELECT execution_id FROM generations WHERE error_code IS NULL)";
  std::set<std::string> executions;
  RETURN_IF_ERROR(EachRow(database, kSelect, [&](const Statement& row) {
    executions.insert(absl::StrCat("code ", row.Text(0), " on ", row.Text(1), "/", row.Text(2)));
  }));
  return executions;
}

absl::StatusOr<Shard> OpenShard(const std::string& path) {
  Shard shard;
  shard.path = path;
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  ASSIGN_OR_RETURN(shard.database, Database::Open(path, {.read_only = true}));
  ASSIGN_OR_RETURN(Transaction snapshot, Transaction::Begin(*shard.database, Transaction::Kind::kRead));
  shard.snapshot = std::make_unique<Transaction>(std::move(snapshot));
  RETURN_IF_ERROR(CheckSchema(*shard.database));
  ASSIGN_OR_RETURN(const std::optional<int64_t> version,
                   shard.database->QueryInt("SELECT version FROM schema_version"));
  if (version != kSchemaVersion) {
    return FailedPrecondition(path, ": the database has schema version ", version.value_or(0), "; shards of version ",
                              kSchemaVersion, " can be merged");
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> job_count, shard.database->QueryInt("SELECT count(*) FROM jobs"));
  if (job_count != 1) {
    return InvalidArgument(path, ": the database has ", job_count.value_or(0), " jobs; that of a shard has 1");
  }
  ASSIGN_OR_RETURN(Statement job, shard.database->Prepare("SELECT job_id, state, spec_json FROM jobs"));
  RETURN_IF_ERROR(job.Step().status());
  shard.job_id = job.Int(0);
  if (job.Text(1) != JobStateName(JobState::kSucceeded)) {
    return FailedPrecondition(path, ": its job is ", job.Text(1),
                              "; the command that began it, given again, completes the shard");
  }
  ASSIGN_OR_RETURN(shard.spec, ParseJson(job.Text(2)));
  const auto found = shard.spec.is_object() ? shard.spec.find("shard") : shard.spec.end();
  if (found == shard.spec.end() || !found->is_object()) {
    return InvalidArgument(path, ": its job is no shard: it was run without --shard=I/N");
  }
  ASSIGN_OR_RETURN(shard.index, GetInt(*found, "index"));
  ASSIGN_OR_RETURN(shard.count, GetInt(*found, "count"));
  shard.spec.erase("shard");
  ASSIGN_OR_RETURN(shard.variants, ReadVariants(*shard.database, shard.job_id));
  ASSIGN_OR_RETURN(shard.executions, ReadExecutions(*shard.database));
  return shard;
}

absl::Status CheckSameJob(const Shard& first, const Shard& other, bool allow_mixed) {
  const auto differ = [&](const std::string& what) {
    return FailedPrecondition(first.path, " and ", other.path, " ", what);
  };
  Json a_spec = first.spec, b_spec = other.spec;
  for (Json* spec : {&a_spec, &b_spec}) spec->erase("in_flight");  // does not affect answers
  if (const auto other = FirstDifference(a_spec, b_spec); other.has_value()) {
    return differ(absl::StrCat("are of different jobs: their specifications differ in \"", other->place, "\""));
  }
  if (first.count != other.count) {
    return differ(absl::StrCat("are shards of ", first.count, " and of ", other.count));
  }
  if (first.variants.size() != other.variants.size()) return differ("have different variants");
  for (size_t i = 0; i < first.variants.size(); ++i) {
    const VariantRecord &a = first.variants[i], &b = other.variants[i];
    if (a.name != b.name) return differ("have different variants");
    const std::optional<ModelDifference> fact = FindModelDifference(a, b, allow_mixed);
    if (fact.has_value()) {
      return differ(
          absl::StrCat("ran variant ", a.name, " with another ", fact->what, ": ", fact->before, " and ", fact->after));
    }
  }
  if (allow_mixed || first.executions.empty() || other.executions.empty() || first.executions == other.executions) {
    return absl::OkStatus();
  }
  return differ(absl::StrCat("have answers of ", absl::StrJoin(first.executions, ", "), " and of ",
                             absl::StrJoin(other.executions, ", "),
                             "; allow mixed executions to join them, and the result will be labelled mixed"));
}

// 2 and 3 of {1, 4} of 4.
absl::StatusOr<std::vector<int64_t>> MissingShards(const std::vector<Shard>& shards, bool allow_missing) {
  std::map<int64_t, const Shard*> by_index;
  for (const Shard& shard : shards) {
    const auto [known, is_new] = by_index.emplace(shard.index, &shard);
    if (is_new) continue;
    return FailedPrecondition(known->second->path, " and ", shard.path, " are both shard ", shard.index, "/",
                              shard.count);
  }
  constexpr size_t kNamedMax = 20;
  std::vector<int64_t> missing;
  for (int64_t index = 1; index <= shards[0].count; ++index) {
    if (by_index.count(index) == 0) missing.push_back(index);
  }
  if (missing.empty() || allow_missing) return missing;
  const std::vector<int64_t> named(missing.begin(), missing.begin() + std::min(missing.size(), kNamedMax));
  return FailedPrecondition("of ", shards[0].count, " shards ", missing.size(),
                            Plural(std::ssize(missing), " is missing: ", " are missing: "), absl::StrJoin(named, ", "),
                            missing.size() > kNamedMax ? ", .." : "");
}

// Copies the rows of a table, all columns as they are but those of `replaced`.
class RowCopier {
 public:
  // The new value of a column of the current row.
  using Replace = std::function<absl::StatusOr<int64_t>(const Statement& row, int column)>;

  // `id_column`: the result gives new ones, which `ids` receives; "" for none.
  static absl::Status Copy(Database& from, Database& to, const std::string& table, const std::string& id_column,
                           const std::map<std::string, Replace>& replaced, IdMap* ids) {
    ASSIGN_OR_RETURN(const std::vector<std::string> all,
                     AllRows(from, "SELECT name FROM pragma_table_info(?) ORDER BY cid", FirstText, table));
    ASSIGN_OR_RETURN(Statement rows, from.Prepare(absl::StrCat("SELECT ", absl::StrJoin(all, ", "), " FROM ", table,
                                                               id_column.empty() ? "" : " ORDER BY ", id_column)));
    std::vector<std::string> columns, marks;
    std::vector<const Replace*> replace(rows.ColumnCount(), nullptr);
    int id_at = -1;
    for (int i = 0; i < rows.ColumnCount(); ++i) {
      const std::string name = rows.ColumnName(i);
      if (name == id_column) {
        id_at = i;
        continue;
      }
      columns.push_back(name);
      marks.push_back("?");
      if (const auto found = replaced.find(name); found != replaced.end()) replace[i] = &found->second;
    }
    ASSIGN_OR_RETURN(Statement insert,
                     to.Prepare(absl::StrCat("INSERT INTO ", table, " (", absl::StrJoin(columns, ", "), ") VALUES (",
                                             absl::StrJoin(marks, ", "), ")")));
    while (true) {
      ASSIGN_OR_RETURN(const bool is_there, rows.Step());
      if (!is_there) return absl::OkStatus();
      for (int i = 0; i < rows.ColumnCount(); ++i) {
        if (i == id_at) continue;
        if (replace[i] != nullptr) {
          ASSIGN_OR_RETURN(const int64_t value, (*replace[i])(rows, i));
          insert.Bind(value);
        } else {
          BindAsItIs(rows, i, insert);
        }
      }
      RETURN_IF_ERROR(insert.Run());
      insert.Reset();
      if (id_at >= 0) (*ids)[rows.Int(id_at)] = to.LastInsertId();
    }
  }

 private:
  static void BindAsItIs(const Statement& row, int column, Statement& insert) {
    switch (row.TypeOf(column)) {
      case Statement::Type::kNull:
        insert.Bind(std::nullopt);
        break;
      case Statement::Type::kInteger:
        insert.Bind(row.Int(column));
        break;
      case Statement::Type::kReal:
        insert.Bind(row.Real(column));
        break;
      default:
        insert.Bind(row.Text(column));
    }
  }
};

RowCopier::Replace Mapped(const IdMap& ids) {
  return [&ids](const Statement& row, int column) -> absl::StatusOr<int64_t> {
    const auto found = ids.find(row.Int(column));
    if (found == ids.end()) {
      return DataLoss("the database is damaged: no row has ", row.ColumnName(column), " ", row.Int(column));
    }
    return found->second;
  };
}

RowCopier::Replace Always(int64_t value) {
  return [value](const Statement&, int) -> absl::StatusOr<int64_t> { return value; };
}

// The result, row by row.
class Merger {
 public:
  Merger(Database& out, MergedJob& merged) : out_(out), merged_(merged) {}

  // The job, its models, variants, metrics and cells, which all shards have.
  absl::Status AddJob(const std::vector<Shard>& shards) {
    const Shard& first = shards[0];
    IdMap models;
    RETURN_IF_ERROR(RowCopier::Copy(*first.database, out_, "models", "model_id", {}, &models));
    ASSIGN_OR_RETURN(const std::string spec, DumpJson(first.spec));
    ASSIGN_OR_RETURN(Statement job, first.database->Prepare("SELECT suite, data_seed FROM jobs"));
    RETURN_IF_ERROR(job.Step().status());
    std::optional<int64_t> create_us, start_us, end_us;
    for (const Shard& shard : shards) {
      ASSIGN_OR_RETURN(Statement times, shard.database->Prepare("SELECT create_us, start_us, end_us FROM jobs"));
      RETURN_IF_ERROR(times.Step().status());
      create_us = std::min(create_us.value_or(times.Int(0)), times.Int(0));
      start_us = std::min(start_us.value_or(times.Int(1)), times.Int(1));
      end_us = std::max(end_us.value_or(times.Int(2)), times.Int(2));
    }
    RETURN_IF_ERROR(
        out_.Run("INSERT INTO jobs (suite, spec_json, spec_sha256, data_seed, request_id, body_sha256, state,"
                 " error, create_us, start_us, end_us) VALUES (?, ?, ?, ?, NULL, NULL, 'succeeded', NULL, ?, ?, ?)",
                 job.Text(0), spec, Sha256Hex(spec), job.Int(1), create_us, start_us, end_us));
    job_id_ = out_.LastInsertId();
    IdMap variants;
    RETURN_IF_ERROR(RowCopier::Copy(*first.database, out_, "variants", "variant_id",
                                    {{"job_id", Always(job_id_)}, {"model_id", Mapped(models)}}, &variants));
    RETURN_IF_ERROR(RowCopier::Copy(*first.database, out_, "task_metrics", "", {{"job_id", Always(job_id_)}}, nullptr));
    IdMap cells;
    RETURN_IF_ERROR(
        RowCopier::Copy(*first.database, out_, "cells", "cell_id", {{"variant_id", Mapped(variants)}}, &cells));
    ASSIGN_OR_RETURN(const std::vector<CellRow> rows, ReadCells(out_, job_id_));
    for (const CellRow& row : rows) cells_[KeyOf(row.cell)] = row;
    return absl::OkStatus();
  }

  absl::Status AddAnswers(const Shard& shard) {
    Database& from = *shard.database;
    IdMap executions, cells, samples, generations;
    RETURN_IF_ERROR(MapCells(shard, &cells));
    RETURN_IF_ERROR(RowCopier::Copy(from, out_, "executions", "execution_id", {}, &executions));
    RETURN_IF_ERROR(CheckDisjoint(shard));
    RETURN_IF_ERROR(RowCopier::Copy(from, out_, "samples", "sample_id", {{"job_id", Always(job_id_)}}, &samples));
    RETURN_IF_ERROR(RowCopier::Copy(
        from, out_, "generations", "generation_id",
        {{"cell_id", Mapped(cells)}, {"sample_id", Mapped(samples)}, {"execution_id", Mapped(executions)}},
        &generations));
    const RowCopier::Replace generation = Mapped(generations);
    RETURN_IF_ERROR(RowCopier::Copy(from, out_, "scores", "", {{"generation_id", generation}}, nullptr));
    RETURN_IF_ERROR(RowCopier::Copy(from, out_, "attention_heads", "", {{"generation_id", generation}}, nullptr));
    IdMap imports;
    RETURN_IF_ERROR(
        RowCopier::Copy(from, out_, "score_imports", "score_import_id", {{"job_id", Always(job_id_)}}, &imports));
    merged_.sample_count += std::ssize(samples);
    merged_.generation_count += std::ssize(generations);
    return absl::OkStatus();
  }

 private:
  using Key = std::tuple<std::string, std::string, int64_t>;
  static Key KeyOf(const CellRecord& cell) { return {cell.variant, cell.task, cell.context_length}; }

  absl::Status MapCells(const Shard& shard, IdMap* cells) const {
    ASSIGN_OR_RETURN(const std::vector<CellRow> rows, ReadCells(*shard.database, shard.job_id));
    for (const CellRow& row : rows) {
      const auto found = cells_.find(KeyOf(row.cell));
      if (found == cells_.end() || found->second.cell.planned_count != row.cell.planned_count) {
        return FailedPrecondition(shard.path, " plans other samples of task ", row.cell.task, " at ",
                                  row.cell.context_length, " than the first shard");
      }
      (*cells)[row.cell_id] = found->second.cell_id;
    }
    return absl::OkStatus();
  }

  absl::Status CheckDisjoint(const Shard& shard) {
    ASSIGN_OR_RETURN(Statement find,
                     out_.Prepare("SELECT count(*) FROM samples WHERE job_id = ? AND task = ? AND context_length = ?"
                                  " AND sample_index = ? AND tokenizer_sha256 = ?"));
    const auto check = [&](const Statement& row) -> absl::Status {
      find.BindAll(job_id_, row.Text(0), row.Int(1), row.Int(2), row.Text(3));
      RETURN_IF_ERROR(find.Step().status());
      if (find.Int(0) > 0) {
        return FailedPrecondition(shard.path, " overlaps with an earlier shard: both have sample ", row.Int(2),
                                  " of task ", row.Text(0), " at ", row.Int(1));
      }
      find.Reset();
      return absl::OkStatus();
    };
    return EachRow(*shard.database, "SELECT task, context_length, sample_index, tokenizer_sha256 FROM samples", check);
  }

  Database& out_;
  MergedJob& merged_;
  int64_t job_id_ = 0;
  std::map<Key, CellRow> cells_;
};

// link(2) does not replace a file that came into being meanwhile, as rename(2) would.
absl::Status LinkTo(const std::string& from, const std::string& path) {
  if (link(from.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST) return AlreadyExists(path, ": the file exists");
  return Internal("cannot create ", path, ": ", std::strerror(error));
}

}  // namespace

absl::StatusOr<MergedJob> MergeShards(const std::vector<std::string>& paths, const std::string& out_path,
                                      const MergeOptions& options) {
  if (paths.empty()) return InvalidArgument("there are no shards to merge");
  if (access(out_path.c_str(), F_OK) == 0) return AlreadyExists(out_path, ": the file exists");
  std::vector<Shard> shards;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(shards.emplace_back(), OpenShard(path));
    if (shards.size() > 1) RETURN_IF_ERROR(CheckSameJob(shards[0], shards.back(), options.allow_mixed));
  }
  MergedJob merged;
  ASSIGN_OR_RETURN(merged.missing_shards, MissingShards(shards, options.allow_missing));
  merged.shard_count = std::ssize(shards);
  std::sort(shards.begin(), shards.end(), [](const Shard& a, const Shard& b) { return a.index < b.index; });

  ASSIGN_OR_RETURN(const TemporaryFile temporary, TemporaryFile::Make(absl::StrCat(out_path, ".merge-")));
  RETURN_IF_ERROR(CheckFile(temporary.path(), /*may_create=*/true));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> out, Database::Open(temporary.path(), {}));
    RETURN_IF_ERROR(MigrateSchema(*out));
    ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*out, Transaction::Kind::kWrite));
    Merger merger(*out, merged);
    RETURN_IF_ERROR(merger.AddJob(shards));
    for (const Shard& shard : shards) RETURN_IF_ERROR(merger.AddAnswers(shard));
    RETURN_IF_ERROR(transaction.Commit());
    RETURN_IF_ERROR(out->FullCheck());
    RETURN_IF_ERROR(out->Checkpoint());
  }
  RETURN_IF_ERROR(LinkTo(temporary.path(), out_path));
  return merged;
}

}  // namespace varifocal::db
