#include "kernels/cuda/attention_choice.h"

#include <algorithm>
#include <charconv>

namespace varifocal::kernels::cuda {
namespace {

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool ParseCount(const std::string& text, int* count) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *count);
  return parsed.ec == std::errc() && parsed.ptr == end && *count >= 0;
}

}  // namespace

bool AttentionChoice::UsesSm90(int head_dim, bool reads_groups, bool has_cap) const {
  if (!sm90 || !Sm90Supports(head_dim, reads_groups, has_cap)) return false;
  return head_dims.empty() || std::find(head_dims.begin(), head_dims.end(), head_dim) != head_dims.end();
}

std::string AttentionChoice::name() const {
  std::string text = sm90 ? "sm90" : "mma";
  for (const int dim : head_dims) text += "." + std::to_string(dim);
  // Lists were read by mma beside the kernel sm90 at first.
  return text + (!gathered ? "" : sm90 ? "-gathered2" : "-gathered");
}

GatherCosts AttentionChoice::gather_costs() const {
  // A part reads a row's queries and reads and writes its state, 12 bytes a dim at 3 TB/s, where a pair takes 4 operations a dim: at
  // 330 TFLOP/s (mma) or 600 (sm90).
  return sm90 ? GatherCosts{.part = 600, .pair = 1.15} : GatherCosts{.part = 330, .pair = 1.25};
}

Result<AttentionChoice> ChooseAttention(const std::string& text, int capability) {
  const auto invalid = [&] {
    return Error{ErrorCode::kInvalidArgument,
                 "attention kernel \"" + text +
                     "\" is none of auto, mma, sm90, with :focus=gathered or :focus=masked if wanted; sm90 may have "
                     ":dims=64+128, :items=N, :turns=off, :sections=off"};
  };
  const std::vector<std::string> parts = Split(text, ':');
  AttentionChoice choice;
  choice.sm90 = parts[0] == "sm90" || (parts[0] == "auto" && kSm90IsDefault && capability == 90);
  const bool tunes = parts[0] == "sm90";
  if (!tunes && parts[0] != "auto" && parts[0] != "mma") return invalid();
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "focus=gathered" || part == "focus=masked") {
      choice.gathered = part == "focus=gathered";
    } else if (!tunes) {
      return invalid();
    } else if (part == "turns=off") {
      choice.tuning.turns = false;
    } else if (part == "sections=off") {
      choice.tuning.sections = false;
    } else if (part.rfind("items=", 0) == 0) {
      if (!ParseCount(part.substr(6), &choice.tuning.items_per_block)) return invalid();
    } else if (part.rfind("dims=", 0) == 0) {
      for (const std::string& word : Split(part.substr(5), '+')) {
        int dim = 0;
        if (!ParseCount(word, &dim) || !Sm90Supports(dim, false, false)) return invalid();
        choice.head_dims.push_back(dim);
      }
    } else {
      return invalid();
    }
  }
  if (choice.sm90 && capability != 90) {
    return Error{ErrorCode::kUnsupported, "attention kernel sm90 needs compute capability 9.0, and the device has " +
                                              std::to_string(capability / 10) + "." + std::to_string(capability % 10)};
  }
  std::sort(choice.head_dims.begin(), choice.head_dims.end());
  choice.head_dims.erase(std::unique(choice.head_dims.begin(), choice.head_dims.end()), choice.head_dims.end());
  return choice;
}

}  // namespace varifocal::kernels::cuda
