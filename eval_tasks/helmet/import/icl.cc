// In-context learning: many labelled examples, balanced over labels, with labels renumbered for each question.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/import/family.h"
#include "eval_tasks/helmet/import/icl.h"
#include "eval_tasks/python/random.h"

namespace varifocal::helmet {
namespace {

struct LabelSet {
  const char* name;  // substring of the dataset's lower-case name
  const char* folder;
  const char* label_field;
  int label_count;
  const char* test_split;  // null: a random tenth of train
};

constexpr LabelSet kLabelSets[] = {
    {"trec_fine", "trec", "fine_label", 50, "test"},      {"trec_coarse", "trec", "coarse_label", 6, "test"},
    {"banking77", "banking77", "label", 77, "test"},      {"clinic150", "clinc_oos", "intent", 151, "validation"},
    {"nlu", "nlu_evaluation_data", "label", 68, nullptr},
};

bool IsIcl(const std::string& dataset) { return absl::StrContains(dataset, "icl"); }

// "icl_trec_coarse_400shot_balance" without the number of examples, which is the length.
std::string NameWithoutShots(const std::string& dataset) {
  const size_t shots = dataset.find("shot");
  return dataset.substr(0, dataset.rfind('_', shots));
}

absl::StatusOr<Prompting> IclPrompting(const ConfigEntry&) { return Prompting{"icl", "icl", "\n", {"exact_match"}}; }

struct LabelledText {
  std::string text;
  int label = 0;
  Json row;  // as in the file
};

absl::StatusOr<std::vector<LabelledText>> ReadSplit(const LabelSet& set, const std::string& split, Sources& sources) {
  std::vector<LabelledText> texts;
  const std::string path = absl::StrCat(sources.data, "/icl/", set.folder, "/", split, ".jsonl");
  RETURN_IF_ERROR(sources
                      .Open(path,
                            [&](int64_t, absl::string_view line) -> absl::Status {
                              ASSIGN_OR_RETURN(Json fields, ParseJson(line));
                              if (!fields.is_object()) return InvalidArgument("is not a JSON object");
                              ASSIGN_OR_RETURN(const std::string text, GetString(fields, "text"));
                              ASSIGN_OR_RETURN(const int64_t label, GetInt(fields, set.label_field));
                              if (label < 0 || label >= set.label_count) {
                                return InvalidArgument("the field \"", set.label_field, "\" is ", label,
                                                       "; it must be from 0 to ", set.label_count - 1);
                              }
                              texts.push_back({text, static_cast<int>(label), std::move(fields)});
                              return absl::OkStatus();
                            })
                      .status());
  return texts;
}

std::vector<int> Labels(const std::vector<LabelledText>& texts) {
  std::vector<int> labels;
  for (const LabelledText& text : texts) labels.push_back(text.label);
  return labels;
}

template <typename T>
std::vector<T> Picked(const std::vector<T>& items, const std::vector<size_t>& order) {
  std::vector<T> picked;
  for (size_t index : order) picked.push_back(items[index]);
  return picked;
}

absl::Status ImportIcl(const ConfigEntry& entry, Sources& sources, const RowSink& sink) {
  const std::string name = absl::AsciiStrToLower(entry.dataset);
  const auto set = std::find_if(std::begin(kLabelSets), std::end(kLabelSets),
                                [&](const LabelSet& row) { return absl::StrContains(name, row.name); });
  if (set == std::end(kLabelSets)) return InvalidArgument("upstream has no label set for \"", entry.dataset, "\"");
  const size_t shot_mark = entry.dataset.find("shot");
  const std::string before = entry.dataset.substr(0, shot_mark);
  int shots = 0;
  if (shot_mark == std::string::npos || !absl::SimpleAtoi(before.substr(before.rfind('_') + 1), &shots) || shots < 1) {
    return InvalidArgument("the dataset \"", entry.dataset, "\" has no number before \"shot\"");
  }
  if (!absl::StrContains(entry.dataset, "balance") || absl::StrContains(entry.dataset, "natural_label")) {
    return Unimplemented("\"", entry.dataset,
                         "\" uses unbalanced examples or natural labels, which no upstream configuration does");
  }
  ASSIGN_OR_RETURN(const Template item, sources.texts->Form("icl.item"));
  ASSIGN_OR_RETURN(std::vector<LabelledText> train, ReadSplit(*set, "train", sources));
  std::vector<LabelledText> test;
  if (set->test_split != nullptr) {
    ASSIGN_OR_RETURN(test, ReadSplit(*set, set->test_split, sources));
  } else {
    const TrainTestSplit split = SplitTrainTest(train.size(), 0.1, entry.seed);
    test = Picked(train, split.test);
    train = Picked(train, split.train);
  }
  std::vector<size_t> rows(test.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (entry.max_test_samples.has_value() && std::ssize(test) > *entry.max_test_samples) {
    rows = NumpyRandom(entry.seed).Permutation(test.size());
    const std::vector<int> labels = Labels(Picked(test, rows));
    rows = Picked(rows, BalancedRows(labels, *entry.max_test_samples, entry.seed));
  }
  const std::vector<int> train_labels = Labels(train);
  std::map<size_t, int> times_asked;
  for (size_t row : rows) {
    const uint64_t local_seed = (static_cast<uint64_t>(Sha256Seed(test[row].text)) + entry.seed) % (uint64_t{1} << 31);
    const std::vector<int> shown = ShuffledLabels(set->label_count, local_seed);
    ImportedRow imported;
    const int repeat = times_asked[row]++;
    imported.id = repeat == 0 ? absl::StrCat(row) : absl::StrCat(row, "-", repeat);
    imported.question = imported.cluster = imported.id;
    for (size_t demo : BalancedRows(train_labels, shots, local_seed)) {
      ASSIGN_OR_RETURN(const std::string text,
                       item.Render({{"text", train[demo].text}, {"label", absl::StrCat(shown[train[demo].label])}}));
      absl::StrAppend(&imported.context, imported.context.empty() ? "" : "\n\n", text);
    }
    imported.values["question"] = test[row].text;
    imported.gold = {absl::StrCat(shown[test[row].label])};
    imported.reference = imported.gold[0];
    imported.item = test[row].row;
    imported.item["question"] = test[row].text;
    imported.item["answer"] = imported.gold[0];
    RETURN_IF_ERROR(sink(std::move(imported)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<size_t> BalancedRows(const std::vector<int>& labels, size_t count, uint64_t seed) {
  std::vector<std::vector<size_t>> by_label;  // labels in order of first occurrence
  std::map<int, size_t> place_of;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto [place, is_new] = place_of.emplace(labels[i], by_label.size());
    if (is_new) by_label.emplace_back();
    by_label[place->second].push_back(i);
  }
  PythonRandom random(seed);
  const size_t round_count = (count + by_label.size() - 1) / by_label.size();
  std::vector<std::vector<size_t>> rounds(round_count);
  for (const std::vector<size_t>& rows : by_label) {
    std::vector<size_t> chosen = random.Sample(rows.size(), round_count % rows.size());
    while (chosen.size() < round_count) {
      const std::vector<size_t> more = random.Sample(rows.size(), std::min(round_count - chosen.size(), rows.size()));
      chosen.insert(chosen.end(), more.begin(), more.end());
    }
    for (size_t i = 0; i < round_count; ++i) rounds[i].push_back(rows[chosen[i]]);
  }
  std::vector<size_t> balanced;
  for (std::vector<size_t>& round : rounds) {
    random.Shuffle(round);
    balanced.insert(balanced.end(), round.begin(), round.end());
  }
  balanced.resize(std::min(balanced.size(), count));
  return balanced;
}

std::vector<int> ShuffledLabels(int label_count, uint64_t seed) {
  std::vector<int> labels(label_count);
  std::iota(labels.begin(), labels.end(), 0);
  PythonRandom(seed).Shuffle(labels);
  return labels;
}

const FamilyInfo kIclFamily = {"icl", &IsIcl, &NameWithoutShots, &IclPrompting, &ImportIcl};

}  // namespace varifocal::helmet
