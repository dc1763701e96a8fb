// Test harness of the conformance cases: deterministic inputs, tensors on a backend, and whole attention runs.
//
// Keys and values enter pages only through QkvRopeWrite, so a run feeds rows through a weight with one 1 in each row: q, k and v
// are then exactly the numbers the case chose, on every backend.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace varifocal::kernels {

// An operation of a case succeeds, or the program ends with the place of the call (clang 14 has no std::source_location).
inline void CheckOk(const Error& error, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!error.ok()) CheckFailed(file, line, "ok", error.message.c_str());
}
template <typename T>
T Take(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!result.ok()) CheckOk(result.error(), file, line);
  return std::move(*result);
}

// Ends a check with what a part of it complains of.
#define RETURN_COMPLAINT(...)               \
  do {                                      \
    std::string returned = (__VA_ARGS__);   \
    if (!returned.empty()) return returned; \
  } while (false)

// Half the distance from 1 to the next float: the relative error of one rounding.
inline constexpr double kUnit = 0x1p-24;

// Relative rounding of a product's operand on this backend: 0 in f32; in bf16 2^-8, half the distance from 1 to the next
// number with seven fraction bits.
double OperandUnit(const Backend& backend);
// Relative rounding of an operation's output in operand_dtype(): 0 in f32, 2^-8 in bf16.
double OutputUnit(const Backend& backend);
// The numbers rounded as the backend's products do, so that a case's inputs are exact on every backend.
std::vector<float> ProductInput(const Backend& backend, std::vector<float> data);

// SplitMix64 (Steele, Lea and Flood 2014), as a hash of a seed and a counter.
uint64_t Mix(uint64_t seed, uint64_t counter);
// In [-1, 1), by seed and counter.
float Uniform(uint64_t seed, uint64_t counter);
std::vector<float> UniformVector(uint64_t seed, size_t count, float amplitude = 1.0f);

inline HostMatrix MatrixOf(const std::vector<float>& data, int64_t rows, int64_t columns) {
  return {DType::kF32, data.data(), rows, columns};
}

// Copies between host and backend.
std::unique_ptr<Buffer> Upload(Backend& backend, const std::vector<float>& data);
std::unique_ptr<Buffer> Empty(Backend& backend, size_t floats);
std::vector<float> Download(Backend& backend, Buffer& buffer, size_t floats);
// The same for operands of products and outputs of attention, in the backend's operand_dtype().
std::unique_ptr<Buffer> UploadOperands(Backend& backend, const std::vector<float>& data);
std::unique_ptr<Buffer> EmptyOperands(Backend& backend, size_t count);
std::vector<float> DownloadOperands(Backend& backend, Buffer& buffer, size_t count);
void WriteOperands(Backend& backend, Slice to, const std::vector<float>& data);

// One batch for operations that do not depend on positions: one sequence, in a decode step one a row.
struct PlainStep {
  PlainStep(Backend& backend, StepShape shape, int row_count, Phase phase = Phase::kPrefill);
  std::unique_ptr<Workspace> workspace;

 private:
  std::vector<SequenceRows> sequences_;
};

// Focus in an attention run; group_count 0: none.
struct AttentionGroups {
  int group_count = 0;
  int top_k = 1;
  int window = 0;
  int gather_from = INT32_MAX;  // see GroupTest
  GroupBias bias = GroupBias::kStored;
};

struct AttentionCase {
  std::string name;
  int head_dim = 32;
  int query_heads = 4;
  int kv_heads = 2;
  // Tokens of each sequence that go through prefill, then through decode.
  struct Sequence {
    int prefill = 0;
    int decode = 0;
  };
  std::vector<Sequence> sequences;
  int window = 0;                // 0: causal
  int blind_rows = 0;            // the first rows of every sequence see no key
  double scale = 0;              // 0: 1/sqrt(D)
  bool row_scales = false;       // 1/tau per row, tau in [3, 9), instead
  bool head_scales = false;      // additionally a factor in [0.5, 1) per query head
  float amplitude = 1.0f;        // of q and k
  float soft_cap = 0;            // of scores
  float sink = kNoSink;          // of all heads
  bool head_sinks = false;       // in [-3, 3) per query head, instead
  bool same_first_page = false;  // every sequence begins with the first one's 128 tokens
  AttentionGroups groups = {};
  bool row_keys = false;  // the key layout for attention by groups
  // Each head's q, k and v are independent. Otherwise heads permute the same numbers, which makes the projection, most of a
  // case's time, several times smaller.
  bool independent_heads = false;
};

enum class InspectedRows { kNone, kLastOfPrompt, kMiddleAndLast };  // the last: of every sequence in every step

// How a case is executed; must not change any bit of the result.
struct AttentionWalk {
  std::vector<int> chunks = {};  // rows of a sequence in successive prefill steps, in a cycle; empty: the whole prompt
  bool last_prompt_row_alone = false;  // in a step of its own
  bool one_sequence_at_a_time = false;
  uint64_t page_order_seed = 1;    // which pages of the pool are allocated to a sequence
  bool share_first_page = false;   // with same_first_page: later sequences use the first one's page and start after it
  bool poison_pages = false;       // every page contains NaNs of another sequence
  bool attends_twice = false;      // in a step, as layers do; the first results are dropped
  bool free_window_pages = false;  // pages not visible to this or later rows are freed before the step
  InspectedRows inspect = InspectedRows::kNone;
  bool decode_kernels_for_prompt = false;  // violates the same-bits guarantee, for the control
};

// What InspectAttention returns for one row.
struct InspectedRow {
  int position = 0;
  std::vector<HeadAttention> heads;
  std::vector<double> masses;  // [H, segments]
};

struct AttentionRun {
  // [sequence][position * H * D + ...], [sequence][position * H + h]
  std::vector<std::vector<float>> outs, log_sum_exps;
  std::vector<std::vector<InspectedRow>> inspected;  // [sequence], where the walk inspects
};

// Segment borders of inspected rows: the first key alone, inside a page, at pages, at a split.
inline constexpr int32_t kInspectedBoundaries[] = {0, 1, 17, 128, 129, 250, 2048, 4096, 5000};

// q [H, D], k [K, D], v [K, D] of a row.
std::vector<float> AttentionInput(const AttentionCase& c, int sequence, int position);
float RowScale(const AttentionCase& c, int sequence, int position);
float HeadScale(int head);
float HeadSink(int head);

AttentionRun RunAttentionCase(Backend& backend, const AttentionCase& c, const AttentionWalk& walk);

// Number of floats whose bits differ, NaNs included.
size_t CountDifferentBits(const AttentionRun& a, const AttentionRun& b);

}  // namespace varifocal::kernels
