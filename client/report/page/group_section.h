// The table of learned groups on the page, in Markdown and in LaTeX.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/group_table.h"

namespace varifocal::report {

// The section of the page, the lines of Markdown, a LaTeX table; empty where no variant has groups.
std::string GroupTableHtml(const GroupTable& table, const std::vector<std::string>& variants);
std::string GroupTableMarkdown(const GroupTable& table, const std::vector<std::string>& variants);
std::string GroupTableLatex(const GroupTable& table, const std::vector<std::string>& variants);

}  // namespace varifocal::report
