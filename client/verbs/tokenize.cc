// varifocal tokenize: text to token ids.
#include <ostream>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/rows.h"
#include "client/tokenizers.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Tokenize : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("model", &model_, "DIR", "directory with a tokenizer.json; with --daemon: the model's name there")
        .Required();
    flags.Add("file", &file_, "PATH", "the text, byte for byte; - is standard input");
    flags.Add("text", &text_, "TEXT", "the text itself");
    flags.Add("jsonl", &jsonl_, "PATH", "one {\"text\": \"..\"} per line; prints one result per line");
    flags.Add("no-special-tokens", &options_.no_special_tokens, "do not add the tokenizer's special tokens (BOS)");
    flags.Add("special-tokens-as-text", &options_.special_tokens_as_text, "\"<|end|>\" inside a text is plain text");
    tokenizer_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    if (file_.has_value() + text_.has_value() + jsonl_.has_value() != 1) {
      return UsageError("Give the text by exactly one of --file=PATH, --text=TEXT and --jsonl=PATH.");
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<TextCoder> coder, OpenTextCoder(model_, tokenizer_, global, console));
    auto print = [&](const std::string& text) -> absl::Status {
      const int64_t invalid_before = coder->invalid_utf8_count();
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, coder->Encode(text, options_));
      if (console.format != Format::kText) {
        Json object = {{"token_ids", ids}};
        const int64_t invalid_count = coder->invalid_utf8_count() - invalid_before;
        if (invalid_count > 0) object["invalid_utf8_count"] = invalid_count;
        return PrintJson(console, object);
      }
      console.out << absl::StrJoin(ids, " ") << "\n";
      return absl::OkStatus();
    };
    if (jsonl_.has_value()) {
      RETURN_IF_ERROR(ForEachJsonLine(*jsonl_, [&](const Json& line) -> absl::Status {
        ASSIGN_OR_RETURN(const std::string text, GetString(line, "text"));
        return print(text);
      }));
    } else if (file_.has_value()) {
      ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(*file_));
      RETURN_IF_ERROR(print(text));
    } else {
      RETURN_IF_ERROR(print(*text_));
    }
    if (coder->invalid_utf8_count() > 0) {
      console.err << "Note: " << coder->invalid_utf8_count()
                  << " byte sequences are not UTF-8; each was read as U+FFFD.\n";
    }
    return ExitCode::kDone;
  }

 private:
  std::string model_;
  std::optional<std::string> file_, text_, jsonl_;
  TextEncodeOptions options_;
  TokenizerFlags tokenizer_;
};

}  // namespace

constinit const Verb kTokenizeVerb = {
    .name = "tokenize",
    .group = "Models",
    .summary = "text to token ids",
    .about =
        R"(Encodes a text as the model's tokenizer does, the beginning-of-text token included when it has one. Added
tokens inside the text are recognised as in the tokenizers library. Nothing is trimmed: a file's last
newline is part of the text. JSON output: {"token_ids": [..]}, and "invalid_utf8_count" when bytes of the text
were not UTF-8.)",
    .examples =
        "varifocal tokenize --model=models/baseline --text='Hello, world' --format=json\n"
        "varifocal tokenize --model=models/baseline --jsonl=texts.jsonl --format=jsonl",
    .make = &Make<Tokenize>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
