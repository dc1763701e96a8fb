// Measures of long-context benchmarks as upstream's scorers compute them, one file each; rows of the metrics' table.
//
// A measure reads the whole output, and the row's `reference` (reference.h):
//
// | file | names | reference |
// | --- | --- | --- |
// | longbench.cc | longbench/.. | answers; all_classes of classification; first_line: only that is scored; |
// | | | jieba and jieba_sha256: folder of the package, of Chinese words |
// | | longbench2/choice | answer: the letter |
// | babilong.cc | babilong/labels | target, question, labels: of the task |
// | nolima.cc | nolima/.. | gold_answers: texts, or one text, whose characters upstream then takes |
// | mrcr.cc | mrcr/ratio | answer, prefix |
// | infinitebench.cc | infinitebench/.. | label: as in upstream's rows |
// | longproc.cc | longproc/.. | reference_output |
//
// Equal to upstream's own functions (recipes/goldens/make_benchmark_metrics.py); exceptions are in comments.
//
// Source: THUDM/LongBench 2e00731, booydar/babilong 7a6efee, adobe-research/NoLiMa 7532e4e, OpenBMB/InfiniteBench 88b3daa,
//         princeton-pli/LongProc 78e873a, the card of openai/mrcr; rouge 1.0.1, fuzzywuzzy 0.18.0, rouge-score 0.1.2.
#pragma once

#include <vector>

#include "eval_tasks/metric.h"

namespace varifocal {

std::vector<Metric> LongBenchMetrics();
std::vector<Metric> BabilongMetrics();
std::vector<Metric> NolimaMetrics();
std::vector<Metric> MrcrMetrics();
std::vector<Metric> InfiniteBenchMetrics();
std::vector<Metric> LongProcMetrics();

}  // namespace varifocal
