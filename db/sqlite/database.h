// SQLite wrapper that returns absl::Status: connection, statement, transaction. The only directory that includes
// sqlite3.h.
//
// A statement keeps the first error of its binds and returns it from Step, so a caller checks once. Pragmas are set
// only here.
//
// Errors:  DATA_LOSS corrupt or not a database; RESOURCE_EXHAUSTED disk full or out of memory; UNAVAILABLE locked
//          longer than the busy timeout; PERMISSION_DENIED read-only; FAILED_PRECONDITION a constraint; else
//          INTERNAL. Messages start with the path.
// Threads: one at a time for a connection and all objects created from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace varifocal::sqlite {

class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // Parameters are bound from the left, one call or one argument each.
  Statement& Bind(int64_t value);
  Statement& Bind(int value) { return Bind(static_cast<int64_t>(value)); }
  Statement& Bind(bool value) { return Bind(static_cast<int64_t>(value)); }
  Statement& Bind(double value);
  Statement& Bind(const std::string& value);
  Statement& Bind(const char* value) { return Bind(std::string(value)); }
  Statement& Bind(std::nullopt_t);
  template <typename T>
  Statement& Bind(const std::optional<T>& value) {
    return value.has_value() ? Bind(*value) : Bind(std::nullopt);
  }
  template <typename... Values>
  Statement& BindAll(const Values&... values) {
    (Bind(values), ...);
    return *this;
  }

  absl::StatusOr<bool> Step();  // true: a row is there
  absl::Status Run();           // steps to the end, ignoring rows
  void Reset();                 // to bind and execute again

  // The current row; columns from 0. The plain getters read NULL as 0 or "".
  bool IsNull(int column) const;
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  std::optional<int64_t> OptionalInt(int column) const;
  std::optional<double> OptionalReal(int column) const;
  std::optional<std::string> OptionalText(int column) const;
  // All columns from the first one, each into a field of its type.
  template <typename... Fields>
  void Read(Fields&... fields) const {
    int column = 0;
    (Get(column++, fields), ...);
  }

  int ColumnCount() const;
  std::string ColumnName(int column) const;
  enum class Type { kNull, kInteger, kReal, kText, kBytes };
  Type TypeOf(int column) const;  // of the current row

 private:
  friend class Database;
  Statement(sqlite3_stmt* statement, std::string path) : statement_(statement), path_(std::move(path)) {}
  void Note(int code);
  void Get(int column, int64_t& field) const { field = Int(column); }
  void Get(int column, bool& field) const { field = Int(column) != 0; }
  void Get(int column, std::string& field) const { field = Text(column); }
  void Get(int column, std::optional<int64_t>& field) const { field = OptionalInt(column); }
  void Get(int column, std::optional<double>& field) const { field = OptionalReal(column); }
  void Get(int column, std::optional<std::string>& field) const { field = OptionalText(column); }

  sqlite3_stmt* statement_;
  std::string path_;
  int bound_count_ = 0;
  int bind_error_ = 0;
};

struct OpenOptions {
  bool read_only = false;      // otherwise a missing file is created
  bool keep_as_it_is = false;  // writable, journal mode unchanged: only rolls back an interrupted write
  bool is_copied = false;      // read-only, for VACUUM INTO: it counts as writing, and the copy's CHECKs call functions
  int busy_timeout_ms = 5000;
};

class Database {
 public:
  // Writable: WAL, synchronous=FULL, foreign keys. Read-only: query_only; a file in a folder that cannot be written and
  // without a write-ahead log is opened as immutable.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, const OpenOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // One user-supplied read-only statement: INVALID_ARGUMENT for anything else, and for an error in it. From the first
  // call on, the connection refuses to change, attach or configure anything.
  absl::StatusOr<Statement> PrepareQuery(const std::string& sql);
  absl::Status Execute(const std::string& sql);  // any number of statements
  template <typename... Values>
  absl::Status Run(absl::string_view sql, const Values&... values) {
    absl::StatusOr<Statement> statement = Prepare(sql);
    if (!statement.ok()) return statement.status();
    return statement->BindAll(values...).Run();
  }
  // The first column of the first row; nullopt when there is no row or it is NULL.
  template <typename... Values>
  absl::StatusOr<std::optional<int64_t>> QueryInt(absl::string_view sql, const Values&... values) {
    absl::StatusOr<Statement> statement = Prepare(sql);
    if (!statement.ok()) return statement.status();
    absl::StatusOr<bool> row = statement->BindAll(values...).Step();
    if (!row.ok()) return row.status();
    return *row ? statement->OptionalInt(0) : std::nullopt;
  }

  // The last error of this connection is one of the file or the disk, not of a statement's values.
  bool LastErrorIsOfTheDisk() const;

  int64_t LastInsertId() const;
  int64_t ChangeCount() const;  // rows changed by the last INSERT, UPDATE or DELETE
  absl::Status SetApplicationId(int64_t id);
  absl::StatusOr<int64_t> ApplicationId();
  // Checkpoints and truncates the write-ahead log; UNAVAILABLE when a reader blocks it for 0.2 s.
  absl::Status Checkpoint();
  absl::Status QuickCheck();  // DATA_LOSS with the first problem found; cost: reads the whole file
  absl::Status FullCheck();   // as above, plus indexes against tables, and foreign keys

  const std::string& path() const { return path_; }

 private:
  absl::Status Check(const char* pragma);
  Database(sqlite3* connection, std::string path) : connection_(connection), path_(std::move(path)) {}

  sqlite3* connection_;
  std::string path_;
  int busy_timeout_ms_ = 0;
};

// Rolls back unless committed. A write transaction takes the write lock at once: upgrading a read transaction fails
// with BUSY_SNAPSHOT after any other commit, whatever the timeout.
class Transaction {
 public:
  enum class Kind { kRead, kWrite };
  static absl::StatusOr<Transaction> Begin(Database& database, Kind kind);
  Transaction(Transaction&& other) noexcept
      : database_(std::exchange(other.database_, nullptr)), rollback_(std::move(other.rollback_)) {}
  ~Transaction();
  absl::Status Commit();

 private:
  Transaction(Database* database, Statement rollback) : database_(database), rollback_(std::move(rollback)) {}
  Database* database_;
  Statement rollback_;
};

}  // namespace varifocal::sqlite
