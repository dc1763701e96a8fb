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

}  // namespace varifocal::tidy
