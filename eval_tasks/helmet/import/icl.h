// Balanced draws of labelled rows, and shuffled labels, as HELMET draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varifocal::helmet {

// `count` rows in rounds that hold every label once, in random order; rows of a label repeat when they are too few.
std::vector<size_t> BalancedRows(const std::vector<int>& labels, size_t count, uint64_t seed);
// What label i is shown as.
std::vector<int> ShuffledLabels(int label_count, uint64_t seed);

}  // namespace varifocal::helmet
