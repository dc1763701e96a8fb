// Measures of a ranking against graded labels, as trec_eval defines them: NDCG, MAP, recall and precision at a depth,
// and the reciprocal rank of the first relevant document.
//
// NDCG has linear gain (the label itself) and the discount log2(rank + 1); its ideal is the labels in descending order. A
// document without a label counts 0 and keeps its rank. Documents with a label of at least 1 are relevant.
//
// Source: trec_eval 9 through pytrec_eval, to which results are equal at 5 decimals.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace varifocal {

using DocumentLabels = std::map<std::string, int>;

double NdcgAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth);
double MeanAveragePrecisionAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth);
double RecallAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth);
double PrecisionAt(const std::vector<std::string>& ranking, const DocumentLabels& labels, size_t depth);
double ReciprocalRank(const std::vector<std::string>& ranking, const DocumentLabels& labels);

}  // namespace varifocal
