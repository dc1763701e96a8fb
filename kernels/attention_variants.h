// Which keys count, and how sharply: row intervals, softmax scales and the learned temperature.
//
// Every mask we serve is, for a query row, one interval of keys: causal, chunked or windowed. Every temperature is a
// number the row's scores are multiplied with, so kernels see a scale and never a mode. The same few lines serve all
// backends and the oracle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace varifocal::kernels {

// A query row sees keys [begin, end) by absolute position. begin >= end: it sees nothing.
struct RowInterval {
  int32_t begin = 0;
  int32_t end = 0;
};

// Keys 0..position.
inline RowInterval CausalInterval(int32_t position) { return {0, position + 1}; }

// The last `window` keys, the row's own included.
inline RowInterval WindowInterval(int32_t position, int32_t window) {
  return {std::max(0, position + 1 - window), position + 1};
}

// Softmax(q.k * base / t). Divided in float64 and rounded once, so that t = 1 gives the bits of the baseline.
// A quotient beyond 2^100 is held there: one key already takes all the weight, and a product with it stays finite.
inline float FocalScale(double base, double temperature) {
  constexpr double kScaleMax = 0x1p100;
  return static_cast<float>(std::min(base / temperature, kScaleMax));
}

// Softmax(q.k / tau), tau = clip(mean(x.w + b), tau_min, tau_max); what the mean runs over:
enum class TauMean {
  kCausal,    // positions 0..i
  kToken,     // position i alone
  kSequence,  // prompt rows: the whole prompt; later rows: 0..i
};

inline float ClipTau(double mean, float tau_min, float tau_max) {
  return std::min(std::max(static_cast<float>(mean), tau_min), tau_max);
}

// What replaces the softmax scale: 1 / tau, divided in float64 and rounded once.
inline float TauScale(float tau) { return static_cast<float>(1.0 / static_cast<double>(tau)); }

}  // namespace varifocal::kernels
