// A soft cap of the scores: s becomes cap tanh(s / cap), s = q.k * scale / t, before masks and beside a sink.
//
//   "score_soft_cap": {"cap": 30}
//
// It takes the place of the architecture's own cap (attn_logit_softcapping of Gemma 2). The run-time override is
// `softcap`, its value the cap.
#include <memory>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

constexpr char kScoreCapKey[] = "score_soft_cap";
// Weights under the lowest differ by 2 %; no score of a trained model reaches the highest.
constexpr NumberRange kCaps = {0.01, 1e6};

class ScoreCap : public AttentionVariant {
 public:
  explicit ScoreCap(double cap) : cap_(cap) {}

  Json ToJson() const override { return {{"cap", cap_}}; }
  std::string Label() const override { return absl::StrCat("softcap=", ShortNumber(cap_)); }

  absl::Status Prepare(const AttentionStep&, AttentionTerms& terms) const override {
    terms.soft_cap = cap_;
    return absl::OkStatus();
  }

 private:
  const double cap_;
};

absl::StatusOr<AttentionVariantPtr> ReadScoreCap(ConfigReader& reader, const AttentionModel&) {
  const Json* value = reader.Take("cap");
  if (value == nullptr) return InvalidArgument(reader.Name("cap"), " is missing");
  ASSIGN_OR_RETURN(const double cap, NumberIn(reader.Name("cap"), *value, kCaps));
  return std::make_shared<ScoreCap>(cap);
}

absl::StatusOr<Json> OverrideScoreCap(const Json&, const Json& value, const AttentionModel&) {
  ASSIGN_OR_RETURN(const double cap, NumberIn("softcap", value, kCaps));
  return Json{{"cap", cap}};
}

}  // namespace

const AttentionVariantRow kScoreCap = {kScoreCapKey, nullptr, ReadScoreCap};
const AttentionOverrideRow kScoreCapOverride = {"softcap", kScoreCapKey, ErrorReason::kBadAttentionOverride, false,
                                                OverrideScoreCap};

}  // namespace varifocal
