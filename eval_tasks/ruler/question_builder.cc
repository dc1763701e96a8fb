#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/ruler/builder.h"

namespace varifocal::ruler {
namespace {

class QuestionBuilder : public Builder {
 public:
  QuestionBuilder(const Inputs& inputs, const BuildSettings& settings) : inputs_(inputs), settings_(settings) {}

  absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t index, Streams& streams) const override {
    if (index >= std::ssize(inputs_.questions)) return std::nullopt;
    const Question& question = inputs_.questions[index];
    std::vector<int> chosen;
    const int64_t own = std::ssize(question.documents), more = std::ssize(question.more_documents);
    if (units >= std::ssize(inputs_.documents)) {
      for (int64_t i = 0; i < units; ++i) chosen.push_back(i % std::ssize(inputs_.documents));
    } else {
      chosen = question.documents;
      if (units - own > more) {
        chosen.insert(chosen.end(), question.more_documents.begin(), question.more_documents.end());
        AddSample(Others(chosen), std::max<int64_t>(0, units - own - more), streams, chosen);
      } else {
        if (units < own) return std::nullopt;
        AddSample(question.more_documents, units - own, streams, chosen);
      }
    }
    PythonRandom(settings_.seed).Shuffle(chosen);
    std::string context;
    for (size_t i = 0; i < chosen.size(); ++i) {
      ASSIGN_OR_RETURN(const std::string document,
                       helmet::RenderText(inputs_.document_prompt,
                                          {{"i", absl::StrCat(i + 1)}, {"document", inputs_.documents[chosen[i]]}}));
      absl::StrAppend(&context, i > 0 ? "\n\n" : "", document);
    }
    Built built;
    ASSIGN_OR_RETURN(built.text,
                     helmet::RenderText(inputs_.task_template, {{"context", context}, {"query", question.text}}));
    built.outputs = question.answers;
    return std::optional(std::move(built));
  }

 private:
  std::vector<int> Others(const std::vector<int>& chosen) const {
    const std::set<int> taken(chosen.begin(), chosen.end());
    std::vector<int> others;
    for (int i = 0; i < std::ssize(inputs_.documents); ++i) {
      if (taken.count(i) == 0) others.push_back(i);
    }
    return others;
  }

  static void AddSample(const std::vector<int>& from, int64_t count, Streams& streams, std::vector<int>& chosen) {
    for (const size_t i : streams.python.Sample(from.size(), count)) chosen.push_back(from[i]);
  }

  const Inputs& inputs_;
  const BuildSettings settings_;
};

}  // namespace

std::unique_ptr<Builder> MakeQuestionBuilder(const Inputs& inputs, const BuildSettings& settings) {
  return std::make_unique<QuestionBuilder>(inputs, settings);
}

}  // namespace varifocal::ruler
