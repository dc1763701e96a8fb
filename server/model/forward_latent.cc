// The queries, keys and values of latent attention (latent_weights.h).
#include "base/status_macros.h"
#include "server/model/forward.h"
#include "server/model/kernel_status.h"

namespace varifocal {

using kernels::Slice;

// Queries of `args`, keys and values: from normed latents, which are products of its x.
absl::Status Forward::WriteLatent(const LatentWeights& latent, kernels::QkvRopeWriteArgs args) {
  kernels::Backend& backend = model_.backend();
  const LatentConfig& config = model_.config().latent;
  const auto normed = [&](const kernels::Weight& down, const std::unique_ptr<kernels::Buffer>& bias,
                          const std::unique_ptr<kernels::Buffer>& norm, int64_t rank, Slice out) {
    RETURN_IF_ERROR(
        ToStatus(backend.Linear(*workspace_, {.x = args.x, .weight = &down, .bias = {bias.get(), 0}, .out = out})));
    return ToStatus(backend.NormColumns(*workspace_, {.x = out,
                                                      .columns = static_cast<int>(down.rows()),
                                                      .count = static_cast<int>(rank),
                                                      .weight = {norm.get(), 0},
                                                      .epsilon = kLatentNormEpsilon}));
  };
  kernels::QkvRopeWriteArgs queries = args, keys_values = args;
  queries.queries_alone = true;
  queries.weight = latent.queries.get();
  if (config.query_rank > 0) {
    queries.x = {mixed_.get(), 0};
    RETURN_IF_ERROR(
        normed(*latent.query_down, latent.query_down_bias, latent.query_norm, config.query_rank, queries.x));
  }
  RETURN_IF_ERROR(ToStatus(backend.QkvRopeWrite(*workspace_, queries)));
  keys_values.query_head_count = 0;
  keys_values.weight = latent.keys_values.get();
  // After the queries are computed: their latent may be overwritten.
  keys_values.x = {mixed_.get(), 0};
  RETURN_IF_ERROR(normed(*latent.down, latent.down_bias, latent.norm, config.rank, keys_values.x));
  return ToStatus(backend.QkvRopeWrite(*workspace_, keys_values));
}

}  // namespace varifocal
