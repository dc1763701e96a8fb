// varifocal judge: a model scores the stored answers of a job.
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/plural.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/judge_prompt.h"
#include "client/model_session.h"
#include "client/progress.h"
#include "client/rows.h"
#include "client/stored_answers.h"
#include "client/verb.h"
#include "db/stats/agreement.h"

namespace varifocal::client {
namespace {

constexpr int kRequestsAtOnce = 8;

// An answer and what the judge is asked about it.
struct Case {
  Json identity;
  std::string cluster;
  std::string text;             // the prompt
  std::string key;              // of equal requests to equal judges
  std::optional<double> other;  // the score of the metric of --against
};

// The judge's answer to the request of one key.
struct Verdict {
  double score = 0;
  std::string reply;
};

// What identifies the answer of a line of --out.
std::string AnswerOf(const Json& line) {
  Json answer = Json::array();
  for (const char* key : {"token_ids_sha256", "variant", "task", "context_length", "sample_index"}) {
    answer.push_back(line.contains(key) ? line[key] : Json());
  }
  return answer.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Removes what a killed call left of its last line.
absl::Status DropBrokenLine(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::OkStatus();  // there is none
  const int64_t size = file.tellg();
  int64_t end = size;
  for (char last = 0; end > 0; --end) {
    file.seekg(end - 1);
    if (!file.get(last) || last == '\n') break;
  }
  std::error_code error;
  if (end != size) std::filesystem::resize_file(path, end, error);
  return error ? PermissionDenied("cannot write ", path, ".") : absl::OkStatus();
}

class JudgeStored : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    answers_.AddTo(flags);
    flags
        .Add("judge", &model_.model, "DIR",
             "checkpoint directory, served in this process; with --daemon: the model's name there")
        .Required();
    flags.Add("prompt", &prompt_path_, "PATH", "a YAML file: how an answer is shown and scored").Required();
    flags.Add("out", &answers_.out, "PATH", "every verdict, a line each; those that it has already are not asked again")
        .Required();
    flags.Add("against", &against_, "METRIC", "also the agreement with this metric of the same answers");
    model_.engine.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    ASSIGN_OR_RETURN(prompt_, ReadJudgePrompt(prompt_path_));
    ASSIGN_OR_RETURN(const int64_t job_id, ReadCases());
    ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(model_, global));
    v1::GetModelRequest request;
    request.set_name(session->model());
    ASSIGN_OR_RETURN(const v1::Model judge,
                     Call(session->daemon().inference(), &v1::Inference::Stub::GetModel, request));
    RETURN_IF_ERROR(SetKeys(judge.function_sha256() + judge.weights_sha256() + judge.tokenizer_sha256()));
    std::map<std::string, Verdict> verdicts;
    RETURN_IF_ERROR(ReadVerdicts(verdicts));
    RETURN_IF_ERROR(Ask(*session, verdicts, console));  // verdicts before an error are in the file
    int64_t scored_count = 0;
    for (const Case& one : cases_) scored_count += verdicts.count(one.key) > 0;
    if (scored_count == 0) return NotFound("the judge scored no answer; ", first_problem_, ".");
    RETURN_IF_ERROR(
        StoreScores(answers_, job_id, absl::StrCat(session->model(), " by ", prompt_path_), global, console));
    if (!against_.empty()) RETURN_IF_ERROR(PrintAgreement(verdicts, console));
    const int64_t missing_count = std::ssize(cases_) - scored_count;
    if (missing_count == 0) return ExitCode::kDone;
    console.err << "varifocal: " << missing_count << Plural(missing_count, " answer has", " answers have")
                << " no score from the judge; the first: " << first_problem_ << ".\n";
    return ExitCode::kFailed;
  }

 private:
  absl::StatusOr<int64_t> ReadCases() {
    bool has_against = against_.empty();
    ASSIGN_OR_RETURN(const int64_t job_id, EachStoredAnswer(answers_, [&](const StoredAnswer& answer) -> absl::Status {
                       Case one;
                       one.identity = answer.Identity();
                       one.cluster = answer.detail.sample.cluster;
                       ASSIGN_OR_RETURN(one.text, prompt_.Render(answer));
                       for (const db::ScoreRecord& score : answer.detail.scores) {
                         if (score.metric == against_) one.other = score.value;
                       }
                       has_against = has_against || one.other.has_value();
                       cases_.push_back(std::move(one));
                       return absl::OkStatus();
                     }));
    if (!has_against) return NotFound("no answer to judge has the metric ", against_, ".");
    return job_id;
  }

  absl::Status SetKeys(const std::string& judge_identity) {
    for (Case& one : cases_) {
      Json asked = {judge_identity, one.text, prompt_.is_chat, prompt_.name};
      for (const auto& [text, score] : prompt_.choices) asked.push_back({text, score});
      if (prompt_.grade != nullptr) {
        asked.push_back({prompt_.pattern, prompt_.worst_grade, prompt_.best_grade, prompt_.max_new_tokens});
      }
      ASSIGN_OR_RETURN(const std::string text, DumpJson(asked));
      one.key = Sha256Hex(text);
    }
    return absl::OkStatus();
  }

  // Verdicts of an earlier call. The file of another prompt or judge is refused, as its scores would be imported too.
  absl::Status ReadVerdicts(std::map<std::string, Verdict>& verdicts) {
    RETURN_IF_ERROR(DropBrokenLine(answers_.out));
    if (!std::ifstream(answers_.out).good()) return absl::OkStatus();
    std::set<std::string> keys;
    for (const Case& one : cases_) keys.insert(one.key);
    return ForEachJsonLine(answers_.out, [&](const Json& line) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string key, GetString(line, "key"));
      if (keys.count(key) == 0) {
        return FailedPrecondition("the verdict is of another judge, prompt or answer; give another --out.");
      }
      if (!line.contains("scores")) return InvalidArgument("there are no \"scores\"");
      Verdict& verdict = verdicts[key];
      ASSIGN_OR_RETURN(verdict.score, GetDouble(line["scores"], prompt_.name));
      ASSIGN_OR_RETURN(verdict.reply, GetString(line, "reply"));
      written_.insert(AnswerOf(line));
      return absl::OkStatus();
    });
  }

  void WriteLine(const Case& one, const Verdict& verdict, const std::string& judge, std::ostream& out) const {
    Json line = one.identity;
    line["scores"] = {{prompt_.name, verdict.score}};
    line["key"] = one.key;
    line["judge"] = judge;
    line["reply"] = verdict.reply;
    out << line.dump(-1, ' ', true, Json::error_handler_t::replace) << "\n" << std::flush;
  }

  // Asks each key that has no verdict, and writes a line for each answer that has none.
  absl::Status Ask(ModelSession& session, std::map<std::string, Verdict>& verdicts, Console& console) {
    std::map<std::string, std::vector<const Case*>> open;
    std::ofstream out(answers_.out, std::ios::binary | std::ios::app);
    const absl::Status unwritable = ResourceExhausted("cannot write ", answers_.out, ".");
    if (!out) return unwritable;
    for (const Case& one : cases_) {
      const auto known = verdicts.find(one.key);
      if (known == verdicts.end()) {
        open[one.key].push_back(&one);
      } else if (written_.count(AnswerOf(one.identity)) == 0) {
        WriteLine(one, known->second, session.model(), out);
      }
    }
    Progress progress(console, "answers judged");
    State state;
    {
      const MutexLock lock(state.mutex);
      state.next = open.begin();
    }
    const auto work = [&] {
      for (;;) {
        decltype(open)::iterator mine;
        {
          const MutexLock lock(state.mutex);
          if (state.next == open.end() || !state.error.ok()) return;
          mine = state.next++;
        }
        const absl::StatusOr<Verdict> verdict = AskOne(session, mine->second[0]->text);
        const MutexLock lock(state.mutex);
        ++state.done_count;
        if (!verdict.ok()) {
          if (!absl::IsInvalidArgument(verdict.status()) && state.error.ok()) state.error = verdict.status();
          if (first_problem_.empty()) first_problem_ = std::string(verdict.status().message());
          continue;
        }
        for (const Case* one : mine->second) WriteLine(*one, *verdict, session.model(), out);
        if (!out && state.error.ok()) state.error = unwritable;
        verdicts[mine->first] = *verdict;
        progress.Update({.done_count = state.done_count, .total_count = std::ssize(open)});
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kRequestsAtOnce; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    progress.Clear();
    if (!out) return unwritable;
    const MutexLock lock(state.mutex);
    return state.error;
  }

  absl::StatusOr<Verdict> AskOne(ModelSession& session, const std::string& text) const {
    if (prompt_.grade != nullptr) {
      v1::GenerateRequest request;
      request.set_model(session.model());
      request.set_prompt_text(text);
      if (prompt_.is_chat) request.mutable_chat();
      request.set_max_new_tokens(prompt_.max_new_tokens);
      grpc::ClientContext context;  // no deadline: a long prompt on a slow machine may take minutes
      const auto reader = session.daemon().inference().Generate(&context, request);
      v1::GenerateResponse response;
      Verdict verdict;
      while (reader->Read(&response)) {
        if (response.has_result()) verdict.reply = response.result().text();
      }
      RETURN_IF_ERROR(FromGrpc(reader->Finish()));
      ASSIGN_OR_RETURN(verdict.score, prompt_.ScoreOf(verdict.reply));
      return verdict;
    }
    v1::ComputeLogLikelihoodsRequest request;
    request.set_model(session.model());
    request.set_prompt_text(text);
    if (prompt_.is_chat) request.mutable_chat();
    for (const auto& [choice, score] : prompt_.choices) request.add_continuations()->set_text(choice);
    grpc::ClientContext context;
    v1::ComputeLogLikelihoodsResponse response;
    RETURN_IF_ERROR(FromGrpc(session.daemon().inference().ComputeLogLikelihoods(&context, request, &response)));
    if (response.continuations_size() != std::ssize(prompt_.choices)) {
      return Internal("The daemon did not score every choice.");
    }
    int best = 0;
    for (int i = 1; i < response.continuations_size(); ++i) {
      if (response.continuations(i).log_likelihood() > response.continuations(best).log_likelihood()) best = i;
    }
    return Verdict{prompt_.choices[best].second, prompt_.choices[best].first};
  }

  absl::Status PrintAgreement(const std::map<std::string, Verdict>& verdicts, Console& console) const {
    std::vector<stats::RatedAnswer> rated;
    for (const Case& one : cases_) {
      const auto verdict = verdicts.find(one.key);
      if (verdict == verdicts.end() || !one.other.has_value()) continue;
      rated.push_back({one.cluster, verdict->second.score, *one.other});
    }
    if (rated.empty()) return NotFound("no judged answer has the metric ", against_, ".");
    const stats::Agreement agreement = stats::AgreementOf(rated);
    if (console.format != Format::kText) {
      Json object = {{"against", against_},
                     {"answer_count", agreement.answer_count},
                     {"cluster_count", agreement.cluster_count},
                     {"equal_share", agreement.equal_share},
                     {"kappa", nullptr},
                     {"kappa_lower", nullptr},
                     {"kappa_upper", nullptr}};
      if (agreement.kappa.has_value()) object["kappa"] = *agreement.kappa;
      if (agreement.lower.has_value()) object["kappa_lower"] = *agreement.lower;
      if (agreement.upper.has_value()) object["kappa_upper"] = *agreement.upper;
      return PrintJson(console, object);
    }
    console.out << "agreement with " << against_ << ": ";
    if (!agreement.kappa.has_value()) {
      console.out << "no kappa, as neither score varies";
    } else {
      console.out << absl::StrFormat("kappa %.3f", *agreement.kappa);
      if (agreement.lower.has_value())
        console.out << absl::StrFormat(" [%.3f, %.3f]", *agreement.lower, *agreement.upper);
    }
    console.out << absl::StrFormat(", %.1f %% of %d answers in %d %s equal\n", 100 * agreement.equal_share,
                                   agreement.answer_count, agreement.cluster_count,
                                   Plural(agreement.cluster_count, "context", "contexts"));
    return absl::OkStatus();
  }

  // Shared by the threads that ask.
  struct State {
    Mutex mutex;
    std::map<std::string, std::vector<const Case*>>::iterator next VF_GUARDED_BY(mutex);
    int64_t done_count VF_GUARDED_BY(mutex) = 0;
    absl::Status error VF_GUARDED_BY(mutex);
  };

  StoredAnswerFlags answers_;
  ModelFlags model_;
  std::string prompt_path_, against_;
  JudgePrompt prompt_;
  std::vector<Case> cases_;
  std::set<std::string> written_;  // answers that have a line
  std::string first_problem_;
};

}  // namespace

constinit const Verb kJudgeVerb = {
    .name = "judge",
    .group = "Results",
    .summary = "let a model score the stored answers of a job",
    .about =
        R"(The prompt file is YAML: `name` (the scores become the metric imported/NAME), `prompt` with the slots {answer}, {gold},
{golds}, {task}, {excerpt}, {prompt}, and either `choices`, texts with scores of which the most likely one decides, or
`grade`, a regular expression whose last match in the reply has the grade, with `range: [worst, best]` and
`max_new_tokens`. `chat: true` wraps the prompt in the judge's chat format. Replies are greedy.
Every verdict is a line of --out at once: {"token_ids_sha256", "variant", "task", "context_length", "sample_index",
"scores", "key", "judge", "reply"}. The key is of the answer, the prompt and the judge's weights: the same call goes on
where an earlier one ended. A reply without a grade is no score; the exit code is then 1, and the others are stored.
With --against=METRIC: kappa with quadratic weights between the judge and that metric, its 95 % interval over contexts.)",
    .examples =
        "varifocal judge --db=results.db --judge=models/baseline --prompt=judge.yaml --out=verdicts.jsonl\n"
        "varifocal judge --db=r.db --judge=big --daemon=host:50151 --prompt=judge.yaml --out=v.jsonl --against=imported/gpt-4\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=focal --metric=imported/correct",
    .make = &Make<JudgeStored>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
