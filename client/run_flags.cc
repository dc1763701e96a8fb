#include "client/run_flags.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/usage.h"
#include "eval_tasks/checkpoint_place.h"

namespace varifocal::client {

void RunFlags::AddTo(FlagSet& flags) {
  suite.AddTo(flags);
  flags.Add("model", &models, "NAME=DIR",
            "a name and a checkpoint directory; once for each model. DIR@f32 or DIR@bf16: in that format");
  flags.Add(
      "adapter", &adapters, "NAME=BASE:DIR",
      "the model BASE with the LoRA adapter in DIR, merged into its weights; without BASE: the only --model; repeatable");
  flags.Add("endpoint", &endpoints, "NAME=URL,..",
            "the model of another server over the OpenAI API: NAME=http://HOST:PORT/v1,tokenizer=DIR and further "
            "settings (docs/endpoints.md); repeatable");
  flags
      .Add(
          "endpoint-budget-tokens", &endpoint_budget_tokens, "N",
          "tokens of prompts and answers that all endpoints may cost together; then requests are refused and the job ends")
      .AtLeast(1);
  flags.Add("models", &variants, "A,B,..", "models as in `submit`; default: every --model and --endpoint");
  job.AddTo(flags);
  engine.AddTo(flags);
}

absl::StatusOr<EmbeddedOptions> RunFlags::Options() {
  ASSIGN_OR_RETURN(EmbeddedOptions options, engine.Options());
  if (job.in_flight.has_value()) options.in_flight = *job.in_flight;
  if (models.empty() && endpoints.empty()) {
    return UsageError("--model=NAME=DIR is missing: a name and a checkpoint directory, or --endpoint=NAME=URL,...");
  }
  std::vector<std::string> names;
  for (const std::string& text : models) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return UsageError("--model=", text, ": must be NAME=DIR, such as baseline=models/baseline.");
    }
    options.models.push_back({text.substr(0, equals), text.substr(equals + 1)});
    names.push_back(options.models.back().name);
  }
  std::vector<NamedPlace> bases;
  for (const EmbeddedOptions::NamedModel& model : options.models) bases.push_back({model.name, model.directory});
  for (const std::string& text : adapters) {
    const absl::StatusOr<NamedPlace> adapted = ReadAdapterFlag(text, bases);
    if (!adapted.ok()) return UsageError(adapted.status().message(), ".");
    options.models.push_back({adapted->name, adapted->place});
    names.push_back(adapted->name);
  }
  options.endpoints = endpoints;
  options.endpoint_budget_tokens = endpoint_budget_tokens;
  for (const std::string& text : endpoints) names.push_back(text.substr(0, text.find('=')));
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + i, names[i]) == names.begin() + i) continue;
    return UsageError("--model: the name ", names[i], " is given twice.");
  }
  if (variants.empty()) variants = absl::StrJoin(names, ",");
  return options;
}

}  // namespace varifocal::client
