// The pairs of markers with which public models enclose their thinking, the most frequent first.
#pragma once

#include "absl/strings/string_view.h"

namespace varifocal {

struct KnownThinkingMarkers {
  absl::string_view begin;
  absl::string_view end;
};

inline constexpr KnownThinkingMarkers kKnownThinkingMarkers[] = {
    {"<think>", "</think>"},                                            // Qwen3, DeepSeek R1, SmolLM3, GLM, Nemotron
    {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"},  // gpt-oss
    {"[THINK]", "[/THINK]"},                                            // Magistral
    {"<|channel>thought", "<channel|>"},                                // Gemma 4
    {"<seed:think>", "</seed:think>"},                                  // Seed-OSS
    {"<|START_THINKING|>", "<|END_THINKING|>"},                         // Command A
    {"<|begin_of_thought|>", "<|end_of_thought|>"},                     // OpenThinker
    {"<thinking>", "</thinking>"},
    {"<reasoning>", "</reasoning>"},
};

}  // namespace varifocal
