// varifocal detokenize: token ids to text.
#include <ostream>

#include "base/status_macros.h"
#include "client/files.h"
#include "client/rows.h"
#include "client/tokenizers.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Detokenize : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("model", &model_, "DIR", "directory with a tokenizer.json; with --daemon: the model's name there")
        .Required();
    flags.Add("token-ids-file", &ids_file_, "PATH", "a JSON array of token ids; - is standard input");
    flags.Add("jsonl", &jsonl_, "PATH", "one {\"token_ids\": [..]} per line; prints one result per line");
    flags.Add("keep-special-tokens", &keep_special_tokens_, "keep special tokens such as BOS in the text");
    tokenizer_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    if (ids_file_.has_value() + jsonl_.has_value() != 1) {
      return UsageError("Give exactly one of --token-ids-file=PATH and --jsonl=PATH.");
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<TextCoder> coder, OpenTextCoder(model_, tokenizer_, global, console));
    auto print = [&](const std::vector<int32_t>& ids) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string text, coder->Decode(ids, keep_special_tokens_));
      if (console.format != Format::kText) return PrintJson(console, {{"text", text}});
      console.out << text;
      // The bytes of the text and nothing else, except a newline on a terminal or between lines.
      if (jsonl_.has_value() || console.out_is_terminal) console.out << "\n";
      return absl::OkStatus();
    };
    if (ids_file_.has_value()) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadTokenIds(*ids_file_));
      return DoneOr(print(ids));
    }
    RETURN_IF_ERROR(ForEachJsonLine(*jsonl_, [&](const Json& line) -> absl::Status {
      if (!line.contains("token_ids")) return InvalidArgument("\"token_ids\" is missing.");
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, TokenIdsOfJson(line.at("token_ids")));
      return print(ids);
    }));
    return ExitCode::kDone;
  }

 private:
  std::string model_;
  TokenizerFlags tokenizer_;
  std::optional<std::string> ids_file_, jsonl_;
  bool keep_special_tokens_ = false;
};

}  // namespace

constinit const Verb kDetokenizeVerb = {
    .name = "detokenize",
    .group = "Models",
    .summary = "token ids to text",
    .about =
        R"(Decodes ids with the model's tokenizer. Invalid UTF-8 becomes U+FFFD, so the text is always UTF-8. As text, the
output is the text's bytes and nothing else. JSON output: {"text": ".."}.)",
    .examples =
        "echo '[5, 17, 9]' | varifocal detokenize --model=models/baseline --token-ids-file=-\n"
        "varifocal detokenize --model=models/baseline --jsonl=ids.jsonl --format=jsonl --keep-special-tokens",
    .make = &Make<Detokenize>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
