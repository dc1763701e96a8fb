// A step of attention by groups whose numbers and groups are given by hand, through the kernels alone: what the checks of gathered
// keys run (gathered_checks.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/gather_layout.h"

namespace varifocal::kernels::cuda {

struct Scene {
  struct Sequence {
    int first_position = 0, row_count = 0;
    int id = 0;  // of its numbers and groups
    int end() const { return first_position + row_count; }
  };
  std::vector<Sequence> sequences;
  int head_dim = 64, kv_heads = 1, queries_per_kv = 1;
  int group_count = 8, top_k = 2, window = 20;
  int32_t from = 40;
  bool row_scales = false;
  float soft_cap = 0;
  bool halves = false;  // tiles of 64 rows
  bool sm90 = false;    // lists are read by the kernel sm90
  uint64_t page_order = 1;
  // The groups of a token.
  enum class Kind { kEven, kUneven, kOneGroup, kOneEmpty, kEvery } kind = Kind::kEven;
};

Scene SmallScene(int dim);
TokenGroups GroupsOf(const Scene& scene, int sequence, int position);
int TileRowsOf(const Scene& scene, int pass);
int BlockKeysOf(const Scene& scene);
// A number of k (kind 1), v (2) or q (3), bf16.
uint16_t SceneNumber(int kind, int sequence, int position, int head, int dim);
float ScaleOfRow(const Scene& scene, int sequence, int position);

struct SceneRun {
  // By sequence and row of the step.
  std::vector<std::vector<float>> outs, log_sum_exps;
  std::vector<GatherList> lists;
  std::vector<std::vector<GatherTile>> tiles;  // by pass
  std::vector<int32_t> places;
  std::vector<GatherRow> rows;
  std::vector<std::vector<int32_t>> tables;
  int64_t multiplies = 0, products = 0;  // of the parts alone, by mma and by wgmma
};

SceneRun RunScene(const Scene& scene);

// Mutants, each with one step left out or falsified (gathered_mutants.cc): of the kernels with lists, and of what keeps threads of the
// kernel sm90 apart.
std::string CheckGatherMutants(bool sm90);
std::string CheckGatherSm90Mutants();

}  // namespace varifocal::kernels::cuda
