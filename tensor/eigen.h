#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <etna/tensor/tensor.h>

/// Tensors on the CPU as Eigen's matrices, vectors and tensors, without a copy, and back. Not part of etna.h: a program
/// that includes this header finds Eigen 3.4 itself (find_package(Eigen3)).
///
///     const auto a = eigen_matrix<float>(x);           // reads x
///     mutable_eigen_matrix<float>(y) = a.cwiseAbs();   // writes y
///     Tensor z = from_eigen(a * a.transpose());
///
/// A map refers to the tensor's memory and does not keep it alive. A mutable map counts as one change of the tensor, at
/// the time of the call: make it, write, drop it. T is the dtype's C++ type; Eigen::half and Eigen::bfloat16 are f16
/// and bf16. Here and below: @throws DeviceError for a tensor on a GPU, DtypeError unless it holds T, ShapeError for
/// another rank, or where the elements are not laid out as the map needs them.
namespace etna {

template <typename T>
using EigenRowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace detail {

/// The C++ type that etna has for Eigen's.
template <typename T>
using EigenElement = std::conditional_t<std::is_same_v<T, Eigen::half>, Half,
                                        std::conditional_t<std::is_same_v<T, Eigen::bfloat16>, BFloat16, T>>;

inline std::string eigen_name(const char* op, bool writes) { return writes ? "mutable_" + std::string(op) : op; }

template <typename T>
void check_for_eigen(const Tensor& x, int rank, const char* op, bool writes) {
  static_assert(kIsElement<EigenElement<T>>, "no dtype holds this type; convert the elements (cast<float>()) first");
  const std::string name = eigen_name(op, writes) + ": ";
  if (!x.device().is_cpu())
    throw DeviceError(name + "the tensor is on " + x.device().str() + ", Eigen works on the CPU; take x.to(kCPU)");
  if (const DType wanted = dtype_of<EigenElement<T>>(); x.dtype() != wanted) {
    throw DtypeError(name + "the tensor holds " + std::string(etna::name(x.dtype())) + ", asked for was " +
                     std::string(etna::name(wanted)));
  }
  if (x.dim() != rank)
    throw ShapeError(name + "wants " + std::to_string(rank) + " dimensions, the tensor is " + etna::str(x.shape()));
  if (!writes) return;
  for (int i = 0; i < rank; ++i) {
    if (x.strides()[i] == 0 && x.shape()[i] > 1)
      throw ShapeError(name + "expand() repeats the elements of dimension " + std::to_string(i) +
                       ", so writes would meet; take x.clone()");
  }
}

/// @throws ShapeError unless neighbours along the last dimension are neighbours in memory
template <typename T>
void check_last_stride(const Tensor& x, const char* op, bool writes) {
  if (x.shape().back() > 1 && x.strides().back() != 1) {
    throw ShapeError(eigen_name(op, writes) + ": neighbours in a row are " + std::to_string(x.strides().back()) +
                     " elements apart; take eigen_strided_" + (x.dim() == 2 ? "matrix" : "vector") +
                     ", or x.contiguous()");
  }
}

template <typename T>
const T* eigen_data(const Tensor& x) {
  return reinterpret_cast<const T*>(x.data<EigenElement<T>>());
}
template <typename T>
T* eigen_data(Tensor& x) {
  return reinterpret_cast<T*>(x.mutable_data<EigenElement<T>>());
}

/// Const T for a const tensor, T for one that is written.
template <typename T, typename X>
inline constexpr bool kWrites = !std::is_const_v<X>;

template <typename T, typename X>
auto eigen_matrix(X& x) {
  check_for_eigen<T>(x, 2, "eigen_matrix", kWrites<T, X>);
  check_last_stride<T>(x, "eigen_matrix", kWrites<T, X>);
  using Matrix = std::conditional_t<kWrites<T, X>, EigenRowMajor<T>, const EigenRowMajor<T>>;
  return Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(eigen_data<T>(x), x.size(0), x.size(1),
                                                     Eigen::OuterStride<>(x.strides()[0]));
}

template <typename T, typename X>
auto eigen_strided_matrix(X& x) {
  check_for_eigen<T>(x, 2, "eigen_strided_matrix", kWrites<T, X>);
  using Matrix = std::conditional_t<kWrites<T, X>, EigenRowMajor<T>, const EigenRowMajor<T>>;
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  return Eigen::Map<Matrix, 0, Stride>(eigen_data<T>(x), x.size(0), x.size(1), Stride(x.strides()[0], x.strides()[1]));
}

template <typename T, typename X>
auto eigen_vector(X& x) {
  check_for_eigen<T>(x, 1, "eigen_vector", kWrites<T, X>);
  check_last_stride<T>(x, "eigen_vector", kWrites<T, X>);
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  return Eigen::Map<std::conditional_t<kWrites<T, X>, Vector, const Vector>>(eigen_data<T>(x), x.size(0));
}

template <typename T, typename X>
auto eigen_strided_vector(X& x) {
  check_for_eigen<T>(x, 1, "eigen_strided_vector", kWrites<T, X>);
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  return Eigen::Map<std::conditional_t<kWrites<T, X>, Vector, const Vector>, 0, Eigen::InnerStride<>>(
      eigen_data<T>(x), x.size(0), Eigen::InnerStride<>(x.strides()[0]));
}

template <typename T, int Rank, typename X>
auto eigen_tensor(X& x) {
  check_for_eigen<T>(x, Rank, "eigen_tensor", kWrites<T, X>);
  if (!x.is_contiguous())
    throw ShapeError(eigen_name("eigen_tensor", kWrites<T, X>) + ": the tensor is a view of shape " +
                     etna::str(x.shape()) + " and strides " + etna::str(x.strides()) +
                     ", Eigen::TensorMap wants neighbours; take x.contiguous()");
  Eigen::array<Eigen::Index, static_cast<std::size_t>(Rank)> sizes;
  for (int i = 0; i < Rank; ++i) sizes[static_cast<std::size_t>(i)] = x.shape()[i];
  using Element = std::conditional_t<kWrites<T, X>, T, const T>;
  return Eigen::TensorMap<Eigen::Tensor<Element, Rank, Eigen::RowMajor, Eigen::Index>>(eigen_data<T>(x), sizes);
}

}  // namespace detail

// ---- maps for reading

/// [rows, columns] with neighbours in a row side by side, rows any distance apart (slices of rows and columns).
template <typename T>
auto eigen_matrix(const Tensor& x) {
  return detail::eigen_matrix<T>(x);
}
/// [rows, columns] with any strides (x.t(), every second column); Eigen does not vectorize over these.
template <typename T>
auto eigen_strided_matrix(const Tensor& x) {
  return detail::eigen_strided_matrix<T>(x);
}
/// [n], as a column vector.
template <typename T>
auto eigen_vector(const Tensor& x) {
  return detail::eigen_vector<T>(x);
}
template <typename T>
auto eigen_strided_vector(const Tensor& x) {
  return detail::eigen_strided_vector<T>(x);
}
/// A contiguous tensor as a row-major Eigen::TensorMap.
template <typename T, int Rank>
auto eigen_tensor(const Tensor& x) {
  return detail::eigen_tensor<T, Rank>(x);
}

// ---- maps for writing

template <typename T>
auto mutable_eigen_matrix(Tensor& x) {
  return detail::eigen_matrix<T>(x);
}
template <typename T>
auto mutable_eigen_strided_matrix(Tensor& x) {
  return detail::eigen_strided_matrix<T>(x);
}
template <typename T>
auto mutable_eigen_vector(Tensor& x) {
  return detail::eigen_vector<T>(x);
}
template <typename T>
auto mutable_eigen_strided_vector(Tensor& x) {
  return detail::eigen_strided_vector<T>(x);
}
template <typename T, int Rank>
auto mutable_eigen_tensor(Tensor& x) {
  return detail::eigen_tensor<T, Rank>(x);
}

// ---- from Eigen

/// A tensor of a matrix, array or expression: [rows, columns], or [n] where its type says that it is a vector.
template <typename Derived>
Tensor from_eigen(const Eigen::DenseBase<Derived>& expression, Device device = {}) {
  using T = typename Derived::Scalar;
  using Kept = detail::EigenElement<T>;
  static_assert(detail::kIsElement<Kept>, "no dtype holds this type; convert the elements (cast<float>()) first");
  Shape shape = Derived::IsVectorAtCompileTime ? Shape{expression.size()} : Shape{expression.rows(), expression.cols()};
  Tensor x = empty(shape, dtype_of<Kept>());
  if (x.numel() > 0) {
    Eigen::Map<EigenRowMajor<T>> map(detail::eigen_data<T>(x), expression.rows(), expression.cols());
    if constexpr (std::is_base_of_v<Eigen::ArrayBase<Derived>, Derived>) {
      map.array() = expression.derived();
    } else {
      map = expression.derived();
    }
  }
  return x.to(device);
}

/// A tensor of an Eigen::Tensor, TensorMap or expression of them, in either layout; its shape is the expression's.
template <typename Derived>
Tensor from_eigen(const Eigen::TensorBase<Derived, Eigen::ReadOnlyAccessors>& expression, Device device = {}) {
  using Traits = Eigen::internal::traits<Derived>;
  using T = std::remove_const_t<typename Traits::Scalar>;
  using Kept = detail::EigenElement<T>;
  static_assert(detail::kIsElement<Kept>, "no dtype holds this type; convert the elements (cast<float>()) first");
  constexpr int kRank = Traits::NumDimensions;
  static_assert(kRank <= kMaxRank, "a tensor has at most eight dimensions");
  const Eigen::Tensor<T, kRank, Traits::Layout, Eigen::Index> value = static_cast<const Derived&>(expression);
  // Column-major elements are those of the row-major tensor with reversed sizes.
  constexpr bool kColumns = static_cast<int>(Traits::Layout) == static_cast<int>(Eigen::ColMajor);
  Shape shape, order;
  for (int i = 0; i < kRank; ++i) {
    shape.push_back(value.dimension(static_cast<std::size_t>(kColumns ? kRank - 1 - i : i)));
    order.push_back(kRank - 1 - i);
  }
  const Tensor x = from_bytes(value.data(), shape, dtype_of<Kept>());
  return (kColumns && kRank > 1 ? x.permute(order).contiguous() : x).to(device);
}
template <typename Derived>
Tensor from_eigen(const Eigen::TensorBase<Derived, Eigen::WriteAccessors>& expression, Device device = {}) {
  return from_eigen(static_cast<const Eigen::TensorBase<Derived, Eigen::ReadOnlyAccessors>&>(expression), device);
}

}  // namespace etna
