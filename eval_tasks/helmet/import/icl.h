// Balanced draws of labelled rows, and shuffled labels, as HELMET draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace varifocal::helmet {

// `count` rows in rounds that contain every label once, in random order; rows of a label repeat when too few.
std::vector<size_t> BalancedRows(const std::vector<int>& labels, size_t count, uint64_t seed);
// The displayed number of label i.
std::vector<int> ShuffledLabels(int label_count, uint64_t seed);

}  // namespace varifocal::helmet
