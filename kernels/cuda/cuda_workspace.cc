#include "kernels/cuda/cuda_workspace.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/wide_product.h"
#include "kernels/cuda/attention_sm90_load.h"
#include "kernels/cuda/cuda_recurrence.h"

namespace varifocal::kernels::cuda {
namespace {

int QueriesPerKv(const StepShape& shape, const HeadShape& heads) {
  return heads.kv_head_count == 0 ? 1 : shape.query_head_count / heads.kv_head_count;
}

// Heads of the layers that attend under a mask; without key heads, none do.
HeadShape MaskHeads(const StepShape& shape, size_t mask_index) {
  if (mask_index < shape.mask_heads.size()) return shape.mask_heads[mask_index];
  return {shape.kv_head_count, shape.head_dim};
}

// The heads that layers have, each once.
std::vector<HeadShape> DistinctHeads(const StepShape& shape) {
  std::vector<HeadShape> all;
  for (size_t mask = 0; mask < std::max<size_t>(shape.mask_heads.size(), 1); ++mask) {
    const HeadShape heads = MaskHeads(shape, mask);
    if (std::find(all.begin(), all.end(), heads) == all.end()) all.push_back(heads);
  }
  return all;
}

// The most scratch that a product's result takes in a step of this many rows, in a prefill and in a decode step; that of a
// layer with fewer outputs or inputs is not more.
size_t ProductBytes(const StepShape& shape, int64_t outputs, int64_t inner) {
  const size_t prefill = WideProduct(shape.row_count_max, outputs) * sizeof(float);
  const size_t decode =
      WideProduct(std::min(shape.row_count_max, shape.sequence_count_max), DecodeNumbersMax(outputs, inner)) *
      sizeof(float);
  return std::max(prefill, decode);
}

size_t HeadBytesOfSlice(size_t rows, int64_t vocab, int splits) {
  return rows * std::min<int64_t>(kHeadSlice, vocab) * splits * sizeof(float);
}
// The most that an LM head call of up to this many rows takes.
size_t HeadBytes(size_t rows, int64_t vocab, int splits) {
  return std::min(std::max(kHeadScratchBytes, HeadBytesOfSlice(rows, vocab, splits)),
                  rows * vocab * splits * sizeof(float));
}

template <typename T>
size_t Append(std::vector<int32_t>& words, const std::vector<T>& items) {
  static_assert(sizeof(T) % sizeof(int32_t) == 0);
  const size_t at = words.size();
  words.resize(at + items.size() * (sizeof(T) / sizeof(int32_t)));
  if (!items.empty()) std::memcpy(words.data() + at, items.data(), items.size() * sizeof(T));
  return at;
}

GatherSizes SizesOfGather(const StepShape& shape, const AttentionChoice& attention) {
  if (!attention.gathered) return {};
  int queries_per_kv = 1;
  for (const HeadShape& heads : DistinctHeads(shape)) {
    queries_per_kv = std::max(queries_per_kv, QueriesPerKv(shape, heads));
  }
  return GatherSizesFor(shape, queries_per_kv);
}

}  // namespace

int64_t HeadSlicesAtOnce(int rows, int64_t vocab, int splits) {
  const int64_t fitting = kHeadScratchBytes / HeadBytesOfSlice(rows, vocab, splits);
  return std::clamp<int64_t>(fitting, 1, (vocab + kHeadSlice - 1) / kHeadSlice);
}

size_t WorkspaceSizes::total_bytes() const {
  return metadata_words * sizeof(int32_t) + product_bytes + partial_floats * sizeof(float) +
         row_floats * sizeof(float) + head_row_halves * sizeof(uint16_t) +
         (head_states + head_partials) * sizeof(HeadState) + tokens * sizeof(int32_t) + draws * sizeof(DrawItem) +
         draw_floats * sizeof(float) + group_floats * sizeof(float) + (gather_words + mixture_words) * sizeof(int32_t) +
         mixture_halves * sizeof(uint16_t) + counters * sizeof(uint32_t);
}

WorkspaceSizes SizesFor(const StepShape& shape, const AttentionChoice& attention) {
  const size_t rows = shape.row_count_max, sequences = shape.sequence_count_max;
  const size_t head_rows = shape.head_row_count_max;
  const size_t pages = (static_cast<size_t>(shape.context_length_max) + kPageTokens - 1) / kPageTokens;
  const size_t splits = (static_cast<size_t>(shape.context_length_max) + kSplitKeys - 1) / kSplitKeys;
  const int64_t width = shape.model_dim, attended = WideProduct(shape.query_head_count, shape.head_dim);
  size_t tiles = 0;
  int64_t projected = attended;
  for (const HeadShape& heads : DistinctHeads(shape)) {
    const size_t tile_rows = rows * QueriesPerKv(shape, heads);
    tiles += tile_rows / 64 + sequences;
    if (attention.UsesSm90(heads.head_dim, false, false)) tiles += tile_rows / kSm90TileRows + sequences;
    projected =
        std::max<int64_t>(projected, WideProduct(shape.query_head_count + 2 * heads.kv_head_count, heads.head_dim));
  }
  WorkspaceSizes sizes{};
  const size_t items = std::min(rows, sequences) * splits;
  sizes.metadata_words = rows * (2 + 2 * kMasksMax) + sequences * (6 + kPageGroupsMax * (pages + 1)) +
                         std::max(3 * tiles, 4 * kMasksMax * items) + 64 + 2 * kMasksMax;
  sizes.product_bytes = std::max(
      {ProductBytes(shape, projected, width), ProductBytes(shape, width, attended),
       ProductBytes(shape, width, shape.ffn_dim), ProductBytes(shape, shape.ffn_dim, width),
       // Gate and up together: bf16 in prefill, f32 in decode.
       ProductBytes(shape, 2 * static_cast<int64_t>(shape.ffn_dim), width) / 2,
       std::min(rows, sequences) * DecodeNumbersMax(2 * static_cast<int64_t>(shape.ffn_dim), width) * sizeof(float),
       HeadBytes(head_rows, shape.vocab_size, 1),
       HeadBytes(std::min(head_rows, 2 * sequences), shape.vocab_size, DecodeSplitK(shape.vocab_size, width))});
  if (const RecurrenceShape& layer = shape.recurrence; layer.kind != RecurrenceKind::kNone) {
    sizes.product_bytes = std::max({sizes.product_bytes, ProductBytes(shape, layer.input_width(), width),
                                    ProductBytes(shape, width, layer.value_width()),
                                    RecurrenceScratchNumbers(layer, rows) * sizeof(float)});
  }
  if (shape.layer_input_width > 0) {
    const int64_t inputs = shape.layer_input_width;
    sizes.product_bytes = std::max({sizes.product_bytes, ProductBytes(shape, inputs * shape.layer_input_count, width),
                                    ProductBytes(shape, inputs, width), ProductBytes(shape, width, inputs)});
  }
  if (const int64_t rank = shape.low_rank_dim; rank > 0) {
    // Beside residual streams, which begin and end with products of their own width.
    sizes.product_bytes = std::max({sizes.product_bytes, ProductBytes(shape, rank, width),
                                    ProductBytes(shape, width, rank), ProductBytes(shape, width, width)});
  }
  if (shape.latent_dim > 0) {
    const int64_t of_queries = shape.query_latent_dim > 0 ? shape.query_latent_dim : width;
    sizes.product_bytes =
        std::max({sizes.product_bytes, ProductBytes(shape, shape.query_latent_dim, width),
                  ProductBytes(shape, shape.latent_dim, width), ProductBytes(shape, attended, of_queries),
                  ProductBytes(shape, projected - attended, shape.latent_dim)});
  }
  sizes.counters = kCounterCount;
  const GatherSizes gather = SizesOfGather(shape, attention);
  sizes.gather_words = gather.words();
  // Of a decode step by splits, or a prefill step over more than one segment or by groups.
  const bool in_parts = shape.context_length_max > kSegmentKeys || gather.passes > 0;
  const size_t parts = std::max(std::min(rows, sequences) * splits, in_parts ? rows : 0);
  sizes.partial_floats = parts * shape.query_head_count * (shape.head_dim + 2 * ValueParts(shape.head_dim));
  sizes.row_floats = std::max<size_t>(rows, shape.context_length_max);
  sizes.head_row_halves = head_rows * width;
  sizes.head_states = head_rows;
  sizes.head_partials = head_rows * CeilDivide(shape.vocab_size, kHeadSlice);
  sizes.tokens = std::max(rows, 3 * head_rows);
  // One token a sequence and step.
  sizes.draws = std::min(head_rows, sequences);
  sizes.draw_floats = sizes.draws * shape.vocab_size;
  sizes.group_floats = shape.gather_top_k_max > 0 ? rows * kGroupCountMax : 0;
  if (shape.expert_count > 0) {
    const size_t at_once = std::min<size_t>(rows, kMixtureRows), places = at_once * shape.experts_per_token;
    const size_t decoded = std::min(at_once, sequences) * shape.experts_per_token;
    const int64_t hidden = shape.expert_ffn_dim;
    sizes.mixture_words = rows * (2 * shape.experts_per_token + 1) + shape.expert_count * (at_once + 1);
    sizes.mixture_halves = std::max(places * hidden, shape.shared_expert ? rows * shape.ffn_dim : 0);
    sizes.product_bytes =
        std::max({sizes.product_bytes, places * 2 * hidden * sizeof(uint16_t), places * width * sizeof(float),
                  decoded * 2 * hidden * DecodeSplitK(2 * hidden, width) * sizeof(float),
                  decoded * hidden * DecodeSplitK(hidden, width) * sizeof(float),
                  decoded * width * DecodeSplitK(width, hidden) * sizeof(float)});
  }
  return sizes;
}

Result<std::unique_ptr<Workspace>> CudaWorkspace::Create(Device& device, const StepShape& shape,
                                                         const AttentionChoice& attention, const DecodeChoice& decode) {
  auto workspace = std::make_unique<CudaWorkspace>();
  const WorkspaceSizes sizes = SizesFor(shape, attention);
  workspace->shape = shape;
  workspace->choice_ = attention;
  workspace->gather_sizes_ = SizesOfGather(shape, attention);
  workspace->decode_ = decode;
  const DeviceProperties& properties = device.properties();
  if (decode.prefetch) {
    workspace->weights = WeightOrder(AheadBytes(properties.l2_bytes, properties.major * 10 + properties.minor));
  }
  workspace->device_ = &device;
  workspace->turn_ = std::make_unique<StepTurn>(device.turns());
  workspace->metadata_words_ = sizes.metadata_words;
  workspace->bytes_ = sizes.total_bytes();
  workspace->flat.Reserve(shape);
  workspace->words_.reserve(sizes.metadata_words);
  const struct {
    DeviceMemory* memory;
    size_t bytes;
  } pieces[] = {{&workspace->metadata_, sizes.metadata_words * sizeof(int32_t)},
                {&workspace->products_, sizes.product_bytes},
                {&workspace->partials, sizes.partial_floats * sizeof(float)},
                {&workspace->row_numbers, sizes.row_floats * sizeof(float)},
                {&workspace->head_rows, sizes.head_row_halves * sizeof(uint16_t)},
                {&workspace->head_states, sizes.head_states * sizeof(HeadState)},
                {&workspace->head_partials, sizes.head_partials * sizeof(HeadState)},
                {&workspace->tokens, sizes.tokens * sizeof(int32_t)},
                {&workspace->draws, sizes.draws * sizeof(DrawItem)},
                {&workspace->draw_logits, sizes.draw_floats * sizeof(float)},
                {&workspace->group_scores, sizes.group_floats * sizeof(float)},
                {&workspace->gather_, sizes.gather_words * sizeof(int32_t)},
                {&workspace->mixture_words_, sizes.mixture_words * sizeof(int32_t)},
                {&workspace->mixture_hidden_, sizes.mixture_halves * sizeof(uint16_t)},
                {&workspace->arrived_, sizes.counters * sizeof(uint32_t)}};
  for (const auto& piece : pieces) {
    if (piece.bytes == 0) continue;
    auto memory = device.Allocate(piece.bytes, "making a workspace", true);
    if (!memory.ok()) return memory.error();
    *piece.memory = std::move(*memory);
  }
  return std::unique_ptr<Workspace>(std::move(workspace));
}

// Appends the page tables, group after group; returns where they begin.
size_t CudaWorkspace::AppendPageTables(const Batch& batch, size_t page_group_count) {
  // Tables start at their offset from the first one's start.
  std::vector<int32_t> entries, starts;
  for (size_t g = 0; g < page_group_count; ++g) {
    for (const SequenceRows& sequence : batch.sequences) {
      starts.push_back(entries.size());
      if (g >= sequence.page_tables.size()) continue;
      const int64_t used =
          (static_cast<int64_t>(sequence.first_position) + sequence.row_count + kPageTokens - 1) / kPageTokens;
      const auto& table = sequence.page_tables[g];
      entries.insert(entries.end(), table.begin(), table.begin() + std::min<int64_t>(used, table.size()));
    }
  }
  const size_t all_starts = Append(words_, starts), tables = Append(words_, entries);
  for (size_t g = 0; g < page_group_count; ++g) table_starts_.push_back(all_starts + g * batch.sequences.size());
  return tables;
}

// Appends a mask, and the work of attention under it: tiles of a prefill step, which masks of equal `tiled` share, or items of
// a decode step.
CudaWorkspace::MaskPlan CudaWorkspace::AppendMask(const Batch& batch, size_t index, TiledMasks& tiled) {
  const auto& mask = batch.masks[index];
  MaskPlan plan{.heads = MaskHeads(shape, index)};
  plan.mask = Append(words_, std::vector<RowInterval>(mask.begin(), mask.end()));
  if (plan.heads.kv_head_count == 0) return plan;
  const int queries_per_kv = QueriesPerKv(shape, plan.heads);
  if (batch.phase == Phase::kDecode) {
    const DecodePlan splits = PlanSplits(flat, mask, queries_per_kv);
    plan.count = splits.items.size();
    plan.work = Append(words_, splits.items);
    plan.rows = Append(words_, splits.rows);
    plan.all_see_keys =
        std::none_of(mask.begin(), mask.end(), [](const RowInterval& seen) { return seen.begin >= seen.end; });
    return plan;
  }
  const auto tiles_of = [&](int tile_rows) -> const PlacedTiles& {
    const auto [known, is_new] = tiled.try_emplace({queries_per_kv, tile_rows});
    if (is_new) {
      known->second.tiles = PlanTiles(flat, queries_per_kv, tile_rows);
      known->second.at = Append(words_, known->second.tiles);
    }
    return known->second;
  };
  for (const RowInterval& seen : mask) plan.key_count = std::max(plan.key_count, seen.end);
  // Few tiles over many keys: the segments fill the device.
  const bool fits_apart = SegmentsFit(flat.row_count(), plan.key_count, shape.row_count_max);
  const int multiprocessors = device_->properties().multiprocessor_count;
  const PlacedTiles& tiles = tiles_of(PrefillTileRows(plan.heads.head_dim));
  plan.work = tiles.at;
  plan.count = tiles.tiles.size();
  plan.segments_apart = fits_apart && int64_t{plan.count} * plan.heads.kv_head_count < multiprocessors;
  if (choice_.UsesSm90(plan.heads.head_dim, false, false)) {
    const PlacedTiles& sm90 = tiles_of(kSm90TileRows);
    plan.sm90_work = sm90.at;
    plan.sm90_count = sm90.tiles.size();
    plan.sm90_taken = Append(words_, std::vector<int32_t>(2, 0));
    if (fits_apart) {
      plan.sm90_segments_apart = Sm90SegmentsApart({.tiles = KeysOfTiles(flat, sm90.tiles, mask, queries_per_kv),
                                                    .row_count = static_cast<int>(flat.row_count()),
                                                    .query_head_count = shape.query_head_count,
                                                    .kv_head_count = plan.heads.kv_head_count,
                                                    .head_dim = plan.heads.head_dim,
                                                    .key_count = plan.key_count},
                                                   choice_.tuning, multiprocessors);
    }
  }
  return plan;
}

Error CudaWorkspace::Begin(const Batch& batch) {
  if (batch.takes_turns) {
    if (Error error = device_->Check(turn_->Begin(batch.phase == Phase::kDecode), "waiting for a turn"); !error.ok())
      return error;
  }
  if (Error error = flat.Assign(batch, shape); !error.ok()) return error;
  if (batch.masks.size() > kMasksMax) {
    return {ErrorCode::kInvalidArgument,
            "a step of " + std::to_string(batch.masks.size()) + " masks exceeds " + std::to_string(kMasksMax)};
  }
  keeps_launches_ = false;
  launches_.Clear();
  waiting_norm_ = {};
  if (batch.phase == Phase::kDecode) weights.BeginDecodeStep();
  words_.clear();
  table_starts_.clear();
  plans_.clear();
  const size_t sequence_count = batch.sequences.size();
  const size_t row_sequences = Append(words_, flat.row_sequences), row_positions = Append(words_, flat.row_positions);
  const size_t first_rows = Append(words_, flat.first_rows);
  std::vector<int32_t> first_positions, prompt_rows, ropes;
  size_t group_count = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    first_positions.push_back(sequence.first_position);
    prompt_rows.push_back(sequence.prompt_row_count);
    ropes.push_back(sequence.rope_table);
    group_count = std::max(group_count, sequence.page_tables.size());
  }
  if (group_count > kPageGroupsMax) {
    return {ErrorCode::kInvalidArgument,
            "a step of " + std::to_string(group_count) + " page groups exceeds " + std::to_string(kPageGroupsMax)};
  }
  const size_t positions = Append(words_, first_positions), prompts = Append(words_, prompt_rows);
  const size_t rope_words = Append(words_, ropes);
  const size_t tables = AppendPageTables(batch, group_count);
  TiledMasks tiled;
  for (size_t i = 0; i < batch.masks.size(); ++i) plans_.push_back(AppendMask(batch, i, tiled));
  VF_CHECK(words_.size() <= metadata_words_, "the workspace was planned for this step");
  if (Error error = device_->Upload(metadata_.as(), words_.data(), words_.size() * sizeof(int32_t)); !error.ok())
    return error;
  const int32_t* base = metadata_.as<int32_t>();
  step_ = {.row_count = flat.row_count(),
           .sequence_count = static_cast<int>(sequence_count),
           .row_sequences = base + row_sequences,
           .row_positions = base + row_positions,
           .first_rows = base + first_rows,
           .first_positions = base + positions,
           .prompt_rows = base + prompts,
           .page_tables = base + tables};
  sequence_ropes_ = base + rope_words;
  return {};
}

const int32_t* CudaWorkspace::table_starts(int page_group) const {
  VF_CHECK(page_group >= 0 && page_group < static_cast<int>(table_starts_.size()), "no such page group");
  return metadata_.as<int32_t>() + table_starts_[page_group];
}

AttentionWork CudaWorkspace::attention(int mask_index) const {
  VF_CHECK(mask_index >= 0 && mask_index < static_cast<int>(plans_.size()), "no such mask");
  const MaskPlan& plan = plans_[mask_index];
  const int32_t* base = metadata_.as<int32_t>();
  AttentionWork work{.heads = plan.heads,
                     .mask = reinterpret_cast<const RowInterval*>(base + plan.mask),
                     .count = plan.count,
                     .key_count = plan.key_count,
                     .all_see_keys = plan.all_see_keys};
  if (flat.batch.phase == Phase::kPrefill) {
    work.tiles = reinterpret_cast<const QueryTile*>(base + plan.work);
    work.sm90_tiles = reinterpret_cast<const QueryTile*>(base + plan.sm90_work);
    work.sm90_count = plan.sm90_count;
    work.sm90_taken = metadata_.as<uint32_t>() + plan.sm90_taken;
    work.segments_apart = plan.segments_apart;
    work.sm90_segments_apart = plan.sm90_segments_apart;
  } else {
    work.items = reinterpret_cast<const DecodeItem*>(base + plan.work);
    work.item_rows = base + plan.rows;
  }
  return work;
}

int CudaWorkspace::split_count_max() const { return CeilDivide(shape.context_length_max, kSplitKeys); }

LaunchStream CudaWorkspace::stream() {
  LaunchStream stream = device_->stream();
  if (keeps_launches_) stream.list = &launches_;
  return stream;
}

Error CudaWorkspace::QueueKept() {
  if (!keeps_launches_) return {};
  keeps_launches_ = false;
  return device_->Check(graphs_.Queue(device_->runtime(), flat.row_count(), launches_), "starting a decode step");
}

void CudaWorkspace::PlaceGather(const GatherWave& wave, GatherView& view) const {
  const GatherSizes& sizes = gather_sizes_;
  auto* words = gather_.as<int32_t>();
  const auto take = [&](size_t count) { return std::exchange(words, words + count); };
  view.first_sequence = wave.first_sequence;
  view.sequence_count = wave.sequence_count;
  view.row_count = wave.row_count;
  view.places = take(sizes.entries);
  view.key_groups = reinterpret_cast<TokenGroups*>(take(sizes.entries));
  view.tiles =
      reinterpret_cast<GatherTile*>(take(sizes.passes * sizes.tile_stride * sizeof(GatherTile) / sizeof(int32_t)));
  view.rows = reinterpret_cast<GatherRow*>(take(sizes.passes * sizes.row_count * sizeof(GatherRow) / sizeof(int32_t)));
  view.lists = reinterpret_cast<GatherList*>(take(sizes.list_count * sizeof(GatherList) / sizeof(int32_t)));
  view.tile_counts = take(sizes.passes);
  view.tile_stride = static_cast<int>(sizes.tile_stride);
}

Error CudaWorkspace::RunWaitingNorm() {
  if (waiting_norm_.out == nullptr) return {};
  return device_->Check(device_->kernels().norm(TakeNorm(), stream()), "starting a norm");
}

MixtureScratch CudaWorkspace::mixture() const {
  const size_t rows = shape.row_count_max, places = rows * shape.experts_per_token;
  auto* words = mixture_words_.as<int32_t>();
  auto* floats = mixture_words_.as<float>();
  return {.chosen = words,
          .weights = floats + places,
          .shares = floats + 2 * places,
          .counts = words + 2 * places + rows,
          .lists = words + 2 * places + rows + shape.expert_count,
          .hidden = mixture_hidden_.as<uint16_t>()};
}

Result<void*> CudaWorkspace::Products(size_t bytes) {
  if (bytes > products_.bytes()) {
    // Queued kernels may still use the old one.
    if (Error error = QueueKept(); !error.ok()) return error;
    if (Error error = device_->Synchronize(); !error.ok()) return error;
    auto memory = device_->Allocate(bytes, "growing a workspace", false);
    if (!memory.ok()) return memory.error();
    bytes_ += bytes - products_.bytes();
    products_ = std::move(*memory);
  }
  return static_cast<void*>(products_.as());
}

}  // namespace varifocal::kernels::cuda
