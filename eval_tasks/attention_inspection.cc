#include "eval_tasks/attention_inspection.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr absl::string_view kQuestionRows = "question";
constexpr double kLevelsPerOctave = 16;
constexpr int kLevelMax = 255;

int64_t BinCount(const Sample& sample) { return std::min<int64_t>(kStripBins, sample.prompt_token_count()); }

int64_t BinBegin(const Sample& sample, int64_t bin) { return bin * sample.prompt_token_count() / BinCount(sample); }

double MassBetween(absl::Span<const int32_t> boundaries, absl::Span<const double> masses, int64_t begin, int64_t end) {
  double mass = 0;
  for (auto at = std::lower_bound(boundaries.begin(), boundaries.end(), begin); at + 1 < boundaries.end() && *at < end;
       ++at) {
    mass += masses[at - boundaries.begin()];
  }
  return mass;
}

int HexDigit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

}  // namespace

absl::StatusOr<std::string> ValidateInspectedRows(absl::string_view rows) {
  int64_t count = 0;
  if (rows.empty() || rows == "last" || rows == "1") return "";
  if (rows == kQuestionRows) return std::string(rows);
  if (absl::SimpleAtoi(rows, &count) && count >= 1 && count <= kInspectedRowsMax) return absl::StrCat(count);
  return InvalidArgument("inspected_rows is \"", rows, "\"; it must be last, ", kQuestionRows,
                         " or a number from 1 to ", kInspectedRowsMax);
}

int64_t InspectedRowCount(const Sample& sample, absl::string_view rows) {
  const int64_t length = sample.prompt_token_count();
  int64_t count = 1;
  if (rows == kQuestionRows) {
    if (sample.question.empty()) return 0;
    int64_t begin = length;
    for (const PromptSpan& span : sample.question) begin = std::min<int64_t>(begin, span.token_begin);
    count = std::max<int64_t>(length - begin, 1);
  } else if (!rows.empty()) {
    VF_CHECK(absl::SimpleAtoi(rows, &count), "the rows are valid");
  }
  return std::min({count, kInspectedRowsMax, length});
}

std::vector<int32_t> InspectionBoundaries(const Sample& sample) {
  std::vector<int32_t> boundaries = {0, 1};
  for (int64_t bin = 0; bin <= BinCount(sample); ++bin) boundaries.push_back(BinBegin(sample, bin));
  for (const auto* spans : {&sample.evidence, &sample.distractors, &sample.question}) {
    for (const PromptSpan& span : *spans) {
      boundaries.push_back(span.token_begin);
      boundaries.push_back(span.token_end);
    }
  }
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  return boundaries;
}

HeadInspection SummarizeHead(const Sample& sample, absl::Span<const int32_t> boundaries,
                             absl::Span<const double> masses) {
  const auto mass_of = [&](const std::vector<PromptSpan>& spans) {
    double mass = 0;
    for (const PromptSpan& span : spans) mass += MassBetween(boundaries, masses, span.token_begin, span.token_end);
    return spans.empty() ? std::nullopt : std::optional(mass);
  };
  HeadInspection head;
  head.first_mass = MassBetween(boundaries, masses, 0, 1);
  head.evidence_mass = mass_of(sample.evidence);
  head.distractor_mass = mass_of(sample.distractors);
  head.question_mass = mass_of(sample.question);
  std::vector<double> bins;
  for (int64_t bin = 0; bin < BinCount(sample); ++bin)
    bins.push_back(MassBetween(boundaries, masses, BinBegin(sample, bin), BinBegin(sample, bin + 1)));
  head.strip = EncodeStrip(bins);
  return head;
}

std::string EncodeStrip(absl::Span<const double> masses) {
  std::string strip;
  for (const double mass : masses) {
    const double level = mass > 0 ? kLevelMax + kLevelsPerOctave * std::log2(mass) : 0;
    absl::StrAppend(&strip,
                    absl::StrFormat("%02x", static_cast<int>(std::lround(std::clamp<double>(level, 0, kLevelMax)))));
  }
  return strip;
}

absl::StatusOr<std::vector<double>> DecodeStrip(absl::string_view strip) {
  std::vector<double> masses;
  for (size_t i = 0; i + 1 < strip.size(); i += 2) {
    const int high = HexDigit(strip[i]), low = HexDigit(strip[i + 1]);
    if (high < 0 || low < 0) break;
    const int level = 16 * high + low;
    masses.push_back(level == 0 ? 0 : std::exp2((level - kLevelMax) / kLevelsPerOctave));
  }
  if (masses.size() * 2 == strip.size()) return masses;
  return InvalidArgument("an attention strip of ", strip.size(), " characters is not pairs of hexadecimal digits");
}

}  // namespace varifocal
