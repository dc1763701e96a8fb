// The table of tasks. Adding one is a file in tasks/ and a row here.
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "eval_tasks/helmet/task.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/ruler/kinds.h"
#include "eval_tasks/ruler/task.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/context_gain.h"
#include "eval_tasks/tasks/fact_world.h"
#include "eval_tasks/tasks/jsonl.h"
#include "eval_tasks/tasks/jsonl_shots.h"
#include "eval_tasks/tasks/native_task.h"
#include "eval_tasks/tasks/short.h"

namespace varifocal {
namespace {

using Parameters = std::map<std::string, std::string>;

ParameterInfo Integer(std::string name, std::string default_value, double low, double high, std::string help) {
  return {std::move(name), ParameterType::kInteger, std::move(default_value), false, low, high, {}, std::move(help)};
}
ParameterInfo Depth() {
  return {"depth", ParameterType::kNumber,
          "",      false,
          0,       1,
          {},      "depth of the evidence, 0 start to 1 end; when absent, question j of 4 has its own quarter"};
}
ParameterInfo Choice(std::string name, std::vector<std::string> choices, std::string help) {
  std::string first = choices[0];
  return {std::move(name), ParameterType::kChoice, std::move(first), false, 0, 0, std::move(choices), std::move(help)};
}
ParameterInfo Format() {
  return Choice("format", {"free_form", "multiple_choice"}, "write the answer, or choose among four by log-likelihood");
}
ParameterInfo Text(std::string name, bool required, std::string help) {
  return {std::move(name), ParameterType::kText, "", required, 0, 0, {}, std::move(help)};
}
ParameterInfo Path(std::string name, bool required, std::string help) {
  return {std::move(name), ParameterType::kPath, "", required, 0, 0, {}, std::move(help)};
}

// Without a default, so that stored jobs stay as they are.
ParameterInfo AskedRow() {
  ParameterInfo info = Choice("asked_row", {"harness", "exclude"},
                              "whether the asked question may be among its demonstrations: as in the harness, where "
                              "ARC's and LAMBADA's may (when absent), or never");
  info.default_value.clear();
  return info;
}

// Without a default, as well.
ParameterInfo ShotsAs() {
  ParameterInfo info = Choice("shots_as", {"text", "turns"},
                              "how they are shown: before the prompt, or as turns of user and assistant before it");
  info.default_value.clear();
  return info;
}

ParameterInfo NovelsDirectory() {
  return Path("novels", false,
              "directory of the six novels; ${VARIFOCAL_CACHE:-~/.cache/varifocal}/novels when absent");
}

ParameterInfo HaystackOf(std::vector<std::string> choices) {
  return Choice("haystack", std::move(choices),
                "what hides it: one line again and again, invented prose, the novels (deploy/get_novels.sh)");
}
ParameterInfo AnyDepth() {
  return {"depth", ParameterType::kNumber,
          "",      false,
          0,       1,
          {},      "depth of the answering text, 0 start to 1 end; drawn when absent"};
}

std::vector<std::string> MatchAll(const Parameters&) { return {"string_match_all", "string_match_part"}; }
std::vector<std::string> ExactThenSubstring(const Parameters&) { return {"exact_match", "substring_exact_match"}; }
std::vector<std::string> Exact(const Parameters&) { return {"exact_match"}; }
std::vector<std::string> SubstringThenExact(const Parameters&) {
  return {"substring_exact_match", "exact_match", "token_f1"};
}
std::vector<std::string> Choices() { return {"multiple_choice_accuracy", "multiple_choice_accuracy_normalized"}; }

bool Never(const Parameters&) { return false; }
bool Always(const Parameters&) { return true; }
bool IsMultipleChoice(const Parameters& parameters) {
  const auto format = parameters.find("format");
  return format != parameters.end() && format->second == "multiple_choice";
}
bool HasChoices(const Parameters& parameters) { return parameters.count("choices") > 0; }

std::vector<std::string> StoryMetrics(const Parameters& parameters) {
  if (IsMultipleChoice(parameters)) return Choices();
  return {"exact_match", "substring_exact_match", "token_f1"};
}
std::vector<std::string> NovelMetrics(const Parameters& parameters) {
  return IsMultipleChoice(parameters) ? Choices() : SubstringThenExact(parameters);
}
std::vector<std::string> RowMetrics(const Parameters& parameters) {
  if (HasChoices(parameters)) return Choices();
  return {"exact_match", "substring_exact_match", "token_f1"};
}

std::vector<std::string> ContextGainMetrics(const Parameters&) {
  return {"context_gain", "long_context_log_likelihood", "short_context_log_likelihood"};
}

// The importer writes the measures that fit; without any, what upstream reports most often.
std::vector<std::string> HelmetMetrics(const Parameters&) { return {"helmet/default/substring_exact_match"}; }

ParameterInfo RulerTask() {
  return {"task", ParameterType::kChoice, "", true, 0, 0, ruler::RulerTaskNames(), "which of RULER's 13 tasks"};
}
ParameterInfo RulerPrefix() {
  return Choice("answer_prefix", {"given", "left_out"},
                "the words that begin the answer: given after the prompt, or left out, for models that think first");
}

TaskKind NativeKind(std::string name, std::string summary, std::vector<ParameterInfo> parameters,
                    decltype(TaskKind::default_metrics) metrics, decltype(TaskKind::make) make,
                    decltype(TaskKind::scores_continuations) scores_continuations = &Never) {
  return {std::move(name), std::move(summary), std::move(parameters), true, metrics, scores_continuations, make};
}

const std::vector<TaskKind>& KindTable() {
  static const std::vector<TaskKind> table = {
      NativeKind("recall_kv", "find a key in a JSON object and copy its value", {Depth()}, &ExactThenSubstring,
                 &MakeRecallKv),
      NativeKind("icl_labels", "label a line like the many labelled lines above it",
                 {Integer("classes", "8", 2, 50, "classes, each with five words and a number for a label"),
                  Integer("noise_words", "0", 0, 1, "words of a line that belong to another class"), Depth()},
                 &Exact, &MakeIclLabels),
      NativeKind(
          "rag_facts", "answer from documents, one or two of them gold among hard distractors",
          {Integer(
               "version", "", 1, 2,
               "which question goes through two documents: 1 (when absent) the fourth of a context, 2 each in turn"),
           Depth()},
          &SubstringThenExact, &MakeRagFacts),
      NativeKind("longqa_story", "name the place of a person at the end of a long story",
                 {Format(), Integer("names", "24", 4, 48, "people in the story"), Depth()}, &StoryMetrics,
                 &MakeLongqaStory, &IsMultipleChoice),
      NativeKind(
          "longqa_novel", "answer 80 hand-written questions on six novels of Jane Austen (deploy/get_novels.sh)",
          {Format(),
           NovelsDirectory(),
           {"depth", ParameterType::kNumber, "", false, 0, 1, {}, "depth of the answering passage; drawn when absent"}},
          &NovelMetrics, &MakeLongqaNovel, &IsMultipleChoice),
      NativeKind(
          "rag_novel",
          "answer the same questions from passages of the novels, one of them gold for each (deploy/get_novels.sh)",
          {NovelsDirectory(), Depth()}, &SubstringThenExact, &MakeRagNovel),
      NativeKind("niah", "recall the values of keys, each hidden in one sentence of a long text (RULER's retrieval)",
                 {HaystackOf({"lines", "story", "prose", "needles"}), NovelsDirectory(),
                  Choice("key_type", {"words", "numbers", "uuids"}, "what keys look like"),
                  Choice("value_type", {"numbers", "words", "uuids"}, "what their secrets look like"),
                  Integer("keys", "1", 1, 64, "keys that have secrets; never fewer than are asked about"),
                  Integer("values", "1", 1, 16, "secrets of each key, all of them asked for"),
                  Integer("queries", "1", 1, 16, "keys that one question asks about"), AnyDepth()},
                 &MatchAll, &MakeNiah),
      NativeKind("variable_tracking", "name the boxes of one chain of references (RULER's multi-hop tracing)",
                 {HaystackOf({"lines", "story", "prose"}), NovelsDirectory(),
                  Integer("chains", "1", 1, 16, "chains in the text; the first is asked for"),
                  Integer("hops", "4", 1, 16, "references in a chain, one box less than it has"), AnyDepth()},
                 &MatchAll, &MakeVariableTracking),
      NativeKind("common_words", "name the words that come up most often in a long list (RULER's aggregation)",
                 {Integer("common", "10", 1, 50, "words that are asked for"),
                  Integer("common_repeats", "", 2, 1000,
                          "times that each of them comes up; 30 when absent, 6 in short contexts"),
                  Integer("other_repeats", "", 1, 100,
                          "times that every other word does; 3 when absent, 1 in short contexts")},
                 &MatchAll, &MakeCommonWords),
      NativeKind(
          "frequent_words", "name the three most frequent words of a coded text (RULER's aggregation)",
          {{"alpha", ParameterType::kNumber, "2", false, 1.5, 3.5, {}, "exponent of the power law of frequencies"}},
          &MatchAll, &MakeFrequentWords),
      NativeKind(
          "fact_tracking", "follow people and things through facts scattered over a long text (after BABILong)",
          {Choice("ask", {"where_person", "where_thing", "where_before", "which_side", "who_gave"}, "kind of question"),
           HaystackOf({"story", "prose", "lines"}), NovelsDirectory(),
           Integer("facts", "32", kFactCountMin, 400, "facts in the text; which_side has at most 40, who_gave 100"),
           AnyDepth()},
          &ExactThenSubstring, &MakeFactTracking),
      {"jsonl",
       "ask a user's own rows",
       {Path("path", true, "file of one JSON object a line; relative to the suite file"),
        Text("prompt", false, "template: {field} is replaced, {{ and }} are braces; required without messages"),
        Text("messages", false, "field with a list of {role, content}, asked in the model's chat format"),
        Text("gold", true, "field with the right answer: a text, or a list of texts any of which is right"),
        Text("choices", false, "field with a list of continuations to score instead of generating"),
        Text("context", false, "field that several rows share; such rows are asked together, and only it may be cut"),
        Text("evidence", false, "field with texts of the context that the answer rests on"),
        Text("cluster", false, "field that names rows that are not independent; the context when absent"),
        Text("id", false, "field that names a row; its line number when absent"),
        Integer("max_new_tokens", "32", 1, 65536, "tokens to generate"),
        {"stop", ParameterType::kTextList, "[\"\\n\"]", false, 0, 0, {}, "the answer ends before the first of these"},
        Choice("truncate", {"error", "end", "start", "middle", "prompt_halves", "prompt_ends"},
               "which part of the context is removed when a row does not fit; or of the whole prompt the middle, by "
               "tokens, as LongBench (halves) or LongBench v2 and InfiniteBench (ends) cut it"),
        Integer("prompt_tokens", "", 2, kContextLengthMax,
                "with prompt_halves and prompt_ends: tokens that a longer prompt is cut to; what fits when absent"),
        Text("reference", false, "field with the object that metrics of benchmarks compare the whole output with"),
        Integer("shots", "", 1, 64, "rows that are shown with their answers before each asked one; none when absent"),
        Path("shots_path", false, "file they come from; when absent, the other rows of the same file"),
        Integer("shots_seed", "", 0, INT32_MAX, "draws which ones; 1 when absent"),
        ShotsAs(),
        Text("shots_separator", false, "text after each; a blank line when absent"),
        Text("sha256", false, "digest the file must have; filled in when a job is submitted")},
       false,
       &RowMetrics,
       &HasChoices,
       &MakeJsonlTask,
       true,
       &CheckJsonlSpec},
      {"short",
       "multiple choice or last words from the usual local files, by log-likelihood",
       {Choice("task", ShortTaskNames(), "which benchmark's fields the rows have"),
        Path("path", true, "file of one JSON object a line; relative to the suite file"),
        Integer("shots", "0", 0, 64, "demonstrations before each question"),
        Path("shots_path", false, "file they come from; when absent, the rows of the same file"), AskedRow(),
        Text("sha256", false, "digest of the data; filled in when a job is submitted")},
       false,
       &ShortTaskMetrics,
       &Always,
       &MakeShortTask},
      NativeKind(
          "context_gain", "score the last tokens of windows of a text after all before them and after few of them",
          {Path("path", true, "a text file; relative to the suite file"),
           Integer("scored_tokens", "512", 1, 8192, "tokens at the end of a window that are scored"),
           Integer("short_context", "1024", 16, kContextLengthMax, "tokens of the context that is compared with"),
           Integer("longest", "32768", 64, kContextLengthMax,
                   "longest context length: windows end where the text has 8 bytes before for each of its tokens"),
           Text("sha256", false, "digest the file must have; filled in when a job is submitted")},
          &ContextGainMetrics, &MakeContextGain, &Always),
      {"helmet",
       "ask rows imported from HELMET with upstream's prompts, truncation and measures",
       {Path("path", true, "index of a task that `varifocal suites import-helmet` wrote; relative to the suite file"),
        Text("sha256", false, "digest the index must have; filled in when a job is submitted")},
       false,
       &HelmetMetrics,
       &Never,
       &MakeHelmetTask,
       false},
      {"ruler",
       "ask RULER's own questions, generated as NVIDIA's scripts generate them from the same files (docs/ruler.md)",
       {RulerTask(),
        Path("data", false,
             "folder of a checkout of NVIDIA/RULER, word lists and Punkt; ${VARIFOCAL_CACHE:-~/.cache/varifocal}/ruler "
             "when absent"),
        Text("model_template", false, "a name in the checkout's template.py around the prompt; none when absent"),
        Integer("template_tokens", "0", 0, 4096, "tokens taken from the length for a template added later"),
        Choice("curly_quotes", {"letters", "closing"},
               "in essays: letters of words, as to NLTK 3.9, or the ends of sentences, as from 3.10 on"),
        RulerPrefix(), Text("sha256", false, "digest of the files; filled in when a job is submitted")},
       true,
       &RulerMetrics,
       &Never,
       &MakeRulerTask,
       false},
      {"ruler_rows",
       "ask rows that RULER's scripts wrote (docs/ruler.md)",
       {RulerTask(),
        Path("path", true, "folder with LENGTH/TASK/validation.jsonl or LENGTH/data/TASK/validation.jsonl"),
        {"subset", ParameterType::kText, "validation", false, 0, 0, {}, "name of the files without .jsonl"},
        Integer("rows_length", "0", 0, kContextLengthMax, "length of the rows of a folder with TASK/validation.jsonl"),
        Integer("expected_rows", "0", 0, kSampleCountMax, "rows that each file must have; any number when 0"),
        Choice("tokens", {"any", "own"},
               "whether a row whose length another tokenizer counted is asked all the same, or refused"),
        RulerPrefix(),
        Text("sha256", false, "digest of the files; filled in when a job is submitted")},
       false,
       &RulerMetrics,
       &Never,
       &MakeRulerRowsTask,
       false},
  };
  return table;
}

}  // namespace

absl::Span<const TaskKind> TaskKinds() { return KindTable(); }

const TaskKind* FindTaskKind(absl::string_view name) {
  for (const TaskKind& kind : KindTable()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

Sample AskedSample(const TaskSpec& spec, const SampleRequest& request) {
  Sample sample;
  sample.task = spec.name;
  sample.context_length = request.context_length;
  sample.index = request.index;
  sample.metrics = spec.metrics;
  return sample;
}

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const TaskSpec& spec) {
  const TaskKind* kind = FindTaskKind(spec.kind);
  if (kind == nullptr) return InvalidArgument("unknown task \"", spec.kind, "\"");
  return kind->make(spec);
}

}  // namespace varifocal
