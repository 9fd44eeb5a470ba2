#include <etna/data/data_loader.h>

#include <exception>

#include <fmt/format.h>

namespace etna::data::loading {

std::shared_ptr<const BatchSampler> batch_sampler(const DataLoaderOptions& options, std::int64_t size, Device data) {
  if (options.num_workers < 0 || options.num_workers > 1024)
    throw Error(fmt::format("data loader: num_workers is {}; wanted 0 to 1024", options.num_workers));
  if (options.prefetch_factor < 1 || options.prefetch_factor > 1 << 20)
    throw Error(fmt::format("data loader: prefetch_factor is {}; wanted 1 to 2^20", options.prefetch_factor));
  if (options.num_workers > 0 && !data.is_cpu()) {
    throw DeviceError(fmt::format(
        "data loader: the dataset's tensors are on {}, where batches are made at once; workers serve the CPU, "
        "so num_workers must be 0",
        data.str()));
  }
  if (options.batch_sampler) {
    if (options.sampler || options.shuffle || options.drop_last || options.batch_size != 1)
      throw Error("data loader: a batch_sampler decides on batch_size, shuffle, sampler and drop_last; leave them out");
    return options.batch_sampler;
  }
  if (options.sampler && options.shuffle)
    throw Error("data loader: a sampler decides on the order; leave shuffle out, or the sampler");
  std::shared_ptr<const Sampler> sampler = options.sampler;
  if (!sampler && options.shuffle) sampler = std::make_shared<RandomSampler>(size, options.seed);
  if (!sampler) sampler = std::make_shared<SequentialSampler>(size);
  return std::make_shared<BatchSampler>(std::move(sampler), options.batch_size, options.drop_last);
}

void rethrow_at(std::int64_t index, DataLoaderState state) {
  const std::string where = index < 0
                                ? fmt::format("batch {} of epoch {}", state.batch, state.epoch)
                                : fmt::format("sample {} (in batch {} of epoch {})", index, state.batch, state.epoch);
  std::string what = "an exception of unknown type";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {}
  std::throw_with_nested(SampleError(index, fmt::format("data loader: {}: {}", where, what)));
}

void check_state(DataLoaderState state, std::int64_t batches) {
  if (state.batch < 0 || state.batch > batches)
    throw Error(fmt::format("data loader: batch {} is outside the epoch of {} batches", state.batch, batches));
}

std::map<std::string, Tensor> state_dict(DataLoaderState state, std::uint64_t seed, std::int64_t batches) {
  const auto number = [](std::int64_t value) { return from_vector({value}, Shape{}); };
  return {{"epoch", number(static_cast<std::int64_t>(state.epoch))},
          {"batch", number(state.batch)},
          {"seed", number(static_cast<std::int64_t>(seed))},
          {"batches", number(batches)}};
}

DataLoaderState load_state_dict(const std::map<std::string, Tensor>& state, std::uint64_t seed, std::int64_t batches) {
  const auto number = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.numel() != 1 || found->second.dtype() != i64 || state.size() != 4)
      throw Error("data loader: the state must hold epoch, batch, seed and batches, each one i64 number");
    return found->second.item<std::int64_t>();
  };
  if (static_cast<std::uint64_t>(number("seed")) != seed || number("batches") != batches) {
    throw Error(fmt::format(
        "data loader: the state is of a loader with seed {} and {} batches per epoch, this one has {} and {}; "
        "make them alike, or use set_state()",
        static_cast<std::uint64_t>(number("seed")), number("batches"), seed, batches));
  }
  return {static_cast<std::uint64_t>(number("epoch")), number("batch")};
}

}  // namespace etna::data::loading
