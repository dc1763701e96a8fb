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
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

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
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::function<absl::Status(const Flag&, const std::string&)> read;

  Flag& Required() { return required = true, *this; }
  Flag& AtLeast(double limit) { return low = limit, *this; }
  Flag& AtMost(double limit) { return high = limit, *this; }
  Flag& Among(std::vector<std::string> words) { return choices = std::move(words), *this; }
};

class FlagSet {
 public:
  FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  Flag& Add(absl::string_view name, bool* target, absl::string_view help);  // a switch
  Flag& Add(absl::string_view name, std::string* target, absl::string_view value, absl::string_view help);
  Flag& Add(absl::string_view name, std::optional<std::string>* target, absl::string_view value,
            absl::string_view help);
  Flag& Add(absl::string_view name, std::vector<std::string>* target, absl::string_view value, absl::string_view help);
  Flag& Add(absl::string_view name, int64_t* target, absl::string_view value, absl::string_view help);
  Flag& Add(absl::string_view name, std::optional<int64_t>* target, absl::string_view value, absl::string_view help);
  Flag& Add(absl::string_view name, double* target, absl::string_view value, absl::string_view help);
  Flag& Add(absl::string_view name, std::optional<double>* target, absl::string_view value, absl::string_view help);
  Flag& AddPositional(absl::string_view name, std::string* target, absl::string_view help);
  Flag& AddPositionals(absl::string_view name, std::vector<std::string>* target, absl::string_view help);

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
  Flag& Append(Flag flag);

  struct SectionOf {
    std::string title;
    std::vector<size_t> flags;
  };
  std::deque<Flag> flags_;  // a deque: Add returns references that must remain valid
  std::vector<SectionOf> sections_;
};

// "a,b,,c" -> {"a", "b", "c"}, with surrounding blanks removed.
std::vector<std::string> SplitList(absl::string_view text);

// Parses `text` as a whole as a finite number.
std::optional<double> ReadDouble(absl::string_view text);

}  // namespace varifocal::client
