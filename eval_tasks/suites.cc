#include "eval_tasks/suites.h"

#include "absl/strings/str_cat.h"
#include "base/embedded.h"

namespace varifocal {

EmbeddedFiles Embedded_Suites();

namespace {
constexpr absl::string_view kExtension = ".yaml";
}  // namespace

std::vector<std::string> BuiltInSuiteNames() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : Embedded_Suites()) {
    absl::string_view name = file.name;
    name.remove_suffix(kExtension.size());
    names.emplace_back(name);
  }
  return names;
}

std::optional<absl::string_view> BuiltInSuiteText(absl::string_view name) {
  for (const EmbeddedFile& file : Embedded_Suites()) {
    if (absl::StrCat(name, kExtension) == file.name) return absl::string_view(file.data, file.size);
  }
  return std::nullopt;
}

}  // namespace varifocal
