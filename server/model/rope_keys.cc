#include "server/model/rope_keys.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr double kOriginalMax = 1 << 30;  // as of max_position_embeddings

// Context of a RoPE object: sizes, and keys of the top level of the file.
struct Surroundings {
  RopeSizes sizes;
  double theta = 10000;
  double partial = 1;
  std::string partial_name;  // of the key it was read from
  bool partial_allowed = false;
  bool longrope_alone = false;
  bool mrope_is_default = false;
  bool query_scale = false;
  bool alpha = false;
  bool proportional = false;
  bool scales_scores = false;
  bool nested = false;                          // an object per kind of layer
  std::optional<double> original_max_position;  // overrides that of the object, which may only repeat it
};

absl::Status ReadFactor(ConfigReader& reader, const Surroundings&, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.factor, reader.Positive("factor"));
  return absl::OkStatus();
}

absl::Status ReadOriginal(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  const double above = around.original_max_position.value_or(static_cast<double>(around.sizes.max_position));
  ASSIGN_OR_RETURN(rope.original_max_position, reader.Positive("original_max_position_embeddings", above));
  if (rope.original_max_position > kOriginalMax) {
    return InvalidArgument(reader.Name("original_max_position_embeddings"), " is ", rope.original_max_position,
                           "; the limit is ", kOriginalMax);
  }
  if (around.original_max_position.has_value() && rope.original_max_position != above) {
    return InvalidArgument(reader.Name("original_max_position_embeddings"), " is ", rope.original_max_position,
                           " but at the top level, which takes precedence, ", above);
  }
  return absl::OkStatus();
}

// For yarn and longrope the default of the factor is the ratio of the two lengths.
absl::Status ReadFactorOrRatio(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  RETURN_IF_ERROR(ReadOriginal(reader, around, rope));
  const double ratio = around.sizes.max_position / rope.original_max_position;
  ASSIGN_OR_RETURN(rope.factor, reader.Positive("factor", ratio));
  return absl::OkStatus();
}

// Keys of remote code and of other scalings, which transformers does not read here.
absl::Status ReadLinear(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  reader.Ignore({"original_max_position_embeddings"});
  return ReadFactor(reader, around, rope);
}

absl::Status ReadDynamic(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  // transformers takes an alpha of 0 for none.
  if (around.alpha && reader.Has("alpha") && *reader.Take("alpha") != 0) {
    ASSIGN_OR_RETURN(rope.alpha, reader.Positive("alpha"));
    if (around.sizes.head_width <= 2) {
      return InvalidArgument(reader.Name("alpha"), " is set with heads of ", around.sizes.head_width,
                             " dimensions; it needs 3");
    }
    rope.kind = RopeKind::kDefault;
    // Of other programs; transformers reads none.
    reader.Ignore({"factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "original_max_position_embeddings"});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ReadFactor(reader, around, rope));
  reader.Ignore({"original_max_position_embeddings"});
  rope.original_max_position = around.sizes.max_position;
  const int64_t span = rope.RotarySpan(around.sizes.head_width);
  if (span <= 2)
    return InvalidArgument(reader.Name("rope_type"), " is \"dynamic\" with ", span, " rotary dimensions; it needs 3");
  if (rope.factor < 1)
    return InvalidArgument(reader.Name("factor"), " is ", rope.factor, "; of \"dynamic\" it must be at least 1");
  return absl::OkStatus();
}

absl::Status ReadLlama3(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  RETURN_IF_ERROR(ReadFactor(reader, around, rope));
  ASSIGN_OR_RETURN(rope.low_freq_factor, reader.Positive("low_freq_factor"));
  ASSIGN_OR_RETURN(rope.high_freq_factor, reader.Positive("high_freq_factor"));
  RETURN_IF_ERROR(ReadOriginal(reader, around, rope));
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    return InvalidArgument(reader.Name("low_freq_factor"), " is ", rope.low_freq_factor,
                           "; it must be below high_freq_factor, ", rope.high_freq_factor);
  }
  return absl::OkStatus();
}

// 0.1 m ln(factor) + 1: the attention factor of an extended context.
double YarnAttentionFactor(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

absl::Status ReadYarn(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  // As in transformers: only a factor that is there and null is the ratio.
  if (!reader.IsPresent("factor")) return InvalidArgument(reader.Name("factor"), " is missing");
  RETURN_IF_ERROR(ReadFactorOrRatio(reader, around, rope));
  ASSIGN_OR_RETURN(rope.beta_fast, reader.Positive("beta_fast", 32));
  ASSIGN_OR_RETURN(rope.beta_slow, reader.Positive("beta_slow", 1));
  ASSIGN_OR_RETURN(const double mscale, reader.NonNegative("mscale", 0));
  ASSIGN_OR_RETURN(const double mscale_all, reader.NonNegative("mscale_all_dim", 0));
  const double implied = mscale != 0 && mscale_all != 0
                             ? YarnAttentionFactor(rope.factor, mscale) / YarnAttentionFactor(rope.factor, mscale_all)
                             : YarnAttentionFactor(rope.factor, 1);
  ASSIGN_OR_RETURN(rope.attention_factor, reader.Positive("attention_factor", implied));
  if (around.scales_scores) rope.score_factor = std::pow(YarnAttentionFactor(rope.factor, mscale_all), 2);
  if (around.nested) {
    RETURN_IF_ERROR(reader.RequireValue("truncate", true));  // ignored by transformers
  } else {
    ASSIGN_OR_RETURN(rope.truncate, reader.Bool("truncate", true));
  }
  const int64_t span = rope.RotarySpan(around.sizes.head_width);
  if (span % 2 != 0) {
    return InvalidArgument(reader.Name("rope_type"), " is \"yarn\" with ", span,
                           " rotary dimensions; it needs an even number");
  }
  if (rope.theta <= 1)
    return InvalidArgument(reader.Name("rope_theta"), " is ", rope.theta, "; of \"yarn\" it must be above 1");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> ReadFactors(ConfigReader& reader, absl::string_view key, int64_t count) {
  const Json* list = reader.Take(key);
  if (list == nullptr) return InvalidArgument(reader.Name(key), " is missing");
  if (!list->is_array() || std::ssize(*list) != count) {
    return InvalidArgument(reader.Name(key), " has ", list->is_array() ? absl::StrCat(list->size()) : list->type_name(),
                           list->is_array() ? " numbers" : "", "; it must be a list of ", count,
                           ", one per pair of rotary dimensions");
  }
  std::vector<double> factors;
  for (const Json& item : *list) {
    const double value = item.is_number() ? item.get<double>() : 0;
    if (!(value >= kNumberMin && value <= kNumberMax)) {
      return InvalidArgument(reader.Name(key), "[", factors.size(), "] is ", ShownValue(item), "; it must lie in ",
                             kNumberMin, "..", kNumberMax);
    }
    factors.push_back(value);
  }
  return factors;
}

absl::Status ReadLongRope(ConfigReader& reader, const Surroundings& around, RopeConfig& rope) {
  const int64_t span = rope.RotarySpan(around.sizes.head_width);
  if (span % 2 != 0) {
    return InvalidArgument(reader.Name("rope_type"), " is \"longrope\" with ", span,
                           " rotary dimensions; it needs an even number");
  }
  ASSIGN_OR_RETURN(rope.short_factors, ReadFactors(reader, "short_factor", span / 2));
  ASSIGN_OR_RETURN(rope.long_factors, ReadFactors(reader, "long_factor", span / 2));
  RETURN_IF_ERROR(ReadFactorOrRatio(reader, around, rope));
  // The entropy of attention grows with the logarithm of the length: scores are scaled likewise.
  const double implied =
      rope.factor <= 1 ? 1 : std::sqrt(1 + std::log(rope.factor) / std::log(rope.original_max_position));
  if (!std::isfinite(implied)) {
    return InvalidArgument(reader.Name("original_max_position_embeddings"), " is ", rope.original_max_position,
                           "; of \"longrope\" it must be above 1");
  }
  ASSIGN_OR_RETURN(rope.attention_factor, reader.Positive("attention_factor", implied));
  return absl::OkStatus();
}

absl::Status ReadDefault(ConfigReader& reader, const Surroundings&, RopeConfig&) {
  // Of multimodal models: the sections' positions are equal for text.
  reader.Ignore({"mrope_section", "mrope_interleaved"});
  return absl::OkStatus();
}

// Of the pairs of a head, which the frequencies span, the first turn.
absl::Status ReadProportional(ConfigReader& reader, const Surroundings&, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.partial, reader.Positive("partial_rotary_factor", 1));
  if (rope.partial > 1) {
    return InvalidArgument(reader.Name("partial_rotary_factor"), " is ", ShortNumber(rope.partial),
                           "; it must be at most 1");
  }
  ASSIGN_OR_RETURN(rope.factor, reader.Positive("factor", 1));
  return absl::OkStatus();
}

struct RopeRow {
  RopeKind kind;
  // Reads the keys of this scaling.
  absl::Status (*read)(ConfigReader& reader, const Surroundings& around, RopeConfig& rope);
};
constexpr RopeRow kRows[] = {
    {RopeKind::kDefault, ReadDefault},
    {RopeKind::kLinear, ReadLinear},
    {RopeKind::kDynamic, ReadDynamic},
    {RopeKind::kLlama3, ReadLlama3},
    {RopeKind::kYarn, ReadYarn},
    {RopeKind::kLongRope, ReadLongRope},
    {RopeKind::kProportional, ReadProportional},
};

absl::StatusOr<const RopeRow*> FindRow(const ConfigReader& reader, std::string name, const Surroundings& around) {
  const bool longrope_alone = around.longrope_alone;
  if (around.mrope_is_default && name == "mrope") name = "default";
  if (longrope_alone && (name == "su" || name == "yarn")) name = "longrope";
  std::vector<absl::string_view> supported;
  for (const RopeRow& row : kRows) {
    if (longrope_alone && row.kind != RopeKind::kDefault && row.kind != RopeKind::kLongRope) continue;
    if (!around.proportional && row.kind == RopeKind::kProportional) continue;
    if (name == RopeKindName(row.kind)) return &row;
    supported.push_back(RopeKindName(row.kind));
  }
  return Unimplemented(reader.Name("rope_type"), " is \"", name, "\"; supported are ", absl::StrJoin(supported, ", "));
}

// The rotated dimensions of a head. Truncated, as transformers does.
absl::Status SetSpan(double partial, const std::string& name, const Surroundings& around, RopeConfig& rope) {
  if (partial == 1) return absl::OkStatus();
  if (!around.partial_allowed) return Unimplemented(name, " is ", partial, "; only 1.0 is supported");
  const double dimensions = around.sizes.head_width * partial;
  if (partial > 1 || dimensions < 1) {
    return InvalidArgument(name, " is ", partial, "; of heads of ", around.sizes.head_width,
                           " dimensions at least one and at most all must be rotated");
  }
  rope.rotary_span = static_cast<int64_t>(dimensions);
  if (rope.rotary_span == around.sizes.head_width) rope.rotary_span = 0;
  return absl::OkStatus();
}

absl::Status ReadQueryScale(ConfigReader& reader, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.query_beta, reader.NonNegative("llama_4_scaling_beta", 0));
  // Repeats max_position_embeddings; transformers does not read it.
  reader.Ignore({"max_position_embeddings"});
  if (rope.query_beta == 0 || rope.kind == RopeKind::kYarn) return absl::OkStatus();
  // As there, of the original length, which other kinds have not.
  return Unimplemented(reader.Name("llama_4_scaling_beta"), " is ", ShortNumber(rope.query_beta), " with \"",
                       RopeKindName(rope.kind), "\"; it is supported with yarn alone");
}

// One object: `rope_scaling`, `rope_parameters`, or one of the objects inside that. Null: top-level keys only.
absl::StatusOr<RopeConfig> ReadObject(const Json* object, const std::string& place, const Surroundings& around) {
  static const Json& empty = *new Json(Json::object());
  if (object == nullptr) object = &empty;
  if (!object->is_object())
    return InvalidArgument("\"", place, "\" is ", object->type_name(), "; it must be an object");
  ConfigReader reader(*object, place);
  // Old files have "type", newer ones "rope_type", some both.
  ASSIGN_OR_RETURN(const std::string old_name, reader.String("type", "default"));
  ASSIGN_OR_RETURN(const std::string name, reader.String("rope_type", old_name));
  ASSIGN_OR_RETURN(const RopeRow* row, FindRow(reader, name, around));
  if (reader.Has("type")) {
    ASSIGN_OR_RETURN(const RopeRow* old_row, FindRow(reader, old_name, around));
    if (old_row != row)
      return InvalidArgument(reader.Name("type"), " is \"", old_name, "\" while rope_type is \"", name, "\"");
  }
  RopeConfig rope;
  rope.kind = row->kind;
  ASSIGN_OR_RETURN(rope.theta, reader.Positive("rope_theta", around.theta));
  if (row->kind != RopeKind::kProportional) {
    ASSIGN_OR_RETURN(const double partial, reader.Positive("partial_rotary_factor", around.partial));
    const std::string partial_name =
        reader.Has("partial_rotary_factor") ? reader.Name("partial_rotary_factor") : around.partial_name;
    RETURN_IF_ERROR(SetSpan(partial, partial_name, around, rope));
  }
  RETURN_IF_ERROR(row->read(reader, around, rope));
  if (around.query_scale) RETURN_IF_ERROR(ReadQueryScale(reader, rope));
  // Of remote code of the first YaRN models; transformers reads neither.
  reader.Ignore({"finetuned"});
  RETURN_IF_ERROR(reader.RequireValue("attn_factor", 1));
  RETURN_IF_ERROR(reader.RefuseUnread());
  return rope;
}

// A top-level key that repeats another, by default one of the RoPE object, must have the same value.
absl::Status CheckAgain(ConfigReader& reader, const char* key, double expected,
                        const std::string& other = "in the RoPE parameters") {
  ASSIGN_OR_RETURN(const double value, reader.Positive(key, expected));
  if (value == expected) return absl::OkStatus();
  return InvalidArgument(reader.Name(key), " is ", value, " but ", other, " ", expected);
}

bool HasTheta(const Json* object) { return object != nullptr && ConfigReader(*object, "").Has("rope_theta"); }

}  // namespace

absl::StatusOr<RopeConfig> ReadRope(ConfigReader& reader, const RopeKeys& keys, const RopeSizes& sizes) {
  Surroundings around{.sizes = sizes,
                      .partial_name = reader.Name(keys.partial),
                      .partial_allowed = keys.partial_allowed,
                      .longrope_alone = keys.longrope_alone,
                      .mrope_is_default = keys.mrope_is_default,
                      .query_scale = keys.query_scale,
                      .alpha = keys.alpha,
                      .scales_scores = keys.scales_scores,
                      .original_max_position = std::nullopt};
  ASSIGN_OR_RETURN(around.theta, reader.Positive(keys.theta, keys.theta_default));
  ASSIGN_OR_RETURN(around.partial, reader.Positive(keys.partial, keys.partial_default));
  if (reader.Has("original_max_position_embeddings") || keys.original_default > 0) {
    ASSIGN_OR_RETURN(around.original_max_position,
                     reader.Positive("original_max_position_embeddings", keys.original_default));
  }
  const Json* scaling = reader.Take("rope_scaling");
  const Json* parameters = reader.Take("rope_parameters");
  if (keys.query_scale && scaling == nullptr && parameters == nullptr)
    return InvalidArgument(reader.Name("rope_parameters"), " is missing");
  const absl::StatusOr<Json> missing = ParseJson(keys.missing == nullptr ? "null" : keys.missing);
  VF_CHECK(missing.ok(), "a row's object is JSON");
  if (scaling == nullptr && parameters == nullptr && missing->is_object()) parameters = &*missing;
  ASSIGN_OR_RETURN(RopeConfig older, ReadObject(scaling, reader.Place("rope_scaling"), around));
  ASSIGN_OR_RETURN(RopeConfig rope, ReadObject(parameters, reader.Place("rope_parameters"), around));
  if (parameters == nullptr) {
    rope = std::move(older);
  } else if (scaling != nullptr && rope.ToString() != older.ToString()) {
    return InvalidArgument(reader.Name("rope_scaling"), " is ", older.ToString(), ", but ",
                           reader.Name("rope_parameters"), " is ", rope.ToString());
  }
  std::string other = "in the RoPE parameters";
  if (parameters == &*missing) other = absl::StrCat("without ", reader.Name("rope_parameters"), " it is");
  if (reader.Has(keys.theta)) RETURN_IF_ERROR(CheckAgain(reader, keys.theta, rope.theta, other));
  if (!HasTheta(parameters) && !HasTheta(scaling))
    other = absl::StrCat(reader.Name(keys.theta), reader.Has(keys.theta) ? " is" : " is missing, which means");
  RETURN_IF_ERROR(CheckAgain(reader, "rope_theta", rope.theta, other));
  const double width = sizes.head_width;
  for (const char* key : {keys.partial, "partial_rotary_factor"}) {
    ASSIGN_OR_RETURN(const double partial, reader.Positive(key, rope.RotarySpan(sizes.head_width) / width));
    if (reader.Has(key) && static_cast<int64_t>(width * partial) != rope.RotarySpan(sizes.head_width)) {
      return InvalidArgument(reader.Name(key), " is ", partial, " but the RoPE parameters rotate ",
                             rope.RotarySpan(sizes.head_width), " of ", sizes.head_width, " dimensions");
    }
  }
  return rope;
}

absl::StatusOr<RopeConfig> ScaleRope(const RopeConfig& current, RopeKind kind, double factor, const RopeKeys& keys,
                                     const RopeSizes& sizes) {
  const absl::string_view name = RopeKindName(kind);
  if (keys.longrope_alone)
    return Unimplemented("\"", name, "\" is set, but models of this type are scaled by longrope alone");
  if (current.kind != RopeKind::kDefault) {
    return InvalidArgument("\"", name, "\" is set, but the rotation of this model is scaled already (",
                           current.ToString(), ")");
  }
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const RopeRow& r) { return r.kind == kind; });
  VF_CHECK(row != std::end(kRows), "every kind has a row");
  RopeConfig rope = current;
  rope.kind = kind;
  const Json object = {{"factor", factor}};
  ConfigReader reader(object, name);
  const Surroundings around{.sizes = sizes, .theta = current.theta, .original_max_position = std::nullopt};
  RETURN_IF_ERROR(row->read(reader, around, rope));
  return rope;
}

absl::StatusOr<std::vector<RopeConfig>> ReadRopePerLayerType(ConfigReader& reader, const RopeKeys& keys,
                                                             const RopeSizes& sizes) {
  Surroundings full{
      .sizes = sizes, .proportional = keys.proportional, .nested = true, .original_max_position = std::nullopt};
  Surroundings window = full;
  if (sizes.full_head_width > 0) full.sizes.head_width = sizes.full_head_width;
  ASSIGN_OR_RETURN(full.theta, reader.Positive(keys.theta, keys.theta_default));
  window.theta = keys.theta_default;
  if (keys.window_theta != nullptr) {
    ASSIGN_OR_RETURN(window.theta, reader.Positive(keys.window_theta, keys.window_theta_default));
  }
  RETURN_IF_ERROR(reader.RequireValue("partial_rotary_factor", 1.0));
  const Json* scaling = reader.Take("rope_scaling");
  const Json* parameters = reader.Take("rope_parameters");
  const absl::StatusOr<Json> missing = ParseJson(keys.missing == nullptr ? "null" : keys.missing);
  VF_CHECK(missing.ok(), "a row's object is JSON");
  if (parameters == nullptr && missing->is_object()) parameters = &*missing;
  if (parameters == nullptr) {
    if (keys.window_theta == nullptr && full.theta != keys.theta_default) {
      return Unimplemented(
          reader.Name(keys.theta), " is ", ShortNumber(full.theta), " without \"rope_parameters\"; releases of ",
          "transformers disagree on what it means for window layers: state \"rope_parameters\" for each kind of layer");
    }
    ASSIGN_OR_RETURN(RopeConfig of_full, ReadObject(scaling, reader.Place("rope_scaling"), full));
    ASSIGN_OR_RETURN(RopeConfig of_window, ReadObject(nullptr, reader.Place("rope_parameters"), window));
    return std::vector<RopeConfig>{std::move(of_full), std::move(of_window)};
  }
  if (!parameters->is_object())
    return InvalidArgument(reader.Name("rope_parameters"), " is ", parameters->type_name(), "; it must be an object");
  ConfigReader kinds(*parameters, reader.Place("rope_parameters"));
  const std::string full_place = kinds.Place("full_attention");
  const std::string window_place = kinds.Place("sliding_attention");
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    // There is no default where a row has one of the whole.
    const Json* object = kinds.Take(kind);
    if (!missing->is_object() || (object != nullptr && (!object->is_object() || HasTheta(object)))) continue;
    return InvalidArgument("\"", kinds.Place(kind), ".rope_theta\" is missing");
  }
  ASSIGN_OR_RETURN(RopeConfig of_full, ReadObject(kinds.Take("full_attention"), full_place, full));
  ASSIGN_OR_RETURN(RopeConfig of_window, ReadObject(kinds.Take("sliding_attention"), window_place, window));
  RETURN_IF_ERROR(kinds.RefuseUnread());
  if (scaling != nullptr) {
    ASSIGN_OR_RETURN(const RopeConfig older, ReadObject(scaling, reader.Place("rope_scaling"), full));
    if (older.ToString() != of_full.ToString()) {
      return InvalidArgument(reader.Name("rope_scaling"), " is ", older.ToString(), ", but \"", full_place, "\" is ",
                             of_full.ToString());
    }
  }
  if (reader.Has(keys.theta)) RETURN_IF_ERROR(CheckAgain(reader, keys.theta, of_full.theta));
  if (keys.window_theta != nullptr && reader.Has(keys.window_theta))
    RETURN_IF_ERROR(CheckAgain(reader, keys.window_theta, of_window.theta));
  return std::vector<RopeConfig>{std::move(of_full), std::move(of_window)};
}

}  // namespace varifocal
