// Speedup by prefix reuse: questions on one context against the same number of separate contexts, in one run.
//
//   prefix_bench [MODEL_DIRECTORY=models/baseline] [CONTEXT_TOKENS=16384] [QUESTIONS=4] [SHORT_QUESTIONS=1000]
//                [BATCH=16] [NEW_TOKENS=8]
//
// Every question is 48 tokens after the context and generates NEW_TOKENS. Median of three alternating rounds (shared,
// separate, shared, ...); then, once, many short questions of 32 tokens on one cached context, against the time of one
// of them cold; and 64 continuations of 8 tokens in one request against one by one. Answers of shared and unshared runs
// are compared bit for bit.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "bench/requests.h"
#include "server/engine/engine.h"

namespace varifocal {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(const std::string& directory, int64_t context_tokens, int64_t question_count, int64_t short_count,
         int64_t batch_size, int64_t new_tokens) {
  auto model = LoadModel(directory, {});
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  const int64_t vocabulary_size = (*model)->config().vocabulary_size;
  // Cache for all contexts of a round at once.
  const int64_t pages = (question_count + 1) * (context_tokens + 256) / 128 + 64;
  EngineOptions options;
  options.kv_cache_bytes = pages * (*model)->provenance().page_bytes;
  options.queue_length_max = 100'000;
  options.batch_size_max = batch_size;
  auto engine = Engine::Create(*model, options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 1;
  }
  const EngineDescription description = (*engine)->Describe();
  absl::PrintF("model %s, %s, %d threads, context %d tokens\n", directory.c_str(), description.model.kernels.c_str(),
               description.model.threads, context_tokens);

  std::vector<std::vector<int32_t>> same, different;
  for (int64_t i = 0; i < question_count; ++i) {
    same.push_back(BenchIds("context", context_tokens, vocabulary_size));
    different.push_back(BenchIds("context " + std::to_string(i), context_tokens, vocabulary_size));
  }
  const auto shared_requests = BenchQuestions(same, 48, vocabulary_size, new_tokens),
             separate_requests = BenchQuestions(different, 48, vocabulary_size, new_tokens);
  auto estimate = (*engine)->Estimate(context_tokens + 48, new_tokens);
  if (estimate.ok()) {
    const double took = RunAll(**engine, {separate_requests[0]}).seconds;
    std::printf("one question alone: estimated %.2f s, took %.2f s\n", estimate->seconds, took);
  }
  std::vector<double> shared_s, separate_s;
  for (int round = 0; round < 3; ++round) {
    (*engine)->DropPrefixCache();
    const BenchAnswers shared = RunAll(**engine, shared_requests);
    (*engine)->DropPrefixCache();
    const BenchAnswers separate = RunAll(**engine, separate_requests);
    shared_s.push_back(shared.seconds);
    separate_s.push_back(separate.seconds);
    if (round > 0) continue;
    (*engine)->DropPrefixCache();
    const BenchAnswers alone = RunAll(**engine, {shared_requests.back()});
    const EngineResult &a = alone.results[0], &b = shared.results.back();
    const bool equal = a.new_token_ids == b.new_token_ids && a.new_token_log_probs == b.new_token_log_probs;
    absl::PrintF("answers with and without sharing: %s (%d of %d prompt tokens were shared)\n",
                 equal ? "equal bit for bit" : "DIFFER", b.cached_token_count, b.prompt_token_count);
    if (!equal) return 1;
  }
  absl::PrintF("%d questions on one context %.2f s, on separate contexts %.2f s: %.2f times faster\n", question_count,
               Median(shared_s), Median(separate_s), Median(separate_s) / Median(shared_s));

  if (short_count > 0) {
    (*engine)->DropPrefixCache();
    const std::vector<std::vector<int32_t>> contexts(short_count, same[0]);
    const auto requests = BenchQuestions(contexts, 32, vocabulary_size, new_tokens);
    const double cold = RunAll(**engine, {requests[0]}).seconds;
    const double warm = RunAll(**engine, requests).seconds / short_count;
    absl::PrintF("%d short questions on a cached context: %.1f ms each, cold %.1f ms: %.1f times faster\n", short_count,
                 1e3 * warm, 1e3 * cold, cold / warm);
    std::vector<EngineRequest> single;
    EngineRequest together = requests[0];
    ScoreContinuationsWork all;
    for (int i = 0; i < 64; ++i) {
      all.continuations.push_back(BenchIds("continuation " + std::to_string(i), 8, vocabulary_size));
      single.push_back(requests[0]);
      single.back().work = ScoreContinuationsWork{{all.continuations.back()}};
    }
    together.work = all;
    double one_by_one = 0, likelihood = 0;
    for (const EngineRequest& request : single) {
      const BenchAnswers timed = RunAll(**engine, {request});
      one_by_one += timed.seconds;
      likelihood += timed.results[0].log_likelihood;
    }
    const BenchAnswers at_once = RunAll(**engine, {together});
    std::printf("64 continuations after it: %.2f s in one request, %.2f s one by one: %.1f times faster, sums %s\n",
                at_once.seconds, one_by_one, one_by_one / at_once.seconds,
                at_once.results[0].log_likelihood == likelihood ? "equal" : "DIFFER");
    if (at_once.results[0].log_likelihood != likelihood) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace varifocal

int main(int argc, char** argv) {
  auto number = [&](int index, long long fallback) { return argc > index ? std::atoll(argv[index]) : fallback; };
  const long long context = number(2, 16384), questions = number(3, 4), short_questions = number(4, 1000);
  const long long batch = number(5, 16), new_tokens = number(6, 8);
  if (context < 1 || questions < 1 || short_questions < 0 || batch < 1 || new_tokens < 1) {
    std::fprintf(stderr,
                 "usage: prefix_bench [MODEL_DIRECTORY] [CONTEXT_TOKENS] [QUESTIONS] [SHORT_QUESTIONS] [BATCH] "
                 "[NEW_TOKENS]\n");
    return 2;
  }
  return varifocal::Main(argc > 1 ? argv[1] : "models/baseline", context, questions, short_questions, batch,
                         new_tokens);
}
