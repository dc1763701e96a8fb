// Arguments of models whose rows have several residual streams (alternating updates), and of gates that are cut.
//
// A layer predicts all streams from each other, works on one of them, the active one, and corrects all by what it made of it.
//
// Shapes:  S streams of f32 [T, M], one after the other: [S, T, M]. Operands as in backend.h.
// Errors, threads: as in backend.h.
// Source:  Baykal et al., Alternating Updates for Efficient Transformers, 2023, algorithm 1; Gemma3nTextModel,
//          Gemma3nTextAltUp and Gemma3nTextMLP of transformers 5.24.
#pragma once

#include "kernels/activation.h"
#include "kernels/device_objects.h"

namespace varifocal::kernels {

inline constexpr int kStreamsMax = 16;

struct NormArgs;

// A row's numbers of the streams: tanh(router RMSNorm(x)), [S].
struct StreamRouter {
  Slice norm_weight;  // vector [M]
  float norm_epsilon = 0;
  Slice router;  // f32 [S, M]
};

// Streams 1.. get the size of stream 0: y = y * sqrt(mean(x^2) / max(mean(y^2), floor)).
struct MatchStreamsArgs {
  Slice streams;
  int stream_count = 0;
  float floor = 0;
  Slice first;  // optional f32 [T, M]: stream 0 becomes it before
  Slice mean;   // optional f32 [T, M]: then the mean of all
};

// stream i += sum_j p[i S + j] stream j, p = coefficients times the router's numbers of the active stream.
struct PredictStreamsArgs {
  StreamRouter router;
  Slice coefficients;  // f32 [S S, S]
  Slice streams;
  int stream_count = 0;
  int active = 0;
  Slice residual;                       // f32 [T, M]: the predicted active stream
  const NormArgs* next_norm = nullptr;  // optional: then Norm(*next_norm), whose x is this residual
};

// stream i += (1 + c[i]) (made - active stream), c = coefficients times the router's numbers of `made`.
struct CorrectStreamsArgs {
  StreamRouter router;
  Slice coefficients;  // f32 [S, S]
  Slice streams;       // as predicted
  int stream_count = 0;
  int active = 0;
  Slice made;   // f32 [T, M]
  Slice scale;  // optional vector [M]
  Slice out;    // operands [T, M]: the corrected active stream, times scale
};

// Streams 1.. += x.
struct AddToStreamsArgs {
  Slice x;  // f32 [T, M]
  Slice streams;
  int stream_count = 0;
};

// out = activation(max(gate - cut, 0)) * up, cut = mean of the row's gates + deviations * their standard deviation.
struct CutGatedArgs {
  Slice x;        // operands [T, 2F]: gates, then ups
  int width = 0;  // F
  float deviations = 0;
  Activation activation = Activation::kSilu;  // of one number, 0 at 0
  ActivationTerms terms = {};
  Slice out;  // operands [T, F]
};

}  // namespace varifocal::kernels
