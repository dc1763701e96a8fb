// Real prose: six novels of Jane Austen, read from a directory that deploy/get_novels.sh fills.
//
// The files are not part of the project, but their digests are, so that all users have the same texts and jobs need not
// record them. A novel is its chapters only, lines of a paragraph joined by spaces, paragraphs by one blank line. The
// novels form a ring of words, so that a window of any size has text on both sides.
//
// Errors:  NOT_FOUND for a file that is not there, FAILED_PRECONDITION for one with another digest; both name the
//          script.
// Threads: Novels is immutable.
// Cost:    40 ms and 35 MB for all six; shared while referenced.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal {

struct NovelFile {
  absl::string_view title;
  absl::string_view file_name;
  absl::string_view sha256;  // of the file
};
absl::Span<const NovelFile> NovelFiles();

// A chapter's bytes in Novel::text, its heading included. Chapters are numbered through all volumes, from 1.
struct Chapter {
  size_t begin = 0;
  size_t end = 0;
};

struct Novel {
  std::string title;
  std::string text;
  std::vector<Chapter> chapters;
};

// `raw` is a file's content: a title page, headings "CHAPTER I" or "Chapter 1" on lines of their own, a closing word.
// INVALID_ARGUMENT when it has no chapter.
absl::StatusOr<Novel> ParseNovel(absl::string_view title, absl::string_view raw);

// A word of the ring, without leading blanks.
struct ProseWord {
  absl::string_view text;
  bool begins_paragraph = false;
  bool ends_sentence = false;
};

class Novels {
 public:
  explicit Novels(std::vector<Novel> novels);
  Novels(const Novels&) = delete;
  Novels& operator=(const Novels&) = delete;

  const std::vector<Novel>& novels() const { return novels_; }
  const Novel* Find(absl::string_view title) const;  // null when unknown
  const std::vector<ProseWord>& words() const { return words_; }
  // The word of the ring at byte `byte` of `novel`'s text (the next one for a blank).
  size_t WordAt(const Novel& novel, size_t byte) const;
  const Novel& NovelOf(size_t word) const;

 private:
  std::vector<Novel> novels_;
  std::vector<ProseWord> words_;
  std::vector<size_t> first_word_;  // of each novel
};

// ${VARIFOCAL_CACHE:-~/.cache/varifocal}/novels
std::string DefaultNovelsDirectory();
// The six novels, digests checked; the default directory when `directory` is empty.
absl::StatusOr<std::shared_ptr<const Novels>> LoadNovels(std::string directory);

}  // namespace varifocal
