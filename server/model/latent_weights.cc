#include "server/model/latent_weights.h"

#include "base/status_macros.h"

namespace varifocal {
namespace {

using kernels::HostMatrix;

// Where the rotated dimension `index` of a head is stored among its rotated ones.
int64_t StoredPlace(const LatentConfig& latent, int64_t index) {
  if (!latent.neighbours) return index;
  const int64_t half = latent.rotated_width / 2;
  return 2 * (index % half) + index / half;
}

HostMatrix ColumnsOf(const TensorView& tensor, int64_t first, int64_t count) {
  HostMatrix part = ToHostMatrix(tensor);
  part.data = part.At(0, first);
  part.row_stride = part.columns;
  part.columns = count;
  return part;
}

class LatentLoader {
 public:
  LatentLoader(TensorLoader& loader, const LatentNames& names, const ModelConfig& config, const std::string& prefix)
      : loader_(loader), names_(names), config_(config), prefix_(prefix) {}

  LatentStacks Take(const char* query, const char* output) {
    const int64_t width = config_.width, heads = config_.head_count;
    LatentStacks stacks;
    if (latent_.query_rank > 0) {
      stacks.query_down = Tensor(names_.query_down, {latent_.query_rank, width});
      stacks.query_norm = Tensor(names_.query_norm, {latent_.query_rank});
    }
    stacks.down = Tensor(names_.down, {latent_.width(), width});
    stacks.norm = Tensor(names_.norm, {latent_.rank});
    if (config_.blocks.query_key_value_bias) {
      if (latent_.query_rank > 0) stacks.query_down_bias = Tensor(names_.query_down, {latent_.query_rank}, ".bias");
      stacks.down_bias = Tensor(names_.down, {latent_.width()}, ".bias");
    }
    for (Stack* stack : {&stacks.down, &stacks.down_bias}) OrderRotated(*stack);
    const int64_t inputs = latent_.query_rank > 0 ? latent_.query_rank : width;
    stacks.queries = Tensor(latent_.query_rank > 0 ? names_.query_up : query, {heads * latent_.key_width(), inputs});
    PlaceQueries(stacks.queries, inputs);
    stacks.keys_values = Tensor(names_.up, {heads * (latent_.unrotated_width + latent_.value_width), latent_.rank});
    PlaceKeysAndValues(stacks.keys_values);
    stacks.output = Tensor(output, {width, heads * latent_.value_width});
    PlaceOutput(stacks.output);
    if (config_.blocks.attention_output_bias) stacks.output_bias = Tensor(output, {width}, ".bias");
    return stacks;
  }

 private:
  Stack Tensor(const char* name, std::vector<int64_t> shape, const char* suffix = ".weight") {
    Stack stack;
    const TensorView* tensor = loader_.Take(absl::StrCat(prefix_, name, suffix), std::move(shape));
    if (tensor != nullptr) stack.tensors.push_back(tensor);
    return stack;
  }
  // The latent, then the first of all rotated pairs, then the second.
  void OrderRotated(Stack& stack) const {
    if (stack.tensors.empty() || !latent_.neighbours) return;
    stack.parts = {RowsOf(*stack.tensors[0], 0, latent_.rank)};
    for (int64_t i = 0; i < latent_.rotated_width; ++i)
      stack.parts.push_back(RowsOf(*stack.tensors[0], latent_.rank + StoredPlace(latent_, i), 1));
  }
  // Stored as [not rotated | rotated] of each head.
  void PlaceQueries(Stack& stack, int64_t inputs) const {
    if (stack.tensors.empty()) return;
    MatrixGrid grid{.rows = config_.head_count * config_.head_width, .columns = inputs, .pieces = {}};
    for (int64_t head = 0; head < config_.head_count; ++head) {
      const int64_t from = head * latent_.key_width(), to = head * config_.head_width;
      for (int64_t i = 0; i < latent_.rotated_width; ++i) {
        const int64_t stored = from + latent_.unrotated_width + StoredPlace(latent_, i);
        grid.pieces.push_back({RowsOf(*stack.tensors[0], stored, 1), to + i, 0});
      }
      grid.pieces.push_back({RowsOf(*stack.tensors[0], from, latent_.unrotated_width), to + latent_.rotated_width, 0});
    }
    stack.grid = std::move(grid);
  }
  // Stored as [not rotated | value] of each head.
  void PlaceKeysAndValues(Stack& stack) const {
    if (stack.tensors.empty()) return;
    const int64_t all = config_.head_count * config_.head_width;
    MatrixGrid grid{.rows = 2 * all, .columns = latent_.width(), .pieces = {}};
    const HostMatrix ones{.rows = latent_.rotated_width, .columns = latent_.rotated_width};
    for (int64_t head = 0; head < config_.head_count; ++head) {
      const int64_t from = head * (latent_.unrotated_width + latent_.value_width), to = head * config_.head_width;
      grid.pieces.push_back({ones, to, latent_.rank});
      grid.pieces.push_back({RowsOf(*stack.tensors[0], from, latent_.unrotated_width), to + latent_.rotated_width, 0});
      grid.pieces.push_back(
          {RowsOf(*stack.tensors[0], from + latent_.unrotated_width, latent_.value_width), all + to, 0});
    }
    stack.grid = std::move(grid);
  }
  void PlaceOutput(Stack& stack) const {
    if (stack.tensors.empty() || latent_.value_width == config_.head_width) return;
    MatrixGrid grid{.rows = config_.width, .columns = config_.head_count * config_.head_width, .pieces = {}};
    for (int64_t head = 0; head < config_.head_count; ++head) {
      grid.pieces.push_back({ColumnsOf(*stack.tensors[0], head * latent_.value_width, latent_.value_width), 0,
                             head * config_.head_width});
    }
    stack.grid = std::move(grid);
  }

  TensorLoader& loader_;
  const LatentNames& names_;
  const ModelConfig& config_;
  const LatentConfig& latent_ = config_.latent;
  const std::string& prefix_;
};

}  // namespace

LatentStacks TakeLatent(TensorLoader& loader, const TensorNames& names, const ModelConfig& config,
                        const std::string& prefix) {
  return LatentLoader(loader, names.latent, config, prefix).Take(names.query, names.attention_output);
}

absl::StatusOr<LatentWeights> PackLatent(TensorPacker& packer, const LatentStacks& stacks) {
  LatentWeights latent;
  ASSIGN_OR_RETURN(latent.query_down, packer.Matrix(stacks.query_down, kernels::WeightUse::kPlain));
  ASSIGN_OR_RETURN(latent.query_down_bias, packer.Vector(stacks.query_down_bias));
  ASSIGN_OR_RETURN(latent.query_norm, packer.Vector(stacks.query_norm));
  ASSIGN_OR_RETURN(latent.down, packer.Matrix(stacks.down, kernels::WeightUse::kPlain));
  ASSIGN_OR_RETURN(latent.down_bias, packer.Vector(stacks.down_bias));
  ASSIGN_OR_RETURN(latent.norm, packer.Vector(stacks.norm));
  ASSIGN_OR_RETURN(latent.queries, packer.Matrix(stacks.queries, kernels::WeightUse::kPlain));
  ASSIGN_OR_RETURN(latent.keys_values, packer.Matrix(stacks.keys_values, kernels::WeightUse::kPlain));
  return latent;
}

int64_t LatentBytes(const TensorPacker& packer, const LatentStacks& stacks) {
  int64_t bytes = 0;
  for (const Stack* stack : {&stacks.query_down, &stacks.down, &stacks.queries, &stacks.keys_values})
    bytes += packer.MatrixBytes(*stack, kernels::WeightUse::kPlain);
  return bytes;
}

}  // namespace varifocal
