#include "client/flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/suggest.h"
#include "client/console.h"
#include "client/rows.h"
#include "client/usage.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/parameters.h"

namespace varifocal::client {
namespace {

std::string Shown(const Flag& flag) { return flag.positional ? flag.name : absl::StrCat("--", flag.name); }

std::string Hint(absl::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "." : absl::StrCat("; did you mean ", nearest, "?");
}

std::string Range(const Flag& flag) {
  const bool has_low = std::isfinite(flag.low), has_high = std::isfinite(flag.high);
  if (has_low && has_high) return absl::StrCat(" from ", NumberText(flag.low), " to ", NumberText(flag.high));
  if (has_low) return absl::StrCat(", at least ", NumberText(flag.low));
  if (has_high) return absl::StrCat(", at most ", NumberText(flag.high));
  return "";
}

absl::Status BadValue(const Flag& flag, const std::string& text, absl::string_view wanted) {
  return UsageError(Shown(flag), "=", text, ": must be ", wanted, Range(flag), ".");
}

// `text` in lines of at most `width` columns, the later ones indented.
std::string Wrap(absl::string_view text, size_t indent, size_t width) {
  return absl::StrJoin(WrapWords(text, width - indent), absl::StrCat("\n", std::string(indent, ' ')));
}

}  // namespace

absl::Status ReadValue(const Flag& flag, const std::string& text, std::string* value) {
  if (!flag.choices.empty() && std::find(flag.choices.begin(), flag.choices.end(), text) == flag.choices.end()) {
    const std::string known = flag.hint ? flag.hint(text) : "";
    return UsageError(Shown(flag), "=", text, ": must be one of ", absl::StrJoin(flag.choices, ", "),
                      known.empty() ? Hint(text, flag.choices) : known);
  }
  *value = text;
  return absl::OkStatus();
}

absl::Status ReadValue(const Flag& flag, const std::string& text, int64_t* value) {
  const absl::StatusOr<int64_t> number = ParseInteger(text);
  if (!number.ok() || *number < flag.low || *number > flag.high) return BadValue(flag, text, "a whole number");
  *value = *number;
  return absl::OkStatus();
}

absl::Status ReadValue(const Flag& flag, const std::string& text, double* value) {
  const absl::StatusOr<double> number = ParseNumber(text);
  if (!number.ok() || *number < flag.low || *number > flag.high) return BadValue(flag, text, "a finite number");
  *value = *number;
  return absl::OkStatus();
}

std::vector<std::string> SplitList(absl::string_view text) {
  std::vector<std::string> items;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

absl::StatusOr<int> ParseContextLength(absl::string_view text) {
  const absl::StatusOr<int64_t> count = ParseTokenCount(text);
  if (count.ok() && *count >= 1 && *count <= kContextLengthMax) return static_cast<int>(*count);
  return UsageError("\"", text, "\" is not a context length; it must be a whole number from 1 to ", kContextLengthMax,
                    ", or one with K for 1,024 tokens.");
}

FlagSet::FlagSet() { Section("Flags"); }

void FlagSet::Section(absl::string_view title) { sections_.push_back({std::string(title), {}}); }

Flag& FlagSet::Append(absl::string_view name, absl::string_view value, absl::string_view help,
                      decltype(Flag::read) read) {
  sections_.back().flags.push_back(flags_.size());
  Flag& flag = flags_.emplace_back();
  flag.name = std::string(name);
  flag.value = std::string(value);
  flag.help = std::string(help);
  flag.read = std::move(read);
  return flag;
}

bool FlagSet::Seen(absl::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.name == name && flag.seen; });
}

std::vector<std::string> FlagSet::Given() const {
  std::vector<std::string> given;
  for (const Flag& flag : flags_) {
    if (flag.seen && flag.given.empty()) given.push_back(Shown(flag));
    for (const std::string& value : flag.given) {
      given.push_back(flag.positional ? value : absl::StrCat(Shown(flag), "=", value));
    }
  }
  return given;
}

std::vector<std::string> FlagSet::Names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (!flag.positional) names.push_back(Shown(flag));
  }
  names.push_back("--help");
  return names;
}

bool FlagSet::IsSwitchWithValue(absl::string_view arg) const {
  const size_t equals = arg.find('=');
  return equals != absl::string_view::npos && std::any_of(flags_.begin(), flags_.end(), [&](const Flag& flag) {
           return !flag.positional && flag.value.empty() && Shown(flag) == arg.substr(0, equals);
         });
}

absl::Status FlagSet::Parse(const std::vector<std::string>& args) {
  // CLI11 assigns words to flags; values are parsed below.
  CLI::App app;
  app.set_help_flag();
  std::vector<std::vector<std::string>> values(flags_.size());
  std::vector<size_t> switch_counts(flags_.size());
  for (size_t i = 0; i < flags_.size(); ++i) {
    if (!flags_[i].positional && flags_[i].value.empty()) {
      app.add_flag(Shown(flags_[i]), [&switch_counts, i](int64_t count) { switch_counts[i] = count; });
      continue;
    }
    CLI::Option* option = app.add_option(Shown(flags_[i]), values[i]);
    if (flags_[i].positional && flags_[i].repeatable) {
      option->expected(-1);
    } else {
      option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
  try {
    std::vector<std::string> words;
    for (const std::string& arg : args) {
      // CLI11 reads "--switch=off" as a count, and as another exception than its own where it is no number.
      if (IsSwitchWithValue(arg))
        return UsageError(arg.substr(0, arg.find('=')), " takes no value; left out, it is off.");
      // CLI11 takes the next word as the value of "--name="; passed as a separate word an empty value stays empty.
      const bool is_empty_value = absl::StartsWith(arg, "--") && arg.find('=') == arg.size() - 1;
      words.push_back(is_empty_value ? arg.substr(0, arg.size() - 1) : arg);
      if (is_empty_value) words.emplace_back();
    }
    std::reverse(words.begin(), words.end());  // CLI11 consumes words from the back
    app.parse(std::move(words));
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extra = app.remaining();
    const std::string word = extra.empty() ? "" : extra.front();
    if (absl::StartsWith(word, "-")) {
      const std::string name = word.substr(0, word.find('='));
      const std::string positional = absl::AsciiStrToUpper(absl::StripPrefix(name, "--"));
      const bool is_positional = std::any_of(
          flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.positional && flag.name == positional; });
      return UsageError(
          "Unknown flag ", name,
          is_positional ? absl::StrCat("; ", positional, " is given without a flag.") : Hint(name, Names()));
    }
    return UsageError("Unexpected argument \"", word, "\".");
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    const std::string shown = text.substr(0, text.find(':'));
    for (const Flag& flag : flags_) {
      if (Shown(flag) == shown) return UsageError(shown, " needs a value: ", shown, "=", flag.value, ".");
    }
    return UsageError(text);
  } catch (const CLI::ParseError& error) {
    return UsageError(error.what());
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    Flag& flag = flags_[i];
    flag.seen = !values[i].empty() || switch_counts[i] > 0;
    flag.given = values[i];
    if (flag.required && !flag.seen) {
      return UsageError(flag.positional ? absl::StrCat(flag.name, " is missing: ", flag.help, ".")
                                        : absl::StrCat(Shown(flag), "=", flag.value, " is missing: ", flag.help, "."));
    }
    if (values[i].size() > 1 && !flag.repeatable) {
      return UsageError(Shown(flag), " is given ", values[i].size(), " times; at most once is allowed.");
    }
    if (switch_counts[i] > 0) RETURN_IF_ERROR(flag.read(flag, ""));
    for (const std::string& value : values[i]) RETURN_IF_ERROR(flag.read(flag, value));
  }
  return absl::OkStatus();
}

std::string FlagSet::Synopsis() const {
  std::string text;
  for (const Flag& flag : flags_) {
    if (!flag.positional) continue;
    const std::string name = flag.repeatable ? absl::StrCat(flag.name, "..") : flag.name;
    absl::StrAppend(&text, " ", flag.required ? name : absl::StrCat("[", name, "]"));
  }
  for (const Flag& flag : flags_) {
    if (!flag.positional && flag.required) absl::StrAppend(&text, " --", flag.name, "=", flag.value);
  }
  return text;
}

std::string FlagSet::Help(int width) const {
  constexpr size_t kHelpColumnMax = 34;  // a longer flag gets a line of its own
  auto heading = [](const Flag& flag) {
    return flag.positional || flag.value.empty() ? Shown(flag) : absl::StrCat("--", flag.name, "=", flag.value);
  };
  size_t column = 0;
  for (const Flag& flag : flags_) {
    const size_t length = heading(flag).size() + 4;
    if (length <= kHelpColumnMax) column = std::max(column, length);
  }
  std::string text;
  for (const SectionOf& section : sections_) {
    if (section.flags.empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "\n", section.title, "\n");
    for (size_t index : section.flags) {
      const Flag& flag = flags_[index];
      std::string line = absl::StrCat("  ", heading(flag));
      if (line.size() + 2 > column) {
        absl::StrAppend(&line, "\n", std::string(column, ' '));
      } else {
        line.resize(column, ' ');
      }
      std::string help = flag.help;
      if (!flag.choices.empty()) absl::StrAppend(&help, " (", absl::StrJoin(flag.choices, ", "), ")");
      absl::StrAppend(&text, line, Wrap(help, column, std::max<size_t>(column + 20, width)), "\n");
    }
  }
  return text;
}

}  // namespace varifocal::client
