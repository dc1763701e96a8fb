// Causal attention and cross-entropy of training on CPUs with AVX-512 and bf16, one thread: what PyTorch's
// scaled_dot_product_attention and cross_entropy compute, with products of bf16 numbers summed in float32 and softmax in float32.
//
// Shapes:  q, k, v, out and their gradients [heads, tokens, 32], contiguous, bf16; log_sums [heads, tokens], natural logarithms.
//          `tokens` is a multiple of 16. logits and their gradient [rows, classes], contiguous, bf16; `classes` is one too.
// Method:  of attention, eight query rows at a time, all their keys: scores, softmax, sum of values (forward); scores again,
//          gradients of scores, and their products (backward). A dpbf16 instruction takes pairs of numbers, so matrices are
//          packed by pairs first.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int kWidth = 32, kPairs = kWidth / 2, kLanes = 16, kRows = 8;
constexpr float kHidden = -1e30f;

using Bf16 = uint16_t;

__m512bh Pairs(const uint32_t* pair) { return (__m512bh)_mm512_set1_epi32(static_cast<int>(*pair)); }
__m512bh Load(const uint32_t* pairs) { return (__m512bh)_mm512_loadu_si512(pairs); }

float ToFloat(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// exp(x) for x <= 0, relative error about 1e-7; 0 below -87.
__m512 Exp(__m512 x) {
  const __m512 log2e = _mm512_set1_ps(1.44269504088896341f);
  const __m512 clamped = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, log2e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), clamped);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  for (const float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  const __mmask16 is_small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(_mm512_scalef_ps(p, n), is_small, _mm512_setzero_ps());
}

// [tokens / 16][16 pairs of columns][16 tokens]: for products of a row with 16 tokens.
void PackColumns(const Bf16* x, int64_t tokens, uint32_t* packed) {
  const auto* rows = reinterpret_cast<const uint32_t*>(x);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int p = 0; p < kPairs; ++p) packed[(t / kLanes * kPairs + p) * kLanes + t % kLanes] = rows[t * kPairs + p];
  }
}

// [tokens / 2][32 columns] of (even token, odd token): for sums over tokens.
void PackTokens(const Bf16* x, int64_t tokens, uint32_t* packed) {
  for (int64_t t = 0; t < tokens; t += 2) {
    for (int d = 0; d < kWidth; ++d) {
      packed[t * kPairs + d] = x[t * kWidth + d] | static_cast<uint32_t>(x[(t + 1) * kWidth + d]) << 16;
    }
  }
}

// scores[row][0 .. keys) = factor * rows . keys, for eight rows.
void Scores(const Bf16* rows, const uint32_t* columns, int64_t keys, float factor, float* scores, int64_t stride) {
  const auto* pairs = reinterpret_cast<const uint32_t*>(rows);
  const __m512 scale = _mm512_set1_ps(factor);
  for (int64_t block = 0; block < keys / kLanes; ++block) {
    __m512 sum[kRows];
    for (__m512& s : sum) s = _mm512_setzero_ps();
    for (int p = 0; p < kPairs; ++p) {
      const __m512bh key = Load(columns + (block * kPairs + p) * kLanes);
      for (int r = 0; r < kRows; ++r) sum[r] = _mm512_dpbf16_ps(sum[r], key, Pairs(pairs + r * kPairs + p));
    }
    for (int r = 0; r < kRows; ++r)
      _mm512_storeu_ps(scores + r * stride + block * kLanes, _mm512_mul_ps(sum[r], scale));
  }
}

// out[row] = sum over keys of weights[row][key] * values[key], for eight rows; weights are bf16.
void Sums(const Bf16* weights, int64_t stride, const uint32_t* values, int64_t keys, __m512 (&out)[kRows][2]) {
  for (auto& row : out) row[0] = row[1] = _mm512_setzero_ps();
  for (int64_t j = 0; j < keys; j += 2) {
    const __m512bh low = Load(values + j * kPairs), high = Load(values + j * kPairs + kLanes);
    for (int r = 0; r < kRows; ++r) {
      const __m512bh weight = Pairs(reinterpret_cast<const uint32_t*>(weights + r * stride + j));
      out[r][0] = _mm512_dpbf16_ps(out[r][0], low, weight);
      out[r][1] = _mm512_dpbf16_ps(out[r][1], high, weight);
    }
  }
}

void StoreRow(const __m512 (&row)[2], Bf16* out) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), (__m256i)_mm512_cvtneps_pbh(row[0]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kLanes), (__m256i)_mm512_cvtneps_pbh(row[1]));
}

// Keys after the row are hidden; only the last block of 16 has any.
void Hide(float* scores, int64_t stride, int64_t first_row, int64_t keys) {
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = first_row + r + 1; j < keys; ++j) scores[r * stride + j] = kHidden;
  }
}

int64_t KeysOf(int64_t first_row) { return (first_row + kRows + kLanes - 1) / kLanes * kLanes; }

// sum[key] += over the eight rows of weights[row][key] * rows[row]; weights as pairs of rows, [4][stride].
void AddOuter(const uint32_t* weights, int64_t stride, const uint32_t* rows, int64_t keys, float* sum) {
  __m512bh low[kRows / 2], high[kRows / 2];
  for (int p = 0; p < kRows / 2; ++p) {
    low[p] = Load(rows + p * kWidth);
    high[p] = Load(rows + p * kWidth + kLanes);
  }
  for (int64_t j = 0; j < keys; ++j) {
    __m512 a = _mm512_loadu_ps(sum + j * kWidth), b = _mm512_loadu_ps(sum + j * kWidth + kLanes);
    for (int p = 0; p < kRows / 2; ++p) {
      const __m512bh weight = Pairs(weights + p * stride + j);
      a = _mm512_dpbf16_ps(a, low[p], weight);
      b = _mm512_dpbf16_ps(b, high[p], weight);
    }
    _mm512_storeu_ps(sum + j * kWidth, a);
    _mm512_storeu_ps(sum + j * kWidth + kLanes, b);
  }
}

// A row of bf16, and its half of the pairs with the row beside it.
void StoreBoth(__m512 x, int r, int64_t j, int64_t stride, Bf16* rows, uint32_t* pairs) {
  const __m256i narrow = (__m256i)_mm512_cvtneps_pbh(x);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + r * stride + j), narrow);
  auto* at = reinterpret_cast<__m512i*>(pairs + r / 2 * stride + j);
  const __m512i wide = _mm512_cvtepu16_epi32(narrow);
  _mm512_storeu_si512(at, r % 2 == 0 ? wide : _mm512_or_si512(_mm512_loadu_si512(at), _mm512_slli_epi32(wide, 16)));
}

}  // namespace

extern "C" {

void Forward(const Bf16* q, const Bf16* k, const Bf16* v, Bf16* out, float* log_sums, int64_t heads, int64_t tokens,
             float scale) {
  std::vector<uint32_t> key(tokens * kPairs), value(tokens * kPairs);
  std::vector<float> scores(kRows * tokens);
  std::vector<Bf16> weights(kRows * tokens);
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t at = h * tokens * kWidth;
    PackColumns(k + at, tokens, key.data());
    PackTokens(v + at, tokens, value.data());
    for (int64_t i = 0; i < tokens; i += kRows) {
      const int64_t keys = KeysOf(i);
      Scores(q + at + i * kWidth, key.data(), keys, scale, scores.data(), tokens);
      Hide(scores.data(), tokens, i, keys);
      float sums[kRows];
      for (int r = 0; r < kRows; ++r) {
        const float* row = scores.data() + r * tokens;
        __m512 highest = _mm512_set1_ps(kHidden);
        for (int64_t j = 0; j < keys; j += kLanes) highest = _mm512_max_ps(highest, _mm512_loadu_ps(row + j));
        const float top = _mm512_reduce_max_ps(highest);
        __m512 sum = _mm512_setzero_ps();
        for (int64_t j = 0; j < keys; j += kLanes) {
          const __m512 weight = Exp(_mm512_sub_ps(_mm512_loadu_ps(row + j), _mm512_set1_ps(top)));
          sum = _mm512_add_ps(sum, weight);
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights.data() + r * tokens + j),
                              (__m256i)_mm512_cvtneps_pbh(weight));
        }
        sums[r] = _mm512_reduce_add_ps(sum);
        log_sums[h * tokens + i + r] = top + std::log(sums[r]);
      }
      __m512 row[kRows][2];
      Sums(weights.data(), tokens, value.data(), keys, row);
      for (int r = 0; r < kRows; ++r) {
        const __m512 factor = _mm512_set1_ps(1 / sums[r]);
        row[r][0] = _mm512_mul_ps(row[r][0], factor);
        row[r][1] = _mm512_mul_ps(row[r][1], factor);
        StoreRow(row[r], out + at + (i + r) * kWidth);
      }
    }
  }
}

void Backward(const Bf16* q, const Bf16* k, const Bf16* v, const Bf16* out, const float* log_sums, const Bf16* d_out,
              Bf16* d_q, Bf16* d_k, Bf16* d_v, int64_t heads, int64_t tokens, float scale) {
  std::vector<uint32_t> key(tokens * kPairs), value(tokens * kPairs), key_sums(tokens * kPairs);
  std::vector<uint32_t> query(tokens * kPairs), gradient(tokens * kPairs);  // by pairs of tokens
  std::vector<float> scores(kRows * tokens), d_weights(kRows * tokens), sum_k(tokens * kWidth), sum_v(tokens * kWidth);
  std::vector<Bf16> rows(kRows * tokens);
  std::vector<uint32_t> weight_pairs(kRows / 2 * tokens), d_score_pairs(kRows / 2 * tokens);
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t at = h * tokens * kWidth;
    PackColumns(k + at, tokens, key.data());
    PackColumns(v + at, tokens, value.data());
    PackTokens(k + at, tokens, key_sums.data());
    PackTokens(q + at, tokens, query.data());
    PackTokens(d_out + at, tokens, gradient.data());
    std::fill(sum_k.begin(), sum_k.end(), 0.0f);
    std::fill(sum_v.begin(), sum_v.end(), 0.0f);
    for (int64_t i = 0; i < tokens; i += kRows) {
      const int64_t keys = KeysOf(i);
      Scores(q + at + i * kWidth, key.data(), keys, scale, scores.data(), tokens);
      Hide(scores.data(), tokens, i, keys);
      Scores(d_out + at + i * kWidth, value.data(), keys, 1.0f, d_weights.data(), tokens);
      for (int r = 0; r < kRows; ++r) {
        float inner = 0;  // of the row's output and its gradient: the sum over keys of weight * d_weight
        for (int d = 0; d < kWidth; ++d) {
          inner += ToFloat(out[at + (i + r) * kWidth + d]) * ToFloat(d_out[at + (i + r) * kWidth + d]);
        }
        const __m512 log_sum = _mm512_set1_ps(log_sums[h * tokens + i + r]), mean = _mm512_set1_ps(inner);
        for (int64_t j = 0; j < keys; j += kLanes) {
          const __m512 weight = Exp(_mm512_sub_ps(_mm512_loadu_ps(scores.data() + r * tokens + j), log_sum));
          const __m512 d_score = _mm512_mul_ps(_mm512_mul_ps(weight, _mm512_set1_ps(scale)),
                                               _mm512_sub_ps(_mm512_loadu_ps(d_weights.data() + r * tokens + j), mean));
          StoreBoth(weight, r, j, tokens, rows.data(), weight_pairs.data());
          StoreBoth(d_score, r, j, tokens, rows.data(),
                    d_score_pairs.data());  // over the weights, whose rows are not needed
        }
      }
      __m512 row[kRows][2];
      Sums(rows.data(), tokens, key_sums.data(), keys, row);
      for (int r = 0; r < kRows; ++r) StoreRow(row[r], d_q + at + (i + r) * kWidth);
      AddOuter(weight_pairs.data(), tokens, gradient.data() + i * kPairs, keys, sum_v.data());
      AddOuter(d_score_pairs.data(), tokens, query.data() + i * kPairs, keys, sum_k.data());
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const __m512 of_k[2] = {_mm512_loadu_ps(sum_k.data() + t * kWidth),
                              _mm512_loadu_ps(sum_k.data() + t * kWidth + kLanes)};
      const __m512 of_v[2] = {_mm512_loadu_ps(sum_v.data() + t * kWidth),
                              _mm512_loadu_ps(sum_v.data() + t * kWidth + kLanes)};
      StoreRow(of_k, d_k + at + t * kWidth);
      StoreRow(of_v, d_v + at + t * kWidth);
    }
  }
}

// The sum over rows of -log softmax(logits)[target], and the gradient of that sum times `factor`.
double CrossEntropy(const Bf16* logits, const int64_t* targets, Bf16* d_logits, int64_t rows, int64_t classes,
                    float factor) {
  std::vector<float> row(classes);
  double total = 0;
  for (int64_t i = 0; i < rows; ++i) {
    __m512 highest = _mm512_set1_ps(kHidden);
    for (int64_t c = 0; c < classes; c += kLanes) {
      const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(logits + i * classes + c));
      const __m512 logit = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
      _mm512_storeu_ps(row.data() + c, logit);
      highest = _mm512_max_ps(highest, logit);
    }
    const float top = _mm512_reduce_max_ps(highest), of_target = row[targets[i]];
    __m512 sums = _mm512_setzero_ps();
    for (int64_t c = 0; c < classes; c += kLanes) {
      const __m512 weight = Exp(_mm512_sub_ps(_mm512_loadu_ps(row.data() + c), _mm512_set1_ps(top)));
      _mm512_storeu_ps(row.data() + c, weight);
      sums = _mm512_add_ps(sums, weight);
    }
    const float sum = _mm512_reduce_add_ps(sums);
    total += std::log(static_cast<double>(sum)) + top - of_target;
    row[targets[i]] -= sum;
    const __m512 scale = _mm512_set1_ps(factor / sum);
    for (int64_t c = 0; c < classes; c += kLanes) {
      const __m512 gradient = _mm512_mul_ps(_mm512_loadu_ps(row.data() + c), scale);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(d_logits + i * classes + c),
                          (__m256i)_mm512_cvtneps_pbh(gradient));
    }
  }
  return total;
}
}
