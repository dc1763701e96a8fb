// Times the cells of docs/gpu/README.md through the Backend interface, and checks each against float64 before timing
// it.
//
//   gpu_bench [--device=cuda:0|emulated] [--tiny] [--rounds=5] [--serve]
//
// Prints one JSON object a line: first {"cells": [...]}, then one per cell and round. With --serve it prints the cells
// and then answers each line it reads, a cell's name, with one round of it, so that a driver can take turns with other
// programs. Operations are queued for at least 20 ms between two waits, so launches and waits do not count.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/emulator/emulated_runtime.h"

namespace varifocal::kernels {
namespace {

// Half the error a bf16 kernel is allowed elsewhere is rounding of weights, half of the output; see tile_checks.cc.
constexpr double kRelativeErrorMax = 2.9e-3;

struct Cell {
  std::string name, kind;
  int heads = 0, kv_heads = 0, head_dim = 0;
  int rows = 0;     // query rows of a sequence; of a product
  int context = 0;  // keys before them
  int sequences = 1;
  bool row_scales = false;
  int inner = 0, outputs = 0;  // of a product
};

struct Timing {
  double seconds = 0, flops = 0, bytes = 0, relative_error = -1;
};

std::vector<Cell> Cells(bool tiny) {
  std::vector<Cell> cells;
  const auto scaled = [&](int n) { return tiny ? std::max(1, n / 256) : n; };
  const auto width = [&](int n) { return tiny ? 64 : n; };
  cells.push_back({.name = "ceiling_product",
                   .kind = "product",
                   .rows = scaled(8192),
                   .inner = width(8192),
                   .outputs = width(8192)});
  for (const auto& [n, k] : {std::pair{7680, 2560}, {2560, 2560}, {13824, 2560}, {2560, 6912}}) {
    for (const int m : {128, 2048, 8192, 32768}) {
      cells.push_back({.name = "product_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
                       .kind = "product",
                       .rows = scaled(m),
                       .inner = width(k),
                       .outputs = width(n)});
    }
    for (const int m : {1, 8, 32}) {
      cells.push_back(
          {.name = "decode_product_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
           .kind = "decode_product",
           .rows = m,
           .inner = width(k),
           .outputs = width(n)});
    }
  }
  for (const auto& [heads, kv, dim] : {std::tuple{20, 20, 128}, {32, 8, 128}, {16, 16, 64}}) {
    const std::string shape = std::to_string(heads) + "_" + std::to_string(kv) + "_" + std::to_string(dim);
    const int h = tiny ? std::max(1, heads / kv) : heads, k = tiny ? 1 : kv;
    for (const int length : {2048, 8192, 16384, 32768}) {
      cells.push_back({.name = "prefill_" + shape + "_" + std::to_string(length),
                       .kind = "attention",
                       .heads = h,
                       .kv_heads = k,
                       .head_dim = dim,
                       .rows = scaled(length)});
    }
    cells.push_back({.name = "tau_" + shape + "_16384",
                     .kind = "attention",
                     .heads = h,
                     .kv_heads = k,
                     .head_dim = dim,
                     .rows = scaled(16384),
                     .row_scales = true});
    for (const int rows : {128, 2048}) {
      cells.push_back({.name = "suffix_" + shape + "_" + std::to_string(rows) + "_on_32768",
                       .kind = "attention",
                       .heads = h,
                       .kv_heads = k,
                       .head_dim = dim,
                       .rows = scaled(rows),
                       .context = scaled(32768) * 4});
    }
    for (const int batch : {1, 8}) {
      for (const int length : {8192, 32768}) {
        cells.push_back({.name = "decode_" + shape + "_" + std::to_string(batch) + "x" + std::to_string(length),
                         .kind = "decode",
                         .heads = h,
                         .kv_heads = k,
                         .head_dim = dim,
                         .rows = 1,
                         .context = scaled(length) * (tiny ? 16 : 1),
                         .sequences = tiny ? std::min(batch, 2) : batch});
      }
    }
  }
  return cells;
}

// Runs `operation` until 20 ms have passed, `read` waiting at the end, and gives the seconds of one.
template <typename Operation, typename Wait>
double TimeOne(const Operation& operation, const Wait& wait, bool tiny) {
  operation();
  wait();
  for (int count = 1;; count *= 2) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) operation();
    wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (tiny || seconds >= 0.02) return seconds / count;
  }
}

void Must(const Error& error) {
  if (error.ok()) return;
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  std::exit(1);
}

std::vector<float> RandomOperands(Backend& backend, uint64_t seed, size_t count) {
  return ProductInput(backend, UniformVector(seed, count));
}

std::vector<float> ReadOperands(Backend& backend, Slice from, size_t count) {
  VF_CHECK(backend.operand_dtype() == DType::kBF16, "a bf16 backend is timed");
  std::vector<uint16_t> halves(count);
  Must(backend.Read(halves.data(), from, count * sizeof(uint16_t)));
  std::vector<float> numbers;
  for (const uint16_t half : halves) numbers.push_back(WidenBF16(half));
  return numbers;
}

double RelativeError(const std::vector<double>& want, const std::vector<double>& got) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

class Bench {
 public:
  virtual ~Bench() = default;
  virtual Timing Round() = 0;
};

class ProductBench final : public Bench {
 public:
  ProductBench(Backend& backend, const Cell& cell, bool tiny) : backend_(backend), cell_(cell), tiny_(tiny) {
    decode_ = cell.kind == "decode_product";
    weights_ = RandomOperands(backend, 1, static_cast<size_t>(cell.outputs) * cell.inner);
    weight_ = MakeWeight(backend, weights_, cell.outputs, cell.inner, WeightUse::kPlain);
    x_host_ = RandomOperands(backend, 2, static_cast<size_t>(std::min(cell.rows, kRandomRows)) * cell.inner);
    x_ = EmptyOperands(backend, static_cast<size_t>(cell.rows) * cell.inner);
    const size_t row_bytes = cell.inner * DTypeBytes(backend.operand_dtype());
    for (int first = 0; first < cell.rows; first += kRandomRows) {
      const int rows = std::min(kRandomRows, cell.rows - first);
      WriteOperands(backend, {x_.get(), first * row_bytes},
                    {x_host_.begin(), x_host_.begin() + static_cast<size_t>(rows) * cell.inner});
    }
    out_ = EmptyOperands(backend, static_cast<size_t>(cell.rows) * cell.outputs);
    workspace_ = Take(backend.CreateWorkspace({.row_count_max = cell.rows,
                                               .sequence_count_max = cell.rows,
                                               .context_length_max = cell.rows,
                                               .model_dim = cell.inner,
                                               .ffn_dim = cell.outputs}));
    sequences_.resize(decode_ ? cell.rows : 1);
    for (SequenceRows& sequence : sequences_) sequence.row_count = decode_ ? 1 : cell.rows;
  }

  Timing Round() override {
    Must(backend_.BeginStep(*workspace_,
                            {.phase = decode_ ? Phase::kDecode : Phase::kPrefill, .sequences = sequences_}));
    const auto run = [&] {
      Must(backend_.Linear(*workspace_, {.x = {x_.get(), 0}, .weight = weight_.get(), .out = {out_.get(), 0}}));
    };
    Timing timing;
    if (relative_error_ < 0) relative_error_ = Check(run);
    timing.relative_error = relative_error_;
    uint16_t last = 0;
    timing.seconds = TimeOne(
        run,
        [&] {
          Must(backend_.Read(&last, {out_.get(), 0}, sizeof last));
        },
        tiny_);
    timing.flops = 2.0 * cell_.rows * cell_.outputs * cell_.inner;
    timing.bytes =
        2.0 * (static_cast<double>(cell_.outputs) * cell_.inner + static_cast<double>(cell_.rows) * cell_.inner);
    return timing;
  }

 private:
  // Repeating rows does not change a product's time.
  static constexpr int kRandomRows = 256;

  // A few rows, poisoned before, against float64.
  template <typename Run>
  double Check(const Run& run) {
    std::vector<double> want, got;
    const int rows[] = {0, cell_.rows - 1, static_cast<int>(Mix(3, 1) % cell_.rows)};
    const size_t row_bytes = cell_.outputs * DTypeBytes(backend_.operand_dtype());
    const std::vector<float> poison(cell_.outputs, NAN);
    for (const int row : rows) WriteOperands(backend_, {out_.get(), row * row_bytes}, poison);
    run();
    for (const int row : rows) {
      const std::vector<float> out = ReadOperands(backend_, {out_.get(), row * row_bytes}, cell_.outputs);
      for (int i = 0; i < 32; ++i) {
        const size_t column = Mix(4, i) % cell_.outputs;
        double sum = 0;
        for (int k = 0; k < cell_.inner; ++k) {
          sum += static_cast<double>(x_host_[static_cast<size_t>(row % kRandomRows) * cell_.inner + k]) *
                 weights_[column * cell_.inner + k];
        }
        want.push_back(sum);
        got.push_back(out[column]);
      }
    }
    return RelativeError(want, got);
  }

  Backend& backend_;
  const Cell cell_;
  const bool tiny_;
  bool decode_ = false;
  double relative_error_ = -1;
  std::vector<float> weights_, x_host_;
  std::unique_ptr<Weight> weight_;
  std::unique_ptr<Buffer> x_, out_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<SequenceRows> sequences_;
};

// Keys and values enter pages through QkvRopeWrite of random rows 64 wide.
class AttentionBench final : public Bench {
 public:
  AttentionBench(Backend& backend, const Cell& cell, bool tiny) : backend_(backend), cell_(cell), tiny_(tiny) {
    const int width = (cell.heads + 2 * cell.kv_heads) * cell.head_dim, total = cell.context + cell.rows;
    const int pages = (total + kPageTokens - 1) / kPageTokens;
    const int chunk = std::min(total, 4096), rows_max = std::max({chunk, cell.rows, cell.sequences});
    workspace_ = Take(backend.CreateWorkspace({.row_count_max = rows_max,
                                               .sequence_count_max = cell.sequences,
                                               .head_row_count_max = 1,
                                               .context_length_max = total,
                                               .model_dim = kWidth,
                                               .query_head_count = cell.heads,
                                               .kv_head_count = cell.kv_heads,
                                               .head_dim = cell.head_dim,
                                               .ffn_dim = 16,
                                               .vocab_size = 16}));
    pool_ = Take(backend.CreateKvPool({.layer_count = 1, .kv_head_count = cell.kv_heads, .head_dim = cell.head_dim},
                                      pages * cell.sequences));
    weight_ = MakeWeight(backend, RandomOperands(backend, 5, static_cast<size_t>(width) * kWidth), width, kWidth,
                         WeightUse::kPlain);
    for (int s = 0; s < cell.sequences; ++s) {
      tables_.emplace_back(pages);
      std::iota(tables_.back().begin(), tables_.back().end(), s * pages);
    }
    for (const auto& table : tables_) spans_.push_back({table.data(), table.size()});
    queries_ = Empty(backend, static_cast<size_t>(rows_max) * cell.heads * cell.head_dim);
    out_ = EmptyOperands(backend, static_cast<size_t>(rows_max) * cell.heads * cell.head_dim);
    for (int s = 0; s < cell.sequences; ++s) {
      for (int first = 0; first < total; first += chunk) Write(s, first, std::min(chunk, total - first));
    }
    // The rows that are timed write their own keys again, all sequences together.
    for (int s = 0; s < cell.sequences; ++s) {
      sequences_.push_back({.row_count = cell.rows, .first_position = cell.context, .page_tables = {&spans_[s], 1}});
      for (int r = 0; r < cell.rows; ++r) mask_.push_back(CausalInterval(cell.context + r));
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(cell.head_dim));
    scales_.assign(mask_.size(), scale);
    if (cell.row_scales) {
      for (size_t i = 0; i < scales_.size(); ++i) scales_[i] = scale * (1.0f + 0.5f * Uniform(9, i));
    }
    scale_buffer_ = Upload(backend, scales_);
  }

  Timing Round() override {
    const std::span<const RowInterval> mask = mask_;
    Must(backend_.BeginStep(*workspace_, {.phase = cell_.kind == "decode" ? Phase::kDecode : Phase::kPrefill,
                                          .sequences = sequences_,
                                          .masks = {&mask, 1}}));
    Project(77, static_cast<int>(mask_.size()));
    AttendArgs attend{.queries = {queries_.get(), 0},
                      .query_head_count = cell_.heads,
                      .pool = pool_.get(),
                      .scale = scales_[0],
                      .out = {out_.get(), 0}};
    if (cell_.row_scales) attend.row_scales = {scale_buffer_.get(), 0};
    const auto run = [&] { Must(backend_.Attend(*workspace_, attend)); };
    const size_t width = static_cast<size_t>(cell_.heads) * cell_.head_dim;
    Timing timing;
    if (relative_error_ < 0) relative_error_ = Check(run);
    timing.relative_error = relative_error_;
    uint16_t last = 0;
    timing.seconds = TimeOne(
        run,
        [&] {
          Must(backend_.Read(&last, {out_.get(), 0}, sizeof last));
        },
        tiny_);
    double pairs = 0;
    for (const RowInterval& seen : mask_) pairs += seen.end - seen.begin;
    timing.flops = 4.0 * pairs * width;
    timing.bytes = 4.0 * cell_.sequences * (cell_.context + cell_.rows) * cell_.kv_heads * cell_.head_dim;
    return timing;
  }

 private:
  static constexpr int kWidth = 64;

  void Project(uint64_t seed, int rows) {
    x_ = UploadOperands(backend_, RandomOperands(backend_, seed, static_cast<size_t>(rows) * kWidth));
    Must(backend_.QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                             .weight = weight_.get(),
                                             .query_head_count = cell_.heads,
                                             .pool = pool_.get(),
                                             .queries = {queries_.get(), 0}}));
  }

  void Write(int s, int first, int rows) {
    const SequenceRows sequence{.row_count = rows, .first_position = first, .page_tables = {&spans_[s], 1}};
    Must(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}));
    Project(100 + 1000 * s + first, rows);
  }

  // A few rows of the last sequence, poisoned before, in float64 over the numbers as the pages hold them.
  template <typename Run>
  double Check(const Run& run) {
    const int dim = cell_.head_dim, group = cell_.heads / cell_.kv_heads, first = (cell_.sequences - 1) * cell_.rows;
    const size_t width = static_cast<size_t>(cell_.heads) * dim;
    const int rows[] = {first, first + cell_.rows - 1, first + static_cast<int>(Mix(6, 1) % cell_.rows)};
    const auto at = [&](int row) { return Slice{out_.get(), row * width * DTypeBytes(backend_.operand_dtype())}; };
    for (const int row : rows) WriteOperands(backend_, at(row), std::vector<float>(width, NAN));
    run();
    std::vector<float> keys, values;
    const size_t page_numbers = static_cast<size_t>(kPageTokens) * cell_.kv_heads * dim;
    for (const int32_t page : tables_.back()) {
      keys.resize(keys.size() + page_numbers);
      values.resize(keys.size());
      Must(backend_.ReadPage(*pool_, 0, page, kPageTokens, keys.data() + keys.size() - page_numbers,
                             values.data() + values.size() - page_numbers));
    }
    std::vector<double> want, got;
    for (const int row : rows) {
      const std::vector<float> out = ReadOperands(backend_, at(row), width);
      std::vector<float> query(width);
      Must(backend_.Read(query.data(), {queries_.get(), row * width * sizeof(float)}, width * sizeof(float)));
      for (const int head : {0, cell_.heads - 1}) {
        std::vector<double> scores;
        for (int key = mask_[row].begin; key < mask_[row].end; ++key) {
          double dot = 0;
          for (int d = 0; d < dim; ++d) {
            dot += static_cast<double>(WidenBF16(RoundToBF16(query[head * dim + d]))) *
                   keys[(static_cast<size_t>(key) * cell_.kv_heads + head / group) * dim + d];
          }
          scores.push_back(dot * (cell_.row_scales ? scales_[row] : scales_[0]));
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        std::vector<double> sums(dim);
        for (size_t k = 0; k < scores.size(); ++k) {
          const double p = std::exp(scores[k] - top);
          total += p;
          const size_t from = ((k + mask_[row].begin) * cell_.kv_heads + head / group) * dim;
          for (int d = 0; d < dim; ++d) sums[d] += p * values[from + d];
        }
        for (int d = 0; d < dim; ++d) {
          want.push_back(sums[d] / total);
          got.push_back(out[head * dim + d]);
        }
      }
    }
    return RelativeError(want, got);
  }

  double relative_error_ = -1;
  Backend& backend_;
  const Cell cell_;
  const bool tiny_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Weight> weight_;
  std::unique_ptr<Buffer> x_, queries_, out_, scale_buffer_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::span<const int32_t>> spans_;
  std::vector<SequenceRows> sequences_;
  std::vector<RowInterval> mask_;
  std::vector<float> scales_;
};

std::unique_ptr<Bench> MakeBench(Backend& backend, const Cell& cell, bool tiny) {
  if (cell.kind == "product" || cell.kind == "decode_product") {
    return std::make_unique<ProductBench>(backend, cell, tiny);
  }
  return std::make_unique<AttentionBench>(backend, cell, tiny);
}

bool RunCell(Bench& bench, const Cell& cell, int rounds) {
  bool right = true;
  for (int round = 0; round < rounds; ++round) {
    const Timing t = bench.Round();
    const bool good = t.relative_error <= kRelativeErrorMax;
    right = right && good;
    // A wrong answer has no time.
    std::printf(
        "{\"cell\": \"%s\", \"right\": %s, \"relative_error\": %.3g, \"ms\": %.6g, \"tflops\": %.5g, "
        "\"gbps\": %.5g}\n",
        cell.name.c_str(), good ? "true" : "false", t.relative_error, good ? t.seconds * 1e3 : 0.0,
        good ? t.flops / t.seconds * 1e-12 : 0.0, good ? t.bytes / t.seconds * 1e-9 : 0.0);
    std::fflush(stdout);
  }
  return right;
}

}  // namespace
}  // namespace varifocal::kernels

int main(int argc, char** argv) {
  using namespace varifocal::kernels;
  std::string device = "cuda:0", only;
  bool tiny = false, serve = false;
  int rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--tiny") {
      tiny = true;
    } else if (flag == "--serve") {
      serve = true;
    } else if (flag.rfind("--device=", 0) == 0) {
      device = flag.substr(9);
    } else if (flag.rfind("--rounds=", 0) == 0) {
      rounds = std::max(1, std::atoi(flag.c_str() + 9));
    } else if (flag.rfind("--cell=", 0) == 0) {
      only = flag.substr(7);
    } else {
      std::fprintf(stderr, "error: unknown flag %s; the flags are --device= --tiny --serve --rounds= --cell=\n",
                   argv[i]);
      return 2;
    }
  }
  auto backend = device == "emulated"
                     ? cuda::CreateBackendOn(cuda::MakeEmulatedRuntime(std::make_shared<cuda::EmulatedMachine>()), 0,
                                             {.dtype = DType::kBF16})
                     : CreateBackend({.device = device, .dtype = DType::kBF16});
  if (!backend.ok()) {
    std::fprintf(stderr, "error: %s\n", backend.error().message.c_str());
    return 3;
  }
  const std::vector<Cell> cells = Cells(tiny);
  std::printf("{\"device\": \"%s\", \"backend\": \"%s\", \"cells\": [", (*backend)->info().device.c_str(),
              (*backend)->info().name.c_str());
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& c = cells[i];
    std::printf(
        "%s{\"cell\": \"%s\", \"kind\": \"%s\", \"heads\": %d, \"kv_heads\": %d, \"head_dim\": %d, \"rows\": %d, "
        "\"context\": %d, \"sequences\": %d, \"inner\": %d, \"outputs\": %d}",
        i == 0 ? "" : ", ", c.name.c_str(), c.kind.c_str(), c.heads, c.kv_heads, c.head_dim, c.rows, c.context,
        c.sequences, c.inner, c.outputs);
  }
  std::printf("]}\n");
  std::fflush(stdout);
  bool right = true;
  if (serve) {
    std::unique_ptr<Bench> bench;
    std::string prepared;
    for (std::string name; std::getline(std::cin, name);) {
      const auto cell = std::find_if(cells.begin(), cells.end(), [&](const Cell& c) { return c.name == name; });
      if (cell == cells.end()) {
        std::printf("{\"error\": \"no such cell\"}\n");
        std::fflush(stdout);
      } else {
        // Rounds of one cell follow each other; the next cell's memory is asked for when this one's is free.
        if (name != prepared) {
          bench.reset();
          bench = MakeBench(**backend, *cell, tiny);
          prepared = name;
        }
        right = RunCell(*bench, *cell, 1) && right;
      }
    }
  } else {
    for (const Cell& cell : cells) {
      if (cell.name.find(only) == std::string::npos) continue;
      right = RunCell(*MakeBench(**backend, cell, tiny), cell, rounds) && right;
    }
  }
  return right ? 0 : 1;
}
