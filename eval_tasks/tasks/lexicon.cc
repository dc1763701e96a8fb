#include "eval_tasks/tasks/lexicon.h"

#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/embedded.h"
#include "base/status_macros.h"

namespace varifocal {

EmbeddedFiles Embedded_Lexicon();

absl::StatusOr<Lexicon> ParseLexicon(absl::string_view text) {
  Lexicon lexicon;
  const std::map<absl::string_view, std::vector<std::string>*> sections = {
      {"first", &lexicon.first},   {"second", &lexicon.second},   {"names", &lexicon.names},
      {"places", &lexicon.places}, {"objects", &lexicon.objects}, {"attributes", &lexicon.attributes}};
  std::vector<std::string>* section = nullptr;
  std::set<absl::string_view> seen;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      const auto it = sections.find(line.substr(1, line.size() - 2));
      if (it == sections.end()) return InvalidArgument("line ", line_number, ": unknown section ", line);
      section = it->second;
    } else if (section == nullptr || !seen.insert(line).second) {
      return InvalidArgument("line ", line_number, ": the word \"", line, "\" ",
                             section == nullptr ? "is in no section" : "is a duplicate");
    } else {
      section->emplace_back(line);
    }
  }
  for (const auto& [name, words] : sections) {
    if (words->empty()) return InvalidArgument("section [", name, "] has no words");
  }
  return lexicon;
}

const Lexicon& TheLexicon() {
  static const Lexicon lexicon = [] {
    const EmbeddedFile& file = *Embedded_Lexicon().begin();
    auto parsed = ParseLexicon(absl::string_view(file.data, file.size));
    VF_CHECK(parsed.ok(), "the compiled-in lexicon is valid");
    return *std::move(parsed);
  }();
  return lexicon;
}

}  // namespace varifocal
