// The table of what thinking costs, on the page and in Markdown.
#pragma once

#include <string>
#include <vector>

#include "client/report/data/thinking_table.h"

namespace varifocal::report {

// The section of the page, the lines of Markdown; empty where no variant thinks.
std::string ThinkingTableHtml(const ThinkingTable& table, const std::vector<std::string>& variants);
std::string ThinkingTableMarkdown(const ThinkingTable& table, const std::vector<std::string>& variants);

}  // namespace varifocal::report
