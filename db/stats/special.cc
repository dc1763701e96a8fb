#include "db/stats/special.h"

#include <cmath>

#include "base/check.h"

namespace varifocal::stats {
namespace {

// The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;    // replaces zero in a denominator (Lentz)
  constexpr double kEnough = 1e-16;   // below one rounding of a double
  constexpr int kStepsMax = 100'000;  // O(sqrt(max(a, b))) are needed
  double c = 1;
  double d = 1 - (a + b) * x / (a + 1);
  if (std::abs(d) < kTiny) d = kTiny;
  d = 1 / d;
  double value = d;
  for (int m = 1; m <= kStepsMax; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 + even * d;
    c = 1 + even / c;
    if (std::abs(d) < kTiny) d = kTiny;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + odd * d;
    c = 1 + odd / c;
    if (std::abs(d) < kTiny) d = kTiny;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    const double factor = d * c;
    value *= factor;
    if (std::abs(factor - 1) < kEnough) break;
  }
  return value;
}

// The x in [low, high] where a rising function crosses `target`.
template <typename Function>
double Bisect(double low, double high, double target, const Function& function) {
  for (int step = 0; step < 200; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (function(middle) < target ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

// The quantile of a distribution symmetric about 0, found on the side where its function is a small number.
template <typename Cdf>
double SymmetricQuantile(double probability, const Cdf& cdf) {
  VF_CHECK(probability > 0 && probability < 1, "a probability strictly between 0 and 1");
  if (probability == 0.5) return 0;
  if (probability > 0.5) return -SymmetricQuantile(1 - probability, cdf);
  double low = -1;
  while (cdf(low) > probability) low *= 2;
  return Bisect(low, 0, probability, cdf);
}

}  // namespace

double RegularizedIncompleteBeta(double a, double b, double x) {
  VF_CHECK(a > 0 && b > 0 && x >= 0 && x <= 1);
  if (x == 0 || x == 1) return x;
  // x^a (1-x)^b / B(a, b)
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  const double front = std::exp(log_front);
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double StudentTCdf(double t, double degrees) {
  VF_CHECK(degrees > 0);
  // P(|T| > |t|) = I_{v/(v+t^2)}(v/2, 1/2)
  const double tail = RegularizedIncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double StudentTQuantile(double probability, double degrees) {
  return SymmetricQuantile(probability, [degrees](double t) { return StudentTCdf(t, degrees); });
}

double NormalCdf(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

double NormalQuantile(double probability) { return SymmetricQuantile(probability, NormalCdf); }

}  // namespace varifocal::stats
