// A table of ready texts with a note, on the page and in Markdown: the first column is text, the others are numbers.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/report_data.h"

namespace varifocal::report {

struct PlainTable {
  std::string label;  // for screen readers
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};

// What thinking costs, and how far imported scores agree; without rows where nothing thinks, or no score is imported.
PlainTable ThinkingCosts(const ReportData& data);
PlainTable ScoreAgreement(const ReportData& data);

// "" for a table without rows.
std::string PlainTableHtml(const PlainTable& table);
std::string PlainTableMarkdown(const PlainTable& table);

}  // namespace varifocal::report
