// What RULER's scripts read, from a folder of the user's: a checkout of NVIDIA/RULER, wonderwords' lists, Punkt's parameters.
//
//   RULER/                  the checkout, with its downloads in scripts/data/synthetic/json
//   wonderwords/            nounlist.txt, adjectivelist.txt, verblist.txt, or the package with its folder assets
//   punkt_tab/english/      NLTK's parameters, for tasks with essays
//
// A task reads the files that it needs, and no others. Their digests are its data's identity.
//
// Errors:  NOT_FOUND for a missing file, with what brings it; INVALID_ARGUMENT with the path for one of another form.
// Threads: Inputs are immutable.
// Cost:    the questions' file is read once and kept as text.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "eval_tasks/ruler/kinds.h"
#include "eval_tasks/ruler/punkt.h"
#include "eval_tasks/ruler/word_pairs.h"

namespace varifocal::ruler {

struct Question {
  std::string text;
  std::vector<std::string> answers;
  std::vector<int> documents;       // its own, in the file's order
  std::vector<int> more_documents;  // the other paragraphs of the article
};

struct Inputs {
  std::string task_template;  // with the model template around it, and the answer's prefix after it
  std::string own_template;   // without a model template
  std::string answer_prefix;  // of task_template's end
  std::string task_start;     // the first 20 characters of the task's own template
  std::string needle, noise, document_prompt;
  std::optional<WordPairs> word_keys;    // of needles
  std::vector<std::string> words;        // of cwe: sorted, without repeats
  std::vector<std::string> more_words;   // of cwe: english_words.json, empty where it is missing
  std::string more_words_problem;        // why it is
  std::vector<std::string> essay_words;  // split at single spaces
  std::optional<Punkt> punkt;
  std::vector<std::string> documents;  // sorted, without repeats
  std::vector<Question> questions;
  std::map<std::string, std::string> sha256;  // by path below the folder
  std::string note;                           // where a file is another version's; empty where none is
};

// ${VARIFOCAL_CACHE:-~/.cache/varifocal}/ruler
std::string DefaultRulerDirectory();

struct InputRequest {
  std::string folder;          // "": the default one
  std::string model_template;  // a name in template.py; "" and "base" are none
  CurlyQuotes quotes = CurlyQuotes::kLetters;
};
absl::StatusOr<std::shared_ptr<const Inputs>> LoadInputs(const RulerTaskInfo& task, const InputRequest& request);

}  // namespace varifocal::ruler
