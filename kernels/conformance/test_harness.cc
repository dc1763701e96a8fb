#include "kernels/conformance/test_harness.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/wide_product.h"

namespace varifocal::kernels {

uint64_t Mix(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u + (counter + 1) * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

float Uniform(uint64_t seed, uint64_t counter) {
  return (static_cast<int64_t>(Mix(seed, counter) >> 40) - (1 << 23)) * 0x1p-23f;
}

std::vector<float> UniformVector(uint64_t seed, size_t count, float amplitude) {
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = amplitude * Uniform(seed, i);
  return data;
}

double OperandUnit(const Backend& backend) { return backend.info().dtype == DType::kBF16 ? 0x1p-8 : 0.0; }

double OutputUnit(const Backend& backend) { return backend.operand_dtype() == DType::kBF16 ? 0x1p-8 : 0.0; }

std::vector<float> ProductInput(const Backend& backend, std::vector<float> data) {
  if (backend.info().dtype == DType::kBF16) {
    for (float& x : data) x = WidenBF16(RoundToBF16(x));
  }
  return data;
}

std::unique_ptr<Buffer> Empty(Backend& backend, size_t floats) {
  return Take(backend.Allocate(floats * sizeof(float)));
}

std::unique_ptr<Buffer> Upload(Backend& backend, const std::vector<float>& data) {
  auto buffer = Empty(backend, data.size());
  CheckOk(backend.Write({buffer.get(), 0}, data.data(), data.size() * sizeof(float)));
  return buffer;
}

std::vector<float> Download(Backend& backend, Buffer& buffer, size_t floats) {
  std::vector<float> data(floats);
  CheckOk(backend.Read(data.data(), {&buffer, 0}, floats * sizeof(float)));
  return data;
}

void WriteOperands(Backend& backend, Slice to, const std::vector<float>& data) {
  std::vector<uint16_t> halves;
  const void* from = data.data();
  size_t bytes = data.size() * sizeof(float);
  if (backend.operand_dtype() == DType::kBF16) {
    for (const float x : data) halves.push_back(RoundToBF16(x));
    from = halves.data();
    bytes = data.size() * sizeof(uint16_t);
  }
  CheckOk(backend.Write(to, from, bytes));
}

std::unique_ptr<Buffer> EmptyOperands(Backend& backend, size_t count) {
  return Take(backend.Allocate(count * DTypeBytes(backend.operand_dtype())));
}

std::unique_ptr<Buffer> UploadOperands(Backend& backend, const std::vector<float>& data) {
  auto buffer = EmptyOperands(backend, data.size());
  WriteOperands(backend, {buffer.get(), 0}, data);
  return buffer;
}

std::vector<float> DownloadOperands(Backend& backend, Buffer& buffer, size_t count) {
  if (backend.operand_dtype() == DType::kF32) return Download(backend, buffer, count);
  std::vector<uint16_t> halves(count);
  CheckOk(backend.Read(halves.data(), {&buffer, 0}, count * sizeof(uint16_t)));
  std::vector<float> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = WidenBF16(halves[i]);
  return data;
}

PlainStep::PlainStep(Backend& backend, StepShape shape, int row_count, Phase phase)
    : sequences_(phase == Phase::kDecode ? row_count : 1) {
  shape.row_count_max = row_count;
  shape.sequence_count_max = sequences_.size();
  shape.context_length_max = row_count;
  workspace = Take(backend.CreateWorkspace(shape));
  for (SequenceRows& sequence : sequences_) sequence.row_count = phase == Phase::kDecode ? 1 : row_count;
  CheckOk(backend.BeginStep(*workspace, {.phase = phase, .sequences = sequences_}));
}

namespace {

// A row's numbers: `qk` from which queries and keys are made, then `v` for the values.
struct SourceWidths {
  int qk = 0, v = 0;
  int total() const { return qk + v; }
};
SourceWidths SourceWidthsOf(const AttentionCase& c) {
  const int qk = (c.query_heads + c.kv_heads) * c.head_dim, v = c.kv_heads * c.head_dim;
  if (c.independent_heads) return {qk, v};
  return {std::min(qk, std::max(c.head_dim, 64)), std::min(v, std::max(c.head_dim, 32))};
}

// Where each number of q [H, D], k [K, D], v [K, D] is in the source: every head begins at another place.
std::vector<int> SourcePlaces(const AttentionCase& c) {
  const SourceWidths widths = SourceWidthsOf(c);
  const int heads = c.query_heads + c.kv_heads, dim = c.head_dim;
  // 17 and 5 give different places to more heads than a case has.
  const int qk_step = widths.qk == heads * dim ? dim : 17, v_step = widths.v == c.kv_heads * dim ? dim : 5;
  std::vector<int> places;
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < dim; ++i) places.push_back((head * qk_step + i) % widths.qk);
  }
  for (int head = 0; head < c.kv_heads; ++head) {
    for (int i = 0; i < dim; ++i) places.push_back(widths.qk + (head * v_step + i) % widths.v);
  }
  return places;
}

std::vector<float> AttentionSource(const AttentionCase& c, int sequence, int position) {
  if (c.same_first_page && position < kPageTokens) sequence = 0;
  const SourceWidths widths = SourceWidthsOf(c);
  std::vector<float> row = UniformVector(1000 + 7919 * sequence + position, widths.total());
  for (int i = 0; i < widths.qk; ++i) row[i] *= c.amplitude;
  return row;
}

}  // namespace

std::vector<float> AttentionInput(const AttentionCase& c, int sequence, int position) {
  const std::vector<float> source = AttentionSource(c, sequence, position);
  std::vector<float> row;
  for (const int place : SourcePlaces(c)) row.push_back(source[place]);
  return row;
}

float RowScale(const AttentionCase& c, int sequence, int position) {
  if (!c.row_scales) return c.scale != 0 ? FocalScale(c.scale, 1.0) : FocalScale(1.0 / std::sqrt(c.head_dim), 1.0);
  return TauScale(6.0f + 3.0f * Uniform(77 + sequence, position));
}

float HeadScale(int head) { return 0.75f + 0.25f * Uniform(91, head); }

float HeadSink(int head) { return 3.0f * Uniform(92, head); }

namespace {

// The parts of a step and the memory its spans point to.
struct Step {
  std::vector<SequenceRows> sequences;
  std::vector<int> sequence_ids;  // of the run
  std::vector<RowInterval> mask;
  std::vector<float> inputs, scales;
  int row_count = 0;
};

constexpr int kRoutingDim = 5;
// Groups are not the first annotation of a page.
constexpr int kGroupsOffset = kTauAnnotationBytes;

class Walker {
 public:
  Walker(Backend& backend, const AttentionCase& c, const AttentionWalk& walk)
      : backend_(backend), case_(c), walk_(walk) {
    const int width = SourceWidthsOf(c).total();
    int rows_max = 0, longest = 0, pages = 0;
    for (const auto& s : c.sequences) {
      const int tokens = s.prefill + s.decode;
      rows_max += std::max(tokens, 1);
      longest = std::max(longest, tokens);
      pages += (tokens + kPageTokens - 1) / kPageTokens;
    }
    shape_ = {.row_count_max = rows_max,
              .sequence_count_max = static_cast<int>(c.sequences.size()),
              .head_row_count_max = 1,
              .context_length_max = longest,
              .model_dim = width,
              .query_head_count = c.query_heads,
              .kv_head_count = c.kv_heads,
              .head_dim = c.head_dim,
              .ffn_dim = 16,
              .vocab_size = 16,
              .gather_top_k_max = c.groups.group_count > 0 ? c.groups.top_k : 0};
    workspace_ = Take(backend.CreateWorkspace(shape_));
    // Two layers, of which the second is used, and shuffled pages, to test address computation.
    KvShape kv{.layer_count = 2, .kv_head_count = c.kv_heads, .head_dim = c.head_dim};
    kv.row_keys = c.row_keys;
    if (c.groups.group_count > 0)
      kv.annotation_bytes = kGroupsOffset + GroupAnnotationBytes(c.groups.bias, c.groups.group_count);
    pool_ = Take(backend.CreateKvPool(kv, pages + 3));
    std::vector<int32_t> order(pages + 3);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[Mix(walk.page_order_seed, i) % (i + 1)]);
    size_t next = 0;
    for (const auto& s : c.sequences) {
      std::vector<int32_t> table;
      for (int p = 0; p * kPageTokens < s.prefill + s.decode; ++p)
        table.push_back(p == 0 && walk.share_first_page && !tables_.empty() ? tables_[0][0] : order[next++]);
      tables_.push_back(table);
    }
    for (const auto& table : tables_) table_spans_.push_back({std::span<const int32_t>(table)});
    const std::vector<int> places = SourcePlaces(c);
    std::vector<float> selection(places.size() * width);
    for (size_t i = 0; i < places.size(); ++i) selection[i * width + places[i]] = 1.0f;
    const HostMatrix matrix = MatrixOf(selection, places.size(), width);
    weight_ = Take(backend.CreateWeight({&matrix, 1}, WeightUse::kPlain));
    x_ = EmptyOperands(backend, rows_max * width);
    queries_ = Empty(backend, rows_max * c.query_heads * c.head_dim);
    out_ = EmptyOperands(backend, rows_max * c.query_heads * c.head_dim);
    lse_ = Empty(backend, rows_max * c.query_heads);
    scales_ = Empty(backend, rows_max);
    std::vector<float> head_scales, sinks;
    for (int head = 0; head < c.query_heads; ++head) {
      head_scales.push_back(HeadScale(head));
      sinks.push_back(HeadSink(head));
    }
    head_scales_ = Upload(backend, head_scales);
    sinks_ = Upload(backend, sinks);
    // Scores S / temperature of several units, so that few are close.
    projection_ = Upload(backend, UniformVector(501, kRoutingDim * width));
    centroids_ = Upload(backend, UniformVector(502, kRoutingDim * kGroupCountMax, 3.0f));
    group_bias_ = Upload(backend, UniformVector(503, kGroupCountMax));
    for (const auto& s : c.sequences) {
      const size_t tokens = s.prefill + s.decode;
      run_.outs.emplace_back(tokens * c.query_heads * c.head_dim);
      run_.log_sum_exps.emplace_back(tokens * c.query_heads);
      run_.inspected.emplace_back();
    }
  }

  AttentionRun Run() {
    std::vector<int> done(case_.sequences.size());
    if (walk_.poison_pages) Poison();
    if (walk_.share_first_page) {
      // The first sequence fills the shared page; the others begin behind it.
      Advance(Phase::kPrefill, {0}, {kPageTokens}, done);
      for (size_t s = 1; s < done.size(); ++s) done[s] = kPageTokens;
    }
    if (walk_.one_sequence_at_a_time) {
      for (int s = 0; s < static_cast<int>(done.size()); ++s) Finish({s}, done);
    } else {
      std::vector<int> all(done.size());
      std::iota(all.begin(), all.end(), 0);
      Finish(all, done);
    }
    return run_;
  }

 private:
  void Poison() {
    const int rows_max = std::min(shape_.row_count_max, shape_.context_length_max);
    for (int32_t page = 0; page < pool_->page_count(); ++page) {
      const std::span<const int32_t> table(&page, 1);
      for (int first = 0; first < std::min(kPageTokens, shape_.context_length_max); first += rows_max) {
        const int rows = std::min({rows_max, kPageTokens - first, shape_.context_length_max - first});
        const std::vector<float> nans(rows * shape_.model_dim, NAN);
        const SequenceRows sequence{.row_count = rows, .first_position = first, .page_tables = {&table, 1}};
        CheckOk(backend_.BeginStep(*workspace_, {.sequences = {&sequence, 1}}));
        WriteOperands(backend_, {x_.get(), 0}, nans);
        WritePages();
      }
    }
  }

  void WritePages() {
    const AttentionGroups& groups = case_.groups;
    if (groups.group_count > 0) {
      CheckOk(backend_.RouteGroups(*workspace_, {.x = {x_.get(), 0},
                                                 .projection = {projection_.get(), 0},
                                                 .centroids = {centroids_.get(), 0},
                                                 .group_bias = {group_bias_.get(), 0},
                                                 .group_count = groups.group_count,
                                                 .routing_dim = kRoutingDim,
                                                 .top_k = groups.top_k,
                                                 .temperature = 0.5f,
                                                 .bias = groups.bias,
                                                 .pool = pool_.get(),
                                                 .layer = 1,
                                                 .annotation_offset = kGroupsOffset}));
    }
    CheckOk(backend_.QkvRopeWrite(*workspace_, {.x = {x_.get(), 0},
                                                .weight = weight_.get(),
                                                .query_head_count = case_.query_heads,
                                                .pool = pool_.get(),
                                                .layer = 1,
                                                .queries = {queries_.get(), 0}}));
  }

  void Finish(const std::vector<int>& ids, std::vector<int>& done) {
    const Phase prompt_phase = walk_.decode_kernels_for_prompt ? Phase::kDecode : Phase::kPrefill;
    size_t step = 0;
    for (bool more = true; more; ++step) {
      const int chunk = walk_.chunks.empty() ? INT_MAX : walk_.chunks[step % walk_.chunks.size()];
      std::vector<int> active, rows;
      for (const int s : ids) {
        const int left = case_.sequences[s].prefill - done[s];
        if (left > 0) {
          active.push_back(s);
          const int wanted = walk_.last_prompt_row_alone && left > 1 ? left - 1 : left;
          rows.push_back(prompt_phase == Phase::kDecode ? 1 : std::min(wanted, chunk));
        }
      }
      more = !active.empty();
      if (more) Advance(prompt_phase, active, rows, done);
    }
    for (bool more = true; more;) {
      std::vector<int> active, rows;
      for (const int s : ids) {
        if (done[s] < case_.sequences[s].prefill + case_.sequences[s].decode) {
          active.push_back(s);
          rows.push_back(1);
        }
      }
      more = !active.empty();
      if (more) Advance(Phase::kDecode, active, rows, done);
    }
  }

  void Advance(Phase phase, const std::vector<int>& ids, const std::vector<int>& rows, std::vector<int>& done) {
    Step step;
    step.sequence_ids = ids;
    for (size_t i = 0; i < ids.size(); ++i) {
      step.sequences.push_back({.row_count = rows[i],
                                .first_position = done[ids[i]],
                                .page_tables = {&table_spans_[ids[i]][0], 1},
                                .prompt_row_count = case_.sequences[ids[i]].prefill});
      for (int r = 0; r < rows[i]; ++r) {
        const int position = done[ids[i]] + r;
        RowInterval seen = case_.window > 0 ? WindowInterval(position, case_.window) : CausalInterval(position);
        // The blind rows come first and have an empty interval, so begin and end still never decrease.
        if (position < case_.blind_rows) seen = {0, 0};
        step.mask.push_back(seen);
        const std::vector<float> input = ProductInput(backend_, AttentionSource(case_, ids[i], position));
        step.inputs.insert(step.inputs.end(), input.begin(), input.end());
        step.scales.push_back(RowScale(case_, ids[i], position));
      }
      if (walk_.free_window_pages) FreePages(tables_[ids[i]], step.mask[step.row_count].begin);
      step.row_count += rows[i];
    }
    Execute(phase, step);
    const std::vector<float> outs =
        DownloadOperands(backend_, *out_, step.row_count * case_.query_heads * case_.head_dim);
    const std::vector<float> lses = Download(backend_, *lse_, step.row_count * case_.query_heads);
    size_t row = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t width = case_.query_heads * case_.head_dim;
      std::copy_n(outs.begin() + row * width, rows[i] * width, run_.outs[ids[i]].begin() + done[ids[i]] * width);
      std::copy_n(lses.begin() + row * case_.query_heads, rows[i] * case_.query_heads,
                  run_.log_sum_exps[ids[i]].begin() + done[ids[i]] * case_.query_heads);
      row += rows[i];
      done[ids[i]] += rows[i];
    }
  }

  static void FreePages(std::vector<int32_t>& table, int32_t first_seen) {
    for (int32_t page = 0; (page + 1) * kPageTokens <= first_seen; ++page) table[page] = -1;
  }

  void Execute(Phase phase, const Step& step) {
    const std::span<const RowInterval> mask = step.mask;
    CheckOk(backend_.BeginStep(*workspace_, {.phase = phase, .sequences = step.sequences, .masks = {&mask, 1}}));
    WriteOperands(backend_, {x_.get(), 0}, step.inputs);
    CheckOk(backend_.Write({scales_.get(), 0}, step.scales.data(), step.scales.size() * sizeof(float)));
    WritePages();
    AttendArgs attend{.queries = {queries_.get(), 0},
                      .query_head_count = case_.query_heads,
                      .pool = pool_.get(),
                      .layer = 1,
                      .scale = step.scales[0],
                      .soft_cap = case_.soft_cap,
                      .sink = case_.sink,
                      .out = {out_.get(), 0},
                      .log_sum_exp = {lse_.get(), 0}};
    if (case_.row_scales) attend.row_scales = {scales_.get(), 0};
    if (case_.head_scales) attend.head_scales = {head_scales_.get(), 0};
    if (case_.head_sinks) attend.sinks = {sinks_.get(), 0};
    const GroupTest test{.annotation_offset = kGroupsOffset,
                         .group_count = case_.groups.group_count,
                         .top_k = case_.groups.top_k,
                         .window = case_.groups.window,
                         .gather_from = case_.groups.gather_from};
    if (test.group_count > 0) attend.groups = &test;
    CheckOk(backend_.Attend(*workspace_, attend));
    if (walk_.attends_twice) {
      const size_t width = WideProduct(case_.query_heads, case_.head_dim);
      WriteOperands(backend_, attend.out, std::vector<float>(mask.size() * width, NAN));
      CheckOk(backend_.Attend(*workspace_, attend));
    }
    if (walk_.inspect != InspectedRows::kNone) Inspect(step, attend);
  }

  void Inspect(const Step& step, const AttendArgs& attend) {
    int first_row = 0;
    for (size_t i = 0; i < step.sequences.size(); ++i) {
      const SequenceRows& rows = step.sequences[i];
      for (int row = rows.row_count / 2; row < rows.row_count; row = std::max(row + 1, rows.row_count - 1)) {
        const bool is_last = rows.first_position + row == rows.prompt_row_count - 1;
        if (walk_.inspect == InspectedRows::kLastOfPrompt && !is_last) continue;
        InspectedRow inspected{
            .position = rows.first_position + row,
            .heads = std::vector<HeadAttention>(case_.query_heads),
            .masses = std::vector<double>(case_.query_heads * (std::size(kInspectedBoundaries) - 1))};
        CheckOk(backend_.InspectAttention(*workspace_, {.attend = attend,
                                                        .row = first_row + row,
                                                        .boundaries = kInspectedBoundaries,
                                                        .heads = inspected.heads,
                                                        .masses = inspected.masses}));
        run_.inspected[step.sequence_ids[i]].push_back(std::move(inspected));
      }
      first_row += rows.row_count;
    }
  }

  Backend& backend_;
  const AttentionCase& case_;
  const AttentionWalk& walk_;
  StepShape shape_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Weight> weight_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<std::span<const int32_t>>> table_spans_;
  std::unique_ptr<Buffer> x_, queries_, out_, lse_, scales_, head_scales_, sinks_, projection_, centroids_, group_bias_;
  AttentionRun run_;
};

}  // namespace

AttentionRun RunAttentionCase(Backend& backend, const AttentionCase& c, const AttentionWalk& walk) {
  return Walker(backend, c, walk).Run();
}

size_t CountDifferentBits(const AttentionRun& a, const AttentionRun& b) {
  size_t different = 0;
  const auto count = [&](const std::vector<std::vector<float>>& x, const std::vector<std::vector<float>>& y) {
    VF_CHECK(x.size() == y.size(), "runs of one case");
    for (size_t s = 0; s < x.size(); ++s) {
      for (size_t i = 0; i < x[s].size(); ++i) different += std::memcmp(&x[s][i], &y[s][i], sizeof(float)) != 0;
    }
  };
  count(a.outs, b.outs);
  count(a.log_sum_exps, b.log_sum_exps);
  return different;
}

}  // namespace varifocal::kernels
