// The dependency rule: which room may include which, and where third-party headers are allowed.
#include <algorithm>
#include <regex>
#include <set>
#include <utility>

#include "tests/tidy/source_text.h"

namespace varifocal::tidy {
namespace {

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
      {"server/front", {"base"}},
      {"server/rpc",
       {"base", "eval_tasks", "protos", "wire", "server/engine", "server/front", "server/hosting", "server/jobs"}},
      {"server/workers", {"base", "protos", "wire", "server/model", "server/engine", "server/hosting", "server/rpc"}},
      {"server",
       {"base", "tokenizer", "db", "eval_tasks", "protos", "wire", "server/model", "server/engine", "server/hosting",
        "server/endpoint", "server/front", "server/jobs", "server/rpc", "server/workers"}},
      {"client/report/data", {"base", "db", "eval_tasks"}},
      {"client/report/charts", {"base", "client/report/data"}},
      {"client/report/page", {"base", "db", "client/report/data", "client/report/charts"}},
      {"client/report", {"base", "db", "client/report/data", "client/report/charts", "client/report/page"}},
      {"client",
       {"base", "protos", "wire", "db", "eval_tasks", "tokenizer", "client/report/data", "client/report/charts",
        "client/report/page", "client/report"}},
      {"base", {}},
      {"protos", {}},
      {"kernels", {"base"}},
      {"tokenizer", {"base"}},
      {"db", {"base"}},
      {"eval_tasks", {"base", "tokenizer"}},
      {"wire", {"base", "protos", "db", "eval_tasks"}},
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
        "server/limits_boundary_test", "server/server", "server/untrusted_callers_test", "client/", "tests/"}},
      {"varifocal/v1/[a-z]+\\.pb\\.h", {"wire/", "server/rpc/", "server/workers/", "client/"}},
      {"google/rpc/.*", {"server/rpc/", "tests/"}},
      {"google/protobuf/.*", {"wire/", "tests/"}},
      {"nlohmann/.*", {"base/json"}},
      {"yaml-cpp/.*",
       {"client/suite_file", "client/judge_prompt", "eval_tasks/helmet/import/config",
        "eval_tasks/benchmarks/longproc"}},
      {"pcre2\\.h", {"tokenizer/"}},
      {"re2/re2\\.h", {"eval_tasks/filters"}},
      {"utf8proc\\.h", {"tokenizer/", "eval_tasks/python/"}},
      {"CLI/.*", {"client/", "server/main"}},
      {"openssl/.*", {"base/sha256", "server/front/tls_material", "server/front/tls_session"}},
      {"httplib\\.h",
       {"bench/job_bench", "client/dashboard/", "server/endpoint/faulty_server", "tests/fakes/metrics_fixture"}},
      {"curl/.*", {"server/endpoint/curl_client"}},
      {"prometheus/.*", {"server/metrics"}},
      {"absl/.*", {"base/", "tokenizer/", "db/", "eval_tasks/", "wire/", "server/", "client/", "bench/", "tests/"}},
  };
  return homes;
}

}  // namespace

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
      if (ParseInclude(line, &target, &quoted) && StartsWith(target, "base/") && target != "base/check.h" &&
          target != "base/mutex.h" && target != "base/wide_product.h" && !is_test) {
        complaints.push_back(
            {file.path, number,
             "kernels/ may include base/check.h, base/mutex.h and base/wide_product.h alone, not " + target});
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

Complaints CheckRulesAreUsed(const std::vector<SourceFile>& files) {
  const std::vector<Include> includes = AllIncludes(files);
  std::set<std::pair<std::string, std::string>> edges;
  for (const Include& include : includes) {
    const Room* room = FindRoom(include.file->path);
    if (room != nullptr) edges.insert({room->name, RoomOfTarget(include.target)});
  }
  Complaints complaints;
  const auto complain = [&](const std::string& message) {
    complaints.push_back({"tests/tidy/include_rules.cc", 1, message});
  };
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

}  // namespace varifocal::tidy
