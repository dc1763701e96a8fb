// Rules over the lines of one file.
#include <algorithm>
#include <map>
#include <regex>

#include "tests/tidy/source_text.h"

namespace varifocal::tidy {

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
       "ThreadSanitizer cannot see it; use base/mutex.h or std::promise", ""},
      {std::regex(R"(std::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock)\b)"),
       "clang cannot check it; use base/mutex.h", "base/mutex.h"},
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

Complaints CheckLocks(const SourceFile& file) {
  static const std::regex declaration(
      R"(^\s*((static|mutable|inline|thread_local) )*Mutex (\w+)(\{\})?( VF_\w+\(.*\))?;(.*))");
  static const std::regex guard(R"(VF_(PT_)?GUARDED_BY\((\w+)\))");
  static const std::regex comment(R"(^\s*//)");
  Complaints complaints;
  if (!IsCpp(file.path) || StartsWith(file.path, "tests/tidy/")) return complaints;
  std::map<std::string, Complaint> unguarded;  // by name, until a later member names it
  const auto complain = [&](const std::string& name) {
    if (const auto found = unguarded.find(name); found != unguarded.end()) complaints.push_back(found->second);
    unguarded.erase(name);
  };
  int number = 0;
  std::string previous;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    std::smatch match;
    if (line.find("Mutex ") != std::string::npos && std::regex_match(line, match, declaration)) {
      const std::string name = match[3], rest = match[6];
      complain(name);
      const bool follows_comment = std::regex_search(previous, comment);
      if (!follows_comment && rest.find("//") == std::string::npos) {
        const std::string message =
            name + " guards nothing: a member is VF_GUARDED_BY it, or a comment gives the reason";
        unguarded.insert({name, {file.path, number, message}});
      }
    }
    for (std::sregex_iterator use(line.begin(), line.end(), guard), end; use != end && !unguarded.empty(); ++use) {
      unguarded.erase((*use)[2]);
    }
    previous = line;
  }
  while (!unguarded.empty()) complain(std::string(unguarded.begin()->first));
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

Complaints CheckPipes(const SourceFile& file) {
  static const std::regex early(R"((^|[^|])\|\s*(grep( -\w+)* -\w*q|head\b))");
  Complaints complaints;
  if (!EndsWith(file.path, ".sh")) return complaints;
  int number = 0;
  for (const std::string& line : Lines(file.text)) {
    ++number;
    if (std::regex_search(line, early))
      complaints.push_back({file.path, number, "the reader of a pipe ends first; grep >/dev/null or sed -n reads all"});
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

namespace {

// The text of the adjacent C++ string literals from `at` on; escaped characters become line ends.
std::string AdjacentLiterals(const std::string& text, size_t at) {
  std::string joined;
  while ((at = text.find_first_not_of(" \n", at)) != std::string::npos && text[at] == '"') {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      const bool is_escape = text[at] == '\\';
      joined += is_escape ? '\n' : text[at];
      at += is_escape ? 1 : 0;
    }
    ++at;
  }
  return joined;
}

}  // namespace

Complaints CheckPinnedProse(const SourceFile& file) {
  // Up to the literal: matchers and searches of a part, and what a whole message is equal to.
  static const std::regex call(
      R"((\b(HasSubstr|StartsWith|EndsWith|StrContains|find)\((([^;"{}()]|\([^"()]*\))*,)?|message\(\),)\s*(absl::StrCat\(\s*)?(?="))",
      std::regex::optimize);
  // Three words of a sentence, but not a command or the values of a row.
  static const std::regex prose(R"((^|[^\w',-])(?!varifocal )[a-z]+( [a-z]+){2}(?!\w))", std::regex::optimize);
  Complaints complaints;
  if (!EndsWith(file.path, "_test.cc") || StartsWith(file.path, "tests/tidy/")) return complaints;
  for (std::sregex_iterator match(file.text.begin(), file.text.end(), call), end; match != end; ++match) {
    const auto at = file.text.begin() + match->position();
    if (!std::regex_search(AdjacentLiterals(file.text, match->position() + match->length()), prose)) continue;
    complaints.push_back({file.path, 1 + static_cast<int>(std::count(file.text.begin(), at, '\n')),
                          "three words of a sentence; use Message (tests/support/messages.h)"});
  }
  return complaints;
}

}  // namespace varifocal::tidy
