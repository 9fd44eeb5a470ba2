#include <etna/data/dataset.h>

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/transforms.h>
#include <etna/tensor/ops.h>

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TensorDataset dataset_numbers(std::int64_t n) { return {arange(3 * n).reshape({n, 3}), arange(n)}; }

TEST(Dataset, TensorsAreReadByRow) {
  const TensorDataset dataset = dataset_numbers(4);
  EXPECT_EQ(dataset.size(), 4);
  const auto [x, y] = dataset.get(2);
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>({6, 7, 8}));
  EXPECT_EQ(y.item<int>(), 2);
  EXPECT_EQ(dataset.batch(std::vector<std::int64_t>{3, 3, 0})->target.to_vector<int>(), std::vector<int>({3, 3, 0}));
  EXPECT_THAT([&] { dataset.get(4); }, ThrowsMessage<IndexError>(HasSubstr("index 4 is outside the 4 samples")));
  EXPECT_THROW(dataset.get(-1), IndexError);
  EXPECT_THAT(
      [] {
        TensorDataset(ones({3, 2}), ones({4}));
      },
      ThrowsMessage<ShapeError>(HasSubstr("3 in [3, 2] and 4")));
  EXPECT_THROW(TensorDataset(ones({}), ones({})), ShapeError);
  const TensorListDataset three({arange(4), ones({4, 1}), zeros({4, 2, 2})});
  EXPECT_EQ(three.get(1).size(), 3u);
  EXPECT_EQ(three.get(1)[2].shape(), Shape({2, 2}));
}

TEST(Dataset, SubsetsAndJoinsKeepTheirSamples) {
  const auto all = share(dataset_numbers(5));
  const Subset subset(all, {4, 0, 4});
  EXPECT_EQ(subset.size(), 3);
  EXPECT_EQ(subset.get(2).target.item<int>(), 4);
  EXPECT_EQ(subset.batch(std::vector<std::int64_t>{0, 1})->target.to_vector<int>(), std::vector<int>({4, 0}));
  EXPECT_THROW(Subset(all, {5}), IndexError);
  EXPECT_THROW(subset.get(3), IndexError);
  const ConcatDataset joined(dataset_numbers(2), subset, dataset_numbers(0), dataset_numbers(3));
  EXPECT_EQ(joined.size(), 8);
  std::vector<int> targets;
  for (std::int64_t i = 0; i < joined.size(); ++i) targets.push_back(joined.get(i).target.item<int>());
  EXPECT_EQ(targets, std::vector<int>({0, 1, 4, 0, 4, 0, 1, 2}));
  EXPECT_THROW(joined.get(8), IndexError);
  EXPECT_THROW(ConcatDataset<Example>(std::vector<DatasetPtr<Example>>{}), Error);
}

TEST(Dataset, ARandomSplitIsAPartition) {
  const auto all = share(dataset_numbers(11));
  for (const auto& parts : {random_split(all, {8, 3}, 7), random_split(all, {0.7, 0.3}, 7)}) {
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].size(), 8);
    std::set<std::int64_t> seen(parts[0].indices().begin(), parts[0].indices().end());
    seen.insert(parts[1].indices().begin(), parts[1].indices().end());
    EXPECT_EQ(seen.size(), 11u);
  }
  EXPECT_EQ(random_split(all, {5, 6}, 1)[0].indices(), random_split(all, {5, 6}, 1)[0].indices());
  EXPECT_NE(random_split(all, {5, 6}, 1)[0].indices(), random_split(all, {5, 6}, 2)[0].indices());
  EXPECT_EQ(random_split(dataset_numbers(3), {0.0, 1.0})[0].size(), 0);
  EXPECT_THAT([&] { random_split(all, {5, 5}); }, ThrowsMessage<Error>(HasSubstr("5 + 5 samples do not add up")));
  EXPECT_THROW(random_split(all, {12, -1}), Error);
  EXPECT_THROW(random_split(all, {0.5, 0.4}), Error);
}

TEST(Dataset, TransformsDrawFromTheirSample) {
  const auto doubled = transformed(dataset_numbers(3), [](Example e) { return Example{e.data * 2, e.target}; });
  EXPECT_EQ(doubled.get(1).data.to_vector<int>(), std::vector<int>({6, 8, 10}));
  const auto noisy = transformed(dataset_numbers(3), [](const Example& e, Random& r) {
    return std::vector<Tensor>{e.data, scalar(r.uniform())};
  });
  static_assert(std::is_same_v<decltype(noisy)::item_type, std::vector<Tensor>>);
  Random one = Random::of_sample(1, 0, 2), same = Random::of_sample(1, 0, 2), other = Random::of_sample(1, 1, 2);
  EXPECT_EQ(noisy.sample(2, one)[1].item(), noisy.sample(2, same)[1].item());
  EXPECT_NE(noisy.sample(2, same)[1].item(), noisy.sample(2, other)[1].item());
  EXPECT_EQ(noisy.get(2)[1].item(), noisy.get(2)[1].item());
}

TEST(Collate, StacksAndSaysWhatDiffers) {
  EXPECT_EQ(collate(std::vector<Tensor>{ones({2}), zeros({2})}).to_vector<int>(), std::vector<int>({1, 1, 0, 0}));
  EXPECT_EQ(collate(std::vector<Tensor>{ones({2, 0}), ones({2, 0})}).shape(), Shape({2, 2, 0}));
  EXPECT_EQ(collate(std::vector<Tensor>{arange(6).reshape({2, 3}).t(), ones({3, 2}, i64)}).to_vector<int>(),
            std::vector<int>({0, 3, 1, 4, 2, 5, 1, 1, 1, 1, 1, 1}));
  EXPECT_FALSE(collate(std::vector<Example>{{ones({1}), {}}, {ones({1}), {}}}).target.defined());
  EXPECT_THAT(
      [] {
        collate(std::vector<Example>{{ones({2}), {}}, {ones({3}), {}}});
      },
      ThrowsMessage<ShapeError>(HasSubstr("data of sample 1 of the batch has shape [3], that of the first [2]")));
  EXPECT_THROW(collate(std::vector<Tensor>{ones({1}), ones({1}, f64)}), DtypeError);
  EXPECT_THROW(collate(std::vector<Tensor>{ones({1}), {}}), ShapeError);
  EXPECT_THROW(collate(std::vector<Tensor>{}), ShapeError);
  EXPECT_THROW(collate(std::vector<std::vector<Tensor>>{{ones({1})}, {}}), ShapeError);
}

}  // namespace
}  // namespace etna::data
