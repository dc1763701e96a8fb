#include "server/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "server/model/config_reader.h"

namespace varifocal {
namespace {

// theta^(-2i / span)
double Frequency(double theta, int64_t span, int64_t pair) { return std::pow(theta, -2.0 * pair / span); }

// Low frequencies are divided by the factor, high ones kept, those between interpolated.
double Llama3Frequency(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < rope.original_max_position / rope.high_freq_factor) return frequency;
  if (wavelength > rope.original_max_position / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth =
      (rope.original_max_position / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// The base for which the lowest frequency covers the longer sequence with the rotation of the original length.
double DynamicTheta(const RopeConfig& rope, int64_t span, int64_t rope_length) {
  const double length = std::max<double>(rope_length, rope.original_max_position);
  const double stretch = rope.factor * length / rope.original_max_position - (rope.factor - 1);
  return rope.theta * std::pow(stretch, span / (span - 2.0));
}

// Frequencies with more than beta_fast rotations over the original length are kept, those below beta_slow divided by the
// factor, those between interpolated by their dimension.
double YarnFrequency(const RopeConfig& rope, int64_t span, int64_t pair) {
  auto dimension_of = [&](double rotations) {
    return span * std::log(rope.original_max_position / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast);
  double high = dimension_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min<double>(high, span - 1);
  if (low == high) high += 0.001;  // as transformers: no division by zero
  const double slowed = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  const double frequency = Frequency(rope.theta, span, pair);
  return frequency / rope.factor * slowed + frequency * (1 - slowed);
}

double LongRopeFrequency(const RopeConfig& rope, int64_t span, int64_t pair, int64_t rope_length) {
  const bool is_long = rope_length > rope.original_max_position;
  const std::vector<double>& factors = is_long ? rope.long_factors : rope.short_factors;
  return Frequency(rope.theta, span, pair) / factors[pair];
}

}  // namespace

absl::string_view RopeKindName(RopeKind kind) {
  switch (kind) {
    case RopeKind::kDefault:
      return "default";
    case RopeKind::kLinear:
      return "linear";
    case RopeKind::kDynamic:
      return "dynamic";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
    case RopeKind::kLongRope:
      return "longrope";
    case RopeKind::kProportional:
      return "proportional";
  }
  return "";
}

std::string RopeConfig::ToString() const {
  std::string text(RopeKindName(kind));
  auto add = [&](absl::string_view name, double value) { absl::StrAppend(&text, " ", name, "=", ShortNumber(value)); };
  add("theta", theta);
  if (alpha != 1) add("alpha", alpha);
  if (kind == RopeKind::kProportional) add("partial", partial);
  if (rotary_span != 0) absl::StrAppend(&text, " rotary=", rotary_span);
  if (kind == RopeKind::kDefault) return text;
  add("factor", factor);
  if (kind == RopeKind::kLlama3) {
    add("low", low_freq_factor);
    add("high", high_freq_factor);
  }
  if (kind != RopeKind::kLinear && kind != RopeKind::kProportional) add("original", original_max_position);
  if (kind == RopeKind::kYarn) {
    add("fast", beta_fast);
    add("slow", beta_slow);
    if (!truncate) absl::StrAppend(&text, " untruncated");
  }
  if (kind == RopeKind::kYarn || kind == RopeKind::kLongRope) add("attention", attention_factor);
  if (query_beta != 0) add("query", query_beta);
  if (score_factor != 1) add("scores", score_factor);
  if (kind == RopeKind::kLongRope) {
    std::string factors;
    for (const double value : short_factors) absl::StrAppend(&factors, ShortNumber(value), ",");
    for (const double value : long_factors) absl::StrAppend(&factors, ";", ShortNumber(value));
    absl::StrAppend(&text, " factors=", Sha256Hex(factors).substr(0, 16));
  }
  return text;
}

double RopeConfig::QueryFactor(int64_t position) const {
  if (query_beta == 0) return 1;
  return 1 + query_beta * std::log(1 + std::floor(position / original_max_position));
}

int64_t RopeConfig::RopeLength(int64_t total_length) const {
  if (total_length <= original_max_position) return 0;
  if (kind == RopeKind::kDynamic) return total_length;
  // All lengths beyond the original one have the same factors.
  if (kind == RopeKind::kLongRope) return static_cast<int64_t>(original_max_position) + 1;
  return 0;
}

std::vector<double> RopeFrequencies(const RopeConfig& rope, int64_t head_width, int64_t rope_length) {
  const int64_t span = rope.RotarySpan(head_width);
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < rope.RotaryWidth(head_width) / 2; ++pair) {
    switch (rope.kind) {
      case RopeKind::kDefault:
        frequencies.push_back(Frequency(rope.theta * std::pow(rope.alpha, span / (span - 2.0)), span, pair));
        break;
      case RopeKind::kLinear:
        frequencies.push_back(Frequency(rope.theta, span, pair) / rope.factor);
        break;
      case RopeKind::kDynamic:
        frequencies.push_back(Frequency(DynamicTheta(rope, span, rope_length), span, pair));
        break;
      case RopeKind::kLlama3:
        frequencies.push_back(Llama3Frequency(rope, Frequency(rope.theta, span, pair)));
        break;
      case RopeKind::kYarn:
        frequencies.push_back(YarnFrequency(rope, span, pair));
        break;
      case RopeKind::kLongRope:
        frequencies.push_back(LongRopeFrequency(rope, span, pair, rope_length));
        break;
      case RopeKind::kProportional:
        // Truncated as transformers does.
        frequencies.push_back(pair < static_cast<int64_t>(rope.partial * span / 2)
                                  ? Frequency(rope.theta, span, pair) / rope.factor
                                  : 0.0);
        break;
    }
  }
  return frequencies;
}

RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_width, int64_t position_count, int64_t rope_length) {
  const std::vector<double> frequencies = RopeFrequencies(rope, head_width, rope_length);
  RopeTable table;
  table.position_count = position_count;
  table.half_width = frequencies.size();
  table.cos.resize(position_count * table.half_width);
  table.sin.resize(table.cos.size());
  for (int64_t position = 0; position < position_count; ++position) {
    for (int64_t i = 0; i < table.half_width; ++i) {
      const double angle = position * frequencies[i];
      const size_t at = position * table.half_width + i;
      table.cos[at] = std::cos(angle) * rope.attention_factor;
      table.sin[at] = std::sin(angle) * rope.attention_factor;
    }
  }
  return table;
}

}  // namespace varifocal
