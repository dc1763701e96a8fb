// The flags of one verb: declared once, parsed, checked and shown in --help.
//
//   flags.Add("limit", &limit_, "N", "ask only the first N questions of every cell").AtLeast(1);
//   flags.AddPositional("SUITE", &suite_, "a file, or the name of a built-in suite").Required();
//
// Flags are written --name=value or --name value; a switch is just --name; a repeatable one may be given several times.
// Values are parsed here, so that every error has the same wording.
//
// Errors: UsageError (usage.h) naming the flag, the value and what was expected, with a suggestion if one is similar.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace varifocal::client {

struct Flag {
  std::string name;   // without dashes; upper case for a positional
  std::string value;  // placeholder of its value in --help: "N", "PATH"; empty for a switch
  std::string help;
  bool positional = false;
  bool required = false;
  bool repeatable = false;
  bool seen = false;               // after Parse
  std::vector<std::string> given;  // its values as they were given, after Parse; none of a switch
  std::vector<std::string> choices;
  std::function<std::string(const std::string&)> hint;  // on a word that is none of them, in place of a similar one
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::function<absl::Status(const Flag&, const std::string&)> read;

  Flag& Required() { return required = true, *this; }
  Flag& AtLeast(double limit) { return low = limit, *this; }
  Flag& AtMost(double limit) { return high = limit, *this; }
  Flag& Among(std::vector<std::string> words) { return choices = std::move(words), *this; }
};

// Checks `text` against the flag's range or choices.
absl::Status ReadValue(const Flag& flag, const std::string& text, std::string* value);
absl::Status ReadValue(const Flag& flag, const std::string& text, int64_t* value);
absl::Status ReadValue(const Flag& flag, const std::string& text, double* value);

class FlagSet {
 public:
  FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  Flag& Add(absl::string_view name, bool* target, absl::string_view help) {  // a switch
    return Append(name, "", help, [target](const Flag&, const std::string&) {
      *target = true;
      return absl::OkStatus();
    });
  }
  // T: std::string, int64_t, double, one of them optional, or std::vector<std::string> for a repeatable flag.
  template <typename T>
  Flag& Add(absl::string_view name, T* target, absl::string_view value, absl::string_view help) {
    Flag& flag = Append(name, value, help, [target](const Flag& of, const std::string& text) -> absl::Status {
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        target->push_back(text);
      } else {
        typename decltype(std::optional(*target))::value_type read{};  // T itself where it is not optional
        RETURN_IF_ERROR(ReadValue(of, text, &read));
        *target = std::move(read);
      }
      return absl::OkStatus();
    });
    flag.repeatable = std::is_same_v<T, std::vector<std::string>>;
    return flag;
  }
  template <typename T>  // std::string, or a vector of them for all that follow
  Flag& AddPositional(absl::string_view name, T* target, absl::string_view help) {
    Flag& flag = Add(name, target, "", help);
    flag.positional = true;
    return flag;
  }

  // Flags added after this call are listed under `title` in --help.
  void Section(absl::string_view title);

  absl::Status Parse(const std::vector<std::string>& args);
  bool Seen(absl::string_view name) const;
  // The arguments that were given, as "--name=value" and positionals, in the order of declaration.
  std::vector<std::string> Given() const;

  // The sections with their flags, aligned, at most `width` columns.
  std::string Help(int width) const;
  // "SUITE --models=A,B,.." : the positionals and what is required.
  std::string Synopsis() const;
  std::vector<std::string> Names() const;  // with their dashes, --help included

 private:
  bool IsSwitchWithValue(absl::string_view arg) const;
  Flag& Append(absl::string_view name, absl::string_view value, absl::string_view help, decltype(Flag::read) read);

  struct SectionOf {
    std::string title;
    std::vector<size_t> flags;
  };
  std::deque<Flag> flags_;  // a deque: Add returns references that must remain valid
  std::vector<SectionOf> sections_;
};

// "a,b,,c" -> {"a", "b", "c"}, with surrounding blanks removed.
std::vector<std::string> SplitList(absl::string_view text);

// A context length of a flag or of a suite file: a whole number, or one with K for 1,024 tokens.
absl::StatusOr<int> ParseContextLength(absl::string_view text);

}  // namespace varifocal::client
