#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/etna.h>

// Mistakes that people make. Each error names the op, says what it got and what it wanted, and what to try where there
// is one thing to try.
namespace etna {
namespace {

struct Mistake {
  friend void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.op << ", " << mistake.got; }

  std::string op;
  std::string got, wanted;  ///< parts of the message
  std::function<void()> make;
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreExplained) {
  const Mistake& mistake = GetParam();
  try {
    mistake.make();
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_EQ(said.rfind(mistake.op, 0), 0u) << said;
    EXPECT_NE(said.find(mistake.got), std::string::npos) << said << "\nlacks: " << mistake.got;
    EXPECT_NE(said.find(mistake.wanted), std::string::npos) << said << "\nlacks: " << mistake.wanted;
    return;
  }
  FAIL() << "nothing was said";
}

Tensor parameter(Shape shape) { return ones(shape).requires_grad_(); }

std::vector<Mistake> shapes() {
  const Tensor a = ones({32, 64}), b = ones({128, 10}), i = arange(5);
  return {
      {"matmul", "[32, 64] · b [128, 10]", "the last size of a must equal the second-to-last of b",
       [=] { matmul(a, b); }},
      {"matmul", "[32, 64] · b [10, 64]", "did you mean b.transpose(0, 1)?",
       [=] {
         matmul(a, ones({10, 64}));
       }},
      {"matmul", "a [] has no dimensions", "multiply by a number with *", [=] { matmul(scalar(1), b); }},
      {"matmul", "[2] and [5]", "do not broadcast",
       [] {
         matmul(ones({2, 3, 4}), ones({5, 4, 6}));
       }},
      {"add", "[32, 64] and [128, 10]", "64 against 10 in dimension -1", [=] { a + b; }},
      {"reshape", "[32, 64] with 2048 elements", "one size may be -1",
       [=] {
         a.reshape({3, 5});
       }},
      {"reshape", "[-1, -1]", "one size may be -1",
       [=] {
         a.reshape({-1, -1});
       }},
      {"view", "strides [1, 64] of [64, 32]", "use reshape", [=] { a.t().view({2048}); }},
      {"permute", "[0, 0]", "named twice",
       [=] {
         a.permute({0, 0});
       }},
      {"permute", "[0] names 1 dimensions", "[32, 64] has 2", [=] { a.permute({0}); }},
      {"transpose", "dimension 2", "[-2, 1]", [=] { a.transpose(0, 2); }},
      {"slice", "the step is 0", "at least 1", [=] { a.slice(0, 0, 4, 0); }},
      {"select", "index 32", "takes -32 to 31", [=] { a[32]; }},
      {"expand", "[32, 64] does not expand to [32, 65]", "dimension 1 is 64",
       [=] {
         a.expand({32, 65});
       }},
      {"squeeze", "dimension 5", "[-2, 1]", [=] { a.squeeze(5); }},
      {"split", "add up to 20", "[32, 64]",
       [=] {
         a.split({10, 10});
       }},
      {"chunk", "0 chunks", "[32, 64]", [=] { a.chunk(0); }},
      {"cat", "tensor 1 is [128, 10]", "equal the first, [32, 64]",
       [=] {
         cat({a, b});
       }},
      {"cat", "no tensors", "at least one", [] { cat({}); }},
      {"stack", "tensor 1 is [128, 10]", "must have one shape",
       [=] {
         stack({a, b});
       }},
      {"sum", "dimension 2", "[-2, 1]", [=] { sum(a, 2); }},
      {"sum", "[0, 0]", "named twice",
       [=] {
         sum(a, {0, 0});
       }},
      {"max", "[0] are empty", "no largest", [] { max(zeros({0})); }},
      {"tril", "[5]", "two dimensions", [=] { tril(i); }},
      {"gather", "an index [5]", "as many dimensions", [=] { gather(a, 0, i); }},
      {"dynamic_slice", "length of 40", "[0, 32]", [=] { dynamic_slice(a, 0, zeros({}, i64), 40); }},
      {"mse_loss", "target [32, 63]", "expand one explicitly",
       [=] {
         mse_loss(a, ones({32, 63}));
       }},
      {"cross_entropy", "[32, 64] and targets [5]", "[N, C] and [N]", [=] { cross_entropy(a, i); }},
      {"layer_norm", "the weight is [3]", "must be [64]", [=] { layer_norm(a, ones({3}), {}); }},
      {"linear", "x [2, 3]", "[out, in]",
       [] {
         nn::Linear(64, 10)(ones({2, 3}));
       }},
      {"scaled_dot_product_attention", "v [2, 4, 8]", "[..., G, S,",
       [] {
         scaled_dot_product_attention(ones({2, 5, 8}), ones({2, 5, 8}), ones({2, 4, 8}));
       }},
      {"self_attention", "[2, 5, 30]", "wanted [..., T,",
       [] {
         self_attention(ones({2, 5, 30}), 4);
       }},
  };
}

std::vector<Mistake> dtypes_and_values() {
  const Tensor a = ones({32, 64}), b = ones({128, 10}), i = arange(5), undefined;
  return {
      {"matmul", "b holds i64", "call .to(f32)", [=] { matmul(a, i); }},
      {"mean", "i64 [5]", ".to(f32)", [=] { mean(i); }},
      {"softmax", "i64 [5]", ".to(f32)", [=] { softmax(i, 0); }},
      {"add", "operand 2 is an undefined tensor", "never given a value", [=] { a + undefined; }},
      {"item", "2048 elements", "exactly one", [=] { a.item(); }},
      {"item", "undefined tensor", "never given a value", [=] { undefined.item(); }},
      {"data", "holds f32", "convert it with .to(i64)", [=] { a.data<std::int64_t>(); }},
      {"zeros", "-3", "negative",
       [] {
         zeros({2, -3});
       }},
      {"zeros", "1099511627776", "63 bits",
       [] {
         zeros({std::int64_t{1} << 40, std::int64_t{1} << 40});
       }},
      {"from_vector", "2 values", "shape [3]",
       [] {
         from_vector({1.f, 2.f}, {3});
       }},
      {"tensor", "a list of 1", "a list of 2; all must be alike",
       [] {
         tensor({{1., 2.}, {3.}});
       }},
      {"arange", "step 0", "ends nowhere", [] { arange(0, 5, 0); }},
      {"randint", "[5, 5) is empty", "high must be above low", [] { randint(5, 5, {2}); }},
      {"dropout", "p is 1.5", "[0, 1]", [=] { dropout(a, 1.5); }},
      {"clamp", "neither", "one of them or both", [=] { clamp(a, std::nullopt, std::nullopt); }},
      {"embedding", "index 128 at position 1", "[0, 128)",
       [=] {
         embedding(b, tensor({0, 128}));
       }},
      {"embedding", "the index is f32", ".to(i64)", [=] { embedding(b, ones({2})); }},
      {"index_select", "the index is f32", ".to(i64)", [=] { index_select(a, 0, ones({2})); }},
      {"where", "holds f32", "where(x > 0, ...)", [=] { where(a, a, a); }},
      {"cross_entropy", "f32 targets [32]", "i64 or i32", [=] { cross_entropy(a, ones({32})); }},
      {"cross_entropy", "target 64 in row 0", "[0, 64)", [=] { cross_entropy(a, full({32}, 64, i64)); }},
      {"add_", "i64", "0.5; convert it first", [=] { Tensor(i) += 0.5; }},
      {"fill_", "repeats its elements along dimension 0", "clone() it",
       [] {
         ones({1, 3}).expand({2, 3}).fill_(2);
       }},
      {"int8_matmul", "holds f32", "matmul takes floating ones", [=] { int8_matmul(a, b); }},
  };
}

std::vector<Mistake> gradients_and_training() {
  const Tensor a = ones({32, 64});
  auto doubled = [] { return parameter({3}) * 2; };
  return {
      {"backward", "3 elements [3]", "reduce it to one, or pass a gradient", [=] { doubled().backward(); }},
      {"backward", "freed by an earlier backward", "retain_graph = true",
       [=] {
         Tensor loss = sum(square(parameter({3})));
         loss.backward(), loss.backward();
       }},
      {"add_", "requires grad", "under NoGrad", [] { parameter({3}).add_(1); }},
      {"backward", "'mul' saved was modified in place", "clone() it before",
       [=] {
         Tensor h = doubled(), loss = sum(h * h);
         {
           NoGrad off;
           h.zero_();
         }
         loss.backward();
       }},
      {"requires_grad_", "i64", "only floating tensors", [] { arange(5).requires_grad_(); }},
      {"backward", "a gradient [3] of f32", "[2] of f32",
       [] {
         Tensor w = parameter({3});
         w.register_hook([](const Tensor&) { return ones({2}); });
         sum(w).backward();
       }},
      {"SGD", "lr is -1", "negative", [] { optim::SGD({parameter({2})}, {.lr = -1}); }},
      {"SGD", "no parameters", "requires_grad_()", [] { optim::SGD(std::vector<Tensor>{}, {.lr = 1}); }},
      {"Adam", "beta1 is 1.5", "[0, 1)",
       [] {
         optim::Adam({parameter({2})}, {.betas = {1.5, 0.999}});
       }},
      {"load_state_dict", "missing: bias, weight", "strict = false", [] { nn::Linear(2, 3).load_state_dict({}); }},
      {"load_state_dict", "weight [2]", "wanted [3, 2]",
       [] {
         nn::Linear(2, 3).load_state_dict({{"weight", ones({2})}, {"bias", ones({3})}});
       }},
      {"Linear", "in is -1", "not be negative", [] { nn::Linear(-1, 3); }},
      {"MultiheadAttention", "3 heads", "embed_dim 8", [] { nn::MultiheadAttention(8, 3); }},
      {"/nowhere/x.safetensors", "cannot be opened", "No such file",
       [] { load_safetensors("/nowhere/x.safetensors"); }},
      {"device 'cuda'", "through Vulkan", "write vulkan:0", [=] { a.to("cuda"); }},
      {"device 'banana'", "not a device's name", "write cpu", [=] { a.to("banana"); }},
      {"item", "while a step is captured", "a replay would not see it",
       [=] {
         auto step = capture([=] {
           Tensor y = a * 2;
           y.sum().item();
           return TensorList{y};
         });
         step(), step();
       }},
  };
}

std::vector<Mistake> of_other_families() {
  const Tensor image = ones({2, 3, 8, 8}), a = ones({4, 5});
  return {
      {"conv2d", "x [2, 3, 8, 8] has 3 channels", "the weight must be [K, C / groups, kernel...]",
       [=] {
         conv2d(image, ones({6, 4, 3, 3}));
       }},
      {"conv2d", "the kernel reaches over 9 elements", "a smaller kernel",
       [=] {
         conv2d(image, ones({6, 3, 9, 9}));
       }},
      {"max_pool2d", "[4] has 1 dimensions", "[N, C, ..., H, W]", [] { max_pool2d(ones({4}), 2); }},
      {"interpolate", "not both", "either a size or a scale_factor", [=] { interpolate(image, InterpolateOptions{}); }},
      {"pad", "dimension 3 of [2, 3, 8, 8] by 9", "at most 7",
       [=] {
         pad(image, {9, 9}, PadMode::reflect);
       }},
      {"batch_norm", "f32 [4]", "[C]", [=] { batch_norm(image, zeros({4}), ones({4}), {}, {}, true); }},
      {"topk", "k is 9", "dimension 1 of [4, 5] has 5 elements", [=] { topk(a, 9); }},
      {"sort", "dimension 3", "[-2, 1]", [=] { sort(a, 3); }},
      {"einsum", "\"ij,jk->ik\"", "'j' is 4 in operand 1 [4, 4], but 5 before",
       [=] {
         einsum("ij,jk->ik", a, ones({4, 4}));
       }},
      {"bmm", "a is [4, 5]", "3 dimensions; matmul broadcasts", [=] { bmm(a, a); }},
      {"cholesky", "[4, 5] is not square", "must be equal", [=] { linalg::cholesky(a); }},
      {"inv", "singular", "pinv() or lstsq()",
       [] {
         linalg::inv(zeros({2, 2}));
       }},
      {"one_hot", "index 5", "num_classes is 3",
       [] {
         one_hot(tensor({0, 5}), 3);
       }},
      {"roll", "2 shifts for 1 dimensions", "pass one each",
       [=] {
         roll(a, Dims({1, 2}), Dims({0}));
       }},
      {"LSTM", "x is [3, 2, 7]", "input_size 8",
       [] {
         nn::LSTM(8, 16)(ones({3, 2, 7}));
       }},
      {"cross_entropy", "weight is [2]", "wanted [3], one for each class",
       [] {
         nn::CrossEntropyLoss(ones({2}))(ones({4, 3}), zeros({4}, i64));
       }},
      {"BatchSampler", "batch_size is 0", "at least 1",
       [=] { data::DataLoader(data::TensorDataset(a, a), {.batch_size = 0}); }},
      {"TensorDataset", "4 in [4, 5]", "3 in [3]", [=] { data::TensorDataset(a, ones({3})); }},
      {"bitwise_and", "f32", "convert first", [=] { bitwise_and(a, a); }},
      {"masked_select", "[4, 5] and [3]", "do not broadcast", [=] { masked_select(a, ones({3}) > 0); }},
  };
}

INSTANTIATE_TEST_SUITE_P(OtherFamilies, Mistakes, testing::ValuesIn(of_other_families()));
INSTANTIATE_TEST_SUITE_P(Shapes, Mistakes, testing::ValuesIn(shapes()));
INSTANTIATE_TEST_SUITE_P(DtypesAndValues, Mistakes, testing::ValuesIn(dtypes_and_values()));
INSTANTIATE_TEST_SUITE_P(GradientsAndTraining, Mistakes, testing::ValuesIn(gradients_and_training()));

}  // namespace
}  // namespace etna
