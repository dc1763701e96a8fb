// The cost of a job: operations and bytes of a prompt, and a simulation of a coordinator with many workers (docs/scale.md).
//
// What is measured is in ScaleInputs (bench/scale_inputs.json). What is assumed, because it has not been measured, is in
// GpuAssumption. Seconds, bytes, tokens.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varifocal {

struct ModelShape {
  double parameter_count = 0;  // of matrix products: all but the embedding table, if that is not the last layer, too
  double layers = 0, heads = 0, kv_heads = 0, head_width = 0;
  double bytes_per_value = 2;

  double WeightBytes() const { return parameter_count * bytes_per_value; }
  double KvBytes(double tokens) const { return 2 * layers * kv_heads * head_width * bytes_per_value * tokens; }
};

// Of `new_tokens` rows behind `cached_tokens`.
struct PrefillFlops {
  double products = 0;   // 2 per parameter and row
  double attention = 0;  // 4 per head, width, layer and visible pair
};
PrefillFlops FlopsOf(const ModelShape& shape, double cached_tokens, double new_tokens);

// Measured on the machine of the document.
struct ScaleInputs {
  double runner_seconds = 0;            // CPU time of the coordinator of an answer, its rows included
  double runner_seconds_per_token = 0;  // and of a token of its prompt
  double commit_seconds = 0;            // a durable transaction, without its rows
  double round_trip_seconds = 0;        // between coordinator and worker
};

struct GpuAssumption {
  double product_flops = 0, attention_flops = 0;  // per second, as reached
  double bytes_per_second = 0;                    // of memory, as reached
  double memory_bytes = 0;
};

struct ScaleJob {
  int64_t answer_count = 0;
  int variant_count = 2, questions_per_context = 4;
  std::vector<double> lengths;  // prompt tokens, in equal parts
  double question_tokens = 64;  // of a prompt behind its context
  double new_tokens = 32;
};

struct ScaleSetup {
  int gpu_count = 1;
  int in_flight = 64;  // of the job
  int in_flight_per_worker = 8;
  std::string seed = "1";
};

struct ScaleResult {
  double seconds = 0;
  double answers_per_second = 0;
  double gpu_share = 0, runner_share = 0, commit_share = 0;  // of the time in which each is busy
  double full_share = 0;                                     // of the time in which `in_flight` is reached
  int64_t answer_count = 0;
  double answers_per_commit = 0;
  std::string limit;  // "GPUs", "coordinator", "database" or "queue"
};

// Seconds that a GPU is busy with one answer while `concurrent` requests share its decode steps.
double ServiceSeconds(const ModelShape& shape, const GpuAssumption& gpu, const ScaleJob& job, double length,
                      bool is_first_of_context, int concurrent);

// One coordinator. Events: the job thread builds a context's prompts, starts requests, commits what has ended; a worker runs its
// requests one after the other. Service times vary by up to 10 % from the seed.
ScaleResult Simulate(const ModelShape& shape, const GpuAssumption& gpu, const ScaleJob& job, const ScaleInputs& inputs,
                     const ScaleSetup& setup);

}  // namespace varifocal
