// varifocal score: log-likelihoods of a text, or of continuations after a prompt.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/model_session.h"
#include "client/rows.h"
#include "client/verb.h"

namespace varifocal::client {
namespace {

Json Numbers(const google::protobuf::RepeatedField<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(value);
  return list;
}

// Tokens of a text at positions from 2^k to 2^(k+1) - 1; the first token, at 0, has no probability.
struct PositionRange {
  int64_t first = 1, last = 1;
  int64_t token_count = 0;
  double log_likelihood_per_token = 0;
};

std::vector<PositionRange> ByPosition(const google::protobuf::RepeatedField<double>& log_probs) {
  std::vector<PositionRange> ranges;
  for (int64_t first = 1; first <= log_probs.size(); first *= 2) {
    PositionRange range{.first = first, .last = std::min<int64_t>(2 * first - 1, log_probs.size())};
    range.token_count = range.last - range.first + 1;
    double sum = 0;
    for (int64_t position = range.first; position <= range.last; ++position) sum += log_probs.Get(position - 1);
    range.log_likelihood_per_token = sum / range.token_count;
    ranges.push_back(range);
  }
  return ranges;
}

class Score : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    model_.AddTo(flags);
    prompt_.AddTo(flags);
    flags.Add("continuation-file", &continuation_files_, "PATH",
              "score this after the prompt: text, or ids where the prompt is ids; may be repeated");
    flags.Add("continuation", &continuations_, "TEXT",
              "the same, given here; may be repeated, and comes after the files");
    flags.Add("per-token", &per_token_, "also the log-probability of every token");
    flags.Add("by-position", &by_position_, "also the mean log-probability of a text's tokens by their position");
    model_.engine.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    v1::ComputeLogLikelihoodsRequest request;
    RETURN_IF_ERROR(FillIn(&request));
    ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(model_, global));
    request.set_model(session->model());
    ASSIGN_OR_RETURN(v1::ComputeLogLikelihoodsResponse response, Ask(*session, request));
    const v1::ComputeLogLikelihoodsResponse* text = &response;
    v1::ComputeLogLikelihoodsResponse prompt_response;
    if (per_token_ && request.continuations_size() > 0) {  // scoring the prompt's own tokens is a separate request
      request.clear_continuations();
      request.clear_chat();  // the ids are wrapped already
      // As split: trailing spaces that moved to the continuations no longer belong to the prompt.
      *request.mutable_prompt_token_ids()->mutable_ids() = response.token_ids();
      ASSIGN_OR_RETURN(prompt_response, Ask(*session, request));
      text = &prompt_response;
    }
    PrintNotes(response.extrapolated(), response.notes(), response.invalid_utf8_count(), console);
    const bool has_text = per_token_ || response.continuations_size() == 0;
    if (console.format == Format::kText) {
      PrintForPeople(response, has_text ? text : nullptr, console);
      return ExitCode::kDone;
    }
    return DoneOr(PrintJson(console, ToJson(response, has_text ? text : nullptr)));
  }

 private:
  static absl::StatusOr<v1::ComputeLogLikelihoodsResponse> Ask(ModelSession& session,
                                                               const v1::ComputeLogLikelihoodsRequest& request) {
    grpc::ClientContext context;  // no deadline: a long text on a slow machine may take minutes
    v1::ComputeLogLikelihoodsResponse response;
    RETURN_IF_ERROR(FromGrpc(session.daemon().inference().ComputeLogLikelihoods(&context, request, &response)));
    return response;
  }

  absl::Status FillIn(v1::ComputeLogLikelihoodsRequest* request) const {
    RETURN_IF_ERROR(prompt_.FillIn(request));
    for (const std::string& path : continuation_files_) {
      v1::Continuation& continuation = *request->add_continuations();
      if (prompt_.IsText()) {
        ASSIGN_OR_RETURN(*continuation.mutable_text(), ReadWholeFile(path));
        if (continuation.text().empty()) return InvalidArgument(path, " is empty; there is nothing to score.");
      } else {
        ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ReadTokenIds(path));
        if (ids.empty()) return InvalidArgument(path, " has no ids; there is nothing to score.");
        continuation.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
      }
    }
    for (const std::string& text : continuations_) {
      if (!prompt_.IsText()) {
        return UsageError("--continuation is text, but the prompt is token ids; use --continuation-file.");
      }
      if (text.empty()) return UsageError("--continuation is empty; there is nothing to score.");
      request->add_continuations()->set_text(text);
    }
    if (by_position_ && request->continuations_size() > 0) {
      return UsageError("--by-position is of a text, and there are continuations; leave them out.");
    }
    request->set_per_token(per_token_ || by_position_);
    return model_.SetAttention(request);
  }

  std::vector<PositionRange> Positions(const v1::ComputeLogLikelihoodsResponse* text) const {
    return by_position_ && text != nullptr ? ByPosition(text->token_log_probs()) : std::vector<PositionRange>();
  }

  // `text` has the prompt's own likelihoods; unset if they were not requested.
  Json ToJson(const v1::ComputeLogLikelihoodsResponse& response, const v1::ComputeLogLikelihoodsResponse* text) const {
    Json object = {{"token_ids", std::vector<int32_t>(response.token_ids().begin(), response.token_ids().end())},
                   {"continuations", Json::array()}};
    if (text != nullptr) object["log_likelihood"] = text->log_likelihood();
    if (response.invalid_utf8_count() > 0) object["invalid_utf8_count"] = response.invalid_utf8_count();
    if (text != nullptr && per_token_) {
      Json log_probs = Numbers(text->token_log_probs());
      log_probs.insert(log_probs.begin(), nullptr);  // the first token has no context
      object["token_log_probs"] = std::move(log_probs);
    }
    for (const PositionRange& range : Positions(text)) {
      object["positions"].push_back({{"first", range.first},
                                     {"last", range.last},
                                     {"token_count", range.token_count},
                                     {"log_likelihood_per_token", range.log_likelihood_per_token}});
    }
    for (const v1::ContinuationLogLikelihood& continuation : response.continuations()) {
      Json row = {{"log_likelihood", continuation.log_likelihood()},
                  {"token_count", continuation.token_count()},
                  {"is_greedy", continuation.is_greedy()}};
      if (per_token_) {
        row["token_ids"] = std::vector<int32_t>(continuation.token_ids().begin(), continuation.token_ids().end());
        row["token_log_probs"] = Numbers(continuation.token_log_probs());
      }
      object["continuations"].push_back(std::move(row));
    }
    return object;
  }

  void PrintForPeople(const v1::ComputeLogLikelihoodsResponse& response, const v1::ComputeLogLikelihoodsResponse* text,
                      Console& console) const {
    if (text != nullptr) {
      const int scored = std::max(0, text->token_ids_size() - 1);
      console.out << absl::StrFormat("log-likelihood %.6f over %d %s", text->log_likelihood(), scored,
                                     Plural(scored, "token", "tokens"));
      if (scored > 0) console.out << absl::StrFormat(", %.6f each", text->log_likelihood() / scored);
      console.out << "\n";
      for (int i = 0; per_token_ && i < text->token_log_probs_size(); ++i) {
        console.out << absl::StrFormat("%8d %12.6f\n", text->token_ids(i + 1), text->token_log_probs(i));
      }
    }
    std::vector<std::vector<std::string>> cells;
    for (const PositionRange& range : Positions(text)) {
      cells.push_back({absl::StrCat(range.first, " to ", range.last), absl::StrCat(range.token_count),
                       absl::StrFormat("%.6f", range.log_likelihood_per_token),
                       absl::StrFormat("%.4g", std::exp(-range.log_likelihood_per_token))});
    }
    if (!cells.empty()) {
      console.out << AlignedTable(console, {"positions", "tokens", "log-likelihood each", "perplexity"},
                                  {false, true, true, true}, cells);
    }
    cells.clear();
    for (int i = 0; i < response.continuations_size(); ++i) {
      const v1::ContinuationLogLikelihood& row = response.continuations(i);
      cells.push_back({absl::StrCat(i + 1), absl::StrFormat("%.6f", row.log_likelihood()),
                       absl::StrCat(row.token_count()), row.is_greedy() ? "yes" : ""});
    }
    if (!cells.empty()) {
      console.out << AlignedTable(console, {"continuation", "log-likelihood", "tokens", "greedy"},
                                  {true, true, true, false}, cells);
    }
  }

  ModelFlags model_;
  PromptFlags prompt_;
  std::vector<std::string> continuation_files_, continuations_;
  bool per_token_ = false, by_position_ = false;
};

}  // namespace

constinit const Verb kScoreVerb = {
    .name = "score",
    .group = "Models",
    .summary = "log-likelihoods of a text, or of continuations after a prompt",
    .about =
        R"(Without a continuation: natural logarithms of the probability of each token of the text given all before it, and
their sum. With continuations: of each of them after the prompt, which is run once. Prompt and continuation are
split as lm-evaluation-harness does: trailing spaces of the prompt move to the continuation, both are encoded
together, and split at the length of the prompt alone. JSON output: {"token_ids", "token_log_probs": [null, ..]
(with --per-token), "log_likelihood", "continuations": [{"log_likelihood", "token_count", "is_greedy"}]}, and
"invalid_utf8_count" when bytes of the texts were not UTF-8. With --chat no spaces are moved: continuations
follow the format's own text. With --by-position also "positions": [{"first", "last", "token_count",
"log_likelihood_per_token"}]: of a text's tokens at positions 1, 2 to 3, 4 to 7 and so on; the first token is at 0.)",
    .examples =
        "varifocal score --model=models/baseline --prompt-file=text.txt --per-token --format=json\n"
        "varifocal score --model=models/baseline --prompt-file=book.txt --by-position\n"
        "varifocal score --model=models/baseline --prompt='The door is' --continuation=' red' --continuation=' blue'",
    .make = &Make<Score>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
