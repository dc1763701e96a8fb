#include "kernels/cuda/emulator/hopper_products.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "kernels/cuda/emulator/block.h"
#include "kernels/cuda/fragments.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda::emulator {
namespace {

constexpr int kThreads = 128, kRows = 64, kDepth = 16;

// What a thread brings to a product.
struct Argument {
  uint64_t a = 0, b = 0;
  const uint32_t* words = nullptr;  // of A, where not by descriptor
  float* sums = nullptr;
  bool adds = false;
  int columns = 0;  // groups of eight
};

// Accumulators in flight.
struct Tile {
  float* at[kThreads];
  int columns = 0;
  int products = 0;         // not waited for
  std::vector<float> sums;  // [64, 8 columns]
};

struct Product {
  Argument arguments[kThreads];
  std::vector<uint16_t> a, b;  // as they were read
};

struct Warpgroup {
  Argument arguments[kThreads];
  int arrived = 0;
  std::vector<Fiber*> waiting;
  std::vector<Product> open;                // not committed
  std::deque<std::vector<Product>> groups;  // committed
  std::map<float*, Tile> tiles;             // by the first thread's accumulators
};
thread_local std::vector<Warpgroup> warpgroups;

int GroupIndex() { return block.running->place.thread / kThreads; }
Fiber& FiberOf(int group, int thread) { return *block.fibers[group * kThreads + thread]; }

// Runs `compute` once, when the warpgroup's threads have arrived.
template <typename Compute>
void Collective(const Argument& argument, const Compute& compute) {
  Warpgroup& group = warpgroups[GroupIndex()];
  group.arguments[block.running->place.thread % kThreads] = argument;
  if (++group.arrived < kThreads) {
    block.running->waits = "an instruction of its warpgroup";
    group.waiting.push_back(block.running);
    Pause();
    block.running->waits.clear();
    return;
  }
  group.arrived = 0;
  compute(group);
  block.ready.insert(block.ready.end(), group.waiting.begin(), group.waiting.end());
  group.waiting.clear();
}

// Reads a [rows, 16] operand from the asynchronous view; transposed, from [16, rows]. The descriptor decides alone.
void ReadOperand(uint64_t descriptor, int rows, bool transposed, std::vector<uint16_t>& out) {
  const auto field = [&](int bit) { return static_cast<uint32_t>(descriptor >> bit) & 0x3FFFu; };
  const uint32_t start = field(0) * 16, leading = field(16) * 16, stride = field(32) * 16;
  const uint32_t swizzle = descriptor >> 62;
  if (swizzle == 0 || (descriptor >> 49 & 7) != 0) Fault("a descriptor without a swizzle, or with a base offset");
  const uint32_t width = 256u >> swizzle;  // bytes of a panel's row
  const uint32_t mask = width / 16 - 1;    // chunks
  const unsigned char* memory = AsyncView();
  out.resize(rows * kDepth);
  const auto chunk = [&](uint32_t address) -> const unsigned char* {
    const uint32_t at = address ^ ((address >> 7 & mask) << 4);
    if (at + 16 > static_cast<uint32_t>(block.shared_bytes)) Fault("a product's operand outside the shared memory");
    return memory + at;
  };
  for (int outer = 0; outer < (transposed ? kDepth : rows); ++outer) {
    for (int inner = 0; inner < (transposed ? rows : kDepth); inner += 8) {
      const uint32_t panel = inner * 2 / width, in_panel = inner * 2 % width;
      const uint32_t address = start + outer / 8 * stride + outer % 8 * width + panel * leading + in_panel;
      uint16_t numbers[8];
      std::memcpy(numbers, chunk(address), sizeof numbers);
      for (int i = 0; i < 8; ++i) {
        out[transposed ? (inner + i) * kDepth + outer : outer * kDepth + inner + i] = numbers[i];
      }
    }
  }
}

void ReadWords(const Argument* arguments, std::vector<uint16_t>& out) {
  out.resize(kRows * kDepth);
  for (int t = 0; t < kThreads; ++t) {
    for (int word = 0; word < 4; ++word) {
      for (int half = 0; half < 2; ++half) {
        const FragmentIndex at = FragmentA(t % 32, word, half);
        out[(t / 32 * 16 + at.row) * kDepth + at.column] = arguments[t].words[word] >> (16 * half);
      }
    }
  }
}

void ReadBoth(const Argument* arguments, std::vector<uint16_t>& a, std::vector<uint16_t>& b) {
  const bool in_registers = arguments[0].words != nullptr;
  if (in_registers) {
    ReadWords(arguments, a);
  } else {
    ReadOperand(arguments[0].a, kRows, false, a);
  }
  ReadOperand(arguments[0].b, arguments[0].columns * 8, in_registers, b);
}

// Whether the registers are as a fence admitted them, or as a product left them.
bool IsAdmitted(const Fiber& fiber, const void* registers, int count) {
  for (const Admitted& admitted : fiber.admitted) {
    const ptrdiff_t first = static_cast<const uint32_t*>(registers) - static_cast<const uint32_t*>(admitted.at);
    if (first < 0 || first + count > std::ssize(admitted.words)) continue;
    return std::memcmp(admitted.words.data() + first, registers, count * sizeof(uint32_t)) == 0;
  }
  return false;
}

void Admit(Fiber& fiber, const void* registers, int count) {
  const auto* words = static_cast<const uint32_t*>(registers);
  for (Admitted& admitted : fiber.admitted) {
    const ptrdiff_t first = words - static_cast<const uint32_t*>(admitted.at);
    if (first < 0 || first + count > std::ssize(admitted.words)) continue;
    std::copy_n(words, count, admitted.words.begin() + first);
    return;
  }
  fiber.admitted.push_back({registers, {words, words + count}});
}

// The accumulator of a tile that a thread has as its i-th.
float& SumOf(Tile& tile, int thread, int i) {
  const FragmentIndex at = FragmentC(thread % 32, i % 4);
  return tile.sums[(thread / 32 * 16 + at.row) * tile.columns * 8 + i / 4 * 8 + at.column];
}

Tile& TileOf(Warpgroup& group, int index) {
  const Argument& first = group.arguments[0];
  const auto found = group.tiles.find(first.sums);
  if (found != group.tiles.end()) return found->second;
  Tile& tile = group.tiles[first.sums];
  tile.columns = first.columns;
  tile.sums.resize(kRows * first.columns * 8);
  for (int t = 0; t < kThreads; ++t) {
    float* sums = tile.at[t] = group.arguments[t].sums;
    if (!IsAdmitted(FiberOf(index, t), sums, first.columns * 4)) Fault("a product's accumulators were not fenced");
    for (int i = 0; i < first.columns * 4; ++i) SumOf(tile, t, i) = sums[i];
    std::memset(sums, 0xFF, first.columns * 4 * sizeof(float));
  }
  return tile;
}

void Compute(Warpgroup& group, int index) {
  const Argument& first = group.arguments[0];
  for (const Argument& other : group.arguments) {
    if (other.a != first.a || other.b != first.b || other.adds != first.adds || other.columns != first.columns)
      Fault("a product whose threads disagree");
  }
  if (first.words != nullptr) {
    for (int t = 0; t < kThreads; ++t) {
      if (!IsAdmitted(FiberOf(index, t), group.arguments[t].words, 4)) Fault("a product's operands were not fenced");
    }
  }
  Product product;
  std::copy_n(group.arguments, kThreads, product.arguments);
  ReadBoth(group.arguments, product.a, product.b);
  Tile& tile = TileOf(group, index);
  ++tile.products;
  const int width = first.columns * 8;
  std::vector<float> b(kDepth * width);
  for (int j = 0; j < width; ++j) {
    for (int k = 0; k < kDepth; ++k) b[k * width + j] = WidenBF16(product.b[j * kDepth + k]);
  }
  std::vector<float> sums(width);
  for (int i = 0; i < kRows; ++i) {
    float* total = &tile.sums[i * width];
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int k = 0; k < kDepth; ++k) {
      const float a = WidenBF16(product.a[i * kDepth + k]);
      for (int j = 0; j < width; ++j) sums[j] += a * b[k * width + j];
    }
    for (int j = 0; j < width; ++j) total[j] = first.adds ? total[j] + sums[j] : sums[j];
  }
  ++MutableHopperCounters().products;
  group.open.push_back(std::move(product));
}

// A product that was waited for: its operands must be as they were read, and its accumulators untouched.
void Finish(Warpgroup& group, int index, const Product& product) {
  std::vector<uint16_t> a, b;
  ReadBoth(product.arguments, a, b);
  if (a != product.a || b != product.b) Fault("a product's operand changed before the wait");
  Tile& tile = group.tiles.at(product.arguments[0].sums);
  if (--tile.products > 0) return;
  for (int t = 0; t < kThreads; ++t) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(tile.at[t]);
    const size_t count = tile.columns * 4;
    if (!std::all_of(bytes, bytes + count * sizeof(float), [](unsigned char byte) { return byte == 0xFF; }))
      Fault("a product's accumulators were touched before the wait");
    for (size_t i = 0; i < count; ++i) tile.at[t][i] = SumOf(tile, t, i);
    Admit(FiberOf(index, t), tile.at[t], count);
  }
  group.tiles.erase(product.arguments[0].sums);
}

}  // namespace

void BeginProducts() {
  warpgroups.clear();
  warpgroups.resize(block.thread_count / kThreads);
}

std::string LeftOverProducts() {
  for (const Warpgroup& group : warpgroups) {
    if (!group.open.empty() || !group.groups.empty()) return "a block ended before its products";
  }
  return "";
}

void MeetWarpgroup() {
  Collective({}, [](Warpgroup&) {});
}

void Pin(Sm90Step step, void* registers, int count) {
  if (IsOmitted(step)) return;
  block.running->pinned.push_back({registers, std::vector<uint32_t>(count)});
}

void FenceProducts(Sm90Step step) {
  Fiber& self = *block.running;
  if (!IsOmitted(step)) {
    for (const Admitted& pinned : self.pinned) Admit(self, pinned.at, pinned.words.size());
  }
  self.pinned.clear();
}

void StartProduct(uint64_t a, const uint32_t* words, uint64_t b, bool adds, float* d, int columns) {
  const int index = GroupIndex();
  Collective({a, b, words, d, adds, columns}, [index](Warpgroup& group) { Compute(group, index); });
}

void CommitProducts(Sm90Step step) {
  if (IsOmitted(step)) return;
  Collective({}, [](Warpgroup& group) {
    group.groups.push_back(std::move(group.open));
    group.open.clear();
  });
}

void WaitProducts(Sm90Step step, int pending) {
  if (IsOmitted(step)) return;
  const int index = GroupIndex();
  Collective({}, [&](Warpgroup& group) {
    while (std::ssize(group.groups) > pending) {
      for (const Product& product : group.groups.front()) Finish(group, index, product);
      group.groups.pop_front();
    }
  });
}

}  // namespace varifocal::kernels::cuda::emulator
