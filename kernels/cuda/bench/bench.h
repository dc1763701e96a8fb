// The cells of the GPU benchmark: what is timed and how it is verified.
//
// A cell is a row of the table in cells.cc. Constructing its Bench does all setup; Round() verifies the result once
// (output poisoned before, against float64 or another way to compute it) and times it once. A wrong result has no time.
// Times are device times between two events of its queue at least 20 ms apart, so launches and waits do not count; a
// step that ends on the host (a token, a score) is timed on the host's clock, including synchronisation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/conformance/case_tools.h"
#include "kernels/cuda/attention_sm90_layout.h"
#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

enum class ScaleKind { kConstant, kDeviceScalar, kPerRow };

struct LlamaShape {
  const char* name;
  int layers, width, heads, kv_heads, head_dim, ffn, vocab;
};

struct Cell {
  std::string name, kind;
  // Attention.
  int heads = 0, kv_heads = 0, head_dim = 0;
  int rows = 0;     // query rows of a sequence; of a product; of each continuation
  int context = 0;  // keys before them
  int sequences = 1;
  bool ragged = false;         // sequences of rows / 2 .. rows
  bool shared_prefix = false;  // all sequences have the same pages before their own row
  ScaleKind scale = ScaleKind::kConstant;
  int group_count = 0, top_k = 0, window = 0;  // attention by learned groups
  // A product.
  int inner = 0, outputs = 0;
  // A whole model.
  LlamaShape model = {};
  int total = 0;  // continuations altogether
  bool learned_tau =
      false;              // every layer has a temperature per row, whose weight is zero: the answers of no temperature
  bool draws = false;     // tokens are drawn at temperature 1 and top_p 0.9 instead of the best taken
  bool graphs = false;    // a decode step is queued as one graph
  LlamaShape other = {};  // a second model that decodes while `model` computes a prompt
};

// One operation of a cell that has several.
struct Part {
  std::string name;
  double seconds = 0, bytes = 0, flops = 0;
};

struct Outcome {
  double seconds = 0, flops = 0, bytes = 0;
  double error = 0, error_max = 0;  // relative, against the truth of this kind
  std::string wrong;                // why the result has no time
  std::vector<std::pair<std::string, double>> more;
  std::vector<Part> parts;
  std::vector<float> logits;  // of a model's last row, for other engines to compare with
};

// Context of every bench.
struct BenchPlace {
  Backend& backend;
  Runtime& runtime;
  bool tiny = false;    // the emulator's sizes: once through everything
  std::string scratch;  // where checkpoints are written
};

class Bench {
 public:
  Bench(const BenchPlace& place, const Cell& cell) : place_(place), cell_(cell) {}
  virtual ~Bench() = default;
  virtual Outcome Round() = 0;

 protected:
  const BenchPlace place_;
  const Cell cell_;
};

std::vector<Cell> Cells(bool tiny);
// Of an attention cell: query rows of a sequence, and rows of the largest step.
int RowsOf(const Cell& cell, int sequence);
int StepRowsOf(const Cell& cell);
// What predictions need to know of a device.
struct DeviceRates {
  const char* name;  // of --predict=
  int multiprocessors;
  double hertz, l2_bytes_per_second;
  double copy_bytes_per_second, product_flops;  // its ceilings, as the first two cells measure them
  double memory_bytes;
};
inline constexpr DeviceRates kDeviceRates[] = {
    // An H100 SXM, as measured in docs/gpu/results.
    {"h100", 132, 1.75e9, 5.75e12, 3.03e12, 755e12, 80e9},
    // Not measured: the same chip and clocks, and the same share, 0.904, of 4.8 instead of 3.35 TB/s.
    {"h200", 132, 1.75e9, 5.75e12, 4.34e12, 755e12, 141e9},
};

// Predictions need no device. What the sm90 attention kernel is expected to take:
void PrintPredictions(const std::vector<Cell>& cells, const Sm90Tuning& tuning, const DeviceRates& rates);
struct Bounds {
  double best = 0, worst = 0;
};
// Cycles of 128 tile rows and a key block: those of the tensor cores, and what a softmax leaves beside them at best and at worst.
Bounds Sm90BlockCycles(int dim, const DeviceRates& rates);
// Of one of its cells, in seconds.
Bounds PredictSm90(const Cell& cell, const Sm90Tuning& tuning, const DeviceRates& rates);
// Attention by groups with gathered keys, beside dense attention.
void PrintGatherPredictions(const DeviceRates& rates);
// Decode steps and whole prompts of the cells' models.
void PrintModelPredictions(const std::vector<Cell>& cells, const Sm90Tuning& tuning, const DeviceRates& rates);
// Whole prompts of 8K tokens: the layers' products by the library, by the kernel sm90 with its epilogues apart and in it, and with
// clusters that it does not have.
void PrintPromptPredictions(const DeviceRates& rates);
// Recorded plans are searched for (plan_search.h) and printed as rows of product_plans.h; shapes whose name has `part`.
// False where one was refused, or left out for lack of time.
bool PrintPlans(const BenchPlace& place, const std::string& part, double seconds);
// Throws CellRefused, for example if the machine lacks memory.
std::unique_ptr<Bench> MakeBench(const BenchPlace& place, const Cell& cell);

std::unique_ptr<Bench> MakeProductBench(const BenchPlace& place, const Cell& cell);    // product, decode_product
std::unique_ptr<Bench> MakeCopyBench(const BenchPlace& place, const Cell& cell);       // copy
std::unique_ptr<Bench> MakeAttentionBench(const BenchPlace& place, const Cell& cell);  // attention, decode
std::unique_ptr<Bench> MakeModelPrefill(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeModelDecode(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeContinuations(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeDeterminism(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeTwoModels(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeLayerOps(const BenchPlace& place, const Cell& cell);
std::unique_ptr<Bench> MakeLoad(const BenchPlace& place, const Cell& cell);

// A cell that cannot run here; its message is reported and the others run.
struct CellRefused {
  std::string why;
};
// Both end the cell: they throw CellRefused where there is an error.
void Must(const Error& error);
template <typename T>
T ValueOrDie(Result<T> result) {
  if (!result.ok()) throw CellRefused{result.error().message};
  return std::move(*result);
}

// Seconds of one operation on the device's clock.
double TimeOnDevice(const BenchPlace& place, const std::function<void()>& operation);
// Seconds of one operation that ends on the host.
double TimeOnHost(const BenchPlace& place, const std::function<void()>& operation);

std::vector<float> RandomOperands(Backend& backend, uint64_t seed, size_t count);
std::vector<float> ReadOperands(Backend& backend, Slice from, size_t count);
double RelativeError(const std::vector<double>& want, const std::vector<double>& got);

}  // namespace varifocal::kernels::cuda
