#include "eval_tasks/tasks/jsonl_shots.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/gold_answer.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/seeds.h"

namespace varifocal {
namespace {

constexpr char kSeparatorOfShots[] = "\n\n";

bool Has(const Parameters& parameters, const char* name) { return !GetText(parameters, name).empty(); }

// The literal bytes of a template with its fields, in order.
class LiteralText {
 public:
  explicit LiteralText(const std::vector<TemplatePart>& parts) : parts_(parts) {}

  std::optional<char> Next() {
    for (; part_ < parts_.size(); ++part_, byte_ = 0) {
      if (!parts_[part_].is_field && byte_ < parts_[part_].text.size()) return parts_[part_].text[byte_++];
    }
    return std::nullopt;
  }

 private:
  const std::vector<TemplatePart>& parts_;
  size_t part_ = 0, byte_ = 0;
};

bool HaveSameLiterals(const std::vector<TemplatePart>& a, const std::vector<TemplatePart>& b) {
  LiteralText of_a(a), of_b(b);
  while (true) {
    const std::optional<char> next = of_a.Next();
    if (next != of_b.Next()) return false;
    if (!next.has_value()) return true;
  }
}

// Where one of them is asked, the other must not be shown.
bool IsAboutTheSame(const JsonlRow& a, const JsonlRow& b) {
  if (a.context != b.context) return false;
  return !a.context.empty() || (a.turns == b.turns && HaveSameLiterals(a.prompt, b.prompt));
}

}  // namespace

JsonlShots::JsonlShots(const TaskSpec& spec, std::shared_ptr<const std::vector<JsonlRow>> pool)
    : count_(GetInteger(spec.parameters, "shots")),
      as_turns_(GetText(spec.parameters, "shots_as") == "turns" || Has(spec.parameters, "messages")),
      separator_(Has(spec.parameters, "shots_separator") ? GetText(spec.parameters, "shots_separator")
                                                         : kSeparatorOfShots),
      pool_(std::move(pool)) {
  const int64_t seed = Has(spec.parameters, "shots_seed") ? GetInteger(spec.parameters, "shots_seed") : 1;
  std::vector<std::pair<Sha256Digest, size_t>> order;
  for (const JsonlRow& row : *pool_) order.emplace_back(ShotSeed(seed, spec.name, row.id), order.size());
  std::sort(order.begin(), order.end());
  for (const auto& [digest, index] : order) order_.push_back(&(*pool_)[index]);
}

std::vector<const JsonlRow*> JsonlShots::Of(const JsonlRow& asked) const {
  std::vector<const JsonlRow*> shots;
  for (const JsonlRow* row : order_) {
    if (shots.size() == count_) break;
    if (!IsAboutTheSame(*row, asked)) shots.push_back(row);
  }
  return shots;
}

absl::Status JsonlShots::Check(const std::vector<JsonlRow>& rows, absl::string_view path) const {
  for (const JsonlRow& row : rows) {
    const size_t found = Of(row).size();
    if (found == count_) continue;
    return InvalidArgument(path, ": has ", found, Plural(found, " row", " rows"), " that can be shown before row ",
                           row.line_number, ", and shots is ", count_);
  }
  return absl::OkStatus();
}

std::string JsonlShots::Text(const JsonlRow& asked) const {
  std::string text;
  for (const JsonlRow* row : Of(asked)) {
    const std::string prompt = RowPrompt(*row, row->context);
    absl::StrAppend(&text, prompt, GoldContinuation(prompt, row->gold, /*is_chat=*/false), separator_);
  }
  return text;
}

std::vector<ChatTurn> JsonlShots::Turns(const JsonlRow& asked) const {
  std::vector<ChatTurn> turns;
  for (const JsonlRow* row : Of(asked)) {
    if (row->turns.empty()) {
      turns.push_back({"user", RowPrompt(*row, row->context)});
    } else {
      const bool has_system = row->turns.front().role == "system";
      turns.insert(turns.end(), row->turns.begin() + (has_system ? 1 : 0), row->turns.end());
    }
    turns.push_back({"assistant", row->gold[0]});
  }
  return turns;
}

std::string RowPrompt(const JsonlRow& row, absl::string_view context) {
  std::string prompt;
  for (const TemplatePart& part : row.prompt) {
    absl::StrAppend(&prompt, part.is_field ? context : absl::string_view(part.text));
  }
  return prompt;
}

absl::Status CheckJsonlSpec(TaskSpec& spec) {
  const Parameters& parameters = spec.parameters;
  const auto bad = [](const char* name, absl::string_view problem) {
    return WithField(absl::InvalidArgumentError(problem), name);
  };
  const bool by_messages = Has(parameters, "messages");
  if (Has(parameters, "prompt") == by_messages) {
    if (by_messages) return bad("messages", "prompt and messages are both given; rows are asked by one of them");
    return bad("prompt", "the parameter \"prompt\" is missing; rows are asked by it, or by messages");
  }
  for (const char* name : {"choices", "context", "evidence", "shots_as"}) {
    if (by_messages && Has(parameters, name)) {
      return bad(name, absl::StrCat(name, " is given, and goes with a prompt, not with messages"));
    }
  }
  for (const char* name : {"shots_path", "shots_seed", "shots_as", "shots_separator"}) {
    if (Has(parameters, name) && !Has(parameters, "shots")) {
      return bad(name, absl::StrCat(name, " is given, and shots, the number of rows to be shown, is not"));
    }
  }
  const bool shows_turns = GetText(parameters, "shots_as") == "turns";
  if (shows_turns && Has(parameters, "choices")) return bad("shots_as", "shots_as is turns, and choices follow a text");
  if (Has(parameters, "shots_separator") && (shows_turns || by_messages)) {
    return bad("shots_separator", "shots_separator is given, and goes between shots as text, not between turns");
  }
  for (const std::string& stop :
       Has(parameters, "stop") ? GetTextList(parameters, "stop") : std::vector<std::string>()) {
    if (stop.empty()) {
      return bad("stop",
                 "stop has an empty text, with which every answer begins; with form: chat and no stop nothing ends it");
    }
  }
  spec.chat = spec.chat || by_messages || shows_turns;
  return absl::OkStatus();
}

}  // namespace varifocal
