#include "eval_tasks/novels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/files.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr absl::string_view kHowToGet = "; deploy/get_novels.sh fetches the six novels";

bool IsChapterHeading(absl::string_view line) {
  if (!absl::StartsWithIgnoreCase(line, "chapter ")) return false;
  line.remove_prefix(8);
  return !line.empty() && line.find_first_not_of("IVXLC0123456789") == absl::string_view::npos;
}

// The end of the last chapter: a closing word, or a footnote.
bool ClosesNovel(absl::string_view line) {
  return absl::EqualsIgnoreCase(line, "finis") || absl::EqualsIgnoreCase(line, "the end") ||
         absl::StartsWith(line, "*Vide");
}

bool EndsSentence(absl::string_view word) {
  const size_t end = word.find_last_not_of("\"')_");
  if (end == absl::string_view::npos) return false;
  if (word[end] == '!' || word[end] == '?') return true;
  if (word[end] != '.') return false;
  static const std::array<absl::string_view, 10> titles = {"Mr.",   "Mrs.",    "Dr.",  "St.",  "Esq.",
                                                           "Capt.", "Messrs.", "Rev.", "Hon.", "Bart."};
  const absl::string_view bare = absl::StripLeadingAsciiWhitespace(word.substr(0, end + 1));
  const size_t start = std::min(bare.find_first_not_of("\"'(_-"), bare.size());
  const bool is_initial = bare.size() - start <= 2;
  return !is_initial && std::find(titles.begin(), titles.end(), bare.substr(start)) == titles.end();
}

}  // namespace

absl::Span<const NovelFile> NovelFiles() {
  static constexpr std::array<NovelFile, 6> files = {{
      {"Emma", "emma.txt", "dd08b340a56ad4a0a00718d5682528a5a5886ae0aef91c9e0fa528074fa64b75"},
      {"Mansfield Park", "mansfield_park.txt", "e0e9ef3863ea77f51f6070062ee0dd50ad9b933223880617629e4e4963ea40ff"},
      {"Northanger Abbey", "northanger_abbey.txt", "8618a5acf5be50cc6e9b7680c7469fb6012649ab08c709dfc63c6367989fd31d"},
      {"Persuasion", "persuasion.txt", "726513a6c18bb678427bcbcf7c72d0d20816a67c25b0471b26ddcabf3ebac140"},
      {"Pride and Prejudice", "pride_and_prejudice.txt",
       "2e44edaa4946d64ad541c68e0224f5d672f43bf3ce2a8a0b0637ad5e02fc6eb3"},
      {"Sense and Sensibility", "sense_and_sensibility.txt",
       "0996d90842bbe8093f3b8142c1e77d1b20cff52d1d0615f3ed67733653e74e26"},
  }};
  return files;
}

absl::StatusOr<Novel> ParseNovel(absl::string_view title, absl::string_view raw) {
  Novel novel;
  novel.title = std::string(title);
  bool is_new_paragraph = true;
  for (absl::string_view line : absl::StrSplit(raw, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) {
      is_new_paragraph = true;
      continue;
    }
    const bool is_heading = is_new_paragraph && IsChapterHeading(line);
    if (novel.chapters.empty() && !is_heading) continue;  // the title page
    if (is_new_paragraph && ClosesNovel(line)) break;
    if (!novel.text.empty()) absl::StrAppend(&novel.text, is_new_paragraph ? "\n\n" : " ");
    if (is_heading) novel.chapters.push_back({novel.text.size(), 0});
    bool is_first = true;
    for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
      absl::StrAppend(&novel.text, is_first ? "" : " ", word);
      is_first = false;
    }
    is_new_paragraph = is_heading;  // a heading is a paragraph even without a blank line after it
  }
  if (novel.chapters.empty()) return InvalidArgument("the text of \"", title, "\" has no line such as \"CHAPTER I\"");
  for (size_t i = 0; i < novel.chapters.size(); ++i) {
    novel.chapters[i].end = i + 1 < novel.chapters.size() ? novel.chapters[i + 1].begin : novel.text.size();
  }
  return novel;
}

Novels::Novels(std::vector<Novel> novels) : novels_(std::move(novels)) {
  for (const Novel& novel : novels_) {
    first_word_.push_back(words_.size());
    const absl::string_view text = novel.text;
    bool begins_paragraph = true;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find_first_of(" \n", at), text.size());
      ProseWord word = {text.substr(at, end - at), begins_paragraph, false};
      begins_paragraph = end < text.size() && text[end] == '\n';
      word.ends_sentence = begins_paragraph || end == text.size() || EndsSentence(word.text);
      words_.push_back(word);
      at = std::min(text.find_first_not_of(" \n", end), text.size());
    }
  }
}

const Novel* Novels::Find(absl::string_view title) const {
  for (const Novel& novel : novels_) {
    if (novel.title == title) return &novel;
  }
  return nullptr;
}

size_t Novels::WordAt(const Novel& novel, size_t byte) const {
  const size_t index = &novel - novels_.data();
  VF_CHECK(index < novels_.size() && byte < novel.text.size());
  const auto begin = words_.begin() + first_word_[index];
  const auto end = index + 1 < novels_.size() ? words_.begin() + first_word_[index + 1] : words_.end();
  const char* const place = novel.text.data() + byte;
  const auto it = std::partition_point(
      begin, end, [&](const ProseWord& word) { return word.text.data() + word.text.size() <= place; });
  return it - words_.begin();
}

const Novel& Novels::NovelOf(size_t word) const {
  const auto next = std::upper_bound(first_word_.begin(), first_word_.end(), word);
  return novels_[next - first_word_.begin() - 1];
}

std::string DefaultNovelsDirectory() {
  if (const char* cache = std::getenv("VARIFOCAL_CACHE"); cache != nullptr && *cache != '\0') {
    return absl::StrCat(cache, "/novels");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "", "/.cache/varifocal/novels");
}

absl::StatusOr<std::shared_ptr<const Novels>> LoadNovels(std::string directory) {
  if (directory.empty()) directory = DefaultNovelsDirectory();
  static Mutex mutex;
  static std::map<std::string, std::weak_ptr<const Novels>>* const loaded VF_PT_GUARDED_BY(mutex) =
      new std::map<std::string, std::weak_ptr<const Novels>>();
  const MutexLock lock(mutex);
  if (std::shared_ptr<const Novels> held = (*loaded)[directory].lock(); held != nullptr) return held;
  std::vector<Novel> novels;
  for (const NovelFile& file : NovelFiles()) {
    const std::string path = absl::StrCat(directory, "/", file.file_name);
    const absl::StatusOr<std::string> raw = ReadFile(path, kDataFile);
    if (absl::IsNotFound(raw.status())) return NotFound(raw.status().message(), kHowToGet);
    RETURN_IF_ERROR(raw.status());
    const std::string digest = Sha256Hex(*raw);
    if (digest != file.sha256) {
      return FailedPrecondition(path, ": the SHA-256 of the file is not ", file.sha256, kHowToGet);
    }
    ASSIGN_OR_RETURN(Novel novel, ParseNovel(file.title, *raw));
    novels.push_back(std::move(novel));
  }
  auto made = std::make_shared<const Novels>(std::move(novels));
  (*loaded)[directory] = made;
  return std::shared_ptr<const Novels>(std::move(made));
}

}  // namespace varifocal
