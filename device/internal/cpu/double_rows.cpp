#include <cmath>
#include <limits>
#include <numeric>

#include <etna/device/internal/cpu/vector_rows.h>

// Rows of doubles: the reference for f32.
namespace etna::cpu {

double largest(const double* x, std::int64_t n) {
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) {
    if (x[i] > best || std::isnan(x[i])) best = x[i];
    if (std::isnan(best)) break;
  }
  return best;
}

double sum(const double* x, std::int64_t n) { return std::accumulate(x, x + n, 0.0); }
double dot(const double* a, const double* b, std::int64_t n) { return std::inner_product(a, a + n, b, 0.0); }
double squares(const double* x, double center, std::int64_t n) {
  return std::accumulate(x, x + n, 0.0, [=](double sum, double v) { return sum + (v - center) * (v - center); });
}

double exp_sum(const double* x, double shift, double* y, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double e = std::exp(x[i] - shift);
    sum += e;
    if (y != nullptr) y[i] = e;
  }
  return sum;
}

void scale(double* x, double factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}
void add_scaled(double* y, const double* x, double factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i] * factor;
}

void add_products(double* sums, const double* a, const double* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sums[i] += b == nullptr ? a[i] : a[i] * b[i];
}

void normalize(const double* x, double mean, double scale, const double* weight, const double* bias, double* y,
               std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = (x[i] - mean) * scale * (weight == nullptr ? 1 : weight[i]);
    y[i] = bias == nullptr ? v : v + bias[i];
  }
}

}  // namespace etna::cpu
