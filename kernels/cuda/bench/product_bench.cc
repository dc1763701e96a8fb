// Products through Backend::Linear, in both phases, and a copy that measures memory bandwidth.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/wide_product.h"
#include "kernels/cuda/bench/bench.h"
#include "kernels/cuda/bench/plan_search.h"

namespace varifocal::kernels::cuda {
namespace {

// Both operands are exact, sums are f32: what is left is the output's rounding to bf16, uniform within 2^-8 of a
// mantissa (tile_checks.cc derives 1.66e-3), and a little for few samples.
constexpr double kProductErrorMax = 2.0e-3;
// A launch must not read data cached by the previous one: weights alternate up to this many bytes.
constexpr size_t kRotationBytes = size_t{256} << 20;

class ProductBench final : public Bench {
 public:
  ProductBench(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell), backend_(place.backend), decode_(cell.kind == "decode_product") {
    const size_t numbers = WideProduct(cell.outputs, cell.inner);
    weights_host_ = RandomOperands(backend_, 1, numbers);
    const HostMatrix matrix = MatrixOf(weights_host_, cell.outputs, cell.inner);
    const size_t copies = decode_ && !place.tiny ? std::max<size_t>(1, kRotationBytes / (2 * numbers)) : 1;
    for (size_t i = 0; i < copies; ++i)
      weights_.push_back(ValueOrDie(backend_.CreateWeight({&matrix, 1}, WeightUse::kPlain)));
    const size_t row_bytes = cell.inner * sizeof(uint16_t);
    x_host_ = RandomOperands(backend_, 2, WideProduct(std::min(cell.rows, kRandomRows), cell.inner));
    x_ = ValueOrDie(backend_.Allocate(cell.rows * row_bytes));
    for (int first = 0; first < cell.rows; first += kRandomRows) {
      const int rows = std::min(kRandomRows, cell.rows - first);
      WriteOperands(backend_, {x_.get(), first * row_bytes},
                    {x_host_.begin(), x_host_.begin() + WideProduct(rows, cell.inner)});
    }
    out_ = ValueOrDie(backend_.Allocate(WideProduct(cell.rows, cell.outputs) * sizeof(uint16_t)));
    workspace_ = ValueOrDie(backend_.CreateWorkspace({.row_count_max = cell.rows,
                                                      .sequence_count_max = decode_ ? cell.rows : 1,
                                                      .context_length_max = cell.rows,
                                                      .model_dim = cell.inner,
                                                      .ffn_dim = cell.outputs}));
    sequences_.resize(decode_ ? cell.rows : 1);
    for (SequenceRows& sequence : sequences_) sequence.row_count = decode_ ? 1 : cell.rows;
  }

  Outcome Round() override {
    Must(backend_.BeginStep(*workspace_,
                            {.phase = decode_ ? Phase::kDecode : Phase::kPrefill, .sequences = sequences_}));
    size_t turn = 0;
    const auto run = [&] {
      const Weight* weight = weights_[turn++ % weights_.size()].get();
      Must(backend_.Linear(*workspace_, {.x = {x_.get(), 0}, .weight = weight, .out = {out_.get(), 0}}));
    };
    if (error_ < 0) error_ = Check(run);
    const double numbers = static_cast<double>(cell_.outputs) * cell_.inner;
    Outcome outcome{.flops = 2 * cell_.rows * numbers,
                    .bytes = 2 * (numbers + static_cast<double>(cell_.rows) * (cell_.inner + cell_.outputs)),
                    .error = error_,
                    .error_max = kProductErrorMax};
    outcome.seconds = TimeOnDevice(place_, run);
    return outcome;
  }

 private:
  // Repeating rows does not change a product's time.
  static constexpr int kRandomRows = 256;
  static constexpr int kCheckedColumns = 512;

  // A few rows, poisoned before, against float64.
  double Check(const std::function<void()>& run) {
    std::vector<double> want, got;
    const int rows[] = {0, cell_.rows - 1, static_cast<int>(Mix(3, 1) % cell_.rows)};
    const size_t row_bytes = cell_.outputs * sizeof(uint16_t);
    const std::vector<float> poison(cell_.outputs, NAN);
    for (const int row : rows) WriteOperands(backend_, {out_.get(), row * row_bytes}, poison);
    run();
    for (const int row : rows) {
      const std::vector<float> out = ReadOperands(backend_, {out_.get(), row * row_bytes}, cell_.outputs);
      for (int i = 0; i < kCheckedColumns; ++i) {
        const size_t column = i == 0 ? cell_.outputs - 1 : Mix(4, i) % cell_.outputs;
        double sum = 0;
        for (int k = 0; k < cell_.inner; ++k) {
          sum += static_cast<double>(x_host_[WideProduct(row % kRandomRows, cell_.inner) + k]) *
                 weights_host_[column * cell_.inner + k];
        }
        want.push_back(sum);
        got.push_back(out[column]);
      }
    }
    return RelativeError(want, got);
  }

  Backend& backend_;
  const bool decode_;
  double error_ = -1;
  std::vector<float> weights_host_, x_host_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::unique_ptr<Buffer> x_, out_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<SequenceRows> sequences_;
};

// Bytes read plus bytes written, over `rows` MiB.
class CopyBench final : public Bench {
 public:
  CopyBench(const BenchPlace& place, const Cell& cell)
      : Bench(place, cell), bytes_(static_cast<size_t>(cell.rows) << 20) {
    for (void*& memory : memory_) {
      if (const int code = place.runtime.Allocate(&memory, bytes_); code != 0) {
        memory = nullptr;
        throw CellRefused{std::to_string(bytes_) + " bytes to copy: " + place.runtime.ErrorText(code)};
      }
    }
    // Not zeros: those can be faster.
    numbers_.resize(std::min<size_t>(bytes_, size_t{64} << 20) / 8);
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = Mix(5, i);
    const size_t piece = numbers_.size() * 8;
    for (size_t at = 0; at < bytes_; at += piece)
      place.runtime.CopyToDevice(static_cast<char*>(memory_[0]) + at, numbers_.data(), std::min(piece, bytes_ - at));
  }
  ~CopyBench() override {
    place_.runtime.Synchronize();
    for (void* memory : memory_) {
      if (memory != nullptr) place_.runtime.Free(memory);
    }
  }

  Outcome Round() override {
    Outcome outcome{.bytes = 2.0 * bytes_};
    outcome.seconds = TimeOnDevice(place_, [&] {
      if (place_.runtime.CopyOnDevice(memory_[1], memory_[0], bytes_, bytes_, 1) != 0)
        throw CellRefused{"a copy failed"};
    });
    std::vector<uint64_t> back(numbers_.size());
    place_.runtime.CopyToHost(back.data(), memory_[1], back.size() * 8);
    place_.runtime.Synchronize();
    if (back != numbers_) outcome.wrong = "the copy differs";
    return outcome;
  }

 private:
  const size_t bytes_;
  void* memory_[2] = {};
  std::vector<uint64_t> numbers_;
};

}  // namespace

bool PrintPlans(const BenchPlace& place, const std::string& part, double seconds) {
  const auto started = std::chrono::steady_clock::now();
  // The least of three: a range's edge follows from few calls.
  const PlanClock clock = [&](const std::function<int()>& operation) {
    constexpr int kRepetitions = 3, kCalls = 2;
    double least = INFINITY;
    const auto answered = [](int code) {
      if (code != 0) throw CellRefused{"a product answers " + std::to_string(code)};
    };
    for (int i = 0; i < kRepetitions; ++i) {
      answered(place.runtime.Stamp(0));
      for (int call = 0; call < kCalls; ++call) answered(operation());
      answered(place.runtime.Stamp(1));
      double taken = 0;
      answered(place.runtime.SecondsBetweenStamps(&taken));
      least = std::min(least, taken / kCalls);
    }
    return least;
  };
  bool complete = true;
  for (const ProductPlan& shape : PlanShapes()) {
    const std::string name = std::to_string(shape.outputs) + "x" + std::to_string(shape.inner);
    if (name.find(part) == std::string::npos) continue;
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() > seconds) {
      std::printf("// %s: left out for lack of time\n", name.c_str());
      complete = false;
      continue;
    }
    try {
      std::printf("%s", SearchPlans(place.runtime, shape, kPlanRowCounts, clock).c_str());
    } catch (const CellRefused& refused) {
      std::printf("// %s: %s\n", name.c_str(), refused.why.c_str());
      complete = false;
    }
    std::fflush(stdout);
  }
  return complete;
}

std::unique_ptr<Bench> MakeProductBench(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<ProductBench>(place, cell);
}
std::unique_ptr<Bench> MakeCopyBench(const BenchPlace& place, const Cell& cell) {
  return std::make_unique<CopyBench>(place, cell);
}

}  // namespace varifocal::kernels::cuda
