#include "eval_tasks/grid.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "eval_tasks/seeds.h"

namespace varifocal {
namespace {

absl::StatusOr<int> PlannedCount(const JobSpec& spec, const TaskSpec& task_spec, const Task& task, int length) {
  ASSIGN_OR_RETURN(int count, task.QuestionCountAt(length));
  const auto at_length = task_spec.samples_at.find(length);
  const int asked = at_length == task_spec.samples_at.end() ? task_spec.samples : at_length->second;
  if (asked > 0) count = std::min(count, asked);
  return spec.limit > 0 ? std::min(count, spec.limit) : count;
}

// Rows of a user's file are the same questions under every seed: asking them again would replicate nothing.
bool DependsOnSeed(const TaskSpec& task_spec, const Task& task) {
  return FindTaskKind(task_spec.kind)->native && task.draws_from_seed();
}

std::string Counted(size_t count, absl::string_view one) {
  return absl::StrCat(count, " ", one, Plural(static_cast<int64_t>(count), "", "s"));
}

}  // namespace

int64_t Grid::SampleCount() const {
  int64_t count = 0;
  for (const GridCell& cell : cells) count += cell.asked_count;
  return count;
}

std::vector<absl::StatusOr<Sample>> Grid::MakeSamples(const GridGroup& group, const TokenCounter& tokenizer,
                                                      bool locates_all) const {
  std::vector<absl::StatusOr<Sample>> samples =
      tasks[group.task_index]->MakeGroup(group.Request(0, locates_all), tokenizer);
  for (absl::StatusOr<Sample>& sample : samples) {
    if (sample.ok()) sample->index = Index(sample->index + group.first_index - group.first_question, 0);
  }
  return samples;
}

Sample Grid::Identify(const GridGroup& group, int place) const {
  Sample sample = tasks[group.task_index]->Identify(group.Request(place));
  sample.index = Index(sample.index + group.first_index - group.first_question, 0);
  return sample;
}

void SetEpoch(int epoch, Sample& sample) {
  sample.index += epoch;
  sample.epoch = epoch;
  sample.sampling_seed = EpochSeed(sample.sampling_seed, epoch);
}

absl::StatusOr<Grid> MakeGrid(const JobSpec& spec) {
  const size_t cell_count = spec.variants.size() * spec.suite.tasks.size() * spec.suite.lengths.size();
  if (cell_count > kJobCellCountMax) {
    return InvalidArgument("the job has ", cell_count, " cells (", Counted(spec.variants.size(), "variant"), " x ",
                           Counted(spec.suite.tasks.size(), "task"), " x ",
                           Counted(spec.suite.lengths.size(), "length"), "); the limit is ", kJobCellCountMax);
  }
  Grid grid;
  grid.epochs = EpochCount(spec.suite);
  int64_t sample_count = 0;
  int64_t context_count = 0;
  for (size_t t = 0; t < spec.suite.tasks.size(); ++t) {
    const TaskSpec& task_spec = spec.suite.tasks[t];
    ASSIGN_OR_RETURN(std::unique_ptr<Task> task, MakeTask(task_spec));
    for (int length : spec.suite.lengths) {
      ASSIGN_OR_RETURN(const int count_of_seed, PlannedCount(spec, task_spec, *task, length));
      const int seed_count = DependsOnSeed(task_spec, *task) ? SeedCount(spec.suite) : 1;
      const int64_t question_count = int64_t{count_of_seed} * seed_count;
      const int64_t planned_count = question_count * grid.epochs;
      sample_count += std::ssize(spec.variants) * planned_count;
      if (sample_count > kJobSampleCountMax) {
        return InvalidArgument("the job has more than ", kJobSampleCountMax, " samples: task \"", task_spec.name,
                               "\" at ", length, " tokens brings it to ", sample_count, " (",
                               Counted(spec.variants.size(), "variant"), " x ", Counted(question_count, "question"),
                               grid.epochs > 1 ? absl::StrCat(" x ", grid.epochs, " epochs") : "",
                               " there); use --limit to ask fewer questions");
      }
      if (const std::string reason = task->WhyNoQuestionsAt(length); !reason.empty()) {
        grid.missing.push_back(absl::StrCat(task_spec.name, " at ", length, " has no questions: ", reason));
      }
      int asked_count = 0;
      for (int s = 0; s < seed_count; ++s) {
        for (int first = 0; first < count_of_seed; ++context_count) {
          const GroupRange range = task->GroupOf(first);
          const int end = std::min(range.first_index + range.count, count_of_seed);
          // In turn, so that shards have equal parts of every length.
          if (spec.shard.is_whole() || context_count % spec.shard.count == spec.shard.index - 1) {
            grid.groups.push_back(
                {static_cast<int>(t), length, s * count_of_seed + first, end - first, spec.suite.seed + s, first});
            asked_count += (end - first) * grid.epochs;
          }
          first = end;
        }
      }
      for (size_t v = 0; v < spec.variants.size(); ++v) {
        grid.cells.push_back({{spec.variants[v].Name(), task_spec.name, length},
                              static_cast<int>(v),
                              static_cast<int>(t),
                              static_cast<int>(planned_count),
                              asked_count});
      }
    }
    if (std::string note = task->Note(); !note.empty()) grid.notes.push_back(std::move(note));
    grid.tasks.push_back(std::move(task));
  }
  if (context_count == 0 && !grid.missing.empty()) {
    return InvalidArgument("the suite \"", spec.suite.name, "\" has no questions: ", grid.missing.front());
  }
  return grid;
}

void PinData(const Grid& grid, JobSpec& spec) {
  for (size_t t = 0; t < grid.tasks.size(); ++t) {
    const std::string digest = grid.tasks[t]->data_sha256();
    if (!digest.empty()) spec.suite.tasks[t].parameters["sha256"] = digest;
  }
}

}  // namespace varifocal
