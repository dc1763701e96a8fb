#include "kernels/cuda/bench/llama_run.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/wide_product.h"

namespace varifocal::kernels::cuda {
namespace {

constexpr float kNormEpsilon = 1e-5f;
constexpr double kRopeTheta = 10000;
constexpr double kWeightDeviation = 0.02;

// Numbers of a weight: uniform with the deviation above, four from one hash.
void FillRandom(uint64_t seed, uint16_t* out, size_t count) {
  constexpr float kUnitOf16 = kWeightDeviation * 1.7320508075688772 / 32768;
  for (size_t i = 0; i < count; i += 4) {
    const uint64_t bits = Mix(seed, i);
    for (size_t k = 0; k < 4 && i + k < count; ++k)
      out[i + k] = RoundToBF16(static_cast<int16_t>(bits >> (16 * k)) * kUnitOf16);
  }
}

void WriteConfig(const LlamaShape& shape, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw CellRefused{"cannot write " + path};
  std::fprintf(file,
               "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": %d, "
               "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, "
               "\"intermediate_size\": %d, \"vocab_size\": %d, \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
               "\"max_position_embeddings\": 65536, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, "
               "\"attention_bias\": false, \"bos_token_id\": 1, \"eos_token_id\": 2, \"torch_dtype\": \"bfloat16\"}\n",
               shape.width, shape.layers, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn, shape.vocab);
  std::fclose(file);
}

}  // namespace

double WeightCount(const LlamaShape& s) {
  const double heads = (s.heads + 2.0 * s.kv_heads) * s.head_dim, attended = static_cast<double>(s.heads) * s.head_dim;
  return s.layers * s.width * (heads + attended + 3.0 * s.ffn) + static_cast<double>(s.vocab) * s.width;
}

double PrefillFlops(const LlamaShape& s, double first, double rows) {
  const double pairs = rows * first + rows * (rows + 1) / 2;
  return 2 * rows * (WeightCount(s) - static_cast<double>(s.vocab) * s.width) +
         4 * pairs * s.layers * s.heads * s.head_dim;
}

std::vector<int32_t> TextOf(const LlamaShape& shape, int text, int count, int first) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(TokenAt(shape, text, first + i));
  return tokens;
}

double RelativeError(const std::vector<float>& want, const std::vector<float>& got) {
  return RelativeError(std::vector<double>(want.begin(), want.end()), std::vector<double>(got.begin(), got.end()));
}

// ---- the file ----

void Checkpoint::Lay(const LlamaShape& s) {
  size_t offset = 0;
  std::string header = "{";
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    const size_t bytes = WideProduct(rows, columns) * 2;
    header += (tensors_.empty() ? "\"" : ", \"") + name + "\": {\"dtype\": \"BF16\", \"shape\": [" +
              (rows == 1 ? "" : std::to_string(rows) + ", ") + std::to_string(columns) + "], \"data_offsets\": [" +
              std::to_string(offset) + ", " + std::to_string(offset + bytes) + "]}";
    tensors_.push_back({name, rows, columns, offset});
    offset += bytes;
  };
  add("model.embed_tokens.weight", s.vocab, s.width);
  for (int i = 0; i < s.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm.weight", 1, s.width);
    add(layer + "self_attn.q_proj.weight", s.heads * s.head_dim, s.width);
    add(layer + "self_attn.k_proj.weight", s.kv_heads * s.head_dim, s.width);
    add(layer + "self_attn.v_proj.weight", s.kv_heads * s.head_dim, s.width);
    add(layer + "self_attn.o_proj.weight", s.width, s.heads * s.head_dim);
    add(layer + "post_attention_layernorm.weight", 1, s.width);
    add(layer + "mlp.gate_proj.weight", s.ffn, s.width);
    add(layer + "mlp.up_proj.weight", s.ffn, s.width);
    add(layer + "mlp.down_proj.weight", s.width, s.ffn);
  }
  add("model.norm.weight", 1, s.width);
  add("lm_head.weight", s.vocab, s.width);
  header += ", \"__metadata__\": {\"format\": \"pt\"}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  header_.assign(reinterpret_cast<const char*>(&length), sizeof length);
  header_ += header;
  bytes_ = header_.size() + offset;
}

void Checkpoint::Write(const LlamaShape& shape, const std::string& path) const {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ftruncate(file, bytes_) != 0) throw CellRefused{"cannot write " + path};
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) throw CellRefused{"cannot map " + path};
  auto* data = static_cast<unsigned char*>(mapped);
  std::memcpy(data, header_.data(), header_.size());
  std::vector<std::thread> threads;
  const size_t count = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < tensors_.size(); ++i) {
        const Tensor& tensor = tensors_[i];
        // Rows are interleaved over threads; a row's values depend on nothing else.
        for (int64_t row = t; row < tensor.rows; row += count) {
          auto* out = reinterpret_cast<uint16_t*>(data + header_.size() + tensor.offset) + row * tensor.columns;
          if (tensor.rows == 1) {
            std::fill_n(out, tensor.columns, RoundToBF16(1.0f));
          } else {
            FillRandom(Mix(i, row), out, tensor.columns);
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  munmap(mapped, bytes_);
  close(file);
  WriteConfig(shape, (std::filesystem::path(path).parent_path() / "config.json").string());
}

Checkpoint::Checkpoint(const LlamaShape& shape, const std::string& scratch) {
  Lay(shape);
  const std::filesystem::path folder = std::filesystem::path(scratch) / shape.name;
  const std::string path = (folder / "model.safetensors").string();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::file_size(path, error) != bytes_ || error) {
    Write(shape, path + ".new");
    std::filesystem::rename(path + ".new", path, error);
  }
  file_ = open(path.c_str(), O_RDONLY);
  void* mapped = file_ < 0 ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) throw CellRefused{"cannot map " + path};
  data_ = static_cast<unsigned char*>(mapped);
}

Checkpoint::~Checkpoint() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

HostMatrix Checkpoint::At(const std::string& name) const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.name == name) return {DType::kBF16, data_ + header_.size() + tensor.offset, tensor.rows, tensor.columns};
  }
  VF_CHECK(false, "a tensor of the layout");
  return {};
}

void Checkpoint::Forget() const {
  fsync(file_);
  // Mapped pages stay in memory unless the mapping releases them too.
  madvise(data_, bytes_, MADV_DONTNEED);
  posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
}

// ---- the walk ----

LlamaRun::LlamaRun(const BenchPlace& place, const LlamaShape& shape, int rows_max, int sequences_max, int head_rows_max,
                   int context_max, int page_count, bool learned_tau)
    : backend_(place.backend), shape_(shape) {
  const Checkpoint file(shape, place.scratch);
  const auto weight = [&](std::initializer_list<std::string> names, WeightUse use) {
    std::vector<HostMatrix> parts;
    for (const std::string& name : names) parts.push_back(file.At(name));
    return ValueOrDie(backend_.CreateWeight(parts, use));
  };
  const auto vector = [&](const std::string& name) { return ValueOrDie(backend_.CreateVector(file.At(name))); };
  embedding_ = weight({"model.embed_tokens.weight"}, WeightUse::kEmbedding);
  for (int i = 0; i < shape.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.";
    Layer made;
    made.before_attention = vector(layer + "input_layernorm.weight");
    made.qkv = weight({attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"},
                      WeightUse::kPlain);
    made.attended = weight({attention + "o_proj.weight"}, WeightUse::kPlain);
    made.before_ffn = vector(layer + "post_attention_layernorm.weight");
    made.gated = weight({layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"}, WeightUse::kGateUp);
    made.down = weight({layer + "mlp.down_proj.weight"}, WeightUse::kPlain);
    layers_.push_back(std::move(made));
  }
  last_norm_ = vector("model.norm.weight");
  head_ = weight({"lm_head.weight"}, WeightUse::kHead);

  std::vector<float> cosines, sines;
  const int half = shape.head_dim / 2;
  for (int position = 0; position < context_max; ++position) {
    for (int i = 0; i < half; ++i) {
      const double angle = position * std::pow(kRopeTheta, -static_cast<double>(i) / half);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
  }
  rope_ = ValueOrDie(backend_.CreateRopeTable({cosines, sines, context_max, shape.head_dim}));
  pool_ = ValueOrDie(backend_.CreateKvPool({.layer_count = shape.layers,
                                            .kv_head_count = shape.kv_heads,
                                            .head_dim = shape.head_dim,
                                            .annotation_bytes = learned_tau ? kTauAnnotationBytes : 0},
                                           page_count));
  workspace_ = ValueOrDie(backend_.CreateWorkspace({.row_count_max = rows_max,
                                                    .sequence_count_max = sequences_max,
                                                    .head_row_count_max = head_rows_max,
                                                    .context_length_max = context_max,
                                                    .model_dim = shape.width,
                                                    .query_head_count = shape.heads,
                                                    .kv_head_count = shape.kv_heads,
                                                    .head_dim = shape.head_dim,
                                                    .ffn_dim = shape.ffn,
                                                    .vocab_size = shape.vocab}));
  const size_t rows = rows_max, attended = WideProduct(shape.heads, shape.head_dim);
  if (learned_tau) {
    const std::vector<uint16_t> zeros(shape.width, 0);
    tau_weight_ = ValueOrDie(backend_.CreateVector({DType::kBF16, zeros.data(), 1, shape.width}));
    row_scales_ = ValueOrDie(backend_.Allocate(rows * sizeof(float)));
  }
  residual_ = ValueOrDie(backend_.Allocate(rows * shape.width * sizeof(float)));
  normed_ = ValueOrDie(backend_.Allocate(rows * shape.width * sizeof(uint16_t)));
  queries_ = ValueOrDie(backend_.Allocate(rows * attended * sizeof(float)));
  heads_out_ = ValueOrDie(backend_.Allocate(rows * attended * sizeof(uint16_t)));
  hidden_ = ValueOrDie(backend_.Allocate(rows * shape.ffn * sizeof(uint16_t)));
}

std::vector<int32_t> LlamaRun::Pages(int tokens, const std::vector<int32_t>* other, int shared) {
  std::vector<int32_t> pages;
  for (int i = 0; i * kPageTokens < tokens; ++i) pages.push_back(i < shared ? (*other)[i] : next_page_++);
  VF_CHECK(next_page_ <= pool_->page_count(), "the pool was planned for these sequences");
  return pages;
}

std::vector<HeadResult> LlamaRun::Step(Phase phase, const std::vector<RunRows>& sequences,
                                       const std::vector<HeadRow>& heads, float* logits) {
  std::vector<std::span<const int32_t>> tables;
  std::vector<SequenceRows> rows;
  std::vector<RowInterval> intervals;
  std::vector<int32_t> tokens;
  for (const RunRows& sequence : sequences) tables.push_back({sequence.pages->data(), sequence.pages->size()});
  for (size_t s = 0; s < sequences.size(); ++s) {
    const RunRows& sequence = sequences[s];
    const int count = sequence.tokens.size();
    rows.push_back({.row_count = count, .first_position = sequence.first_position, .page_tables = {&tables[s], 1}});
    for (int r = 0; r < count; ++r) intervals.push_back(CausalInterval(sequence.first_position + r));
    tokens.insert(tokens.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
  const std::span<const RowInterval> mask = intervals;
  const RopeTable* const ropes[] = {rope_.get()};
  const Slice residual{residual_.get(), 0}, normed{normed_.get(), 0}, queries{queries_.get(), 0},
      heads_out{heads_out_.get(), 0}, hidden{hidden_.get(), 0};
  Workspace& w = *workspace_;
  const auto norm = [&](const std::unique_ptr<Buffer>& weight) {
    return NormArgs{
        .x = residual, .weight = {weight.get(), 0}, .epsilon = kNormEpsilon, .out = normed, .read_once = true};
  };
  const struct End {
    ~End() { backend.EndStep(workspace); }
    Backend& backend;
    Workspace& workspace;
  } end{backend_, w};
  Must(backend_.BeginStep(w, {.phase = phase, .sequences = rows, .masks = {&mask, 1}, .takes_turns = turns_}));
  Must(backend_.Embed(w, {.table = embedding_.get(), .tokens = tokens, .out = residual}));
  if (graphs_) backend_.QueueWithHead(w);
  Must(backend_.Norm(w, norm(layers_[0].before_attention)));
  for (int i = 0; i < shape_.layers; ++i) {
    const Layer& layer = layers_[i];
    const NormArgs before_ffn = norm(layer.before_ffn);
    const bool is_last = i + 1 == shape_.layers;
    const NormArgs next = is_last ? NormArgs{} : norm(layers_[i + 1].before_attention);
    const float root = std::sqrt(static_cast<float>(shape_.head_dim));
    Slice row_scales;
    if (tau_weight_ != nullptr) {
      row_scales = {row_scales_.get(), 0};
      Must(backend_.FocalTau(w, {.x = normed,
                                 .weight = {tau_weight_.get(), 0},
                                 .bias = root,
                                 .tau_min = 0.44f * root,
                                 .tau_max = 2 * root,
                                 .pool = pool_.get(),
                                 .layer = i,
                                 .row_scales = row_scales}));
    }
    Must(backend_.QkvRopeWrite(w, {.x = normed,
                                   .weight = layer.qkv.get(),
                                   .query_head_count = shape_.heads,
                                   .rope_tables = ropes,
                                   .pool = pool_.get(),
                                   .layer = i,
                                   .queries = queries}));
    Must(backend_.Attend(w, {.queries = queries,
                             .query_head_count = shape_.heads,
                             .pool = pool_.get(),
                             .layer = i,
                             .scale = 1.0f / root,
                             .row_scales = row_scales,
                             .out = heads_out}));
    Must(backend_.LinearResidual(
        w, {.x = heads_out, .weight = layer.attended.get(), .residual = residual, .next_norm = &before_ffn}));
    Must(backend_.LinearGated(w, {.x = normed, .weight = layer.gated.get(), .out = hidden}));
    Must(backend_.LinearResidual(
        w, {.x = hidden, .weight = layer.down.get(), .residual = residual, .next_norm = is_last ? nullptr : &next}));
  }
  std::vector<HeadResult> results(heads.size());
  Must(backend_.LmHead(w, {.residual = residual,
                           .norm_weight = {last_norm_.get(), 0},
                           .norm_epsilon = kNormEpsilon,
                           .weight = head_.get(),
                           .rows = heads,
                           .results = results,
                           .logits = logits}));
  for (const HeadResult& result : results) {
    if (!result.finite) throw CellRefused{"a logit is not finite"};
  }
  return results;
}

std::vector<float> LlamaRun::Prompt(const std::vector<int32_t>& tokens, const std::vector<int32_t>& pages, int chunk,
                                    int first) {
  const int count = tokens.size();
  std::vector<float> logits;
  for (int at = first, rows = 0; at < count; at += rows) {
    rows = std::min(chunk, count - at);
    if (turns_) rows = static_cast<int>(std::min<int64_t>(rows, backend_.StepRowsMax(*workspace_, at)));
    std::vector<HeadRow> heads;
    if (at + rows == count) {
      heads.push_back({.row = rows - 1, .logits_slot = 0});
      logits.resize(shape_.vocab);
    }
    Step(Phase::kPrefill, {{{tokens.begin() + at, tokens.begin() + at + rows}, at, &pages}}, heads, logits.data());
  }
  return logits;
}

}  // namespace varifocal::kernels::cuda
