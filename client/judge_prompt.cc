#include "client/judge_prompt.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/files.h"
#include "db/judgments.h"
#include "eval_tasks/parameters.h"

namespace varifocal::client {
namespace {

const std::vector<std::string>& Slots() {
  static const std::vector<std::string> slots = {"answer", "gold", "golds", "task", "excerpt", "prompt"};
  return slots;
}

absl::StatusOr<std::vector<std::string>> SplitAtSlots(absl::string_view text) {
  std::vector<std::string> parts(1);
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && at + 1 < text.size() && text[at + 1] == c) {
      parts.back() += c;
      ++at;
    } else if (c == '{') {
      const size_t end = text.find('}', at);
      const std::string slot(text.substr(at + 1, end == absl::string_view::npos ? 20 : end - at - 1));
      if (std::find(Slots().begin(), Slots().end(), slot) == Slots().end()) {
        return InvalidArgument("\"prompt\" has {", slot, "}; the slots are {", absl::StrJoin(Slots(), "}, {"),
                               "}, and a brace is {{");
      }
      parts.push_back(slot);
      parts.push_back("");
      at = end;
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

class Parser {
 public:
  explicit Parser(const YAML::Node& root) : root_(root) {}

  absl::StatusOr<JudgePrompt> Parse() {
    if (!root_.IsMap()) return InvalidArgument("a judge's prompt is a mapping: name, prompt, choices or grade");
    static const std::vector<std::string> keys = {"name",  "prompt", "choices",       "grade",
                                                  "range", "chat",   "max_new_tokens"};
    for (const auto& entry : root_) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      if (std::find(keys.begin(), keys.end(), name) != keys.end()) continue;
      return InvalidArgument("unknown key \"", name, "\"", DidYouMean(name, keys));
    }
    JudgePrompt prompt;
    ASSIGN_OR_RETURN(prompt.name, Text("name"));
    RETURN_IF_ERROR(db::CheckScoreName(prompt.name));
    ASSIGN_OR_RETURN(const std::string text, Text("prompt"));
    ASSIGN_OR_RETURN(prompt.parts, SplitAtSlots(text));
    const bool has_choices = root_["choices"].IsDefined(), has_grade = root_["grade"].IsDefined();
    if (has_choices == has_grade) return InvalidArgument("a judge's prompt has \"choices\" or \"grade\", and not both");
    if (root_["chat"].IsDefined() && !YAML::convert<bool>::decode(root_["chat"], prompt.is_chat)) {
      return InvalidArgument("\"chat\" must be true or false");
    }
    RETURN_IF_ERROR(has_choices ? ReadChoices(prompt) : ReadGrade(prompt));
    return prompt;
  }

 private:
  absl::StatusOr<std::string> Text(const char* key) const {
    const YAML::Node node = root_[key];
    if (node.IsDefined() && node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
    return InvalidArgument("\"", key, "\" must be a text");
  }

  static absl::StatusOr<double> Number(const YAML::Node& node, absl::string_view what) {
    absl::StatusOr<double> value = ParseNumber(node.IsScalar() ? node.Scalar() : "");
    if (value.ok()) return value;
    return InvalidArgument(what, " must be a number");
  }

  absl::Status ReadChoices(JudgePrompt& prompt) const {
    const YAML::Node choices = root_["choices"];
    if (!choices.IsMap() || choices.size() < 2) {
      return InvalidArgument("\"choices\" must have at least two texts with their scores");
    }
    for (const char* key : {"range", "max_new_tokens"}) {
      if (root_[key].IsDefined()) return InvalidArgument("\"", key, "\" belongs to \"grade\"");
    }
    for (const auto& entry : choices) {
      const std::string text = entry.first.IsScalar() ? entry.first.Scalar() : "";
      ASSIGN_OR_RETURN(const double score, Number(entry.second, absl::StrCat("the score of \"", text, "\"")));
      if (text.empty() || score < 0 || score > 1) {
        return InvalidArgument("the choice \"", text, "\" has the score ", score,
                               "; a choice is a text with one from 0 to 1");
      }
      prompt.choices.emplace_back(text, score);
    }
    return absl::OkStatus();
  }

  absl::Status ReadGrade(JudgePrompt& prompt) const {
    ASSIGN_OR_RETURN(prompt.pattern, Text("grade"));
    ASSIGN_OR_RETURN(prompt.grade, Regex::Compile(prompt.pattern));
    const YAML::Node range = root_["range"];
    if (!range.IsDefined() || !range.IsSequence() || range.size() != 2) {
      return InvalidArgument("\"range\" must be the worst and the best grade, as [1, 10]");
    }
    ASSIGN_OR_RETURN(prompt.worst_grade, Number(range[0], "the worst grade"));
    ASSIGN_OR_RETURN(prompt.best_grade, Number(range[1], "the best grade"));
    if (prompt.worst_grade == prompt.best_grade) {
      return InvalidArgument("\"range\" has the worst and the best grade ", prompt.best_grade);
    }
    if (!root_["max_new_tokens"].IsDefined()) return absl::OkStatus();
    constexpr int64_t kNewTokensMax = 65'536;
    if (!absl::SimpleAtoi(root_["max_new_tokens"].Scalar(), &prompt.max_new_tokens) || prompt.max_new_tokens < 1 ||
        prompt.max_new_tokens > kNewTokensMax) {
      return InvalidArgument("\"max_new_tokens\" is \"", root_["max_new_tokens"].Scalar(), "\"; it must be from 1 to ",
                             kNewTokensMax);
    }
    return absl::OkStatus();
  }

  const YAML::Node& root_;
};

absl::StatusOr<std::string> SlotText(const std::string& slot, const StoredAnswer& answer) {
  const db::SampleRecord& sample = answer.detail.sample;
  if (slot == "answer") return *answer.detail.generation.answer;
  if (slot == "task") return sample.task;
  if (slot == "gold" || slot == "golds") {
    ASSIGN_OR_RETURN(const Json golds, ParseJson(sample.gold_json));
    std::vector<std::string> texts;
    for (const Json& gold : golds) texts.push_back(gold.is_string() ? gold.get<std::string>() : gold.dump());
    if (texts.empty()) return std::string();
    return slot == "gold" ? texts[0] : absl::StrJoin(texts, "\n");
  }
  const std::optional<std::string>& text = slot == "prompt" ? sample.prompt : sample.excerpt;
  if (text.has_value()) return *text;
  return FailedPrecondition("the answer to ", sample.task, " ", sample.context_length, " #", sample.sample_index,
                            " has no {", slot, "} stored",
                            slot == "prompt" ? "; submit the job with --keep-prompts." : ".");
}

}  // namespace

absl::StatusOr<std::string> JudgePrompt::Render(const StoredAnswer& answer) const {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i % 2 == 0) {
      text += parts[i];
      continue;
    }
    ASSIGN_OR_RETURN(const std::string filled, SlotText(parts[i], answer));
    text += filled;
  }
  return text;
}

absl::StatusOr<double> JudgePrompt::ScoreOf(absl::string_view reply) const {
  ASSIGN_OR_RETURN(const std::vector<TextRange> matches, grade->FindAll(reply));
  const auto refuse = [&](absl::string_view why) {
    return InvalidArgument("the reply \"", absl::Utf8SafeCEscape(reply.substr(0, 80)), reply.size() > 80 ? ".." : "",
                           "\" ", why);
  };
  if (matches.empty()) return refuse("has no grade");
  const absl::string_view match = reply.substr(matches.back().begin, matches.back().end - matches.back().begin);
  const size_t first = match.find_first_of("0123456789");
  if (first == absl::string_view::npos) return refuse("has no number where its grade is");
  const size_t begin = first > 0 && match[first - 1] == '-' ? first - 1 : first;
  const absl::string_view digits = match.substr(begin, match.find_first_not_of("0123456789.", first) - begin);
  const absl::StatusOr<double> value = ParseNumber(digits);
  if (!value.ok()) return refuse("has no number where its grade is");
  const double score = (*value - worst_grade) / (best_grade - worst_grade);
  if (score >= 0 && score <= 1) return score;
  return refuse(absl::StrCat("has the grade ", *value, ", which is not from ", worst_grade, " to ", best_grade));
}

absl::StatusOr<JudgePrompt> ReadJudgePrompt(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  YAML::Node root;
  try {
    root = YAML::Load(bytes);
  } catch (const YAML::Exception& error) {
    return InvalidArgument(path, ":", error.mark.line + 1, ": is not YAML: ", error.msg, ".");
  }
  absl::StatusOr<JudgePrompt> prompt = Parser(root).Parse();
  if (!prompt.ok()) return InvalidArgument(path, ": ", prompt.status().message(), ".");
  return prompt;
}

}  // namespace varifocal::client
