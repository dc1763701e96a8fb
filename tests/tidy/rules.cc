#include "tests/tidy/rules.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>

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

// The rooms of the dependency rule, longest prefix first where one holds another.
const std::vector<std::string>& Rooms() {
  static const std::vector<std::string> rooms = {"server/model", "server/engine", "server/jobs", "server/rpc", "server",
                                                 "base",         "protos",        "kernels",     "tokenizer",  "db",
                                                 "eval_tasks",   "client",        "tests",       "google"};
  return rooms;
}

std::string RoomOf(const std::string& path) {
  for (const std::string& room : Rooms()) {
    if (StartsWith(path, room + "/")) return room;
  }
  return "";
}

// What a room may include besides itself: the dependency rule of docs/architecture.md, one row a room.
std::vector<std::string> AllowedRooms(const std::string& room) {
  if (room == "base") return {};
  if (room == "kernels" || room == "tokenizer" || room == "db" || room == "protos") return {"base"};
  if (room == "eval_tasks") return {"base", "tokenizer"};
  if (room == "server/model") return {"base", "kernels", "tokenizer"};
  if (room == "server/engine") return {"base", "kernels", "tokenizer", "server/model"};
  if (room == "server/jobs") {
    return {"base", "kernels", "tokenizer", "db", "eval_tasks", "server/model", "server/engine"};
  }
  if (room == "server/rpc") {
    return {"base",         "kernels",       "tokenizer",   "db",     "eval_tasks",
            "server/model", "server/engine", "server/jobs", "protos", "google"};
  }
  if (room == "server") {
    return {"base",          "kernels",     "tokenizer",  "db",     "eval_tasks", "server/model",
            "server/engine", "server/jobs", "server/rpc", "protos", "google"};
  }
  if (room == "client") return {"base", "protos", "db", "eval_tasks", "tokenizer", "google"};
  return Rooms();  // tests
}

struct Home {
  const char* header;                // regular expression over what stands inside the include's brackets or quotes
  std::vector<std::string> allowed;  // path prefixes
};

const std::vector<Home>& Homes() {
  static const std::vector<Home> homes = {
      {"sqlite3\\.h", {"db/sqlite/"}},
      {"(cuda|cublas|cudnn|nvrtc).*", {"kernels/cuda/"}},
      {"hwy/.*", {"kernels/cpu/"}},
      {"(grpc|grpcpp)/.*", {"server/rpc/", "server/server", "server/jobs/remote_generator", "client/", "tests/"}},
      {"(protos|google/protobuf|google/rpc)/.*",
       {"server/rpc/", "server/server", "server/jobs/remote_generator", "client/", "protos/", "tests/"}},
      {"nlohmann/.*", {"base/json"}},
      {"yaml-cpp/.*", {"client/suite_file", "eval_tasks/helmet_import/config"}},
      {"pcre2\\.h|utf8proc\\.h|unicode/.*", {"tokenizer/", "eval_tasks/metrics"}},
      {"CLI/.*", {"client/", "server/main"}},
      {"openssl/.*", {"base/sha256"}},
      {"zlib\\.h", {"eval_tasks/r_text"}},
      {"absl/.*", {"base/", "tokenizer/", "db/", "eval_tasks/", "server/", "client/", "tests/", "protos/"}},
  };
  return homes;
}

// Where an include line's target starts, or nothing.
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
  const std::string room = RoomOf(file.path);
  if (!IsCpp(file.path) || room.empty() || room == "tests") return complaints;
  // A room's own tests may use the shared fakes, and the embedded server is the one client file that links the server.
  const bool is_test = EndsWith(file.path, "_test.cc") || EndsWith(file.path, "_bench.cc");
  const bool is_embedded = StartsWith(file.path, "client/embedded");
  const std::vector<std::string> allowed = AllowedRooms(room);
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    std::string target;
    bool quoted;
    if (!ParseInclude(line, &target, &quoted) || !quoted) continue;
    const std::string other = RoomOf(target);
    if (other.empty() || other == room) continue;
    if (is_embedded && StartsWith(other, "server")) continue;
    if (is_test && other == "tests") continue;
    if (std::count(allowed.begin(), allowed.end(), other) > 0) continue;
    complaints.push_back({file.path, number, "the room " + room + " must not include " + target});
  }
  // kernels/ builds on a bare machine: of base it may only use what needs nothing else.
  if (room == "kernels") {
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
      if (!std::regex_match(target, std::regex(home.header))) continue;
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
  if (StartsWith(file.path, "tests/tidy/")) return complaints;  // names the words it looks for
  struct Leftover {
    std::regex pattern;
    const char* message;
  };
  static const std::vector<Leftover> leftovers = {
      {std::regex(R"(\b(FIXME|XXX)\b)"), "leftover word; mend it, or write down why it stays"},
      {std::regex(R"(\bTODO\b(?!\(#\d+\)))"), "a TODO names its issue, as in TODO(#12)"},
      {std::regex(R"((^|[\s"'`=(])/work/)"), "a path of one machine has no place here"},
  };
  static const std::regex fast_math(R"(-ffast-math)");
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    for (const Leftover& leftover : leftovers) {
      if (std::regex_search(line, leftover.pattern)) complaints.push_back({file.path, number, leftover.message});
    }
    if (!EndsWith(file.path, ".md") && std::regex_search(line, fast_math)) {
      complaints.push_back({file.path, number, "fast-math breaks the promise of same bits"});
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
      {std::regex(R"(absl::Mutex)"), "ThreadSanitizer cannot see it; use std::mutex", ""},
      {std::regex(R"(#\s*include <(format|print|expected)>)"), "g++ 12 does not have it", ""},
      {std::regex(R"(#\s*pragma omp)"), "active waiting costs 15x beside another process; use the thread pool", ""},
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
  constexpr size_t kCharactersMax = 140;  // the formatter aims at 120; strings and tables may run over a little
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

Complaints CheckFile(const SourceFile& file) {
  Complaints all;
  for (const auto& rule : {CheckIncludeEdges, CheckThirdPartyHomes, CheckHeaderOpening, CheckLeftovers,
                           CheckBannedCalls, CheckSql, CheckLineLength}) {
    const Complaints found = rule(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace varifocal::tidy
