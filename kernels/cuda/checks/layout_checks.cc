// Layout and fragment functions, exhaustively: the maps are bijective, every bank is accessed once, and they agree with
// the tables of the PTX manual, implemented here independently.

#include <set>

#include "kernels/cuda/checks/checks.h"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/gather_layout.h"
#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/schedule.h"

namespace varifocal::kernels::cuda {
namespace {

std::string Of(const char* what, int dim) { return std::string(what) + " for head dim " + std::to_string(dim); }

// A page's tile is a permutation of its elements, and panels are 64, 32 or 16 wide.
std::string CheckPermutation() {
  for (int dim = 16; dim <= 512; dim += 16) {
    std::set<int> offsets;
    for (int token = 0; token < kPageTokenCount; ++token) {
      for (int column = 0; column < dim; ++column) {
        const int offset = ElementOffset(dim, token, column);
        if (offset < 0 || offset % 2 != 0 || offset >= TileBytes(dim, kPageTokenCount))
          return Of("an element is outside its tile", dim);
        offsets.insert(offset);
        const Panel panel = PanelOf(dim, column);
        if (column < panel.first || column >= panel.first + panel.width || panel.first % 16 != 0)
          return Of("a column is outside its panel", dim);
      }
    }
    if (std::ssize(offsets) != dim * kPageTokenCount) return Of("two elements share a place", dim);
  }
  return "";
}

// Hopper's swizzles are defined on byte addresses: bits 4.. ^= bits 7.. (3, 2 or 1 of them).
std::string CheckSwizzleIsHoppers() {
  for (const auto& [width, bits] : {std::pair{64, 3}, {32, 2}, {16, 1}}) {
    for (int row = 0; row < 128; ++row) {
      for (int chunk = 0; chunk < width / 8; ++chunk) {
        const int address = row * width * 2 + chunk * 16, mask = (1 << bits) - 1;
        const int swizzled = address ^ (((address >> 7) & mask) << 4);
        if (swizzled != row * width * 2 + SwizzledChunk(width, row, chunk) * 16)
          return "row " + std::to_string(row) + " of a panel of " + std::to_string(width) + " is swizzled wrongly";
      }
    }
  }
  return "";
}

// Eight rows at one chunk, what ldmatrix reads at a time, touch the 32 banks once each, in pages and in staged tiles.
std::string CheckBanks() {
  for (int dim = 16; dim <= 512; dim += 16) {
    for (const int rows : {16, 64, 128}) {
      for (int first = 0; first < rows; first += 8) {
        for (int chunk = 0; chunk < dim / 8; ++chunk) {
          unsigned banks = 0;
          for (int r = 0; r < 8; ++r) banks |= 1u << (TileOffset(dim, rows, first + r, chunk) / 16 % 8);
          if (banks != 0xFF) return Of("eight rows share a bank", dim);
        }
      }
    }
  }
  return "";
}

// Copying chunk by chunk turns a page's half into the tile of 64 rows that kernels read.
std::string CheckBlocks() {
  for (int dim = 16; dim <= 512; dim += 16) {
    for (int half = 0; half < 2; ++half) {
      for (int row = 0; row < kBlockKeys; ++row) {
        for (int chunk = 0; chunk < dim / 8; ++chunk) {
          const BlockChunk from = BlockChunkOf(dim, half, TileOffset(dim, kBlockKeys, row, chunk) / kChunkBytes);
          if (from.row != row || from.page_offset != TileOffset(dim, kPageTokenCount, half * kBlockKeys + row, chunk))
            return Of("a staged block reads another place of the page", dim);
        }
      }
      for (int i = 0; i < kBlockKeys * dim / 8; ++i) {
        const BlockStep step = BlockStepOf(dim, half, i / kCopyThreads);
        const int thread_offset = i % kCopyThreads * kChunkBytes;
        const BlockChunk chunk = BlockChunkOf(dim, half, i);
        if (step.page_offset + thread_offset != chunk.page_offset ||
            step.row + thread_offset / (step.width * 2) != chunk.row) {
          return Of("a copy step leaves its panel", dim);
        }
      }
    }
    for (int row = 0; row < kBlockKeys; ++row) {
      for (int chunk = 0; chunk < dim / 8; chunk += 2) {
        const int low = TileOffset(dim, kBlockKeys, row, chunk);
        if (NeighbourOffset(low, 0) != low || NeighbourOffset(low, 1) != TileOffset(dim, kBlockKeys, row, chunk + 1))
          return Of("a chunk's neighbour is elsewhere", dim);
      }
    }
  }
  return "";
}

// The manual's text, register by register, with groupID and threadID_in_group as it names them.
std::string CheckFragmentsAgainstManual() {
  for (int lane = 0; lane < 32; ++lane) {
    const int group_id = lane >> 2, thread_in_group = lane & 3;
    for (int i = 0; i < 8; ++i) {
      const int row = (i < 2 || (i >= 4 && i < 6)) ? group_id : group_id + 8;
      const int column = i < 4 ? thread_in_group * 2 + (i & 1) : thread_in_group * 2 + (i & 1) + 8;
      const FragmentIndex at = FragmentA(lane, i / 2, i % 2);
      if (at.row != row || at.column != column) return "A's element " + std::to_string(i) + " is elsewhere";
    }
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? thread_in_group * 2 + (i & 1) : thread_in_group * 2 + (i & 1) + 8;
      const FragmentIndex at = FragmentB(lane, i / 2, i % 2);
      if (at.row != row || at.column != group_id) return "B's element " + std::to_string(i) + " is elsewhere";
      const FragmentIndex c = FragmentC(lane, i);
      if (c.row != (i < 2 ? group_id : group_id + 8) || c.column != thread_in_group * 2 + (i & 1))
        return "C's element " + std::to_string(i) + " is elsewhere";
    }
  }
  return "";
}

// With the row addresses of LoadAsA, LoadAsB and LoadAsBTransposed, ldmatrix loads the operand layout of mma.
std::string CheckLoads() {
  for (int lane = 0; lane < 32; ++lane) {
    for (int word = 0; word < 4; ++word) {
      for (int half = 0; half < 2; ++half) {
        // Register `word` holds an element of matrix `word`, whose rows lanes 8 word .. 8 word + 7 address.
        const auto loaded = [&](FragmentIndex (*as)(int), bool transposed) {
          const FragmentIndex inside = FragmentLoaded(lane, half, transposed);
          const FragmentIndex at = as(8 * word + inside.row);
          return FragmentIndex{at.row, at.column * 8 + inside.column};
        };
        const FragmentIndex a = FragmentA(lane, word, half), b = FragmentB(lane, word % 2, half);
        const FragmentIndex as_a = loaded(LoadAsA, false);
        if (as_a.row != a.row || as_a.column != a.column) return "LoadAsA loads another element than A requires";
        // Source [n, k]: two B operands, the second eight rows further.
        const FragmentIndex as_b = loaded(LoadAsB, false);
        if (as_b.row != b.column + word / 2 * 8 || as_b.column != b.row)
          return "LoadAsB loads another element than B requires";
        // Source [k, n]: two B operands, the second eight columns further.
        const FragmentIndex as_t = loaded(LoadAsBTransposed, true);
        if (as_t.row != b.row || as_t.column != b.column + word / 2 * 8)
          return "LoadAsBTransposed loads another element than B requires";
      }
    }
    // Two neighbouring C tiles are A's registers, so weights can stay in the registers of the scores.
    for (int word = 0; word < 4; ++word) {
      for (int half = 0; half < 2; ++half) {
        const FragmentIndex c = FragmentC(lane, word % 2 * 2 + half), a = FragmentA(lane, word, half);
        if (c.row != a.row || c.column + word / 2 * 8 != a.column) return "a score tile is not the A operand";
      }
    }
  }
  return "";
}

// Shared memory of every attention kernel fits an SM of compute capability 8.0 (163 KB a block), and two blocks of the
// common head dims fit one of 9.0 (228 KB, 1 KB a block kept back).
std::string CheckSharedMemory() {
  for (const int dim : kHeadDims) {
    for (const bool reads_groups : {false, true}) {
      const int prefill = PrefillSharedBytes(dim, reads_groups, PrefillTileRows(dim, reads_groups)) +
                          PrefillStaticBytes(dim, reads_groups);
      if (prefill > 163 * 1024 || DecodeSharedBytes(dim, reads_groups, DecodeStages(dim)) > 163 * 1024)
        return Of("shared memory exceeds 163 KB", dim);
      if (dim <= 128 && 2 * (prefill + 1024) > 228 * 1024) return Of("two prefill blocks do not fit an SM", dim);
      if (!GatherSupports(dim, 1)) continue;
      const int lanes = 64 * GatherTilesPerWarp(dim, reads_groups);
      const int gathered = GatherSharedBytes(dim, reads_groups, lanes) + GatherStaticBytes(reads_groups, lanes);
      if (gathered > 163 * 1024) return Of("shared memory with gathered keys exceeds 163 KB", dim);
      if (dim <= 128 && 2 * (gathered + 1024) > 228 * 1024) return Of("two blocks of gathered keys do not fit", dim);
    }
    // The warps' results overwrite the stages.
    if (4 * kDecodeTileRows * (ValueDims(dim) + 2) * 4 > RingBytes(dim, kDecodeStagesMin))
      return Of("results exceed the ring", dim);
  }
  return "";
}

}  // namespace

std::vector<NamedCheck> LayoutChecks() {
  return {{"layout_permutation", CheckPermutation},
          {"layout_swizzle_is_hoppers", CheckSwizzleIsHoppers},
          {"layout_banks", CheckBanks},
          {"layout_blocks", CheckBlocks},
          {"layout_fragments_against_manual", CheckFragmentsAgainstManual},
          {"layout_loads", CheckLoads},
          {"layout_shared_memory", CheckSharedMemory}};
}

}  // namespace varifocal::kernels::cuda
