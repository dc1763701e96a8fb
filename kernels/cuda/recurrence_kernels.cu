// Layers with a recurrent state (kernels/recurrence.h): convolution, gates, the delta rule or state space, gate and norm,
// and the convolution's inputs that the next step needs.
//
// A block takes all rows of a sequence, in their order, through kStepColumns columns of the S of one head. S is in
// registers: four threads share a column, each with every fourth group of four keys. Sums over keys have a fixed order (the
// four numbers of a group apart, groups rising, then the numbers, then the threads), so bits depend neither on the batch
// nor on how rows are cut into steps.

#include <math.h>

#include "base/wide_product.h"
#include "kernels/cuda/row_values.h"

namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE {
namespace {

constexpr int kStepThreads = 128;
constexpr int kColumnThreads = 4;  // that share a column of S
constexpr int kStepColumns = kStepThreads / kColumnThreads;
constexpr int kStagedNumbers = 2048;  // of q, and of k

// The state after a position; null where its page is not kept.
VF_DEVICE float* StateAfter(const RecurrenceParams& p, int sequence, int position) {
  const int32_t page = p.step.page_tables[p.table_starts[sequence] + position / kPageTokenCount];
  return page < 0 ? nullptr : p.states + page * p.state_numbers;
}
// The state that a sequence's first row continues from; null at position 0.
VF_DEVICE const float* StateBefore(const RecurrenceParams& p, int sequence) {
  const int first = p.step.first_positions[sequence];
  return first == 0 ? nullptr : StateAfter(p, sequence, first - 1);
}

// What the convolution reads of a row.
VF_DEVICE float InputAt(const RecurrenceParams& p, int row, int channel) {
  const uint16_t* x = p.x + WideProduct(row, p.input_width);
  const float value = WidenLow(x[channel]);
  return p.has_matrices ? value : value * WidenLow(x[2 * p.channel_count + channel]);
}

VF_DEVICE float Silu(float x) { return x / (1.0f + expf(-x)); }

// A thread has a channel of a row.
VF_KERNEL(kThreads, 1) ConvolveKernel(const RecurrenceParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), c = BlockY() * kThreads + ThreadX(), channels = p.channel_count, before = p.conv_width - 1;
  if (c >= channels) return;
  const int sequence = p.step.row_sequences[row], first = p.step.first_rows[sequence];
  const float* tail = StateBefore(p, sequence);
  float sum = 0;
  for (int j = 0; j <= before; ++j) {
    const int from = row - before + j;
    float input = 0;  // before position 0
    if (from >= first) {
      input = InputAt(p, from, c);
    } else if (tail != nullptr) {
      input = tail[WideProduct(before + from - first, channels) + c];
    }
    sum = FusedMultiplyAdd(p.conv[WideProduct(j, channels) + c], input, sum);
  }
  if (p.conv_bias != nullptr) sum += p.conv_bias[c];
  if (p.has_matrices) {
    p.mixed[WideProduct(row, channels) + c] = Silu(sum);
  } else {
    const float factor = WidenLow(p.x[WideProduct(row, p.input_width) + channels + c]);
    p.out[WideProduct(row, channels) + c] = RoundBf16(factor * sum);
  }
}

// One block a row: q and k of unit length, a warp a head; decay and beta, or the step, of each head of S.
VF_KERNEL(kThreads, 1) RecurrenceGatesKernel(const RecurrenceParams p) {
  FollowPreviousLaunch();
  const int row = BlockX(), dim = p.key_dim, heads = p.value_head_count;
  for (int h = WarpIndex(); p.is_delta && h < 2 * p.key_head_count; h += kWarps) {
    float* head = p.mixed + WideProduct(row, p.channel_count) + h * dim;
    float squares = 0;
    for (int i = LaneIndex(); i < dim; i += 32) squares = FusedMultiplyAdd(head[i], head[i], squares);
    float scale = 1.0f / sqrtf(WarpSum(squares) + 1e-6f);
    if (h < p.key_head_count) scale /= sqrtf(static_cast<float>(dim));
    for (int i = LaneIndex(); i < dim; i += 32) head[i] *= scale;
  }
  const uint16_t* b = p.x + WideProduct(row, p.input_width) + p.channel_count + heads * p.value_dim;
  const uint16_t* steps = p.is_delta ? b + heads : b;
  float* gates = p.gates + WideProduct(row, 2 * heads);
  // In float64: a decay near 1 is the power of thousands of rows.
  for (int h = ThreadX(); h < heads; h += kThreads) {
    const double a = static_cast<double>(p.step_multiplier) * WidenLow(steps[h]) + p.decay_bias[h];
    const double whole = a > 20 ? a : log1p(exp(a)), least = p.step_min, softplus = whole < least ? least : whole;
    gates[2 * h] = static_cast<float>(exp(-exp(static_cast<double>(p.decay_log[h])) * softplus));
    gates[2 * h + 1] = static_cast<float>(p.is_delta ? 1 / (1 + exp(-static_cast<double>(WidenLow(b[h])))) : softplus);
  }
}

// The sum over a column's threads, the same in each.
VF_DEVICE float ColumnSum(const FourFloats& parts) {
  float sum = (parts.at[0] + parts.at[1]) + (parts.at[2] + parts.at[3]);
  VF_UNROLL
  for (int mask = 1; mask < kColumnThreads; mask <<= 1) sum += ShuffleXor(sum, mask);
  return sum;
}

// kKeys numbers of a column are in a thread: number i is of key 16 (i / 4) + 4 part + i % 4.
template <int kKeys>
VF_DEVICE int KeyOf(int part, int i) {
  return i / 4 * 4 * kColumnThreads + 4 * part + i % 4;
}

// The rows of a stage, of one head.
template <int kKeys>
struct StagedRows {
  static constexpr int kKeysMax = kKeys * kColumnThreads, kRows = kStagedNumbers / kKeysMax;
  alignas(16) float queries[kRows][kKeysMax];
  alignas(16) float keys[kRows][kKeysMax];
  float values[kRows][kStepColumns];
  float gates[kRows][2];
};

template <int kKeys>
VF_DEVICE void StageRows(const RecurrenceParams& p, int row, int count, int head, int first_column,
                         StagedRows<kKeys>& stage) {
  constexpr int kKeysMax = StagedRows<kKeys>::kKeysMax;
  const int dim = p.key_dim, heads = p.value_head_count, key_width = p.key_head_count * dim;
  const int key_head = head / (heads / p.key_head_count);
  for (int n = ThreadX(); n < count * kKeysMax; n += kStepThreads) {
    const int key = n % kKeysMax;
    const float* mixed = p.mixed + WideProduct(row + n / kKeysMax, p.channel_count) + key_head * dim + key;
    const bool inside = key < dim;
    stage.queries[n / kKeysMax][key] = inside ? mixed[0] : 0.0f;
    stage.keys[n / kKeysMax][key] = inside ? mixed[key_width] : 0.0f;
  }
  for (int n = ThreadX(); n < count * kStepColumns; n += kStepThreads) {
    const int column = first_column + n % kStepColumns;
    const float* values = p.mixed + WideProduct(row + n / kStepColumns, p.channel_count) + 2 * key_width;
    stage.values[n / kStepColumns][n % kStepColumns] =
        column < p.value_dim ? values[head * p.value_dim + column] : 0.0f;
  }
  for (int n = ThreadX(); n < 2 * count; n += kStepThreads) {
    stage.gates[n / 2][n % 2] = p.gates[WideProduct(row + n / 2, 2 * heads) + 2 * head + n % 2];
  }
}

// One row through a thread's part of a column; returns the column's o.
template <int kKeys, bool kReadsMemory>
VF_DEVICE float StepColumn(const StagedRows<kKeys>& stage, int row, int part, float value, float (&state)[kKeys]) {
  const float decay = stage.gates[row][0], beta = stage.gates[row][1];
  VF_UNROLL
  for (int i = 0; i < kKeys; ++i) state[i] *= decay;
  float change = value * beta;
  if constexpr (kReadsMemory) {
    FourFloats memory = {};
    VF_UNROLL
    for (int i = 0; i < kKeys; i += 4) {
      const FourFloats k = LoadAligned<FourFloats>(&stage.keys[row][KeyOf<kKeys>(part, i)]);
      VF_UNROLL
      for (int n = 0; n < 4; ++n) memory.at[n] = FusedMultiplyAdd(state[i + n], k.at[n], memory.at[n]);
    }
    change = (value - ColumnSum(memory)) * beta;
  }
  FourFloats out = {};
  VF_UNROLL
  for (int i = 0; i < kKeys; i += 4) {
    const FourFloats k = LoadAligned<FourFloats>(&stage.keys[row][KeyOf<kKeys>(part, i)]);
    const FourFloats q = LoadAligned<FourFloats>(&stage.queries[row][KeyOf<kKeys>(part, i)]);
    VF_UNROLL
    for (int n = 0; n < 4; ++n) {
      state[i + n] = FusedMultiplyAdd(k.at[n], change, state[i + n]);
      out.at[n] = FusedMultiplyAdd(state[i + n], q.at[n], out.at[n]);
    }
  }
  return ColumnSum(out);
}

template <int kKeys, bool kReadsMemory>
VF_KERNEL(kStepThreads, kKeys <= 32 ? 4 : 2)
StepStatesKernel(const RecurrenceParams p) {
  FollowPreviousLaunch();
  VF_SHARED StagedRows<kKeys> stage;
  const int sequence = BlockX(), head = BlockY(), first_column = BlockZ() * kStepColumns;
  const int first_row = p.step.first_rows[sequence], rows = p.step.first_rows[sequence + 1] - first_row;
  const int first = p.step.first_positions[sequence], dim = p.value_dim;
  const int part = ThreadX() % kColumnThreads, place = ThreadX() / kColumnThreads, column = first_column + place;
  const bool inside = column < dim;
  const bool warp_inside = first_column + place / 8 * 8 < dim;
  const size_t at = p.tail_numbers + WideProduct(head, p.key_dim, dim) + column;
  const float* before = StateBefore(p, sequence);
  float state[kKeys];
  VF_UNROLL
  for (int i = 0; i < kKeys; ++i) {
    const int key = KeyOf<kKeys>(part, i);
    state[i] = before != nullptr && inside && key < p.key_dim ? before[at + key * dim] : 0.0f;
  }
  for (int begin = 0; begin < rows; begin += StagedRows<kKeys>::kRows) {
    const int left = rows - begin, count = left < StagedRows<kKeys>::kRows ? left : StagedRows<kKeys>::kRows;
    SyncThreads();  // the last stage was read
    StageRows<kKeys>(p, first_row + begin, count, head, first_column, stage);
    SyncThreads();
    for (int row = 0; warp_inside && row < count; ++row) {
      const float out = StepColumn<kKeys, kReadsMemory>(stage, row, part, stage.values[row][place], state);
      if (inside && part == 0) {
        p.outs[WideProduct(first_row + begin + row, p.value_head_count, dim) + head * dim + column] = out;
      }
      const int end = first + begin + row + 1;
      if (end % kPageTokenCount != 0 && begin + row + 1 < rows) continue;
      float* kept = StateAfter(p, sequence, end - 1);
      if (kept == nullptr || !inside) continue;
      VF_UNROLL
      for (int i = 0; i < kKeys; ++i) {
        const int key = KeyOf<kKeys>(part, i);
        if (key < p.key_dim) kept[at + key * dim] = state[i];
      }
    }
  }
}

// One block a row and group of the norm: what passes S by, gate, and norm.
VF_KERNEL(kThreads, 1) FinishStatesKernel(const RecurrenceParams p) {
  FollowPreviousLaunch();
  const bool normed = p.norm_group_count > 0, gate_first = p.gate_first || !normed;
  const int row = BlockX(), all = p.value_head_count * p.value_dim, width = normed ? all / p.norm_group_count : all;
  const int begin = BlockY() * width, end = begin + width;
  float* outs = p.outs + WideProduct(row, all);
  uint16_t* to = p.out + WideProduct(row, all);
  const float* u = p.mixed + WideProduct(row, p.channel_count) + 2 * p.key_head_count * p.key_dim;
  const uint16_t* z = p.x + WideProduct(row, p.input_width) + p.channel_count;
  float squares = 0;
  for (int i = begin + ThreadX(); i < end; i += kThreads) {
    float value = outs[i];
    if (!p.is_delta) value = FusedMultiplyAdd(p.skip[i / p.value_dim], u[i], value);
    if (gate_first) value *= Silu(p.gate_multiplier * WidenLow(z[i]));
    squares = FusedMultiplyAdd(value, value, squares);
    if (normed) {
      outs[i] = value;
    } else {
      to[i] = RoundBf16(value);
    }
  }
  if (!normed) return;
  const float scale = 1.0f / sqrtf(BlockSum(squares) / static_cast<float>(width) + p.norm_epsilon);
  for (int i = begin + ThreadX(); i < end; i += kThreads) {
    float value = outs[i] * scale * p.norm[i];
    if (!gate_first) value *= Silu(p.gate_multiplier * WidenLow(z[i]));
    to[i] = RoundBf16(value);
  }
}

// After all rows were convolved. A thread has a channel of a sequence, and takes kept rows from the last one back: the
// page that the first row continues from is at most that of the first kept one, and is read before it is written, since
// rising j reads ever later inputs.
VF_KERNEL(kThreads, 1) KeepTailsKernel(const RecurrenceParams p) {
  FollowPreviousLaunch();
  const int sequence = BlockX(), c = BlockY() * kThreads + ThreadX(), channels = p.channel_count;
  if (c >= channels) return;
  const int first_row = p.step.first_rows[sequence], rows = p.step.first_rows[sequence + 1] - first_row;
  const int first = p.step.first_positions[sequence], tail = p.conv_width - 1;
  const float* before = StateBefore(p, sequence);
  for (int row = rows - 1; row >= 0; row = (first + row) / kPageTokenCount * kPageTokenCount - 1 - first) {
    float* kept = StateAfter(p, sequence, first + row);
    for (int j = 0; kept != nullptr && j < tail; ++j) {
      const int from = row - (tail - 1) + j;
      float input = 0;
      if (from >= 0) {
        input = InputAt(p, first_row + from, c);
      } else if (before != nullptr) {
        input = before[WideProduct(tail + from, channels) + c];
      }
      kept[WideProduct(j, channels) + c] = input;
    }
  }
}

// x = x * 1 / (1 + e^-gate), or x * gate
VF_KERNEL(kThreads, 1) GateKernel(const GateParams p) {
  FollowPreviousLaunch();
  const size_t at = WideProduct(BlockX(), kThreads) + ThreadX();
  if (at >= p.count) return;
  const float x = WidenLow(p.x[at]), gate = WidenLow(p.gate[at]);
  p.x[at] = RoundBf16(p.sigmoid ? x / (1.0f + expf(-gate)) : x * gate);
}

template <int kKeys>
int StartSteps(const RecurrenceParams& p, LaunchStream stream) {
  const auto kernel = p.is_delta ? StepStatesKernel<kKeys, true> : StepStatesKernel<kKeys, false>;
  return VF_LAUNCH(kernel, p.step.sequence_count, p.value_head_count, CeilDivide(p.value_dim, kStepColumns),
                   kStepThreads, 0, stream, p);
}

int LaunchMatrices(const RecurrenceParams& p, LaunchStream stream) {
  const int gates = VF_LAUNCH(RecurrenceGatesKernel, p.step.row_count, 1, 1, kThreads, 0, stream, p);
  if (gates != 0) return gates;
  static_assert(kRecurrenceKeysMax == 64 * kColumnThreads);
  const auto start = p.key_dim <= 16 * kColumnThreads   ? StartSteps<16>
                     : p.key_dim <= 32 * kColumnThreads ? StartSteps<32>
                                                        : StartSteps<64>;
  if (const int code = start(p, stream); code != 0) return code;
  const int groups = p.norm_group_count > 0 ? p.norm_group_count : 1;
  return VF_LAUNCH(FinishStatesKernel, p.step.row_count, groups, 1, kThreads, 0, stream, p);
}

}  // namespace

int LaunchRecurrence(const RecurrenceParams& p, LaunchStream stream) {
  const int blocks = CeilDivide(p.channel_count, kThreads);
  const int code = VF_LAUNCH(ConvolveKernel, p.step.row_count, blocks, 1, kThreads, 0, stream, p);
  if (code != 0) return code;
  if (p.has_matrices) {
    if (const int failed = LaunchMatrices(p, stream); failed != 0) return failed;
  }
  return VF_LAUNCH(KeepTailsKernel, p.step.sequence_count, blocks, 1, kThreads, 0, stream, p);
}
int LaunchGate(const GateParams& p, LaunchStream stream) {
  const int blocks = static_cast<int>((p.count + kThreads - 1) / kThreads);
  return VF_LAUNCH(GateKernel, blocks, 1, 1, kThreads, 0, stream, p);
}

}  // namespace varifocal::kernels::cuda::VF_TABLE_NAMESPACE
