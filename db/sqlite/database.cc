#include "db/sqlite/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal::sqlite {
namespace {

// SQLite quotes whole statements when a damaged schema does not parse; a message is one sentence.
std::string OneLine(absl::string_view text) {
  constexpr size_t kBytesMax = 160;
  std::string line;
  for (char c : text.substr(0, kBytesMax)) line += absl::ascii_isprint(c) ? c : ' ';
  return text.size() > kBytesMax ? line + ".." : line;
}

// An integrity check reports a page that could not be read as a row of its result, not as an error of the statement: the
// code of a failing disk or of missing memory there, which are not damage; 0 for anything else.
int ReadErrorIn(absl::string_view found) {
  constexpr absl::string_view kCannotRead = "unable to get the page. error code=";
  const size_t at = found.find(kCannotRead);
  if (at == absl::string_view::npos) return 0;
  const absl::string_view rest = found.substr(at + kCannotRead.size());
  int code = 0;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find_first_not_of("0123456789")), &code)) return 0;
  const bool is_damage = code == SQLITE_IOERR_SHORT_READ;
  return !is_damage && ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_NOMEM) ? code : 0;
}

absl::Status ToStatus(int code, absl::string_view path, absl::string_view detail) {
  std::string message = absl::StrCat(path, ": ", OneLine(detail));
  if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY) {
    return FailedPrecondition(path, ": a write was cut off and the next writer must open the database first");
  }
  if (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE) {
    // SQLite reports only a full disk as such; a quota and a file size limit are handled the same way.
    return ResourceExhausted(
        path, ": a write failed (a quota, a limit of the file's size or the disk itself): ", OneLine(detail));
  }
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::OkStatus();
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return absl::DataLossError(message);
    case SQLITE_FULL:
      return ResourceExhausted(message, "; make room on the file system of this file");
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(message);
    case SQLITE_CONSTRAINT:
      return absl::FailedPreconditionError(message);
    default:
      return Internal(message, " (SQLite code ", code, ")");
  }
}

absl::Status LastError(sqlite3* connection, const std::string& path) {
  return ToStatus(sqlite3_extended_errcode(connection), path, sqlite3_errmsg(connection));
}

bool FolderIsWritable(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0;
}

bool FileHasBytes(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

// Authorizer that permits reads only.
int AllowReading(void*, int action, const char* first, const char*, const char*, const char*) {
  switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
      return SQLITE_OK;
    case SQLITE_FUNCTION:
      return SQLITE_OK;    // extensions cannot be loaded, so every function is built into SQLite
    case SQLITE_PRAGMA: {  // those that list the columns of a table
      const std::string name = first == nullptr ? "" : first;
      return name == "table_info" || name == "table_list" || name == "table_xinfo" ? SQLITE_OK : SQLITE_DENY;
    }
    default:
      return SQLITE_DENY;
  }
}

// A path as a URI file name: everything but unreserved characters and '/' is percent-encoded.
std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (unsigned char c : path) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
                 c == '-' || c == '_';
    uri += plain ? std::string(1, static_cast<char>(c)) : absl::StrCat("%", absl::Hex(c, absl::kZeroPad2));
  }
  return uri + "?mode=ro&immutable=1";
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)),
      path_(std::move(other.path_)),
      bound_count_(other.bound_count_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Note(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = code;
}

Statement& Statement::Bind(int64_t value) {
  Note(sqlite3_bind_int64(statement_, ++bound_count_, value));
  return *this;
}
Statement& Statement::Bind(double value) {
  Note(sqlite3_bind_double(statement_, ++bound_count_, value));
  return *this;
}
Statement& Statement::Bind(const std::string& value) {
  Note(sqlite3_bind_text64(statement_, ++bound_count_, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}
Statement& Statement::Bind(std::nullopt_t) {
  Note(sqlite3_bind_null(statement_, ++bound_count_));
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (bind_error_ != SQLITE_OK) return ToStatus(bind_error_, path_, sqlite3_errstr(bind_error_));
  VF_CHECK(bound_count_ == sqlite3_bind_parameter_count(statement_), "every parameter is bound");
  int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return LastError(sqlite3_db_handle(statement_), path_);
}

absl::Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  bound_count_ = 0;
  bind_error_ = SQLITE_OK;
}

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text), sqlite3_column_bytes(statement_, column));
}
std::optional<int64_t> Statement::OptionalInt(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Int(column));
}
std::optional<double> Statement::OptionalReal(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Real(column));
}
std::optional<std::string> Statement::OptionalText(int column) const {
  return IsNull(column) ? std::nullopt : std::optional(Text(column));
}

int Statement::ColumnCount() const { return sqlite3_column_count(statement_); }

std::string Statement::ColumnName(int column) const {
  const char* name = sqlite3_column_name(statement_, column);
  return name == nullptr ? "" : name;
}

Statement::Type Statement::TypeOf(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return Type::kInteger;
    case SQLITE_FLOAT:
      return Type::kReal;
    case SQLITE_TEXT:
      return Type::kText;
    case SQLITE_BLOB:
      return Type::kBytes;
    default:
      return Type::kNull;
  }
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, const OpenOptions& options) {
  bool immutable = options.read_only && !FolderIsWritable(path) && !FileHasBytes(path + "-wal");
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
              (options.read_only ? SQLITE_OPEN_READONLY | (immutable ? SQLITE_OPEN_URI : 0)
                                 : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // A plain name goes to SQLite as "./name": ":memory:" and "file:x" are files here like any other.
  std::string name = immutable ? ImmutableUri(path) : path[0] == '/' ? path : absl::StrCat("./", path);
  sqlite3* connection = nullptr;
  int code = sqlite3_open_v2(name.c_str(), &connection, flags, nullptr);
  std::unique_ptr<Database> database(new Database(connection, path));
  if (code != SQLITE_OK) {
    return ToStatus(code, path, connection == nullptr ? "out of memory" : sqlite3_errmsg(connection));
  }
  sqlite3_busy_timeout(connection, options.busy_timeout_ms);
  database->busy_timeout_ms_ = options.busy_timeout_ms;
  sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  RETURN_IF_ERROR(database->Execute("PRAGMA cell_size_check = ON"));
  if (options.is_copied) return database;
  if (options.read_only) {
    // An untrusted file must not be able to run functions. (A writer's CHECKs call json_valid, which 3.40 considers
    // unsafe in an untrusted schema.)
    RETURN_IF_ERROR(database->Execute("PRAGMA trusted_schema = OFF; PRAGMA query_only = ON;"));
    return database;
  }
  if (sqlite3_db_readonly(connection, "main") != 0) return PermissionDenied(path, ": the file cannot be written");
  if (options.keep_as_it_is) return database;
  RETURN_IF_ERROR(database->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"));
  return database;
}

Database::~Database() { sqlite3_close_v2(connection_); }

absl::StatusOr<Statement> Database::Prepare(absl::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(connection_, sql.data(), sql.size(), &statement, nullptr);
  if (code != SQLITE_OK) return LastError(connection_, path_);
  return Statement(statement, path_);
}

absl::StatusOr<Statement> Database::PrepareQuery(const std::string& sql) {
  sqlite3_set_authorizer(connection_, &AllowReading, nullptr);
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v2(connection_, sql.c_str(), static_cast<int>(sql.size()) + 1, &raw, &rest);
  Statement statement(raw, path_);
  if (code == SQLITE_AUTH || (raw != nullptr && sqlite3_stmt_readonly(raw) == 0)) {
    return InvalidArgument("the query does more than read this database; it must be one SELECT");
  }
  if (code == SQLITE_ERROR || code == SQLITE_TOOBIG) {
    return InvalidArgument("the query is invalid: ", OneLine(sqlite3_errmsg(connection_)));
  }
  if (code != SQLITE_OK) return LastError(connection_, path_);
  if (raw == nullptr) return InvalidArgument("the query is empty; it must be one SELECT");
  sqlite3_stmt* second = nullptr;
  const int second_code = sqlite3_prepare_v2(connection_, rest, -1, &second, nullptr);
  sqlite3_finalize(second);
  const bool is_readable = second_code == SQLITE_OK || second_code == SQLITE_ERROR || second_code == SQLITE_AUTH;
  if (!is_readable) return LastError(connection_, path_);
  if (second_code != SQLITE_OK || second != nullptr) {
    return InvalidArgument("the query has more than one statement; it must be one SELECT");
  }
  const int parameter_count = sqlite3_bind_parameter_count(raw);
  if (parameter_count > 0) {
    return InvalidArgument("the query has ", parameter_count,
                           " parameters (? or :name), which cannot be bound here; write the "
                           "values themselves");
  }
  return statement;
}

absl::Status Database::Execute(const std::string& sql) {
  int code = sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : LastError(connection_, path_);
}

bool Database::LastErrorIsOfTheDisk() const { return (sqlite3_errcode(connection_) & 0xff) == SQLITE_IOERR; }

int64_t Database::LastInsertId() const { return sqlite3_last_insert_rowid(connection_); }

int64_t Database::ChangeCount() const { return sqlite3_changes64(connection_); }

absl::Status Database::SetApplicationId(int64_t id) { return Execute(absl::StrCat("PRAGMA application_id = ", id)); }

absl::StatusOr<int64_t> Database::ApplicationId() {
  ASSIGN_OR_RETURN(std::optional<int64_t> id, QueryInt("PRAGMA application_id"));
  return id.value_or(0);
}

absl::Status Database::Check(const char* pragma) {
  ASSIGN_OR_RETURN(Statement statement, Prepare(pragma));
  ASSIGN_OR_RETURN(bool row, statement.Step());
  std::string found = row ? statement.Text(0) : "no answer";
  if (found == "ok") return absl::OkStatus();
  if (const int code = ReadErrorIn(found); code != 0) return ToStatus(code, path_, OneLine(found));
  return DataLoss(path_, ": the database is damaged: ", OneLine(found));
}

absl::Status Database::Checkpoint() {
  constexpr int kWaitMs = 200;
  sqlite3_busy_timeout(connection_, kWaitMs);
  const absl::StatusOr<std::optional<int64_t>> is_busy = QueryInt("PRAGMA wal_checkpoint(TRUNCATE)");
  sqlite3_busy_timeout(connection_, busy_timeout_ms_);
  RETURN_IF_ERROR(is_busy.status());
  if (is_busy->value_or(0) == 0) return absl::OkStatus();
  return Unavailable(path_, ": a reader keeps the write-ahead log from being emptied");
}

absl::Status Database::QuickCheck() { return Check("PRAGMA quick_check(1)"); }

absl::Status Database::FullCheck() {
  RETURN_IF_ERROR(Check("PRAGMA integrity_check(1)"));
  ASSIGN_OR_RETURN(Statement statement, Prepare("PRAGMA foreign_key_check"));
  ASSIGN_OR_RETURN(bool row, statement.Step());
  if (!row) return absl::OkStatus();
  return DataLoss(path_, ": a row of ", statement.Text(0), " refers to a missing one in ", statement.Text(2));
}

absl::StatusOr<Transaction> Transaction::Begin(Database& database, Kind kind) {
  // Prepared in advance: without memory at the end the transaction would stay open, and with it the next one fail.
  ASSIGN_OR_RETURN(Statement rollback, database.Prepare("ROLLBACK"));
  RETURN_IF_ERROR(database.Execute(kind == Kind::kWrite ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(&database, std::move(rollback));
}

Transaction::~Transaction() {
  // Fails if an error already rolled the transaction back, which is harmless.
  if (database_ != nullptr) rollback_.Run().IgnoreError();
}

absl::Status Transaction::Commit() {
  RETURN_IF_ERROR(database_->Execute("COMMIT"));
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace varifocal::sqlite
