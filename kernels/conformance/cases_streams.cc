// Residual streams and gates that are cut, against the oracle, and the same bits whatever other rows there are.

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/wide_product.h"
#include "kernels/conformance/case_tools.h"

namespace varifocal::kernels {
namespace {

constexpr int kStreamRows = 21, kStreamWidth = 72, kGates = 90;

StepShape StreamStep() {
  return SmallStep({.model_dim = kStreamWidth, .query_head_count = 4, .kv_head_count = 2, .ffn_dim = kGates});
}

// Rows [first, first + count) of numbers [blocks, kStreamRows, width].
std::vector<float> RowsOfBlocks(uint32_t seed, int blocks, int width, int first, int count) {
  const std::vector<float> all = UniformVector(seed, blocks * kStreamRows * width);
  std::vector<float> rows;
  for (int b = 0; b < blocks; ++b) {
    const auto begin = all.begin() + (b * kStreamRows + first) * width;
    rows.insert(rows.end(), begin, begin + count * width);
  }
  return rows;
}

struct StreamCase {
  int streams, active;
  bool scales;
};
constexpr StreamCase kStreamCases[] = {{2, 0, true}, {3, 1, false}, {4, 3, true}};

// Row by row: the streams at the end, the mean, and what each step gives beside them.
std::vector<float> RunStreams(Backend& backend, const StreamCase& c, int first, int count) {
  const int streams = c.streams;
  const PlainStep step(backend, StreamStep(), count);
  const int all = count * kStreamWidth;
  auto x = Upload(backend, RowsOfBlocks(401, streams, kStreamWidth, first, count));
  auto start = Upload(backend, RowsOfBlocks(402, 1, kStreamWidth, first, count));
  auto norm = Upload(backend, UniformVector(403, kStreamWidth));
  // Sums of 72 products of numbers below 1; tanh is neither linear nor flat there.
  auto router = Upload(backend, UniformVector(404, streams * kStreamWidth, 0.2f));
  auto predict = Upload(backend, UniformVector(405, streams * streams * streams)),
       correct = Upload(backend, UniformVector(406, streams * streams)),
       scale = Upload(backend, UniformVector(407, kStreamWidth));
  auto residual = Empty(backend, all), mean = Empty(backend, all);
  auto normed = EmptyOperands(backend, all), corrected = EmptyOperands(backend, all);
  const StreamRouter by{.norm_weight = {norm.get(), 0}, .norm_epsilon = 1e-3f, .router = {router.get(), 0}};
  const NormArgs next{.x = {residual.get(), 0}, .weight = {norm.get(), 0}, .epsilon = 1e-3f, .out = {normed.get(), 0}};
  std::vector<std::vector<float>> parts;
  CheckOk(backend.MatchStreams(
      *step.workspace, {.streams = {x.get(), 0}, .stream_count = streams, .floor = 1e-5f, .first = {start.get(), 0}}));
  CheckOk(backend.PredictStreams(*step.workspace, {.router = by,
                                                   .coefficients = {predict.get(), 0},
                                                   .streams = {x.get(), 0},
                                                   .stream_count = streams,
                                                   .active = c.active,
                                                   .residual = {residual.get(), 0},
                                                   .next_norm = &next}));
  parts.push_back(Download(backend, *residual, all));
  parts.push_back(DownloadOperands(backend, *normed, all));
  CheckOk(backend.CorrectStreams(*step.workspace, {.router = by,
                                                   .coefficients = {correct.get(), 0},
                                                   .streams = {x.get(), 0},
                                                   .stream_count = streams,
                                                   .active = c.active,
                                                   .made = {start.get(), 0},
                                                   .scale = {c.scales ? scale.get() : nullptr, 0},
                                                   .out = {corrected.get(), 0}}));
  parts.push_back(DownloadOperands(backend, *corrected, all));
  CheckOk(backend.AddToStreams(*step.workspace,
                               {.x = {residual.get(), 0}, .streams = {x.get(), 0}, .stream_count = streams}));
  // A floor above some of the sizes.
  CheckOk(backend.MatchStreams(
      *step.workspace, {.streams = {x.get(), 0}, .stream_count = streams, .floor = 0.5f, .mean = {mean.get(), 0}}));
  const std::vector<float> end = Download(backend, *x, streams * all);
  for (int s = 0; s < streams; ++s) parts.emplace_back(end.begin() + s * all, end.begin() + (s + 1) * all);
  parts.push_back(Download(backend, *mean, all));
  std::vector<float> rows;
  for (int t = 0; t < count; ++t) {
    for (const std::vector<float>& part : parts)
      rows.insert(rows.end(), part.begin() + t * kStreamWidth, part.begin() + (t + 1) * kStreamWidth);
  }
  return rows;
}

// Streams of numbers of size 1, of which up to four are added with weights of up to 3.
std::string CheckStreams(Backend& tested, Backend& oracle) {
  for (const StreamCase& c : kStreamCases) {
    RETURN_COMPLAINT(Both(tested, oracle, 2e-4 + 32 * OperandUnit(tested), "residual streams",
                          [&](Backend& backend) { return RunStreams(backend, c, 0, kStreamRows); }));
  }
  return "";
}

std::string CheckStreamBits(Backend& tested, Backend&) {
  size_t different = 0;
  for (const StreamCase& c : kStreamCases) {
    const std::vector<float> all = RunStreams(tested, c, 0, kStreamRows);
    const size_t row = all.size() / kStreamRows;
    for (const auto& [first, count] : {std::pair{0, 1}, {20, 1}, {3, 17}}) {
      const std::vector<float> part = RunStreams(tested, c, first, count);
      different += std::memcmp(part.data(), all.data() + first * row, part.size() * sizeof(float)) != 0;
    }
  }
  return SameBitsVerdict(different, "other rows of residual streams");
}

std::vector<float> RunCut(Backend& backend, Activation activation, float deviations, int first, int count) {
  const PlainStep step(backend, StreamStep(), count);
  auto gates = UploadOperands(backend, RowsOfBlocks(411, 1, 2 * kGates, first, count));
  auto out = EmptyOperands(backend, count * kGates);
  CheckOk(backend.CutGated(*step.workspace, {.x = {gates.get(), 0},
                                             .width = kGates,
                                             .deviations = deviations,
                                             .activation = activation,
                                             .out = {out.get(), 0}}));
  return DownloadOperands(backend, *out, count * kGates);
}

// Gates, ups and what they give are rounded, numbers of up to 1.6 by slopes of up to 1.2.
std::string CheckCutGates(Backend& tested, Backend& oracle) {
  for (const Activation activation : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
    for (const float deviations : {-0.5f, 0.0f, 1.645f}) {
      RETURN_COMPLAINT(Both(tested, oracle, 1e-6 + 3 * OperandUnit(tested), "gates that are cut",
                            [&](Backend& backend) { return RunCut(backend, activation, deviations, 0, kStreamRows); }));
    }
  }
  const std::vector<float> all = RunCut(tested, Activation::kGeluTanh, 1, 0, kStreamRows);
  const auto zeros = std::count(all.begin(), all.end(), 0.0f);
  if (zeros < std::ssize(all) / 2 || zeros == std::ssize(all)) return "a cut at one deviation left the wrong gates";
  const std::vector<float> part = RunCut(tested, Activation::kGeluTanh, 1, 5, 3);
  const size_t different = std::memcmp(part.data(), all.data() + 5 * kGates, part.size() * sizeof(float)) != 0 ? 1 : 0;
  return SameBitsVerdict(different, "other rows of gates that are cut");
}

}  // namespace

std::vector<ConformanceCase> StreamCases() {
  return {
      {"residual_streams", CheckStreams},
      {"residual_streams_same_bits", CheckStreamBits},
      {"cut_gates", CheckCutGates},
  };
}

}  // namespace varifocal::kernels
