#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/ruler/builder.h"

namespace varifocal::ruler {
namespace {

// np.round(np.linspace(0, 100, 40)).astype(int)
constexpr std::array<int, 40> kDepths = {0,  3,  5,  8,  10, 13, 15, 18, 21, 23, 26, 28, 31, 33,
                                         36, 38, 41, 44, 46, 49, 51, 54, 56, 59, 62, 64, 67, 69,
                                         72, 74, 77, 79, 82, 85, 87, 90, 92, 95, 97, 100};

const char* TypeName(NeedleKind kind) {
  switch (kind) {
    case NeedleKind::kWords:
      return "words";
    case NeedleKind::kUuids:
      return "uuids";
    case NeedleKind::kNumbers:
      break;
  }
  return "numbers";
}

class NiahBuilder : public Builder {
 public:
  NiahBuilder(const RulerTaskInfo& task, const Inputs& inputs, const BuildSettings& settings)
      : task_(task), inputs_(inputs), settings_(settings) {}

  absl::StatusOr<std::optional<Built>> Build(int64_t units, int64_t, Streams& streams) const override {
    std::vector<std::string> keys, needles;
    std::vector<std::vector<std::string>> values;
    for (int k = 0; k < task_.key_count; ++k) {
      keys.push_back(Draw(task_.keys, streams));
      values.emplace_back();
      for (int v = 0; v < task_.value_count; ++v) {
        values.back().push_back(Draw(task_.values, streams));
        ASSIGN_OR_RETURN(needles.emplace_back(), Needle(keys.back(), values.back().back()));
      }
    }
    PythonRandom(settings_.seed).Shuffle(needles);
    std::string context;
    if (task_.haystack == HaystackKind::kEssay) {
      context = EssayWith(needles, units, streams);
    } else {
      std::vector<std::string> lines;
      for (int64_t i = 0; i < units; ++i) {
        if (task_.haystack == HaystackKind::kNoise) {
          lines.push_back(inputs_.noise);
          continue;
        }
        const std::string key = Draw(task_.keys, streams);
        ASSIGN_OR_RETURN(lines.emplace_back(), Needle(key, Draw(task_.values, streams)));
      }
      if (needles.size() > lines.size()) return std::nullopt;
      std::vector<size_t> places = streams.python.Sample(lines.size(), needles.size());
      std::sort(places.rbegin(), places.rend());
      for (size_t i = 0; i < places.size(); ++i) lines.insert(lines.begin() + places[i], needles[i]);
      context = absl::StrJoin(lines, "\n");
    }
    return Ask(keys, values, context, streams);
  }

 private:
  std::string Draw(NeedleKind kind, Streams& streams) const {
    switch (kind) {
      case NeedleKind::kWords:
        return inputs_.word_keys->At(streams.python.Below(inputs_.word_keys->size()));
      case NeedleKind::kUuids:
        return Uuid(streams.python.GetRandBits(128));
      case NeedleKind::kNumbers:
        break;
    }
    return absl::StrCat(1'000'000 + streams.python.Below(9'000'000));
  }

  // str(uuid.UUID(int=.., version=4)); words from the least significant on.
  static std::string Uuid(const std::vector<uint32_t>& words) {
    const uint32_t version = (words[2] & 0xffff0fffu) | 0x4000u, variant = (words[1] & 0x3fffffffu) | 0x80000000u;
    return absl::StrFormat("%08x-%04x-%04x-%04x-%04x%08x", words[3], version >> 16, version & 0xffffu, variant >> 16,
                           variant & 0xffffu, words[0]);
  }

  absl::StatusOr<std::string> Needle(const std::string& key, const std::string& value) const {
    return helmet::RenderText(inputs_.needle,
                              {{"type_needle_v", TypeName(task_.values)}, {"key", key}, {"value", value}});
  }

  std::string EssayWith(const std::vector<std::string>& needles, int64_t word_count, Streams& streams) const {
    const std::shared_ptr<const Essay> essay = EssayOf(word_count);
    const std::vector<absl::string_view>& sentences = essay->sentences;
    std::vector<size_t> places = {0};
    for (const size_t depth : streams.python.Sample(kDepths.size(), needles.size())) {
      places.push_back(static_cast<size_t>(sentences.size() * (kDepths[depth] / 100.0)));
    }
    std::sort(places.begin() + 1, places.end());
    places.push_back(sentences.size());
    std::vector<std::string> parts;
    for (size_t i = 1; i < places.size(); ++i) {
      parts.push_back(absl::StrJoin(sentences.begin() + places[i - 1], sentences.begin() + places[i], " "));
      if (i - 1 < needles.size()) parts.push_back(needles[i - 1]);
    }
    return absl::StrJoin(parts, " ");
  }

  // The essays' first words, repeated where they are too few, in sentences. The shortest are kept: rows take the
  // longest that fits, or less, and the search alone asks for longer ones.
  struct Essay {
    std::string text;
    std::vector<absl::string_view> sentences;
  };
  std::shared_ptr<const Essay> EssayOf(int64_t word_count) const {
    const MutexLock lock(mutex_);
    if (const auto kept = essays_.find(word_count); kept != essays_.end()) return kept->second;
    constexpr size_t kKept = 4;
    if (essays_.size() >= kKept) essays_.erase(std::prev(essays_.end()));
    auto essay = std::make_shared<Essay>();
    for (int64_t i = 0; i < word_count; ++i) {
      absl::StrAppend(&essay->text, i > 0 ? " " : "", inputs_.essay_words[i % inputs_.essay_words.size()]);
    }
    const size_t begin = std::min(essay->text.find_first_not_of(' '), essay->text.size());
    essay->text.erase(0, begin);
    essay->text.erase(essay->text.find_last_not_of(' ') + 1);
    essay->sentences = inputs_.punkt->Sentences(essay->text);
    return essays_.emplace(word_count, std::move(essay)).first->second;
  }

  absl::StatusOr<std::optional<Built>> Ask(const std::vector<std::string>& keys,
                                           const std::vector<std::vector<std::string>>& values,
                                           const std::string& context, Streams& streams) const {
    Built built;
    std::vector<std::string> asked;
    for (const size_t k : streams.python.Sample(keys.size(), task_.query_count)) {
      asked.push_back(keys[k]);
      built.outputs.insert(built.outputs.end(), values[k].begin(), values[k].end());
    }
    std::string query = asked.back();
    if (asked.size() > 1) {
      asked.pop_back();
      query = absl::StrCat(absl::StrJoin(asked, ", "), ", and ", query);
    }
    std::string prompt = inputs_.task_template;
    std::string type = TypeName(task_.values);
    if (task_.query_count * task_.value_count == 1) {
      prompt = absl::StrReplaceAll(prompt, {{"Some", "A"}});
      prompt = absl::StrReplaceAll(prompt, {{"are all", "is"}});
      prompt = absl::StrReplaceAll(prompt, {{"are", "is"}});
      prompt = absl::StrReplaceAll(prompt, {{"answers", "answer"}});
      type.pop_back();
    }
    ASSIGN_OR_RETURN(built.text,
                     helmet::RenderText(prompt, {{"type_needle_v", type}, {"context", context}, {"query", query}}));
    return std::optional(std::move(built));
  }

  const RulerTaskInfo& task_;
  const Inputs& inputs_;
  const BuildSettings settings_;
  mutable Mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const Essay>> essays_ VF_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Builder> MakeNiahBuilder(const RulerTaskInfo& task, const Inputs& inputs,
                                         const BuildSettings& settings) {
  return std::make_unique<NiahBuilder>(task, inputs, settings);
}

}  // namespace varifocal::ruler
