// varifocal generate: new tokens after a prompt.
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/model_session.h"
#include "client/progress.h"
#include "client/rows.h"
#include "client/sampling_flags.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

class Generate : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    model_.AddTo(flags);
    prompt_.AddTo(flags);
    flags.Add("max-new-tokens", &max_new_tokens_, "N", "at most so many").Required().AtLeast(1).AtMost(1 << 20);
    flags.Add("ignore-eos", &ignore_eos_, "continue after an end-of-text token");
    flags.Add("stop", &stop_, "STRING", "end before this; may be repeated");
    sampling_.AddTo(flags);
    flags.Add("seed", &seed_, "N", "of the sampler; a draw depends on (seed, position) alone");
    model_.engine.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::GenerateRequest request;
    RETURN_IF_ERROR(FillIn(&request));
    ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(model_, global));
    request.set_model(session->model());
    grpc::ClientContext context;  // no deadline: a long prompt on a slow machine may take minutes
    const auto reader = session->daemon().inference().Generate(&context, request);
    Progress progress(console, "new tokens");
    v1::GenerateResponse response;
    v1::GenerationResult result;
    bool has_result = false;
    int64_t new_token_count = 0;
    while (reader->Read(&response)) {
      if (response.has_result()) {
        result = response.result();
        has_result = true;
      } else {
        new_token_count += response.new_tokens().ids_size();
        progress.Update({.done_count = new_token_count, .total_count = max_new_tokens_});
      }
    }
    progress.Clear();
    RETURN_IF_ERROR(FromGrpc(reader->Finish()));
    if (!has_result) return Internal("The daemon ended the stream without a result.");
    PrintNotes(result.extrapolated(), result.notes(), result.invalid_utf8_count(), console);
    if (console.format == Format::kText) {
      PrintForPeople(result, console);
      return ExitCode::kDone;
    }
    Json object = {{"prompt_token_count", result.prompt_token_count()},
                   {"token_ids", std::vector<int32_t>(result.token_ids().begin(), result.token_ids().end())},
                   {"text", result.text()},
                   {"finish_reason", FinishName(result)}};
    if (result.invalid_utf8_count() > 0) object["invalid_utf8_count"] = result.invalid_utf8_count();
    return DoneOr(PrintJson(console, object));
  }

 private:
  absl::Status FillIn(v1::GenerateRequest* request) const {
    RETURN_IF_ERROR(prompt_.FillIn(request));
    request->set_max_new_tokens(max_new_tokens_);
    v1::DecodeSettings& settings = *request->mutable_decode_settings();
    ASSIGN_OR_RETURN(const DecodeSettings decode, sampling_.Read());
    if (decode.sampling_temperature) settings.set_sampling_temperature(*decode.sampling_temperature);
    if (decode.top_k) settings.set_top_k(*decode.top_k);
    if (decode.top_p) settings.set_top_p(*decode.top_p);
    if (decode.min_p) settings.set_min_p(*decode.min_p);
    if (seed_.has_value()) settings.set_seed(*seed_);
    if (ignore_eos_) settings.set_ignore_eos(true);
    for (const std::string& stop : stop_) {
      if (stop.empty()) return UsageError("--stop is empty; every text contains that at once.");
      settings.add_stop(stop);
    }
    return model_.SetAttention(request);
  }

  static std::string FinishName(const v1::GenerationResult& result) {
    return absl::AsciiStrToLower(v1::GenerationResult::FinishReason_Name(result.finish_reason()));
  }

  static void PrintForPeople(const v1::GenerationResult& result, Console& console) {
    if (result.text().empty() && result.token_ids_size() > 0) {  // no tokenizer, or special tokens only
      console.out << absl::StrJoin(result.token_ids(), " ");
    } else {
      console.out << result.text();
    }
    if (console.out_is_terminal) console.out << "\n";
    console.out.flush();
    console.err << absl::StrFormat("%d prompt %s (%d reused) in %.2f s, %d new %s in %.2f s, ended by %s\n",
                                   result.prompt_token_count(), Plural(result.prompt_token_count(), "token", "tokens"),
                                   result.cached_token_count(), result.prefill_us() * 1e-6, result.token_ids_size(),
                                   Plural(result.token_ids_size(), "one", "ones"), result.decode_us() * 1e-6,
                                   FinishName(result));
  }

  ModelFlags model_;
  PromptFlags prompt_;
  int64_t max_new_tokens_ = 0;
  bool ignore_eos_ = false;
  std::vector<std::string> stop_;
  SamplingFlags sampling_;
  std::optional<int64_t> seed_;
};

}  // namespace

constinit const Verb kGenerateVerb = {
    .name = "generate",
    .group = "Models",
    .summary = "new tokens after a prompt",
    .about =
        R"(Runs a checkpoint directory in this process, or a daemon's model with --daemon. Greedy unless a sampling
temperature is given; the same request gives the same tokens, whatever else the engine computes. A prompt that does
not fit is an error and never truncated. As text, the output is only the new text; a line of counts is printed to
standard error. JSON output: {"prompt_token_count", "token_ids" (new ones, the end-of-text id that stopped it
included), "text", "finish_reason": "eos|length|stop|cancelled"}, and "invalid_utf8_count" when bytes of
the prompt were not UTF-8.)",
    .examples =
        "varifocal generate --model=models/baseline --prompt-file=prompt.txt --max-new-tokens=8 --stop='\"'\n"
        "varifocal generate --model=models/baseline --focal-temperature=0.7 --prompt='A text' --max-new-tokens=16\n"
        "varifocal generate --model=DIR --chat --system='Answer in one word.' --prompt='Is ice cold?' "
        "--max-new-tokens=8\n"
        "varifocal generate --daemon=127.0.0.1:50151 --model=focal --token-ids-file=ids.json --max-new-tokens=8 "
        "--format=json",
    .make = &Make<Generate>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
