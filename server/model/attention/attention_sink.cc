// Attention sinks: a logit beside the scores of a row, whose key has no value, so that a head may attend to nothing:
//
//   weight of key j = e^s_j / (e^sink + sum_k e^s_k),  s = cap(q.k * scale / t)
//
//   "attention_sink": {"mode": "learned"}               a logit per layer and head                     (GPT-OSS)
//   "attention_sink": {"mode": "constant", "logit": 0}  one for all; 0 is softmax off by one, 1 + sum e^s_k
//
// Scales, temperatures, log-n and caps change the scores alone, as in GPT-OSS, where the sink is appended to them: dividing
// q.k by t is the same model as dividing the query projection by t. So a temperature below 1 also moves weight between keys
// and sink. Tensor of each layer where learned: sinks [H]. The run-time override is `sink`, its value the logit.
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "server/model/attention/override_values.h"
#include "server/model/attention/variants.h"

namespace varifocal {
namespace {

constexpr char kSinkKey[] = "attention_sink";
// Scores of f32 models are smaller: beyond it a sink has no weight, or all of it.
constexpr NumberRange kSinkLogits = {-10000, 10000};

class SinkConstant : public AttentionVariant {
 public:
  explicit SinkConstant(double logit) : logit_(logit) {}

  Json ToJson() const override { return {{"mode", kSinkConstant.mode}, {"logit", logit_}}; }
  std::string Label() const override { return absl::StrCat("sink=", ShortNumber(logit_)); }

  absl::Status Prepare(const AttentionStep&, AttentionTerms& terms) const override {
    terms.sink = static_cast<float>(logit_);
    return absl::OkStatus();
  }

 private:
  const double logit_;
};

class SinkLearned : public AttentionVariant {
 public:
  Json ToJson() const override { return {{"mode", kSinkLearned.mode}}; }
  std::string Label() const override { return "sink learned"; }
  bool IsLearned() const override { return true; }
  std::vector<AttentionTensor> Tensors(const AttentionModel& model, int64_t) const override {
    return {{.name = "sinks", .shape = {model.head_count}}};
  }

  absl::Status Prepare(const AttentionStep& step, AttentionTerms& terms) const override {
    terms.sinks = {step.tensors[0].buffer.get(), 0};
    return absl::OkStatus();
  }
};

absl::StatusOr<AttentionVariantPtr> ReadSinkConstant(ConfigReader& reader, const AttentionModel&) {
  const Json* value = reader.Take("logit");
  if (value == nullptr) return InvalidArgument(reader.Name("logit"), " is missing");
  ASSIGN_OR_RETURN(const double logit, NumberIn(reader.Name("logit"), *value, kSinkLogits));
  return std::make_shared<SinkConstant>(logit);
}

absl::StatusOr<AttentionVariantPtr> ReadSinkLearned(ConfigReader&, const AttentionModel&) {
  return std::make_shared<SinkLearned>();
}

absl::StatusOr<Json> OverrideSink(const Json&, const Json& value, const AttentionModel&) {
  ASSIGN_OR_RETURN(const double logit, NumberIn("sink", value, kSinkLogits));
  return Json{{"mode", kSinkConstant.mode}, {"logit", logit}};
}

}  // namespace

const AttentionVariantRow kSinkConstant = {kSinkKey, "constant", ReadSinkConstant};
const AttentionVariantRow kSinkLearned = {kSinkKey, "learned", ReadSinkLearned};
const AttentionOverrideRow kSinkOverride = {"sink", kSinkKey, ErrorReason::kBadAttentionOverride, false, OverrideSink};

}  // namespace varifocal
