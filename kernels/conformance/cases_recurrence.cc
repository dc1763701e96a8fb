// Layers with a recurrent state: against the oracle, and the same bits however a sequence is cut into steps.
//
// The control forgets the state at the steps' boundaries, as a layer would whose grid follows the steps.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

constexpr int kPagesOfStates = 8;

struct RecurrenceCase {
  RecurrenceShape shape;
  int rows = 0;  // of each of two sequences
  bool has_bias = false;
  float multiplier = 1;
};

KvShape PoolShape(const RecurrenceShape& shape) { return {.layer_count = 2, .recurrence = shape}; }

class RecurrenceInputs {
 public:
  explicit RecurrenceInputs(const RecurrenceCase& c) : c_(c) {
    const RecurrenceShape& s = c.shape;
    x_ = UniformVector(301, WideProduct(2 * c.rows, s.input_width()), 2.0f);
    conv_ = UniformVector(302, WideProduct(s.conv_width, s.channel_count()));
    // Decays of a row between about 0.2 and 0.999.
    decay_log_ = UniformVector(303, s.value_head_count, 3.0f);
    for (float& x : decay_log_) x -= 2.0f;
    decay_bias_ = UniformVector(304, s.value_head_count);
    norm_ = UniformVector(305, s.value_width());
    conv_bias_ = UniformVector(306, s.channel_count());
    skip_ = UniformVector(307, s.value_head_count);
  }

  // Outputs of all rows, those of a step of both sequences after the other; a step ends before each of `cuts`.
  std::vector<float> Run(Backend& backend, std::vector<int> cuts, bool forgets = false) const {
    const RecurrenceShape& s = c_.shape;
    auto pool = Take(backend.CreateKvPool(PoolShape(s), 2 * kPagesOfStates));
    StepShape plan = OneHeadStep(2 * c_.rows, c_.rows);
    plan.sequence_count_max = 2;
    plan.recurrence = s;
    auto workspace = Take(backend.CreateWorkspace(plan));
    auto conv = Upload(backend, conv_), log = Upload(backend, decay_log_), bias = Upload(backend, decay_bias_),
         norm = Upload(backend, norm_), conv_bias = Upload(backend, conv_bias_), skip = Upload(backend, skip_);
    std::vector<float> out(WideProduct(2 * c_.rows, s.value_width()));
    cuts.push_back(c_.rows);
    int first = 0;
    for (const int end : cuts) {
      const int count = end - first;
      std::vector<int32_t> tables[2];
      std::vector<std::span<const int32_t>> groups[2];
      std::vector<SequenceRows> sequences;
      std::vector<RowInterval> mask;
      std::vector<float> x;
      for (int q = 0; q < 2; ++q) {
        for (int page = 0; page < kPagesOfStates; ++page) tables[q].push_back(2 * page + q);
        groups[q] = {tables[q]};
        const int position = forgets ? 0 : first;
        sequences.push_back({.row_count = count, .first_position = position, .page_tables = groups[q]});
        for (int i = 0; i < count; ++i) mask.push_back(WindowInterval(position + i, 2));
        const auto from = x_.begin() + WideProduct(q * c_.rows + first, s.input_width());
        x.insert(x.end(), from, from + WideProduct(count, s.input_width()));
      }
      const std::span<const RowInterval> masks[] = {mask};
      const Phase phase = count == 1 ? Phase::kDecode : Phase::kPrefill;
      CheckOk(backend.BeginStep(*workspace, {.phase = phase, .sequences = sequences, .masks = masks}));
      auto in = UploadOperands(backend, ProductInput(backend, x)),
           result = EmptyOperands(backend, WideProduct(2 * count, s.value_width()));
      const Error done = backend.Recur(*workspace, {.shape = s,
                                                    .x = {in.get(), 0},
                                                    .conv = {conv.get(), 0},
                                                    .conv_bias = {c_.has_bias ? conv_bias.get() : nullptr, 0},
                                                    .decay_log = {log.get(), 0},
                                                    .decay_bias = {bias.get(), 0},
                                                    .skip = {skip.get(), 0},
                                                    .norm = {norm.get(), 0},
                                                    .norm_epsilon = 1e-6f,
                                                    .gate_multiplier = c_.multiplier,
                                                    .step_multiplier = c_.multiplier,
                                                    .pool = pool.get(),
                                                    .layer = 1,
                                                    .out = {result.get(), 0}});
      VF_CHECK(done.ok(), "a valid recurrence");
      const std::vector<float> rows = DownloadOperands(backend, *result, WideProduct(2 * count, s.value_width()));
      for (int q = 0; q < 2; ++q) {
        const size_t of_sequence = WideProduct(count, s.value_width());
        std::copy_n(rows.begin() + q * of_sequence, of_sequence,
                    out.begin() + WideProduct(q * c_.rows + first, s.value_width()));
      }
      first = end;
    }
    return out;
  }

 private:
  const RecurrenceCase c_;
  std::vector<float> x_, conv_, conv_bias_, decay_log_, decay_bias_, skip_, norm_;
};

RecurrenceShape Delta(int width, int key_heads, int value_heads, int key_dim, int value_dim) {
  return {RecurrenceKind::kDeltaRule, width, key_heads, value_heads, key_dim, value_dim, value_heads, false};
}
RecurrenceShape StateSpace(int groups, int heads, int key_dim, int value_dim, int norm_groups, bool gate_first,
                           float step_min = 0) {
  return {RecurrenceKind::kStateSpace, 4, groups, heads, key_dim, value_dim, norm_groups, gate_first, step_min};
}
RecurrenceShape Convolution(int width, int channels) {
  return {RecurrenceKind::kConvolution, width, 0, 1, 0, channels, 0, false};
}

const RecurrenceCase kCases[] = {
    {Delta(4, 2, 4, 8, 12), 300},
    {Delta(4, 1, 3, 16, 40), 140},
    {Delta(2, 2, 2, 24, 33), 129},
    {Delta(4, 1, 1, 128, 128), 70},
    {Delta(3, 1, 2, 250, 16), 40},
    {Delta(1, 1, 2, 5, 7), 20},
    {Convolution(3, 50), 260},
    {Convolution(4, 16), 3, true},
    {StateSpace(1, 4, 16, 8, 1, true), 300, true},
    {StateSpace(2, 4, 7, 40, 2, true, 0.1f), 140},
    {StateSpace(2, 6, 128, 64, 2, false), 70, true},
    {StateSpace(1, 2, 256, 24, 1, true), 40},
    {StateSpace(1, 3, 16, 33, 0, false), 129, true, 0.75f},
};

// Outputs are normed, of about one times a norm's weight and a gate, each below 2. The norm divides rounding of a state,
// which a decay forgets after some tens of rows, by its size; small states are the worst.
std::string CheckRecurrence(Backend& tested, Backend& oracle) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c);
    const std::string what =
        "a recurrence of " + std::to_string(c.shape.channel_count()) + " channels, " + std::to_string(c.rows) + " rows";
    const std::vector<float> expected = inputs.Run(oracle, {});
    float largest = 0;
    for (const float x : expected) largest = std::max(largest, std::abs(x));
    const double tolerance = 1e-3 + OutputUnit(tested) * largest;
    RETURN_COMPLAINT(CompareWithin(inputs.Run(tested, {}), expected, tolerance, what));
  }
  return "";
}

size_t CountRecurrenceBits(Backend& tested, const RecurrenceCase& c, bool forgets) {
  size_t different = 0;
  const RecurrenceInputs inputs(c);
  const std::vector<float> whole = inputs.Run(tested, {});
  std::vector<int> each;
  for (int row = 1; row < c.rows; ++row) each.push_back(row);
  for (std::vector<int> cuts :
       {std::vector<int>{1}, {2, 3, 64}, {127, 128}, {127, 129}, {128}, {129, 130, 256}, each}) {
    std::erase_if(cuts, [&](int cut) { return cut >= c.rows; });
    const std::vector<float> parts = inputs.Run(tested, cuts, forgets);
    for (size_t i = 0; i < whole.size(); ++i) different += std::memcmp(&whole[i], &parts[i], sizeof(float)) != 0;
  }
  return different;
}

std::string CheckRecurrenceBits(Backend& tested, Backend&) {
  size_t different = 0;
  for (const RecurrenceCase& c : kCases) different += CountRecurrenceBits(tested, c, false);
  return SameBitsVerdict(different, "the steps of a recurrence");
}

std::string CheckRecurrenceControl(Backend& tested, Backend&) {
  for (const RecurrenceCase& c : kCases) {
    if (CountRecurrenceBits(tested, c, true) > 0) continue;
    return "steps that forget their states gave the same bits, so the comparison is vacuous";
  }
  return "";
}

std::string CheckGate(Backend& tested, Backend& oracle) {
  return Both(tested, oracle, 1e-6 + OutputUnit(tested), "gates of attention", [](Backend& backend) {
    const int rows = 5, columns = 37;
    PlainStep step(backend, {.model_dim = columns}, rows, Phase::kPrefill);
    auto gate = UploadOperands(backend, ProductInput(backend, UniformVector(311, rows * columns, 8.0f)));
    auto x = UploadOperands(backend, ProductInput(backend, UniformVector(312, rows * columns)));
    CheckOk(backend.ApplyGate(*step.workspace, {.gate = {gate.get(), 0}, .columns = columns, .x = {x.get(), 0}}));
    return DownloadOperands(backend, *x, rows * columns);
  });
}

}  // namespace

std::vector<ConformanceCase> RecurrenceCases() {
  return {
      {"recurrence", CheckRecurrence},
      {"recurrence_same_bits", CheckRecurrenceBits},
      {"recurrence_control_forgotten_state", CheckRecurrenceControl},
      {"attention_gate", CheckGate},
  };
}

}  // namespace varifocal::kernels
