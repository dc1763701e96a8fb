// A LLaMA model with random weights, run on a Backend: for whole-model cells.
//
// Weights come from a fixed seed and are stored in one safetensors file beside a config.json, so that another engine
// can load the same values. The forward pass is the one in kernels/backend.h; it is repeated here because the server's
// depends on packages that a bare GPU machine lacks.
#pragma once

#include "kernels/cuda/bench/bench.h"

namespace varifocal::kernels::cuda {

// Token `index` of text `text`; same rule as in recipes/gpu_peer_calls.py.
inline int32_t TokenAt(const LlamaShape& shape, int text, int index) { return Mix(1000 + text, index) % shape.vocab; }

double WeightCount(const LlamaShape& shape);  // without the embedding, which is a lookup
// Operations of one prompt's rows [first, first + rows), without the LM head.
double PrefillFlops(const LlamaShape& shape, double first, double rows);

// The file of a shape's weights, mapped; written first where it is missing.
class Checkpoint {
 public:
  Checkpoint(const LlamaShape& shape, const std::string& scratch);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  HostMatrix At(const std::string& name) const;
  size_t bytes() const { return bytes_; }
  // Evicts the file from the page cache.
  void Forget() const;

 private:
  struct Tensor {
    std::string name;
    int64_t rows, columns;
    size_t offset;
  };
  void Lay(const LlamaShape& shape);
  void Write(const LlamaShape& shape, const std::string& path) const;

  std::vector<Tensor> tensors_;
  std::string header_;
  size_t bytes_ = 0;
  int file_ = -1;
  unsigned char* data_ = nullptr;
};

// Rows of one sequence of a step.
struct RunRows {
  std::vector<int32_t> tokens;
  int first_position = 0;
  const std::vector<int32_t>* pages = nullptr;
};

class LlamaRun {
 public:
  LlamaRun(const BenchPlace& place, const LlamaShape& shape, int rows_max, int sequences_max, int head_rows_max,
           int context_max, int page_count, bool learned_tau = false);

  const LlamaShape& shape() const { return shape_; }
  // Pages for so many tokens, new ones after the first `shared` of another sequence.
  std::vector<int32_t> Pages(int tokens, const std::vector<int32_t>* other = nullptr, int shared = 0);

  // One step; `heads` are rows of the step. Logits, if requested, have V values per slot.
  std::vector<HeadResult> Step(Phase phase, const std::vector<RunRows>& sequences, const std::vector<HeadRow>& heads,
                               float* logits = nullptr);
  // Whether decode steps are queued as one graph.
  void SetGraphs(bool graphs) { graphs_ = graphs; }
  // Whether steps take turns with those of other models, as an engine's do.
  void SetTurns(bool turns) { turns_ = turns; }
  // A whole prompt in chunks from a position on, smaller ones where turns ask for them; the logits of its last row.
  std::vector<float> Prompt(const std::vector<int32_t>& tokens, const std::vector<int32_t>& pages, int chunk,
                            int first = 0);

 private:
  struct Layer {
    std::unique_ptr<Weight> qkv, attended, gated, down;
    std::unique_ptr<Buffer> before_attention, before_ffn;
  };
  Backend& backend_;
  const LlamaShape shape_;
  std::unique_ptr<Weight> embedding_, head_;
  std::unique_ptr<Buffer> last_norm_;
  std::vector<Layer> layers_;
  std::unique_ptr<Buffer> tau_weight_, row_scales_;  // where tau is learned
  std::unique_ptr<RopeTable> rope_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Buffer> residual_, normed_, queries_, heads_out_, hidden_;
  int next_page_ = 0;
  bool graphs_ = false, turns_ = true;
};

std::vector<int32_t> TextOf(const LlamaShape& shape, int text, int count, int first = 0);
double RelativeError(const std::vector<float>& want, const std::vector<float>& got);

}  // namespace varifocal::kernels::cuda
