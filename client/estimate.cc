#include "client/estimate.h"

#include <cmath>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/rows.h"

namespace varifocal::client {

std::string RoughDuration(double seconds) {
  if (seconds < 10) return "a few seconds";
  if (seconds < 57.5) return absl::StrCat("about ", 5 * std::lround(seconds / 5), " s");
  const double minutes = seconds / 60;
  if (minutes < 9.5) return absl::StrCat("about ", std::lround(minutes), " min");
  if (minutes < 57.5) return absl::StrCat("about ", 5 * std::lround(minutes / 5), " min");
  const double hours = minutes / 60;
  return absl::StrCat("about ", hours < 9.75 ? NumberText(std::round(hours * 2) / 2) : absl::StrCat(std::lround(hours)),
                      " h");
}

absl::Status PrintEstimate(const v1::JobEstimate& estimate, const absl::StatusOr<JobPower>& power, Console& console) {
  if (console.format != Format::kText) {
    Json object = {{"cell_count", estimate.cell_count()},
                   {"sample_count", estimate.sample_count()},
                   {"prompt_token_count", estimate.prompt_token_count()},
                   {"computed_prompt_token_count", estimate.computed_prompt_token_count()},
                   {"new_token_count", estimate.new_token_count()},
                   {"kv_cache_bytes", estimate.kv_cache_bytes()},
                   {"weights_bytes", estimate.weights_bytes()},
                   {"memory_bytes_max", estimate.memory_bytes_max()},
                   {"duration_seconds", estimate.duration_seconds() < 0 ? Json() : Json(estimate.duration_seconds())},
                   {"checked_sample_count", estimate.checked_sample_count()},
                   {"notes", Json::array()}};
    for (const std::string& note : estimate.notes()) object["notes"].push_back(note);
    object["power"] = power.ok() ? PowerJson(*power) : Json();
    if (!power.ok()) object["notes"].push_back(absl::StrCat("power is not known: ", power.status().message()));
    return PrintJson(console, object);
  }
  auto row = [&](absl::string_view title, absl::string_view value) {
    console.out << title << std::string(title.size() < 22 ? 22 - title.size() : 1, ' ') << value << "\n";
  };
  row("cells", WithThousands(estimate.cell_count()));
  row("samples", WithThousands(estimate.sample_count()));
  row("prompt tokens", absl::StrCat("at most ", WithThousands(estimate.prompt_token_count())));
  row("  to be computed",
      absl::StrCat(WithThousands(estimate.computed_prompt_token_count()), " (questions on one context share it)"));
  row("new tokens", absl::StrCat("at most ", WithThousands(estimate.new_token_count())));
  row("memory for weights", HumanBytes(estimate.weights_bytes()));
  row("memory for the cache", absl::StrCat(HumanBytes(estimate.kv_cache_bytes()), " for the longest sample"));
  row("memory at most", absl::StrCat(HumanBytes(estimate.memory_bytes_max()),
                                     " for weights and caches, which keep contexts for further questions"));
  row("time", estimate.duration_seconds() < 0 ? std::string("unknown") : RoughDuration(estimate.duration_seconds()));
  row("prompts checked", WithThousands(estimate.checked_sample_count()));
  for (const std::string& note : estimate.notes()) console.out << "Note: " << note << "\n";
  console.out << (power.ok() ? PowerText(*power, console)
                             : absl::StrCat("Power is not known: ", power.status().message(), ".\n"));
  console.out << "Nothing was stored.\n";
  return absl::OkStatus();
}

}  // namespace varifocal::client
