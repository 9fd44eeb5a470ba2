#include <etna/data/data_loader.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nn/on_device.h>

#include <etna/tensor/ops.h>

namespace etna::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Batches = std::vector<std::vector<double>>;

TensorDataset data_loader_numbers(std::int64_t n) { return {arange(2 * n).reshape({n, 2}), arange(n)}; }

/// Samples that hold their index and a random number, made at different speeds.
struct Noise : Dataset<> {
  explicit Noise(std::int64_t n) : n(n) {}
  std::int64_t size() const override { return n; }
  Example get(std::int64_t index) const override { return {scalar(static_cast<double>(index)), scalar(0)}; }
  Example sample(std::int64_t index, Random& random) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(index * 37 % 200));
    return {scalar(static_cast<double>(index)), scalar(random.uniform(), f64)};
  }
  std::int64_t n;
};

/// The rest of an epoch: each batch's indices and random numbers.
template <typename Loader>
Batches epoch_of(Loader& loader) {
  Batches all;
  for (auto [x, y] : loader) {
    all.push_back(x.template to_vector<double>());
    for (const double value : y.template to_vector<double>()) all.back().push_back(value);
  }
  return all;
}

TEST(DataLoader, MakesTheBatchesOfAnEpoch) {
  DataLoader loader(data_loader_numbers(5), {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::vector<int>> targets;
    for (auto [x, y] : loader) {
      EXPECT_EQ(x.shape(), Shape({y.size(0), 2}));
      targets.push_back(y.to_vector<int>());
    }
    EXPECT_EQ(targets, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4}}));
    EXPECT_EQ(loader.state(), (DataLoaderState{static_cast<std::uint64_t>(epoch) + 1, 0}));
  }
  DataLoader dropped(data_loader_numbers(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(epoch_of(dropped).size(), 2u);
  DataLoader none(data_loader_numbers(0), {.batch_size = 2, .num_workers = 2});
  EXPECT_TRUE(epoch_of(none).empty());
}

TEST(DataLoader, OrderAndRandomNumbersDoNotDependOnWorkers) {
  std::vector<Batches> epochs;
  for (const int workers : {0, 1, 2, 5}) {
    DataLoader loader(Noise(61), {.batch_size = 4, .shuffle = true, .seed = 9, .num_workers = workers});
    Batches both = epoch_of(loader);
    const Batches second = epoch_of(loader);
    EXPECT_NE(both, second);
    both.insert(both.end(), second.begin(), second.end());
    epochs.push_back(both);
    EXPECT_EQ(epochs.back(), epochs.front()) << workers << " workers";
  }
}

TEST(DataLoader, ResumesAtTheNextBatch) {
  const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 2, .num_workers = 2};
  DataLoader whole(Noise(25), options);
  Batches want = epoch_of(whole), after = epoch_of(whole);
  for (const std::int64_t stop : {1, 4, 9}) {
    DataLoader first(Noise(25), options), second(Noise(25), options);
    std::int64_t count = 0;
    std::map<std::string, Tensor> state;
    for (auto& batch : first) {
      (void)batch;
      if (++count == stop) {
        state = first.state_dict();
        break;
      }
    }
    second.load_state_dict(state);
    EXPECT_EQ(epoch_of(second), Batches(want.begin() + stop, want.end()));
    EXPECT_EQ(epoch_of(second), after);
    // Left before its end, the first one's epoch is over.
    EXPECT_EQ(epoch_of(first), after);
  }
  DataLoader other(Noise(24), options), seeded(Noise(25), {.batch_size = 3, .shuffle = true, .seed = 3});
  EXPECT_THAT([&] { other.load_state_dict(whole.state_dict()); },
              ThrowsMessage<Error>(HasSubstr("9 batches per epoch")));
  EXPECT_THAT([&] { seeded.load_state_dict(whole.state_dict()); }, ThrowsMessage<Error>(HasSubstr("seed 2")));
  EXPECT_THROW(other.load_state_dict({}), Error);
  EXPECT_THROW(other.set_state({0, 9}), Error);
  EXPECT_THROW(other.set_state({0, -1}), Error);
}

struct Failing : Noise {
  using Noise::Noise;
  Example sample(std::int64_t index, Random& random) const override {
    if (index == 7) throw FormatError("seven.png: is damaged");
    return Noise::sample(index, random);
  }
};

TEST(DataLoader, AFailureNamesItsSampleAndTheRestGoesOn) {
  for (const int workers : {0, 3}) {
    DataLoader loader(Failing(12), {.batch_size = 3, .num_workers = workers});
    int batches = 0;
    try {
      for (auto [x, y] : loader) ++batches;
      FAIL() << "no exception";
    } catch (const SampleError& error) {
      EXPECT_EQ(error.index, 7);
      EXPECT_THAT(error.what(), HasSubstr("sample 7 (in batch 2 of epoch 0): seven.png: is damaged"));
      EXPECT_THROW(std::rethrow_if_nested(error), FormatError);
    }
    EXPECT_EQ(batches, 2);
    loader.set_state(loader.state());
    EXPECT_EQ(epoch_of(loader).size(), 1u);
  }
  DataLoader uneven(transformed(data_loader_numbers(4),
                                [](Example e) {
                                  return Example{ones({e.target.item<std::int64_t>()}), {}};
                                }),
                    {.batch_size = 2, .num_workers = 1});
  EXPECT_THAT([&] { epoch_of(uneven); }, ThrowsMessage<SampleError>(HasSubstr("batch 0 of epoch 0: collate: data of")));
}

TEST(DataLoader, EndsInTheMiddleOfAnEpochWithoutHanging) {
  for (int i = 0; i < 50; ++i) {
    DataLoader loader(Noise(1000), {.batch_size = 1 + i % 7, .num_workers = i % 5, .prefetch_factor = 1 + i % 3});
    int left = i % 4;
    for (auto& batch : loader) {
      (void)batch;
      if (left-- == 0) break;
    }
    if (i % 2) loader.set_state({3, 1});
  }
  DataLoader unused(Noise(10), {.num_workers = 4});
  (void)unused.begin();
}

TEST(DataLoader, TakesACollateFunctionAndOtherItems) {
  const auto list = std::make_shared<TensorListDataset>(std::vector<Tensor>{arange(6), ones({6, 2})});
  DataLoader plain(list, {.batch_size = 4});
  for (const std::vector<Tensor>& batch : plain) {
    ASSERT_EQ(batch.size(), 2u);
    EXPECT_EQ(batch[1].dim(), 2);
  }
  DataLoader sums(data_loader_numbers(6), {.batch_size = 4, .num_workers = 2}, [](const std::vector<Example>& samples) {
    int sum = 0;
    for (const Example& sample : samples) sum += sample.target.item<int>();
    return sum;
  });
  std::vector<int> all;
  for (const int sum : sums) all.push_back(sum);
  EXPECT_EQ(all, std::vector<int>({6, 9}));
}

struct BySize : BatchSampler {
  std::int64_t size() const override { return 2; }
  std::vector<std::vector<std::int64_t>> batches(std::uint64_t) const override { return {{5}, {0, 1, 2}}; }
};

TEST(DataLoader, TakesSamplers) {
  DataLoader batched(data_loader_numbers(6), {.batch_sampler = std::make_shared<BySize>()});
  EXPECT_EQ(epoch_of(batched), (Batches{{10, 11, 5}, {0, 1, 2, 3, 4, 5, 0, 1, 2}}));
  DataLoader odd(data_loader_numbers(6), {.batch_size = 3,
                                          .sampler = std::make_shared<DistributedSampler>(
                                              6, 2, 1, DistributedSamplerOptions{.shuffle = false})});
  EXPECT_EQ(epoch_of(odd), (Batches{{2, 3, 6, 7, 10, 11, 1, 3, 5}}));
  DataLoader beyond(data_loader_numbers(2), {.sampler = std::make_shared<SequentialSampler>(3)});
  EXPECT_THAT([&] { epoch_of(beyond); }, ThrowsMessage<SampleError>(HasSubstr("index 2 is outside the 2 samples")));
  const auto refuse = [](DataLoaderOptions options, const char* text) {
    EXPECT_THAT([&] { DataLoader(data_loader_numbers(2), options); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  refuse({.batch_size = 0}, "batch_size is 0");
  refuse({.num_workers = -1}, "num_workers is -1");
  refuse({.prefetch_factor = 0}, "prefetch_factor is 0");
  refuse({.shuffle = true, .sampler = std::make_shared<SequentialSampler>(2)}, "leave shuffle out");
  refuse({.batch_size = 2, .batch_sampler = std::make_shared<BySize>()}, "batch_sampler decides");
}

class DataLoaderOn : public OnDevice {};
ETNA_ON_EVERY_DEVICE(DataLoaderOn);

TEST_P(DataLoaderOn, BatchesArriveThere) {
  for (const int workers : {0, 2}) {
    DataLoader loader(data_loader_numbers(9), {.batch_size = 2, .num_workers = workers, .device = device()});
    std::vector<int> targets;
    for (auto [x, y] : loader) {
      EXPECT_EQ(x.device(), device());
      EXPECT_EQ(y.device(), device());
      for (const int target : y.to_vector<int>()) targets.push_back(target);
    }
    EXPECT_EQ(targets, std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8}));
  }
}

TEST_P(DataLoaderOn, ADatasetThereIsNeverMoved) {
  const auto there = share(TensorDataset(arange(12.0).reshape({6, 2}).to(device()), arange(6).to(device())));
  DataLoader bytes(TensorDataset(zeros({6, 1, 2, 2}, {u8, device()}), arange(6).to(device())), {.batch_size = 4});
  for (auto [x, y] : bytes) EXPECT_EQ(x.dtype(), u8);
  DataLoader loader(there, {.batch_size = 4, .shuffle = true, .device = device()});
  const Transfers before = transfers();
  std::int64_t count = 0;
  for (auto [x, y] : loader) {
    EXPECT_EQ(x.device(), device());
    count += y.size(0);
  }
  EXPECT_EQ(count, 6);
  EXPECT_EQ(transfers().d2h_bytes, before.d2h_bytes);
  if (!device().is_cpu()) {
    EXPECT_THAT([&] { DataLoader(there, {.num_workers = 1}); },
                ThrowsMessage<DeviceError>(HasSubstr("num_workers must be 0")));
  }
}

struct Counter : IterableDataset<> {
  std::function<std::optional<Example>()> iterate(std::uint64_t epoch) const override {
    return [i = 0, epoch]() mutable -> std::optional<Example> {
      if (i == 5) return std::nullopt;
      return Example{scalar(static_cast<double>(i++)), scalar(static_cast<double>(epoch))};
    };
  }
};

TEST(IterableLoader, BatchesAStream) {
  IterableLoader<> loader(std::make_shared<Counter>(), 2), dropping(std::make_shared<Counter>(), 2, true);
  EXPECT_EQ(epoch_of(loader), (Batches{{0, 1, 0, 0}, {2, 3, 0, 0}, {4, 0}}));
  loader.skip(1);
  EXPECT_EQ(epoch_of(loader), (Batches{{2, 3, 1, 1}, {4, 1}}));
  EXPECT_EQ(epoch_of(dropping).size(), 2u);
  for (auto& batch : loader) {
    (void)batch;
    break;
  }
  EXPECT_THROW(IterableLoader<>(nullptr, 2), Error);
}

TEST(ChainDataset, GivesOneStreamAfterTheOther) {
  const auto one = std::make_shared<Counter>();
  IterableLoader<> single(one, 2), loader(std::make_shared<ChainDataset<>>(one, std::make_shared<Counter>()), 2);
  std::size_t samples = 0, chained = 0;
  for (const auto& batch : single) samples += static_cast<std::size_t>(batch.data.size(0));
  for (const auto& batch : loader) chained += static_cast<std::size_t>(batch.data.size(0));
  EXPECT_EQ(chained, 2 * samples);
  const ChainDataset both(one, one);
  const auto next = both.iterate(3);
  std::vector<float> seen;
  while (const auto sample = next()) seen.push_back(sample->data.item<float>());
  EXPECT_EQ(seen.size(), 2 * samples);
  EXPECT_TRUE(std::equal(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(samples),
                         seen.begin() + static_cast<std::ptrdiff_t>(samples)));
  EXPECT_FALSE(ChainDataset<>(std::vector<ChainDataset<>::Part>{}).iterate(0)().has_value());
  EXPECT_THROW(ChainDataset<>(std::vector<ChainDataset<>::Part>{nullptr}), Error);
}

}  // namespace
}  // namespace etna::data
