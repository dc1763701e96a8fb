// Common implementation of the native tasks:
// several questions per context, a plan of the family, fitted to the length.
//
// A family is a function from the group's seeds to a ContextPlan; identity, seeds, sizing, evidence and scoring are
// shared.
#pragma once

#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/context_plan.h"

namespace varifocal {

inline constexpr int kQuestionsPerContext = 4;

struct GroupSeeds {
  int group_index = 0;
  Sha256Digest group;
  std::vector<Sha256Digest> items;  // one for each question
  int context_length = 0;           // for upstream's special cases in short contexts; does not affect questions
};

struct NativeFamily {
  std::vector<std::string> stop_strings;
  int max_new_tokens = 0;
  std::function<std::unique_ptr<ContextPlan>(const TaskSpec& spec, const GroupSeeds& seeds)> make_plan;
  int questions_per_context = kQuestionsPerContext;
  int question_count = INT_MAX;
  std::vector<std::string> row_ids;       // of every question, for hand-written questions
  std::string answer_words = "one word";  // what an answer in chat form is asked to be
};

class NativeTask : public Task {
 public:
  NativeTask(TaskSpec spec, NativeFamily family);

  const std::string& name() const override { return spec_.name; }
  int question_count() const override;
  GroupRange GroupOf(int index) const override;
  Sample Identify(const SampleRequest& request) const override;
  std::vector<absl::StatusOr<Sample>> MakeGroup(const SampleRequest& request,
                                                const TokenCounter& tokenizer) const override;

 private:
  absl::StatusOr<std::vector<Sample>> FillGroup(const SampleRequest& request, const TokenCounter& tokenizer) const;

  TaskSpec spec_;
  NativeFamily family_;
};

// Depth of question `question_index`: the suite's, or drawn from its quarter of the context.
double DrawDepth(const TaskSpec& spec, int question_index, Random& item);

// The rows of tasks.cc.
absl::StatusOr<std::unique_ptr<Task>> MakeRecallKv(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeIclLabels(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeRagFacts(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeLongqaStory(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeLongqaNovel(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeRagNovel(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeNiah(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeVariableTracking(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeCommonWords(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeFrequentWords(const TaskSpec& spec);
absl::StatusOr<std::unique_ptr<Task>> MakeFactTracking(const TaskSpec& spec);

}  // namespace varifocal
