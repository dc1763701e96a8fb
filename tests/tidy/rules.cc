#include "tests/tidy/rules.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

namespace varifocal::tidy {
namespace {

using Complaints = std::vector<Complaint>;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool StartsWith(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool IsCpp(const std::string& path) {
  return EndsWith(path, ".h") || EndsWith(path, ".cc") || EndsWith(path, ".cu") || EndsWith(path, ".cuh");
}

// Allowed includes besides the room itself: the dependency rule of docs/architecture.md, one row per room. A room inside
// another one is listed first. tests and bench may include any room.
struct Room {
  const char* name;
  std::vector<std::string> allowed;
};

const std::vector<Room>& Rooms() {
  static const std::vector<Room> rooms = {
      {"server/model", {"base", "kernels", "tokenizer"}},
      {"server/engine", {"base", "kernels", "tokenizer", "server/model"}},
      {"server/hosting", {"base", "kernels", "tokenizer", "eval_tasks", "server/model", "server/engine"}},
      {"server/endpoint", {"base", "tokenizer", "eval_tasks", "server/engine", "server/hosting"}},
      {"server/jobs", {"base", "db", "eval_tasks", "server/engine", "server/hosting"}},
      {"server/rpc", {"base", "eval_tasks", "protos", "wire", "server/engine", "server/hosting", "server/jobs"}},
      {"server/workers", {"base", "protos", "wire", "server/model", "server/engine", "server/hosting", "server/rpc"}},
      {"server",
       {"base", "tokenizer", "db", "eval_tasks", "protos", "wire", "server/model", "server/engine", "server/hosting",
        "server/endpoint", "server/jobs", "server/rpc", "server/workers"}},
      {"base", {}},
      {"protos", {}},
      {"kernels", {"base"}},
      {"tokenizer", {"base"}},
      {"db", {"base"}},
      {"eval_tasks", {"base", "tokenizer"}},
      {"wire", {"base", "protos", "eval_tasks"}},
      {"client", {"base", "protos", "wire", "db", "eval_tasks", "tokenizer"}},
      {"bench", {"*"}},
      {"tests", {"*"}},
  };
  return rooms;
}

const Room* FindRoom(const std::string& path) {
  for (const Room& room : Rooms()) {
    if (StartsWith(path, std::string(room.name) + "/")) return &room;
  }
  return nullptr;
}

// The room of an include's target; generated headers are not in the tree.
std::string RoomOfTarget(const std::string& target) {
  if (EndsWith(target, ".pb.h")) return StartsWith(target, "google/protobuf/") ? "" : "protos";
  const Room* room = FindRoom(target);
  return room == nullptr ? "" : room->name;
}

bool Allows(const Room& room, const std::string& other) {
  return other == room.name || room.allowed == std::vector<std::string>{"*"} ||
         std::count(room.allowed.begin(), room.allowed.end(), other) > 0;
}

struct Home {
  Home(const char* header, std::vector<std::string> allowed)
      : header(header), pattern(header, std::regex::optimize), allowed(std::move(allowed)) {}
  const char* header;  // regular expression over the text inside the include's brackets or quotes
  std::regex pattern;
  std::vector<std::string> allowed;  // path prefixes
};

const std::vector<Home>& Homes() {
  static const std::vector<Home> homes = {
      {"sqlite3\\.h", {"db/sqlite/"}},
      {"(cuda|cublas|cudnn|nvrtc).*\\.h", {"kernels/cuda/"}},
      {"(grpc|grpcpp)/.*|.*\\.grpc\\.pb\\.h",
       {"server/rpc/", "wire/channel", "server/workers/", "server/health_monitor", "server/metrics",
        "server/process_usage", "server/server", "server/untrusted_callers_test", "client/", "tests/"}},
      {"varifocal/v1/[a-z]+\\.pb\\.h", {"wire/", "server/rpc/", "server/workers/", "client/"}},
      {"google/rpc/.*", {"server/rpc/", "tests/"}},
      {"google/protobuf/.*", {"wire/", "tests/"}},
      {"nlohmann/.*", {"base/json"}},
      {"yaml-cpp/.*", {"client/suite_file", "eval_tasks/helmet/import/config"}},
      {"pcre2\\.h", {"tokenizer/"}},
      {"utf8proc\\.h", {"tokenizer/", "eval_tasks/python/"}},
      {"CLI/.*", {"client/", "server/main"}},
      {"openssl/.*", {"base/sha256", "server/tls_material"}},
      {"httplib\\.h", {"base/http_server", "client/dashboard/", "server/endpoint/faulty_server", "server/metrics"}},
      {"curl/.*", {"server/endpoint/curl_client"}},
      {"prometheus/.*", {"server/metrics"}},
      {"absl/.*", {"base/", "tokenizer/", "db/", "eval_tasks/", "wire/", "server/", "client/", "bench/", "tests/"}},
  };
  return homes;
}

// Parses an include line; false for other lines.
bool ParseInclude(const std::string& line, std::string* target, bool* quoted) {
  static const std::regex include(R"(^\s*#\s*include\s+([<"])([^>"]+)[>"])");
  std::smatch match;
  if (!std::regex_search(line, match, include)) return false;
  *target = match[2];
  *quoted = match[1] == "\"";
  return true;
}

}  // namespace

std::vector<SourceFile> ReadTree(const std::string& root) {
  static const std::vector<std::string> kEndings = {".h",  ".cc", ".cu", ".cuh",  ".sql",  ".proto",
                                                    ".py", ".sh", ".md", ".yaml", ".cmake"};
  static const std::vector<std::string> kSkipped = {"build", ".git", "demo", ".venv", "goldens"};
  std::vector<SourceFile> files;
  for (auto it = std::filesystem::recursive_directory_iterator(root); it != std::filesystem::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && std::count(kSkipped.begin(), kSkipped.end(), name) > 0 &&
        !(name == "goldens" && EndsWith(it->path().parent_path().string(), "recipes"))) {
      it.disable_recursion_pending();
      continue;
    }
    const bool wanted =
        name == "CMakeLists.txt" ||
        std::any_of(kEndings.begin(), kEndings.end(), [&](const std::string& e) { return EndsWith(name, e); });
    if (!it->is_regular_file() || !wanted) continue;
    std::ifstream stream(it->path(), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    files.push_back({std::filesystem::relative(it->path(), root).generic_string(), text.str()});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

Complaints CheckIncludeEdges(const SourceFile& file) {
  Complaints complaints;
  const Room* room = FindRoom(file.path);
  if (!IsCpp(file.path) || room == nullptr) return complaints;
  // A room's own tests may use the shared fakes, and the embedded server is the one client file that links the server.
  const bool is_test = EndsWith(file.path, "_test.cc") || EndsWith(file.path, "_bench.cc");
  const bool is_embedded = StartsWith(file.path, "client/embedded");
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    std::string target;
    bool quoted;
    if (!ParseInclude(line, &target, &quoted) || !quoted) continue;
    const std::string other = RoomOfTarget(target);
    if (other.empty() || Allows(*room, other)) continue;
    if (is_embedded && StartsWith(other, "server")) continue;
    if (is_test && other == "tests") continue;
    complaints.push_back({file.path, number, "the room " + std::string(room->name) + " must not include " + target});
  }
  // kernels/ builds without third-party packages: of base it may only use headers without dependencies.
  if (std::string(room->name) == "kernels") {
    number = 0;
    for (const std::string& line : Lines(file.text)) {
      ++number;
      std::string target;
      bool quoted;
      if (ParseInclude(line, &target, &quoted) && StartsWith(target, "base/") && target != "base/check.h" && !is_test) {
        complaints.push_back({file.path, number, "kernels/ may include base/check.h alone, not " + target});
      }
    }
  }
  return complaints;
}

Complaints CheckThirdPartyHomes(const SourceFile& file) {
  Complaints complaints;
  if (!IsCpp(file.path)) return complaints;
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    std::string target;
    bool quoted;
    if (!ParseInclude(line, &target, &quoted)) continue;
    for (const Home& home : Homes()) {
      if (!std::regex_match(target, home.pattern)) continue;
      const bool at_home = std::any_of(home.allowed.begin(), home.allowed.end(),
                                       [&](const std::string& prefix) { return StartsWith(file.path, prefix); });
      if (!at_home)
        complaints.push_back({file.path, number, target + " may be included in " + home.allowed[0] + " only"});
    }
  }
  return complaints;
}

Complaints CheckHeaderOpening(const SourceFile& file) {
  Complaints complaints;
  if (!EndsWith(file.path, ".h") && !EndsWith(file.path, ".cuh")) return complaints;
  if (!StartsWith(file.text, "// "))
    complaints.push_back({file.path, 1, "a header opens with what it is, in a // comment"});
  if (file.text.find("\n#pragma once\n") == std::string::npos) {
    complaints.push_back({file.path, 1, "a header has #pragma once after its opening comment"});
  }
  return complaints;
}

Complaints CheckLeftovers(const SourceFile& file) {
  Complaints complaints;
  if (StartsWith(file.path, "tests/tidy/")) return complaints;  // contains the patterns
  struct Leftover {
    std::regex pattern;
    const char* message;
  };
  static const std::vector<Leftover> leftovers = {
      {std::regex(R"(\b(FIXME|XXX)\b)"), "leftover marker; fix it, or document why it remains"},
      {std::regex(R"(\bTODO\b(?!\(#\d+\)))"), "a TODO names its issue, as in TODO(#12)"},
      {std::regex(R"((^|[\s"'`=(])/work/)"), "machine-specific path"},
  };
  static const std::regex fast_math(R"(-ffast-math)");
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    for (const Leftover& leftover : leftovers) {
      if (std::regex_search(line, leftover.pattern)) complaints.push_back({file.path, number, leftover.message});
    }
    if (!EndsWith(file.path, ".md") && std::regex_search(line, fast_math)) {
      complaints.push_back({file.path, number, "fast-math breaks the same-bits guarantee"});
    }
  }
  return complaints;
}

Complaints CheckBannedCalls(const SourceFile& file) {
  Complaints complaints;
  if (!IsCpp(file.path) || StartsWith(file.path, "tests/tidy/")) return complaints;
  struct Ban {
    std::regex pattern;
    const char* message;
    const char* except;  // path prefix where it is allowed
  };
  static const std::vector<Ban> bans = {
      {std::regex(R"(std::\w+_distribution)"), "draws differ between standard libraries; use base/random", ""},
      {std::regex(R"(std::(mt19937|random_device|default_random_engine)|\brand\(\))"), "use base/random", "kernels/"},
      {std::regex(R"(std::string_view)"), "Debian's Abseil does not convert it; use absl::string_view", "kernels/"},
      {std::regex(R"(absl::optional)"), "use std::optional", ""},
      {std::regex(R"(absl::(Mutex|Notification|BlockingCounter))"),
       "ThreadSanitizer cannot see it; use std::mutex or std::promise", ""},
      {std::regex(R"(#\s*include <(format|print|expected)>)"), "g++ 12 does not have it", ""},
      {std::regex(R"(#\s*pragma omp)"), "OpenMP's active waiting is 15x slower on a busy machine; use the thread pool",
       ""},
  };
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    for (const Ban& ban : bans) {
      if (ban.except[0] != '\0' && StartsWith(file.path, ban.except)) continue;
      const size_t comment = line.find("//");
      if (std::regex_search(line.substr(0, comment), ban.pattern))
        complaints.push_back({file.path, number, ban.message});
    }
  }
  return complaints;
}

Complaints CheckSql(const SourceFile& file) {
  Complaints complaints;
  if (!EndsWith(file.path, ".sql") && !(StartsWith(file.path, "db/") && IsCpp(file.path))) return complaints;
  const bool is_migration = EndsWith(file.path, ".sql");
  static const std::regex select_star(R"(SELECT\s+(\w+\.)?\*)");
  static const std::regex insert_without_columns(R"(INSERT( OR \w+)?\s+INTO\s+\w+\s+(VALUES|SELECT))");
  static const std::regex lower_keyword(
      R"(^\s*"?(select|insert|update|delete|create)\s+(table|into|from|view|index|\w+ from)\b)");
  static const std::regex has_default(R"(\bDEFAULT\b)");
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    if (std::regex_search(line, select_star)) complaints.push_back({file.path, number, "a SELECT names its columns"});
    if (std::regex_search(line, insert_without_columns))
      complaints.push_back({file.path, number, "an INSERT names its columns"});
    if (std::regex_search(line, lower_keyword))
      complaints.push_back({file.path, number, "SQL keywords are written in capitals"});
    const std::string code = line.substr(0, line.find("--"));
    if (is_migration && std::regex_search(code, has_default)) {
      complaints.push_back({file.path, number, "no DEFAULT: a forgotten column must be an error"});
    }
  }
  if (is_migration) {
    // Every table is STRICT: count CREATE TABLE against the word.
    const auto count = [&](const std::regex& pattern) {
      return std::distance(std::sregex_iterator(file.text.begin(), file.text.end(), pattern), std::sregex_iterator());
    };
    if (count(std::regex(R"(CREATE TABLE)")) != count(std::regex(R"(\)\s*(WITHOUT ROWID,\s*)?STRICT)"))) {
      complaints.push_back({file.path, 1, "every table is STRICT"});
    }
  }
  return complaints;
}

Complaints CheckLineLength(const SourceFile& file) {
  constexpr size_t kCharactersMax = 140;  // the formatter's limit is 120; strings and tables may exceed it slightly
  Complaints complaints;
  if (!IsCpp(file.path)) return complaints;
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    if (line.size() > kCharactersMax && line.find("R\"") == std::string::npos) {
      complaints.push_back(
          {file.path, number,
           "the line has " + std::to_string(line.size()) + " characters, above " + std::to_string(kCharactersMax)});
    }
  }
  return complaints;
}

Complaints CheckWording(const SourceFile& file) {
  static const std::regex wording(
      R"(\b(somebody|nobody|anybody|whoever|under way|anew|for good|for ever|(goes|gone|go|going) on|be had|by decree|)"
      R"(side by side|in hand|at hand|made[- ]up|says|said|tells|told|wants|stands|stood|heard|promised?|promises)\b)",
      std::regex::optimize);
  Complaints complaints;
  if (!IsCpp(file.path) || StartsWith(file.path, "tests/tidy/")) return complaints;
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    const size_t comment = line.find("// ");
    std::smatch match;
    if (comment == std::string::npos) continue;
    const std::string text = line.substr(comment);
    if (std::regex_search(text, match, wording))
      complaints.push_back({file.path, number, "\"" + match.str() + "\" in a comment; use a standard technical term"});
  }
  return complaints;
}

Complaints CheckFile(const SourceFile& file) {
  Complaints all;
  for (const auto& rule : {CheckIncludeEdges, CheckThirdPartyHomes, CheckHeaderOpening, CheckLeftovers,
                           CheckBannedCalls, CheckSql, CheckLineLength, CheckWording}) {
    const Complaints found = rule(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

// ---- Rules over the whole tree ----

namespace {

struct Include {
  const SourceFile* file;
  std::string target;
};

std::vector<Include> AllIncludes(const std::vector<SourceFile>& files) {
  std::vector<Include> includes;
  for (const SourceFile& file : files) {
    if (!IsCpp(file.path)) continue;
    for (const std::string& line : Lines(file.text)) {
      std::string target;
      bool quoted;
      if (ParseInclude(line, &target, &quoted)) includes.push_back({&file, target});
    }
  }
  return includes;
}

std::string WithoutEnding(const std::string& path) { return path.substr(0, path.rfind('.')); }

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The identifiers of a line without its comment, each with the character after it.
struct Identifier {
  std::string name;
  char next;
};
std::vector<Identifier> IdentifiersOf(const std::string& line) {
  std::vector<Identifier> identifiers;
  const size_t size = std::min(line.find("//"), line.size());
  for (size_t i = 0; i < size; ++i) {
    if (!IsWord(line[i])) continue;
    const size_t begin = i;
    while (i < size && IsWord(line[i])) ++i;
    identifiers.push_back({line.substr(begin, i - begin), i < size ? line[i] : '\0'});
  }
  return identifiers;
}

// The type, constant or function that an unindented line declares or defines; empty where there is none.
std::string DeclaredName(const std::string& line, const std::vector<Identifier>& identifiers) {
  static const std::set<std::string> kOthers = {"using",  "namespace", "template", "extern",
                                                "friend", "return",    "VF_DEVICE"};  // primitives, which come in pairs
  if (identifiers.empty() || !IsWord(line[0]) || kOthers.contains(identifiers[0].name)) return "";
  const bool is_type = StartsWith(line, "struct ") || StartsWith(line, "class ") || StartsWith(line, "enum class ");
  if (is_type) {
    size_t at = StartsWith(line, "enum ") ? 2 : 1;
    if (at < identifiers.size() && identifiers[at].name == "nodiscard") ++at;
    return at < identifiers.size() && !EndsWith(line, ";") ? identifiers[at].name : "";
  }
  const bool is_constant = line.find("constexpr ") < 8 && line.find(" = ") < line.find('(');
  for (const Identifier& identifier : identifiers) {
    const std::string& name = identifier.name;
    if (is_constant && name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1])))
      return name;
    if (!is_constant && identifier.next == '(') return name;
  }
  return "";
}

}  // namespace

Complaints CheckDeadFiles(const std::vector<SourceFile>& files) {
  std::set<std::string> included;
  for (const Include& include : AllIncludes(files)) {
    // A source that includes its own header does not keep it alive, unless it is a program or a test.
    const bool is_own = WithoutEnding(include.target) == WithoutEnding(include.file->path) &&
                        include.file->text.find("\nint main(") == std::string::npos;
    if (!is_own) included.insert(include.target);
  }
  Complaints complaints;
  for (const SourceFile& file : files) {
    if (EndsWith(file.path, ".h") || EndsWith(file.path, ".cuh")) {
      if (!included.contains(file.path)) complaints.push_back({file.path, 1, "no file includes this header"});
      continue;
    }
    if (!EndsWith(file.path, ".cc") && !EndsWith(file.path, ".cu") && !EndsWith(file.path, ".sql")) continue;
    // Listed, by relative path, in a CMake file of a parent directory, or included by another source.
    const bool is_listed = std::any_of(files.begin(), files.end(), [&](const SourceFile& list) {
      const bool is_cmake = EndsWith(list.path, ".cmake");
      if (!is_cmake && !EndsWith(list.path, "CMakeLists.txt")) return false;
      std::string folder = list.path.substr(0, list.path.rfind('/') + 1);
      if (is_cmake && !folder.empty()) folder = folder.substr(0, folder.rfind('/', folder.size() - 2) + 1);
      if (!StartsWith(file.path, folder)) return false;
      const std::string name = file.path.substr(folder.size());
      for (size_t at = list.text.find(name); at != std::string::npos; at = list.text.find(name, at + 1)) {
        const char before = at == 0 ? ' ' : list.text[at - 1];
        if (std::isspace(static_cast<unsigned char>(before)) || before == '(') return true;
      }
      return false;
    });
    if (!is_listed && !included.contains(file.path))
      complaints.push_back({file.path, 1, "no CMake file lists this file"});
  }
  return complaints;
}

Complaints CheckDeadNames(const std::vector<SourceFile>& files) {
  struct Place {
    const SourceFile* file;
    int line;
  };
  std::map<std::string, Place> declared;  // in headers
  std::set<std::string> used;
  for (const SourceFile& file : files) {
    const bool is_cpp = IsCpp(file.path);
    if (!is_cpp && !EndsWith(file.path, "CMakeLists.txt")) continue;  // which defines macros
    int number = 0;
    for (const std::string& line : Lines(file.text)) {
      ++number;
      const std::vector<Identifier> identifiers = IdentifiersOf(line);
      const std::string name = is_cpp ? DeclaredName(line, identifiers) : "";
      if (!name.empty() && EndsWith(file.path, ".h")) declared.insert({name, {&file, number}});
      bool is_own = !name.empty();  // the first occurrence is the declaration's
      for (const Identifier& identifier : identifiers) {
        if (is_own && identifier.name == name) {
          is_own = false;
        } else {
          used.insert(identifier.name);
        }
      }
    }
  }
  used.insert("PrintTo");  // called by the test library
  Complaints complaints;
  for (const auto& [name, place] : declared) {
    if (!used.contains(name))
      complaints.push_back({place.file->path, place.line, name + " is declared and never used"});
  }
  return complaints;
}

Complaints CheckRulesAreUsed(const std::vector<SourceFile>& files) {
  const std::vector<Include> includes = AllIncludes(files);
  std::set<std::pair<std::string, std::string>> edges;
  for (const Include& include : includes) {
    const Room* room = FindRoom(include.file->path);
    if (room != nullptr) edges.insert({room->name, RoomOfTarget(include.target)});
  }
  Complaints complaints;
  const auto complain = [&](const std::string& message) { complaints.push_back({"tests/tidy/rules.cc", 1, message}); };
  for (const Room& room : Rooms()) {
    for (const std::string& other : room.allowed) {
      if (other != "*" && !edges.contains({room.name, other}))
        complain("the room " + std::string(room.name) + " may include " + other + ", and no file does");
    }
  }
  for (const Home& home : Homes()) {
    for (const std::string& prefix : home.allowed) {
      const bool is_used = std::any_of(includes.begin(), includes.end(), [&](const Include& include) {
        return StartsWith(include.file->path, prefix) && std::regex_match(include.target, home.pattern);
      });
      if (!is_used) complain(prefix + " may include " + home.header + ", and no file does");
    }
  }
  return complaints;
}

Complaints CheckTree(const std::vector<SourceFile>& files) {
  Complaints all;
  for (const SourceFile& file : files) {
    const Complaints found = CheckFile(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  for (const auto& rule : {CheckDeadFiles, CheckDeadNames, CheckRulesAreUsed}) {
    const Complaints found = rule(files);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace varifocal::tidy
