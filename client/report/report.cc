#include "client/report/report.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/report/data/collect.h"
#include "client/report/data/columns.h"
#include "client/report/data/report_data.h"
#include "client/report/data/text_format.h"
#include "client/report/page/arm_tables.h"
#include "client/report/page/attention_section.h"
#include "client/report/page/comparison_table.h"
#include "client/report/page/depth_map.h"
#include "client/report/page/effective_length_table.h"
#include "client/report/page/figure_files.h"
#include "client/report/page/group_section.h"
#include "client/report/page/lm_eval.h"
#include "client/report/page/olmo_eval.h"
#include "client/report/page/page.h"
#include "client/report/page/paper_table.h"
#include "client/report/page/score_table.h"
#include "db/reader.h"

namespace varifocal {
namespace {

constexpr int kLinkCountMax = 40;

absl::Status WriteFailed(const std::string& path) {
  const std::string message = absl::StrCat(path, " cannot be written: ", std::strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(message);
  if (errno == ENOSPC || errno == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::PermissionDeniedError(message);
}

absl::Status WriteInto(const std::string& path, const std::string& shown, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return WriteFailed(shown);
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? absl::OkStatus() : WriteFailed(shown);
}

bool IsDatabase(const std::string& path) {
  char head[16] = {};
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  const size_t size = std::fread(head, 1, sizeof head, file);
  std::fclose(file);
  return absl::string_view(head, size) == absl::string_view("SQLite format 3", sizeof head);
}

// Answers cost hours: neither a database nor a file that belongs to one is ever replaced.
absl::Status CheckHasNoAnswers(const std::string& path) {
  absl::string_view stem = path;
  for (const char* ending : {"-wal", "-shm", "-journal"}) {
    if (absl::ConsumeSuffix(&stem, ending)) break;
  }
  const std::string database(stem);
  std::error_code error;
  if (!std::filesystem::is_regular_file(database, error) || !IsDatabase(database)) return absl::OkStatus();
  return FailedPrecondition(path, database == path ? " is a database" : " belongs to a database",
                            ", which no output replaces");
}

}  // namespace

absl::Status WriteWhole(const std::string& path, const std::string& bytes) {
  RETURN_IF_ERROR(CheckHasNoAnswers(path));
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(found)) {
    return InvalidArgument(path, " is a directory, not a file to write the report to");
  }
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return WriteInto(path, path, bytes);
  }
  // Links are followed by hand: canonical paths end at a link whose target does not exist yet.
  std::filesystem::path file = path;
  for (int i = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(file, error)); ++i) {
    const std::filesystem::path link = std::filesystem::read_symlink(file, error);
    if (error || i == kLinkCountMax) {
      return NotFound(path, " cannot be written: ", error ? error.message() : "too many levels of symbolic links");
    }
    file = file.parent_path() / link;
  }
  const std::string target = file.string();
  const std::string temporary = absl::StrCat(target, ".", getpid(), ".tmp");
  absl::Status status = WriteInto(temporary, path, bytes);
  if (status.ok() && std::rename(temporary.c_str(), target.c_str()) != 0) status = WriteFailed(path);
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

absl::StatusOr<ReportFormat> ParseReportFormat(absl::string_view name) {
  static constexpr std::pair<absl::string_view, ReportFormat> kFormats[] = {
      {"html", ReportFormat::kHtml},         {"csv", ReportFormat::kCsv},     {"json", ReportFormat::kJson},
      {"markdown", ReportFormat::kMarkdown}, {"latex", ReportFormat::kLatex}, {"lm-eval", ReportFormat::kLmEval},
      {"olmo-eval", ReportFormat::kOlmoEval}};
  std::string names;
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
    absl::StrAppend(&names, names.empty() ? "" : ", ", known);
  }
  return InvalidArgument("the report format \"", name, "\" is not one of ", names);
}

namespace {

absl::StatusOr<report::ReportData> Collect(const ReportOptions& options) {
  if (!(options.confidence > 0.5 && options.confidence < 1)) {
    return InvalidArgument("the confidence is ", options.confidence, ", not between 0.5 and 1");
  }
  if (!(options.margin > 0 && options.margin < 1)) {
    return InvalidArgument("the margin is ", 100 * options.margin, " points, not between 0 and 100");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<db::Reader> reader, db::Reader::Open(options.database_path));
  RETURN_IF_ERROR(reader->HoldSnapshot());  // every figure is of one state of a job that runs
  return report::CollectReportData(*reader, options);
}

// The page's verdicts as paragraphs.
std::string VerdictText(const report::ReportData& data) {
  std::string text;
  for (const Json& verdict : report::VerdictJson(data)) {
    absl::StrAppend(&text, "**", report::EscapeMarkdownCell(verdict["headline"].get<std::string>()), "**\n");
    for (const Json& sentence : verdict["details"])
      absl::StrAppend(&text, report::EscapeMarkdownCell(sentence.get<std::string>()), "\n");
    text += "\n";
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> RenderReport(const ReportOptions& options) {
  ASSIGN_OR_RETURN(const report::ReportData data, Collect(options));
  const bool is_alone = data.comparisons.empty();  // scores without a comparison
  switch (options.format) {
    case ReportFormat::kHtml:
      return report::ReportPage(data);
    case ReportFormat::kCsv:
      if (!options.axis.empty()) return report::AxisCsv(data.arms);
      return is_alone ? report::ScoreTableCsv(data) : report::ComparisonTableCsv(data);
    case ReportFormat::kJson: {
      std::vector<Json> rows = is_alone ? report::ScoreTableJson(data) : report::ComparisonTableJson(data);
      for (std::vector<Json>& more : std::array<std::vector<Json>, 6>{
               report::ArmsJson(data.arms), report::EffectiveLengthJson(data), report::AttentionJson(data),
               report::DepthJson(data), report::WorkJson(data), report::VerdictJson(data)})
        std::move(more.begin(), more.end(), std::back_inserter(rows));
      return report::JsonArray(rows);
    }
    case ReportFormat::kMarkdown:
      return absl::StrCat(VerdictText(data),
                          is_alone ? report::ScoreTableMarkdown(data) : report::ComparisonTableMarkdown(data),
                          report::ArmsMarkdown(data.arms), report::EffectiveLengthMarkdown(data));
    case ReportFormat::kLatex:
      if (!options.axis.empty()) return report::AxisLatex(data.arms);
      return absl::StrCat(!options.is_long ? report::PaperTableLatex(data)
                          : is_alone       ? report::ScoreTableLatex(data)
                                           : report::ComparisonTableLatex(data),
                          report::GroupTableLatex(data.groups, data.VariantNames()));
    case ReportFormat::kLmEval:
      return report::LmEvalJson(data);
    case ReportFormat::kOlmoEval:
      return report::OlmoEvalJson(data);
  }
  return Internal("a report format without a writer");
}

absl::StatusOr<std::vector<std::string>> WriteFigures(const ReportOptions& options, const std::string& directory) {
  ReportOptions as_page = options;
  as_page.format = ReportFormat::kHtml;
  ASSIGN_OR_RETURN(const report::ReportData data, Collect(as_page));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return PermissionDenied(directory, " cannot be made a directory: ", error.message());
  std::vector<std::string> names;
  for (const report::FigureFile& file : report::FigureFiles(data)) {
    RETURN_IF_ERROR(WriteWhole(absl::StrCat(directory, "/", file.name), file.bytes));
    names.push_back(file.name);
  }
  return names;
}

absl::Status WriteReport(const ReportOptions& options) {
  RETURN_IF_ERROR(CheckHasNoAnswers(options.output_path));  // before the minutes that a report may take
  ASSIGN_OR_RETURN(std::string bytes, RenderReport(options));
  return WriteWhole(options.output_path, bytes);
}

}  // namespace varifocal
