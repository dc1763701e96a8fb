#include "server/model/rope.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

struct RopeRow {
  const char* name;
  RopeKind kind;
  // Reads the keys of this scaling.
  absl::Status (*read)(ConfigReader& reader, RopeConfig& rope);
  // The frequency that replaces `frequency`.
  double (*scale)(const RopeConfig& rope, double frequency);
};

absl::Status ReadNothing(ConfigReader&, RopeConfig&) { return absl::OkStatus(); }
double KeepFrequency(const RopeConfig&, double frequency) { return frequency; }

absl::Status ReadLinear(ConfigReader& reader, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.factor, reader.Positive("factor"));
  return absl::OkStatus();
}
double ScaleLinear(const RopeConfig& rope, double frequency) { return frequency / rope.factor; }

absl::Status ReadLlama3(ConfigReader& reader, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.factor, reader.Positive("factor"));
  ASSIGN_OR_RETURN(rope.low_freq_factor, reader.Positive("low_freq_factor"));
  ASSIGN_OR_RETURN(rope.high_freq_factor, reader.Positive("high_freq_factor"));
  ASSIGN_OR_RETURN(rope.original_max_position, reader.Positive("original_max_position_embeddings"));
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    return absl::InvalidArgumentError(absl::StrCat(reader.Name("low_freq_factor"), " is ", rope.low_freq_factor,
                                                   "; it must be below high_freq_factor, ", rope.high_freq_factor));
  }
  return absl::OkStatus();
}

// Long waves are slowed down by the factor, short ones kept, those between blended.
double ScaleLlama3(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < rope.original_max_position / rope.high_freq_factor) return frequency;
  if (wavelength > rope.original_max_position / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth =
      (rope.original_max_position / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

constexpr RopeRow kRows[] = {
    {"default", RopeKind::kDefault, ReadNothing, KeepFrequency},
    {"linear", RopeKind::kLinear, ReadLinear, ScaleLinear},
    {"llama3", RopeKind::kLlama3, ReadLlama3, ScaleLlama3},
};

const RopeRow& RowOf(RopeKind kind) {
  for (const RopeRow& row : kRows) {
    if (row.kind == kind) return row;
  }
  return kRows[0];
}

// One object, `rope_scaling` or `rope_parameters`.
absl::Status ReadObject(const Json& object, absl::string_view place, RopeConfig& rope) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", place, "\" is ", object.type_name(), "; it must be an object"));
  }
  ConfigReader reader(object, place);
  // Old files say "type", newer ones "rope_type", some both.
  ASSIGN_OR_RETURN(const std::string old_name, reader.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string name, reader.String("rope_type", old_name));
  if (reader.Has("type") && old_name != name) {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.Name("type"), " is \"", old_name, "\" while rope_type is \"", name, "\""));
  }
  const RopeRow* found = nullptr;
  for (const RopeRow& row : kRows) {
    if (name == row.name) found = &row;
  }
  if (found == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(reader.Name("rope_type"), " is \"", name, "\"; default, linear and llama3 are supported"));
  }
  rope.kind = found->kind;
  ASSIGN_OR_RETURN(rope.theta, reader.Positive("rope_theta", rope.theta));
  RETURN_IF_ERROR(reader.Only("partial_rotary_factor", 1.0));
  RETURN_IF_ERROR(found->read(reader, rope));
  return reader.RefuseUnread();
}

}  // namespace

absl::Status ReadRope(ConfigReader& reader, RopeConfig& rope) {
  const bool has_theta = reader.Has("rope_theta");
  ASSIGN_OR_RETURN(rope.theta, reader.Positive("rope_theta", rope.theta));
  const double top_theta = rope.theta;
  const Json* scaling = reader.Take("rope_scaling");
  const Json* parameters = reader.Take("rope_parameters");
  if (scaling != nullptr) RETURN_IF_ERROR(ReadObject(*scaling, "rope_scaling", rope));
  if (parameters != nullptr) {
    RopeConfig newer;
    newer.theta = top_theta;
    RETURN_IF_ERROR(ReadObject(*parameters, "rope_parameters", newer));
    if (scaling != nullptr && newer.ToString() != rope.ToString()) {
      return absl::InvalidArgumentError(absl::StrCat("\"rope_scaling\" says ", rope.ToString(),
                                                     " while \"rope_parameters\" says ", newer.ToString()));
    }
    rope = newer;
  }
  if (has_theta && rope.theta != top_theta) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"rope_theta\" is ", top_theta, " while the RoPE parameters say ", rope.theta));
  }
  return absl::OkStatus();
}

std::string RopeConfig::ToString() const {
  std::string text = absl::StrCat(RowOf(kind).name, " theta=", theta);
  if (kind != RopeKind::kDefault) absl::StrAppend(&text, " factor=", factor);
  if (kind == RopeKind::kLlama3) {
    absl::StrAppend(&text, " low=", low_freq_factor, " high=", high_freq_factor, " original=", original_max_position);
  }
  return text;
}

std::vector<double> RopeFrequencies(const RopeConfig& rope, int64_t head_width) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_width; i += 2) {
    // frequency = theta^(-i/D)
    const double frequency = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(head_width));
    frequencies.push_back(RowOf(rope.kind).scale(rope, frequency));
  }
  return frequencies;
}

RopeTable MakeRopeTable(const RopeConfig& rope, int64_t head_width, int64_t position_count) {
  const std::vector<double> frequencies = RopeFrequencies(rope, head_width);
  RopeTable table;
  table.position_count = position_count;
  table.half_width = head_width / 2;
  table.cos.resize(static_cast<size_t>(position_count * table.half_width));
  table.sin.resize(table.cos.size());
  for (int64_t position = 0; position < position_count; ++position) {
    for (int64_t i = 0; i < table.half_width; ++i) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
      const size_t at = static_cast<size_t>(position * table.half_width + i);
      table.cos[at] = static_cast<float>(std::cos(angle));
      table.sin[at] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace varifocal
