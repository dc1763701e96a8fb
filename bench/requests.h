// Shared helpers of the engine benchmarks: requests with synthetic ids, and running many at once.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "server/engine/engine.h"

namespace varifocal {

inline std::vector<int32_t> BenchIds(const std::string& name, int64_t count, int64_t vocabulary_size) {
  Random random(name);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = random.Below(vocabulary_size);
  return ids;
}

// A different question after each context.
inline std::vector<EngineRequest> BenchQuestions(const std::vector<std::vector<int32_t>>& contexts,
                                                 int64_t question_tokens, int64_t vocabulary_size, int64_t new_tokens) {
  std::vector<EngineRequest> requests;
  for (size_t i = 0; i < contexts.size(); ++i) {
    EngineRequest request;
    request.token_ids = contexts[i];
    const std::vector<int32_t> question = BenchIds("question " + std::to_string(i), question_tokens, vocabulary_size);
    request.token_ids.insert(request.token_ids.end(), question.begin(), question.end());
    request.work = GenerateWork{.max_new_tokens = new_tokens, .ignore_eos = true};
    requests.push_back(std::move(request));
  }
  return requests;
}

struct BenchAnswers {
  double seconds = 0;
  std::vector<EngineResult> results;
};

// All at once; an error terminates the program with its message.
inline BenchAnswers RunAll(Engine& engine, const std::vector<EngineRequest>& requests) {
  BenchAnswers answers;
  answers.results.resize(requests.size());
  struct {
    Mutex mutex;
    CondVar done;
    size_t left VF_GUARDED_BY(mutex);
  } calls = {.left = requests.size()};
  const auto fail = [](const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  };
  const int64_t begin_us = Clock::Real().MonotonicMicros();
  for (size_t i = 0; i < requests.size(); ++i) {
    auto handle = engine.Start(requests[i], {.on_done = [&, i](absl::StatusOr<EngineResult> result) {
                                 MutexLock lock(calls.mutex);
                                 if (!result.ok()) fail(result.status());
                                 answers.results[i] = *std::move(result);
                                 if (--calls.left == 0) calls.done.NotifyAll();
                               }});
    if (!handle.ok()) fail(handle.status());
  }
  MutexLock lock(calls.mutex);
  calls.done.Wait(calls.mutex, [&]() VF_REQUIRES(calls.mutex) { return calls.left == 0; });
  answers.seconds = 1e-6 * (Clock::Real().MonotonicMicros() - begin_us);
  return answers;
}

}  // namespace varifocal
