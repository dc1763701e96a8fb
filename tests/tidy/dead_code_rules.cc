// Files that are not built or included, and names of headers that nothing uses.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "tests/tidy/source_text.h"

namespace varifocal::tidy {
namespace {

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

// The member function that a line of a class declares; empty where there is none.
std::string DeclaredMember(const std::string& line, const std::vector<Identifier>& identifiers) {
  static const std::set<std::string> kOthers = {"return", "throw", "new",    "delete",
                                                "else",   "using", "friend", "VF_DEVICE"};
  if (!StartsWith(line, "  ") || line.size() < 3 || !(IsWord(line[2]) || line[2] == '[')) return "";
  const size_t end = line.find('(');
  if (end == std::string::npos || line.find_first_of("=.;\"") < end || identifiers.empty()) return "";
  for (size_t i = 0; i < identifiers.size() && !kOthers.contains(identifiers[i].name); ++i) {
    if (identifiers[i].next != '(') continue;
    if (i > 0 && identifiers[i - 1].next == ':') return "";  // a qualified call
    return i > 0 && std::isupper(static_cast<unsigned char>(identifiers[i].name[0])) ? identifiers[i].name : "";
  }
  return "";
}

// Compiled for tests alone.
constexpr const char* kFixtures[] = {"db/sqlite/fault_injection", "db/sqlite/instruction_count",
                                     "kernels/cuda/emulator/"};

// Tests, benchmarks, their fixtures and every header that only these include.
std::set<std::string> TestFiles(const std::vector<SourceFile>& files) {
  std::set<std::string> tests;
  for (const SourceFile& file : files) {
    const std::string stem = WithoutEnding(file.path);
    const bool is_fixture = std::any_of(std::begin(kFixtures), std::end(kFixtures),
                                        [&](const char* fixture) { return StartsWith(file.path, fixture); });
    if (is_fixture || StartsWith(stem, "tests/") || StartsWith(stem, "bench/") || EndsWith(stem, "_test") ||
        EndsWith(stem, "_bench") || stem.find("/bench/") != stem.npos || stem.find("/fakes/") != stem.npos) {
      tests.insert(file.path);
    }
  }
  const std::vector<Include> includes = AllIncludes(files);
  for (size_t size = 0; size != tests.size();) {
    size = tests.size();
    std::map<std::string, bool> is_of_tests;  // of included files
    for (const Include& include : includes) {
      const bool is_test = tests.contains(include.file->path);
      is_of_tests.insert({include.target, true}).first->second &= is_test;
    }
    for (const auto& [path, all] : is_of_tests) {
      if (all && EndsWith(path, ".h")) tests.insert(path);
    }
  }
  return tests;
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
    // A recipe compiles what has its name.
    const std::string stem(WithoutEnding(file.path));
    const bool is_of_recipe =
        StartsWith(file.path, "recipes/") &&
        std::any_of(files.begin(), files.end(), [&](const SourceFile& other) { return other.path == stem + ".py"; });
    if (is_of_recipe) continue;
    // Queries of recipes are run by hand; those of the database are compiled in.
    const bool is_query = EndsWith(file.path, ".sql") && !StartsWith(file.path, "recipes/");
    if (!EndsWith(file.path, ".cc") && !EndsWith(file.path, ".cu") && !is_query) continue;
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
    bool is_member, is_for_tests;
  };
  const std::set<std::string> tests = TestFiles(files);
  std::map<std::string, Place> declared;      // in headers
  std::set<std::string> used, used_by_tests;  // the first: by what is no test
  for (const SourceFile& file : files) {
    const bool is_cpp = IsCpp(file.path), is_header = EndsWith(file.path, ".h"), is_test = tests.contains(file.path);
    if (!is_cpp && !EndsWith(file.path, "CMakeLists.txt")) continue;  // which defines macros
    int number = 0;
    std::string before;
    for (const std::string& line : Lines(file.text)) {
      ++number;
      const std::vector<Identifier> identifiers = IdentifiersOf(line);
      std::string name = is_cpp ? DeclaredName(line, identifiers) : "";
      const bool is_member = name.empty() && is_header && !is_test;
      if (is_member) name = DeclaredMember(line, identifiers);
      if (!name.empty() && is_header) {
        const bool is_for_tests = is_test || EndsWith(name, "ForTesting") || line.find("// for tests") != line.npos ||
                                  StartsWith(before, "// For tests");
        declared.insert({name, {&file, number, is_member, is_for_tests}});
      }
      bool is_own = !name.empty();  // the first occurrence is the declaration's
      for (const Identifier& identifier : identifiers) {
        if (is_own && identifier.name == name) {
          is_own = false;
        } else {
          (is_test ? used_by_tests : used).insert(identifier.name);
        }
      }
      before = line;
    }
  }
  used.insert("PrintTo");  // called by the test library
  Complaints complaints;
  for (const auto& [name, place] : declared) {
    if (used.contains(name)) continue;
    if (!used_by_tests.contains(name)) {
      if (!place.is_member) complaints.push_back({place.file->path, place.line, name + " is declared and never used"});
    } else if (!place.is_for_tests) {
      complaints.push_back({place.file->path, place.line, name + " is used by tests alone"});
    }
  }
  return complaints;
}

}  // namespace varifocal::tidy
